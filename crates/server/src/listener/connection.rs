//! One connection, from its first byte to its end.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Response;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::Server;
use super::answer::{Answering, Asker};
use super::body::RequestBody;
use super::exchange::{ClientEnd, Exchange, Rest};
use super::farewell::{self, Patience, Refusal};
use super::http1::{BadHead, Framing, Head};
use super::inlet::{Incoming, Inlet};
use super::io::{GuardedIo, NoHead};
use super::reply::{Delivery, Reply};
use super::seldom::Seldom;
use super::traffic::Slot;

/// A body that is too large may go on for so many times its limit before its sender is cut off.
const UNREAD_BODIES_MAX: usize = 4;
/// How long a client that is still sending is listened to by a server that is stopping.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long [`settle`] watches a client that had closed its side before its last replies. The kernel of a client that is gone
/// refuses the reply.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);

#[cfg(not(target_os = "linux"))]
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How a connection ended.
enum End {
    /// There is nothing to say.
    Silent,
    /// There is nobody to say anything to: the connection is broken.
    Gone,
    /// The client has its last reply and may still be sending the request.
    Answered,
    Refused(Refusal),
}

pub(super) async fn serve(server: Arc<Server>, stream: TcpStream, slot: Slot) {
    let peer = stream.peer_addr().ok().map(|peer| peer.ip());
    let exchange = Arc::new(Exchange::new(Arc::clone(&server), peer));
    let inlet = Arc::new(Inlet::new(stream));
    let end = converse(&exchange, &inlet).await;
    if matches!(end, End::Gone) {
        exchange.client_is_gone();
    }
    let doubtful = exchange.take_doubtful();
    tokio::select! {
        () = part(&server, inlet.stream(), end) => {}
        () = hurried(&server) => {}
    }
    if !doubtful.is_empty() {
        settle(inlet.stream(), doubtful).await;
    }
    // In this order: a client that sees its connection closed finds its place free.
    drop(slot);
    drop(inlet);
}

/// Replies to a client that had closed its side are delivered unless the client turns out to be gone.
async fn settle(stream: &TcpStream, doubtful: VecDeque<Delivery>) {
    // A client that still reads waits for the server to close its side.
    let _closed_before = farewell::say_no_more(stream);
    if timeout(REFUSED_WITHIN, gone(stream)).await.is_err() {
        doubtful.into_iter().for_each(Delivery::done);
    }
}

async fn part(server: &Server, stream: &TcpStream, end: End) {
    let patience = Patience {
        bytes_max: server.limits.body_bytes_max.saturating_mul(UNREAD_BODIES_MAX),
        stall_timeout: server.limits.stall_timeout,
    };
    match end {
        End::Silent | End::Gone => {}
        End::Answered => farewell::hear_out(stream, patience).await,
        End::Refused(refusal) => farewell::refuse(stream, &server.refusal(&refusal), patience).await,
    }
}

/// When a farewell that began now must be over because the server is stopping.
async fn hurried(server: &Server) {
    server.stopped().await;
    sleep(LAST_WORDS).await;
}

async fn converse(exchange: &Arc<Exchange>, inlet: &Arc<Inlet>) -> End {
    let is_last = AtomicBool::new(false);
    let mut requests = pin!(answer_all(exchange, inlet, &is_last));
    let mut interruption = Seldom::new(interrupted(exchange, inlet.stream()));
    loop {
        tokio::select! {
            biased;
            end = &mut requests => return end,
            why = &mut interruption => match why {
                Interruption::Gone => return End::Gone,
                // A client whose request is not even known is not waited for.
                Interruption::Stopping if exchange.is_unasked() => return end_of(exchange, inlet),
                Interruption::Stopping => {
                    is_last.store(true, Ordering::SeqCst);
                    interruption = Seldom::new(broken(exchange, inlet.stream()));
                }
            },
        }
    }
}

/// Answers one request after the other, up to the one during which `is_last` is set.
async fn answer_all(exchange: &Arc<Exchange>, inlet: &Arc<Inlet>, is_last: &AtomicBool) -> End {
    let mut io = GuardedIo::new(inlet, Arc::clone(exchange));
    loop {
        let head = match io.read_head().await {
            Ok(Some(head)) => head,
            Ok(None) => return End::Silent,
            Err(no_head) => return end_without_head(exchange, no_head),
        };
        let asker = Asker::of(&head);
        let reply = handle(exchange, inlet, head).await;
        let goes_on =
            asker.keeps_alive && exchange.rest() == Rest::Nothing && !is_last.load(Ordering::SeqCst);
        match (Answering { io: &mut io, exchange, asker, goes_on }).write(reply).await {
            // The server may have begun to stop while the reply was written.
            Ok(true) if !is_last.load(Ordering::SeqCst) => {}
            Ok(_) => return end_of(exchange, inlet),
            Err(error) => return failed(&error),
        }
    }
}

async fn handle(exchange: &Arc<Exchange>, inlet: &Arc<Inlet>, head: Head) -> Response<Reply> {
    let Head { request, framing, expects_continue, .. } = head;
    exchange.begin(if framing == Framing::Length(0) { Rest::Nothing } else { Rest::Unread });
    let incoming = Incoming::new(Arc::clone(inlet), framing, expects_continue);
    let request = request.map(|()| RequestBody::new(incoming, Arc::clone(exchange)));
    Arc::clone(&exchange.server.handler).handle(request).await
}

