//! A listener with a handler that does as it is told, and the clients that meet it.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use windlass_server::listener::{
    BodyError, ClientSide, Handler, Limits, Listener, Reply, ReplyShare, RequestBody, Source, Traffic,
};

/// Nothing that is tested takes so long; it only keeps a broken test from hanging.
const HANGING: Duration = Duration::from_secs(60);

/// What a timeout under test is set to. The others stay what they are by default.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// Of a reply that no kernel takes at once.
pub(crate) const LARGE: usize = 64 << 20;

static SHARED: LazyLock<Bytes> = LazyLock::new(|| vec![b'x'; LARGE].into());

pub(crate) async fn soon<T>(event: impl Future<Output = T>) -> T {
    timeout(HANGING, event).await.expect("what was waited for never happened")
}

/// What the handler saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Arrived(String),
    /// The handler was dropped before it had an answer.
    Left(String),
    Delivered(String),
    Undelivered(String),
}

#[derive(Debug)]
pub(crate) struct Desk {
    seen: mpsc::Sender<Seen>,
    /// One permit lets one waiting request go on.
    release: Semaphore,
    traffic: Arc<Traffic>,
    /// Of the bytes at `/shared`, for as long as somebody takes them.
    share: Mutex<Weak<ReplyShare>>,
}

impl Handler for Desk {
    fn handle(
        self: Arc<Self>,
        request: Request<RequestBody>,
    ) -> Pin<Box<dyn Future<Output = Response<Reply>> + Send>> {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let path = parts.uri.path().to_owned();
            let mut visit = Visit::new(&self, &path);
            if path == "/stream" {
                visit.left = false;
                let delivery = Delivery { desk: Arc::clone(&self), path, delivered: false };
                return Response::new(Reply::stream(Endless { _delivery: delivery }));
            }
            if path == "/wait" && !self.waits_for(&body.client()).await {
                return bare(StatusCode::NO_CONTENT);
            }
            let (status, bytes) = self.answer(&parts.method, &path, body).await;
            visit.left = false;
            if path == "/shared" {
                return Response::new(self.shared(path).await);
            }
            let Some(share) = self.traffic.reserve_reply(bytes.len()).await else {
                return bare(StatusCode::TOO_MANY_REQUESTS);
            };
            let delivery = Delivery { desk: Arc::clone(&self), path, delivered: false };
            let mut reply = bare(status);
            *reply.body_mut() = Reply::new(bytes).on_delivery(move || delivery.done()).counted(share);
            reply
        })
    }

    fn refused(&self, status: StatusCode) -> String {
        format!("refused with {}", status.as_u16())
    }
}

/// Always has more.
struct Endless {
    _delivery: Delivery,
}

impl Source for Endless {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Poll::Ready(Some(Bytes::from_static(&[b'x'; 64 << 10])))
    }
}

impl Desk {
    async fn answer(&self, method: &Method, path: &str, body: RequestBody) -> (StatusCode, Bytes) {
        let ok = |bytes: Bytes| (StatusCode::OK, bytes);
        match path.split('/').nth(1) {
            Some("echo") => match body.read().await {
                Ok(received) => ok(received.bytes.clone()),
                Err(error) => (status(error), Bytes::new()),
            },
            Some("hold") => match body.read().await {
                Ok(received) => {
                    self.wait().await;
                    drop(received);
                    ok(Bytes::new())
                }
                Err(error) => (status(error), Bytes::new()),
            },
            Some("wait") => ok(Bytes::from_static(b"waited")),
            Some("large") => ok(vec![b'x'; LARGE].into()),
            Some("unread") => ok(Bytes::from_static(b"not read")),
            Some("panic") => panic!("as it was told"),
            _ => ok(Bytes::from(format!("{method} {path}"))),
        }
    }

    /// Whether the client was there all the while.
    async fn waits_for(&self, client: &ClientSide) -> bool {
        tokio::select! {
            () = self.wait() => true,
            () = client.closed() => false,
        }
    }

    /// The same bytes for all who ask for them.
    async fn shared(self: &Arc<Self>, path: String) -> Reply {
        let mut latest = self.share.lock().await;
        let share = match latest.upgrade() {
            Some(share) => share,
            None => self.traffic.reserve_reply(LARGE).await.expect("there is room").shared(),
        };
        *latest = Arc::downgrade(&share);
        let delivery = Delivery { desk: Arc::clone(self), path, delivered: false };
        Reply::new(SHARED.clone()).counted(share).on_delivery(move || delivery.done())
    }

    async fn wait(&self) {
        self.release.acquire().await.expect("never closed").forget();
    }

    fn saw(&self, seen: Seen) {
        if !is_neighbour(&seen) {
            self.seen.try_send(seen).expect("no test does so much");
        }
    }
}

fn bare(status: StatusCode) -> Response<Reply> {
    let mut reply = Response::new(Reply::default());
    *reply.status_mut() = status;
    reply
}

