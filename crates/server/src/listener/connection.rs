//! One connection, from its first byte to its end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
#[cfg(target_os = "linux")]
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::Server;
use super::again::Again;
use super::body::RequestBody;
use super::exchange::{ClientEnd, Exchange, Rest};
use super::farewell::{self, Patience, Refusal};
use super::io::GuardedIo;
use super::reply::{Delivery, Outgoing, Reply};
use super::seldom::Seldom;
use super::traffic::Slot;

/// A body that is too large may go on for so many times its limit before its sender is cut off.
const UNREAD_BODIES_MAX: usize = 4;
/// How long a client that is still sending is listened to by a server that is stopping.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long [`settle`] watches a client that had closed its side before its last replies. The kernel of a client that is gone
/// refuses the reply.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);

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

pub(super) async fn serve(server: Arc<Server>, mut stream: TcpStream, slot: Slot) {
    let peer = stream.peer_addr().ok().map(|peer| peer.ip());
    let exchange = Arc::new(Exchange::new(Arc::clone(&server), peer));
    let end = converse(&exchange, &stream).await;
    if matches!(end, End::Gone) {
        exchange.client_is_gone();
    }
    let doubtful = exchange.take_doubtful();
    tokio::select! {
        () = part(&server, &mut stream, end) => {}
        () = hurried(&server) => {}
    }
    if !doubtful.is_empty() {
        settle(&mut stream, doubtful).await;
    }
    // In this order: a client that sees its connection closed finds its place free.
    drop(slot);
    drop(stream);
}

/// Replies to a client that had closed its side are delivered unless the client turns out to be gone.
async fn settle(stream: &mut TcpStream, doubtful: VecDeque<Delivery>) {
    // A client that still reads waits for the server to close its side.
    let _closed_before = farewell::say_no_more(stream).await;
    if timeout(REFUSED_WITHIN, gone(stream)).await.is_err() {
        doubtful.into_iter().for_each(Delivery::done);
    }
}

async fn part(server: &Server, stream: &mut TcpStream, end: End) {
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

async fn converse(exchange: &Arc<Exchange>, stream: &TcpStream) -> End {
    let server = &exchange.server;
    let io = GuardedIo::new(stream, Arc::clone(exchange));
    let service = service_fn(|request| answer(Arc::clone(exchange), request));
    let mut connection = pin!(server.http.serve_connection(io, service));
    let mut interruption = Seldom::new(interrupted(exchange, stream));
    let again = Again::new();
    loop {
        tokio::select! {
            biased;
            ended = poll_fn(|cx| again.poll(connection.as_mut(), cx)) => return end(exchange, ended),
            why = &mut interruption => match why {
                Interruption::Gone => return End::Gone,
                // A client whose request is not even known is not waited for.
                Interruption::Stopping if exchange.is_unasked() => return end(exchange, Ok(())),
                Interruption::Stopping => {
                    connection.as_mut().graceful_shutdown();
                    interruption = Seldom::new(broken(exchange, stream));
                }
            },
        }
    }
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

fn answer(
    exchange: Arc<Exchange>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Outgoing>, Infallible>> {
    let ended = request.body().is_end_stream();
    exchange.begin(if ended { Rest::Nothing } else { Rest::Unread });
    let request = request.map(|incoming| RequestBody::new(incoming, Arc::clone(&exchange)));
    let reply = Arc::clone(&exchange.server.handler).handle(request);
    async move { Ok(outgoing(reply.await, exchange)) }
}

fn outgoing(mut reply: Response<Reply>, exchange: Arc<Exchange>) -> Response<Outgoing> {
    if exchange.rest() != Rest::Nothing {
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply.map(|reply| Outgoing::new(reply, exchange))
}

fn end(exchange: &Exchange, ended: hyper::Result<()>) -> End {
    let server = &exchange.server;
    match ended {
        Ok(()) if exchange.rest() == Rest::Unread => End::Answered,
        Ok(()) => End::Silent,
        Err(error) if error.is_parse_too_large() => {
            let (bytes_max, headers_max) = (server.limits.head_bytes_max, server.limits.headers_max);
            End::Refused(Refusal::large_head(bytes_max, headers_max))
        }
        Err(error) if error.is_parse() => End::Refused(Refusal::no_request(&error)),
        Err(error) => {
            debug!(%error, "connection failed");
            End::Silent
        }
    }
}

/// Whether [`closed_side`] tells anything.
pub(super) const NOTICES_CLOSING: bool = cfg!(target_os = "linux");

/// When the client has closed its side, also while what it sent before is unread: hyper does not look further while it
/// holds the beginning of a next request.
#[cfg(target_os = "linux")]
async fn closed_side(stream: &TcpStream) {
    // Besides urgent data, which is not asked for, the kernel tells only of the end under this name.
    let _closed = stream.ready(tokio::io::Interest::PRIORITY).await;
}

/// What the kernel knows of the client's end by now, as far as nothing that the client sent is unread. [`closed_side`] and [`gone`]
/// tell it later: when the runtime has heard of it.
///
/// The kernel tells of an error once, so [`gone`] may miss the one that is seen here: the caller must remember `Gone`.
#[cfg(target_os = "linux")]
pub(super) fn client_end(stream: &TcpStream) -> ClientEnd {
    let socket = socket2::SockRef::from(stream);
    match socket.peek(&mut [std::mem::MaybeUninit::uninit()]) {
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

/// Elsewhere hyper alone notices, as soon as it reads, and takes a client that closed its side for gone.
#[cfg(not(target_os = "linux"))]
async fn closed_side(_: &TcpStream) {
    std::future::pending().await
}

#[cfg(not(target_os = "linux"))]
pub(super) fn client_end(_: &TcpStream) -> ClientEnd {
    ClientEnd::Open
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
