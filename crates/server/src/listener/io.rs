//! [`GuardedIo`]: heads and replies of a connection, with the timeouts of its client.
//!
//! A client that has said nothing yet, one that is between two requests and one that is in the midst of a head are told apart,
//! and one that does not take its reply is noticed.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Limits;
use super::connection::client_end;
use super::exchange::Exchange;
use super::http1::{BadHead, Head, HeadLimits};
use super::inlet::Inlet;
use super::pace::Pace;
use super::shares::ReplyShare;
use super::silence;
use super::traffic::Timeout;

/// The least that is read at once.
const READ_BYTES_MIN: usize = 8 * 1024;

#[derive(Debug)]
pub(super) struct GuardedIo<'a> {
    inlet: &'a Inlet,
    exchange: Arc<Exchange>,
    /// Fires at the deadline or earlier, never later: moving it for every request would cost more than looking again.
    timer: Pin<Box<Sleep>>,
    /// The reply that is being written, once the kernel would not take all of it at once.
    taking: Option<Taking>,
    /// Whether the bytes that were written last belong to a stream.
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
    pub(super) fn new(inlet: &'a Inlet, exchange: Arc<Exchange>) -> Self {
        let first = exchange.deadline().map_or_else(Instant::now, |(until, _)| until);
        let timer = Box::pin(sleep_until(first));
        Self { inlet, exchange, timer, taking: None, streams: false, expired: false }
    }

    fn stream(&self) -> &'a TcpStream {
        self.inlet.stream()
    }

    /// The head of the next request. `None` if the client has closed its side before one was complete.
    pub(super) async fn read_head(&mut self) -> Result<Option<Head>, NoHead> {
        let Limits { head_bytes_max, headers_max, .. } = self.exchange.server.limits;
        let limits = HeadLimits { bytes_max: head_bytes_max, headers_max };
        let mut seen = 0;
        loop {
            let here = self.inlet.unread().len();
            if here > seen {
                // Bytes that came with the request before count too.
                self.exchange.received();
                if let Some(head) = self.take_head(seen, limits)? {
                    return Ok(Some(head));
                }
            }
            seen = here;
            let room = head_bytes_max.max(READ_BYTES_MIN).saturating_sub(here).max(1);
            if poll_fn(|cx| self.poll_read(cx, room)).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Looks for a head the first time, and when more than what was `seen` may end one.
    fn take_head(&self, seen: usize, limits: HeadLimits) -> Result<Option<Head>, BadHead> {
        let unread = &mut *self.inlet.unread();
        let worth_a_look = seen == 0 || unread.len() >= limits.bytes_max || Head::may_end(unread, seen);
        if worth_a_look { Head::take(unread, limits) } else { Ok(None) }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, bytes_max: usize) -> Poll<io::Result<usize>> {
        match self.inlet.poll_fill(cx, bytes_max) {
            Poll::Ready(Ok(bytes)) => Poll::Ready(Ok(bytes)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.failed(error))),
            Poll::Pending => self.poll_expired(cx),
        }
    }

    /// Writes two slices, one behind the other, and returns when the kernel has all of it.
    pub(super) async fn write_all(&mut self, mut first: &[u8], mut second: &[u8]) -> io::Result<()> {
        while !first.is_empty() || !second.is_empty() {
            let written = poll_fn(|cx| self.poll_write(cx, first, second)).await?;
            let of_first = written.min(first.len());
            (first, second) = (&first[of_first..], &second[written - of_first..]);
        }
        self.taking = None;
        Ok(())
    }

    /// All of a reply is written: tells its handler, unless the client may be gone.
    pub(super) fn delivered(&mut self) {
        let stream = self.stream();
        if let Some(delivery) = self.exchange.flushed(|| client_end(stream)) {
            delivery.done();
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, first: &[u8], second: &[u8]) -> Poll<io::Result<usize>> {
        self.watch_silence();
        loop {
            match self.stream().poll_write_ready(cx) {
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
            match self.try_write(first, second) {
                Ok(bytes) => {
                    if let Some(taking) = &mut self.taking {
                        taking.progress(Instant::now(), bytes);
                    }
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
            silence::begin(self.stream(), self.exchange.server.limits.stream_stall_timeout);
        } else {
            silence::end(self.stream());
        }
    }

    fn try_write(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let slices = [IoSlice::new(first), IoSlice::new(second)];
        match () {
            () if self.streams => silence::write(self.stream(), &slices),
            () if second.is_empty() => self.stream().try_write(first),
            () => self.stream().try_write_vectored(&slices),
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

    /// The next deadline of the client, and which one it is.
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

/// Why a connection has no next request.
#[derive(Debug)]
pub(super) enum NoHead {
    Bad(BadHead),
    /// The connection is broken, or its client was too slow.
    Failed(io::Error),
}

impl From<BadHead> for NoHead {
    fn from(bad: BadHead) -> Self {
        Self::Bad(bad)
    }
}

impl From<io::Error> for NoHead {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
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
        let inlet = Inlet::new(server);
        let mut io = GuardedIo::new(&inlet, Arc::clone(&exchange));
        let read = io.read_head().await;
        let Err(NoHead::Failed(error)) = read else { panic!("the read fails, not {read:?}") };
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(told.try_recv(), UNDELIVERED);
    }
}