fn status(error: BodyError) -> StatusCode {
    match error {
        BodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::Overloaded { .. } | BodyError::Evicted { .. } => StatusCode::TOO_MANY_REQUESTS,
        BodyError::Stalled => StatusCode::REQUEST_TIMEOUT,
        BodyError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        BodyError::Cut => StatusCode::BAD_REQUEST,
    }
}

struct Visit {
    desk: Arc<Desk>,
    path: String,
    left: bool,
}

impl Visit {
    fn new(desk: &Arc<Desk>, path: &str) -> Self {
        desk.saw(Seen::Arrived(path.to_owned()));
        Self { desk: Arc::clone(desk), path: path.to_owned(), left: true }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if self.left {
            self.desk.saw(Seen::Left(self.path.clone()));
        }
    }
}

struct Delivery {
    desk: Arc<Desk>,
    path: String,
    delivered: bool,
}

impl Delivery {
    fn done(mut self) {
        self.delivered = true;
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let path = self.path.clone();
        self.desk.saw(if self.delivered { Seen::Delivered(path) } else { Seen::Undelivered(path) });
    }
}

pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) traffic: Arc<Traffic>,
    desk: Arc<Desk>,
    seen: mpsc::Receiver<Seen>,
    pub(crate) stopping: watch::Sender<bool>,
    /// Tells how many connections were cut in the end.
    pub(crate) running: JoinHandle<usize>,
    neighbour: Neighbour,
}

impl World {
    pub(crate) async fn new(limits: Limits) -> Self {
        Self::with_grace(limits, HANGING).await
    }

    pub(crate) async fn with_grace(limits: Limits, grace: Duration) -> Self {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into(), limits).await.unwrap();
        let (address, traffic) = (listener.local_addr(), listener.traffic());
        let (sender, seen) = mpsc::channel(10_000);
        let release = Semaphore::new(0);
        let desk =
            Arc::new(Desk { seen: sender, release, traffic: Arc::clone(&traffic), share: Mutex::default() });
        let (stopping, stop) = watch::channel(false);
        let running = tokio::spawn(listener.run(Arc::clone(&desk) as Arc<dyn Handler>, stop, grace));
        let neighbour = Neighbour::move_in(address).await;
        Self { address, traffic, desk, seen, stopping, running, neighbour }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Of requests other than the neighbour's, in the order of events.
    pub(crate) async fn saw(&mut self) -> Seen {
        soon(self.seen.recv()).await.expect("the desk is there")
    }

    pub(crate) fn saw_no_more(&mut self) {
        assert_eq!(self.seen.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    }

    pub(crate) fn release(&self, requests: usize) {
        self.desk.release.add_permits(requests);
    }

    /// The neighbour was served all the while, everybody leaves without being cut, and nothing is left over.
    pub(crate) async fn finish(self) {
        self.neighbour.move_out().await;
        self.stopping.send_replace(true);
        assert_eq!(soon(self.running).await.unwrap(), 0, "connections were cut");
        assert_eq!(self.traffic.open(), 0);
        assert_eq!((self.traffic.bytes_in_flight(), self.traffic.reply_bytes_in_flight()), (0, 0));
    }

    pub(crate) async fn neighbour_moves_out(&mut self) {
        let gone = Neighbour { leave: oneshot::channel().0, living: tokio::spawn(async { 1 }) };
        std::mem::replace(&mut self.neighbour, gone).move_out().await;
    }
}

const NEIGHBOUR: &str = "/echo/neighbour";

fn is_neighbour(seen: &Seen) -> bool {
    match seen {
        Seen::Arrived(path) | Seen::Left(path) | Seen::Delivered(path) | Seen::Undelivered(path) => {
            path == NEIGHBOUR
        }
    }
}

pub(crate) fn arrived(path: &str) -> Seen {
    Seen::Arrived(path.to_owned())
}

pub(crate) fn left(path: &str) -> Seen {
    Seen::Left(path.to_owned())
}

pub(crate) fn delivered(path: &str) -> Seen {
    Seen::Delivered(path.to_owned())
}

pub(crate) fn undelivered(path: &str) -> Seen {
    Seen::Undelivered(path.to_owned())
}

/// A client that behaves, beside those that do not.
struct Neighbour {
    leave: oneshot::Sender<()>,
    living: JoinHandle<u64>,
}

impl Neighbour {
    async fn move_in(address: SocketAddr) -> Self {
        let (leave, mut left) = oneshot::channel();
        let (settled, settles) = oneshot::channel();
        let living = tokio::spawn(async move {
            let mut client = Client::connect(address).await;
            client.echo(NEIGHBOUR, b"good morning").await;
            settled.send(()).unwrap();
            let mut served = 0;
            while left.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                client.echo(NEIGHBOUR, format!("good day {served}").as_bytes()).await;
                served += 1;
            }
            served
        });
        soon(settles).await.unwrap();
        Self { leave, living }
    }

