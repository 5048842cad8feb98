//! A connection's bytes, with the timeouts of its client.
//!
//! hyper has one timeout for everything up to a complete head. Here a client that has said nothing yet, one that is
//! between two requests and one that is in the midst of a head are told apart, and one that does not take its reply
//! is noticed.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection::client_end;
use super::exchange::Exchange;
use super::pace::Pace;
use super::shares::ReplyShare;
use super::traffic::Timeout;
use super::{scratch, silence};

#[derive(Debug)]
pub(super) struct GuardedIo<'a> {
    stream: &'a TcpStream,
    exchange: Arc<Exchange>,
    /// Fires at the deadline or earlier, never later: moving it for every request would cost more than looking again.
    timer: Pin<Box<Sleep>>,
    /// Of what is being written, once the kernel would not take it at once.
    taking: Option<Taking>,
    /// Since the last flush.
    wrote: bool,
    /// Whether what was written last is a stream's.
    streams: bool,
    expired: bool,
}

/// A reply that its client does not take at once.
struct Taking {
    pace: Pace,
    share: Option<Arc<ReplyShare>>,
    evicted: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Taking {
    fn begin(exchange: &Exchange, now: Instant) -> Self {
        let pace = Pace::begin(now, exchange.server.limits.stall_timeout);
        let share = exchange.reply_share();
        let eviction = share.as_ref().map(|share| share.eviction());
        let evicted = Box::pin(async move {
            match eviction {
                Some(eviction) => eviction.wait().await,
                None => std::future::pending().await,
            }
        });
        let taking = Self { pace, share, evicted };
        taking.waits();
        taking
    }

    fn progress(&mut self, now: Instant, bytes: usize) {
        self.pace.progress(now, bytes);
        self.waits();
    }

    fn waits(&self) {
        if let Some(share) = &self.share {
            share.waits(self.pace.slow_since());
        }
    }

    fn poll_evicted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.evicted.as_mut().poll(cx)
    }
}

impl fmt::Debug for Taking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taking").field("pace", &self.pace).finish_non_exhaustive()
    }
}

impl<'a> GuardedIo<'a> {
    pub(super) fn new(stream: &'a TcpStream, exchange: Arc<Exchange>) -> Self {
        let first = exchange.deadline().map_or_else(Instant::now, |(until, _)| until);
        let timer = Box::pin(sleep_until(first));
        Self { stream, exchange, timer, taking: None, wrote: false, streams: false, expired: false }
    }

    fn poll_write_slices(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        // To what is no request hyper says a bare `400` or `431` by itself; the connection says it better.
        if !self.exchange.answers() {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        self.watch_silence();
        loop {
            match self.stream.poll_write_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => {
                    let exchange = &self.exchange;
                    let taking = self.taking.get_or_insert_with(|| Taking::begin(exchange, Instant::now()));
                    if taking.poll_evicted(cx).is_ready() {
                        return Poll::Ready(Err(self.expire(Timeout::Reply)));
                    }
                    return self.poll_expired(cx);
                }
            }
            match self.try_write(slices) {
                Ok(bytes) => {
                    self.progress(bytes);
                    return Poll::Ready(Ok(bytes));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(self.failed(error))),
            }
        }
    }

    /// From the first byte of a stream to that of the next reply.
    fn watch_silence(&mut self) {
        let streams = self.exchange.is_stream();
        if std::mem::replace(&mut self.streams, streams) == streams {
            return;
        }
        if streams {
            silence::begin(self.stream, self.exchange.server.limits.stream_stall_timeout);
        } else {
            silence::end(self.stream);
        }
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.streams {
            silence::write(self.stream, slices)
        } else {
            self.stream.try_write_vectored(slices)
        }
    }

    fn progress(&mut self, bytes: usize) {
        self.wrote = true;
        if let Some(taking) = &mut self.taking {
            taking.progress(Instant::now(), bytes);
        }
    }