/// What may come between a client and its reply.
enum Interruption {
    /// The connection is broken.
    Gone,
    /// The server is stopping.
    Stopping,
}

async fn interrupted(exchange: &Exchange, stream: &TcpStream) -> Interruption {
    tokio::select! {
        biased;
        gone = broken(exchange, stream) => gone,
        () = exchange.server.stopped() => Interruption::Stopping,
    }
}

/// When the connection is broken. If the client closes its side before, the exchange is told.
async fn broken(exchange: &Exchange, stream: &TcpStream) -> Interruption {
    let client = exchange.client_closed();
    let closing = async {
        if !client.is_set() {
            closed_side(stream).await;
            client.set();
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = gone(stream) => Interruption::Gone,
        () = closing => unreachable!("the client's end is not waited for"),
    }
}

/// After the last reply. A connection that is closed with bytes unread is reset, and the client may lose that reply: a client that has
/// sent more is heard out, unless it stalled.
fn end_of(exchange: &Exchange, inlet: &Inlet) -> End {
    let has_more = || !inlet.unread().is_empty() || has_unread(inlet.stream());
    match exchange.rest() {
        Rest::Unread => End::Answered,
        Rest::Nothing if has_more() => End::Answered,
        Rest::Nothing | Rest::Stalled => End::Silent,
    }
}

/// Whether something has come that was not read.
fn has_unread(stream: &TcpStream) -> bool {
    SockRef::from(stream).peek(&mut [MaybeUninit::uninit()]).is_ok_and(|bytes| bytes > 0)
}

fn end_without_head(exchange: &Exchange, no_head: NoHead) -> End {
    let limits = &exchange.server.limits;
    match no_head {
        NoHead::Bad(BadHead::TooLarge) => {
            End::Refused(Refusal::large_head(limits.head_bytes_max, limits.headers_max))
        }
        NoHead::Bad(BadHead::Unreadable(why)) => End::Refused(Refusal::no_request(why)),
        NoHead::Failed(error) => failed(&error),
    }
}

fn failed(error: &io::Error) -> End {
    debug!(%error, "connection failed");
    End::Silent
}

/// When the client has closed its side, also while something that it sent before is unread.
#[cfg(target_os = "linux")]
async fn closed_side(stream: &TcpStream) {
    // Besides urgent data, which is not asked for, the kernel tells only of the end under this name.
    let _closed = stream.ready(tokio::io::Interest::PRIORITY).await;
}

/// What the kernel knows of the client's end by now, as far as nothing that the client sent is unread. [`closed_side`] and [`gone`]
/// tell it later: when the runtime has heard of it.
///
/// The kernel tells of an error once, so [`gone`] may miss the one that is seen here: the caller must remember `Gone`.
pub(super) fn client_end(stream: &TcpStream) -> ClientEnd {
    match SockRef::from(stream).peek(&mut [MaybeUninit::uninit()]) {
        Ok(0) => ClientEnd::Closed,
        Ok(_) => ClientEnd::Open,
        Err(error) if error.kind() == ErrorKind::WouldBlock => ClientEnd::Open,
        Err(_) => ClientEnd::Gone,
    }
}

/// When the connection is broken: the client has reset it, or closed it before what was written to it.
#[cfg(target_os = "linux")]
async fn gone(stream: &TcpStream) {
    let _broken = stream.ready(tokio::io::Interest::ERROR).await;
}

/// Elsewhere the kernel does not tell: a client that closes its side is noticed within `LOOK_EVERY`, as far as nothing is unread.
#[cfg(not(target_os = "linux"))]
async fn closed_side(stream: &TcpStream) {
    while client_end(stream) == ClientEnd::Open {
        sleep(LOOK_EVERY).await;
    }
}

#[cfg(not(target_os = "linux"))]
async fn gone(_: &TcpStream) {
    std::future::pending().await
}

#[cfg(test)]
#[cfg(target_os = "linux")]
pub(super) mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    pub(in crate::listener) async fn client_and_server() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (client.unwrap(), accepted.unwrap().0)
    }

    /// Returns when the server's kernel knows that the client has reset the connection.
    pub(in crate::listener) async fn reset(client: TcpStream, server: &TcpStream) {
        client.set_zero_linger().unwrap();
        drop(client);
        gone(server).await;
    }

    #[tokio::test]
    async fn a_client_that_closes_its_side_is_told_from_one_that_is_there() {
        let (mut client, server) = client_and_server().await;
        assert_eq!(client_end(&server), ClientEnd::Open);
        client.shutdown().await.unwrap();
        closed_side(&server).await;
        assert_eq!(client_end(&server), ClientEnd::Closed);
    }

    #[tokio::test]
    async fn a_client_that_resets_its_connection_is_gone() {
        let (client, server) = client_and_server().await;
        reset(client, &server).await;
        assert_eq!(client_end(&server), ClientEnd::Gone);
    }
}