    async fn move_out(self) {
        let _gone_before = self.leave.send(());
        assert!(soon(self.living).await.expect("the neighbour was served") > 0);
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub(crate) struct Client {
    pub(crate) stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { stream: BufReader::new(soon(TcpStream::connect(address)).await.unwrap()) }
    }

    /// One whose kernel takes next to nothing that it does not take itself.
    pub(crate) async fn with_small_window(address: SocketAddr) -> Self {
        Self::with_window(address, 4 << 10).await
    }

    /// One whose kernel takes about so many bytes that it does not take itself, however fast it seems to read.
    pub(crate) async fn with_window(address: SocketAddr, bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        Self { stream: BufReader::with_capacity(1, soon(socket.connect(address)).await.unwrap()) }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        soon(self.stream.write_all(bytes.as_ref())).await.expect("the server takes it");
    }

    /// Of a client that does not care whether it is listened to.
    pub(crate) async fn shout(&mut self, bytes: impl AsRef<[u8]>) {
        let _cut_off = soon(self.stream.write_all(bytes.as_ref())).await;
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n")).await;
        self.answer().await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> Answer {
        self.send(request(path, body)).await;
        self.answer().await
    }

    pub(crate) async fn echo(&mut self, path: &str, body: &[u8]) {
        let answer = self.post(path, body).await;
        assert_eq!((answer.status, answer.body.as_slice()), (200, body));
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        self.try_answer().await.expect("an answer")
    }

    pub(crate) async fn try_answer(&mut self) -> Option<Answer> {
        soon(self.read_answer()).await.ok()
    }

    /// Without the body, which is still to come.
    pub(crate) async fn head(&mut self) -> Answer {
        soon(self.read_head()).await.expect("an answer")
    }

    /// Takes so many bytes of a body.
    pub(crate) async fn take(&mut self, bytes: usize) {
        self.read(&mut vec![0; bytes]).await;
    }

    /// Fills the whole buffer.
    pub(crate) async fn read(&mut self, buffer: &mut [u8]) {
        soon(self.stream.read_exact(buffer)).await.expect("the server sends so much");
    }

    async fn read_head(&mut self) -> std::io::Result<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Answer { status: head[9..12].parse().unwrap(), head, body: Vec::new() })
    }

    async fn read_answer(&mut self) -> std::io::Result<Answer> {
        let mut answer = self.read_head().await?;
        let bytes = answer.header("content-length").map_or(0, |bytes| bytes.parse().unwrap());
        answer.body = vec![0; bytes];
        self.stream.read_exact(&mut answer.body).await?;
        Ok(answer)
    }

    /// Takes so many bytes, a few hundred at a time. `false` if it was held up for too long to be called steady.
    pub(crate) async fn sip(&mut self, bytes: usize, within: Duration) -> bool {
        let begun = Instant::now();
        let (mut taken, mut some) = (0, [0; 256]);
        while taken < bytes && begun.elapsed() < within {
            sleep(Duration::from_millis(20)).await;
            taken += match soon(self.stream.read(&mut some)).await {
                Ok(bytes @ 1..) => bytes,
                end => panic!("the stream ended: {end:?}"),
            };
        }
        taken >= bytes
    }

    /// The server closes before so many bytes of a body have come.
    pub(crate) async fn closed_within(mut self, bytes: usize) {
        let mut rest = Vec::new();
        let _end_or_reset = soon(self.stream.read_to_end(&mut rest)).await;
        assert!(rest.len() < bytes);
    }

    /// The server closes, in one way or the other, without saying any more.
    pub(crate) async fn closed(mut self) {
        let mut rest = Vec::new();
        let _end_or_reset = soon(self.stream.read_to_end(&mut rest)).await;
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }

    /// Sends a byte now and then until the server does not take it any more, and tells what was said meanwhile.
    pub(crate) async fn drip(&mut self, byte: u8) -> Vec<u8> {
        let (mut said, mut some) = (Vec::new(), [0; 1024]);
        let mut drops = tokio::time::interval(Duration::from_millis(5));
        let (from, to) = self.stream.get_mut().split();
        loop {
            soon(drops.tick()).await;
            while let Ok(bytes @ 1..) = from.try_read(&mut some) {
                said.extend_from_slice(&some[..bytes]);
            }
            match to.try_write(&[byte]) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return said,
                _ => {}
            }
        }
    }

    /// Closes without a farewell: the server's kernel is told that the connection is no more.
    pub(crate) fn reset(self) {
        self.stream.get_ref().set_zero_linger().unwrap();
    }

    pub(crate) async fn half_close(&mut self) {
        let _closed_before = soon(self.stream.shutdown()).await;
    }
}

pub(crate) fn request(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub(crate) fn chunked(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n");
    let mut request = head.into_bytes();
    for chunk in body.chunks(64 << 10) {
        request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        request.extend_from_slice(chunk);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    request
}