    /// Pending, and woken in time to find out that the client was too slow.
    fn poll_expired<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        while let Some((deadline, timeout)) = self.deadline() {
            if self.expired || (self.timer.is_elapsed() && self.timer.deadline() >= deadline) {
                return Poll::Ready(Err(self.expire(timeout)));
            }
            if self.timer.is_elapsed() || deadline < self.timer.deadline() {
                self.timer.as_mut().reset(deadline);
            }
            ready!(self.timer.as_mut().poll(cx));
        }
        Poll::Pending
    }

    /// The next of those that run now.
    fn deadline(&self) -> Option<(Instant, Timeout)> {
        let limits = &self.exchange.server.limits;
        let reply = self.taking.as_ref().and_then(|Taking { pace, .. }| match self.streams {
            true if silence::KERNEL_JUDGES => None,
            true => Some(pace.stalled(limits.stream_stall_timeout)),
            false => Some(pace.reader_deadline()),
        });
        let reply = reply.map(|deadline| (deadline, Timeout::Reply));
        self.exchange.deadline().into_iter().chain(reply).min_by_key(|(deadline, _)| *deadline)
    }

    /// The connection is broken. A client that took nothing of a stream for too long has no connection any more.
    fn failed(&mut self, error: io::Error) -> io::Error {
        // The kernel tells of an error once: nothing else may hear of this one.
        self.exchange.client_is_gone();
        if self.streams && error.kind() == ErrorKind::TimedOut { self.expire(Timeout::Reply) } else { error }
    }

    fn expire(&mut self, timeout: Timeout) -> io::Error {
        if !self.expired {
            self.expired = true;
            self.exchange.server.traffic.count_timeout(timeout);
        }
        io::Error::new(ErrorKind::TimedOut, timeout.as_str())
    }
}

impl Read for GuardedIo<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.stream.poll_read_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return self.poll_expired(cx),
            }
            match scratch::read(self.stream, into.remaining(), |bytes| into.put_slice(bytes)) {
                Ok(0) => return Poll::Ready(Ok(())),
                Ok(_) => {
                    self.exchange.received();
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(self.failed(error))),
            }
        }
    }
}

impl Write for GuardedIo<'_> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_slices(cx, &[IoSlice::new(bytes)])
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_slices(cx, slices)
    }

    /// hyper flushes when it has nothing left to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::take(&mut self.wrote) {
            return Poll::Ready(Ok(()));
        }
        self.taking = None;
        let stream = self.stream;
        if let Some(delivery) = self.exchange.flushed(|| client_end(stream)) {
            delivery.done();
        }
        // From here on the client is idle, and hyper may not read again before it sends something.
        match self.poll_expired(cx) {
            Poll::Pending => Poll::Ready(Ok(())),
            expired => expired,
        }
    }

    /// The connection is closed with all that belongs to it, once hyper is done.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for GuardedIo<'_> {
    fn drop(&mut self) {
        // `taking` before `close`: whoever is told that the reply was not delivered finds its bytes given back.
        self.taking = None;
        self.exchange.close();
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::listener::connection::tests::{client_and_server, reset};
    use crate::listener::exchange::ClientEnd;
    use crate::listener::exchange::tests::{UNDELIVERED, exchange, reply};

    #[tokio::test]
    async fn a_read_that_fails_decides_what_was_doubtful() {
        let (exchange, (client, server)) = (exchange(), client_and_server().await);
        let mut told = reply(&exchange);
        assert!(exchange.flushed(|| ClientEnd::Closed).is_none());
        reset(client, &server).await;
        let mut io = GuardedIo::new(&server, Arc::clone(&exchange));
        let mut bytes = [0];
        let mut into = hyper::rt::ReadBuf::new(&mut bytes);
        let read = std::future::poll_fn(|cx| Pin::new(&mut io).poll_read(cx, into.unfilled())).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(told.try_recv(), UNDELIVERED);
    }
}
