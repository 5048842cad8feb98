//! Clients that send or take almost everything and then next to nothing: others are served all the while.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use windlass_server::config::RawLimits;

use crate::http::{Got, Http};
use crate::still_clock::StillClock;
use crate::streams::subscribers;
use crate::world::{TestServer, held, held_in, with};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

const BODY_BYTES: usize = 64 * KIB;
/// Bytes that each dripping body still owes. Those of all bodies together are less than any call takes.
const UNSENT_BYTES: usize = 4;
const DRIPPERS: usize = 16;
/// A body counts as slow after a second.
const SLOW: Duration = Duration::from_millis(1001);
/// A page of metrics that somebody still takes is given to others for less than this.
const PAGE_AGE: Duration = Duration::from_secs(1);
/// A reply up to this size is not counted.
const SMALL_REPLY_BYTES: usize = 64 * KIB;

/// Sixteen of the largest bodies fill the bytes in flight, as they do by default.
fn tight() -> RawLimits {
    RawLimits {
        payload_bytes: Some("48KiB".into()),
        body_bytes: Some("64KiB".into()),
        bytes_in_flight: Some("1MiB".into()),
        ..RawLimits::default()
    }
}

/// Bodies that fill the bytes in flight but for a few bytes, and then come byte by byte.
struct Drippers {
    answers: JoinSet<Got>,
    drops: broadcast::Sender<()>,
    /// Bytes of all bodies together that have come.
    bytes: usize,
}

impl Drippers {
    async fn fill(server: &TestServer, http: &mut Http, call: &'static str) -> Self {
        let (drops, _) = broadcast::channel(UNSENT_BYTES);
        let mut answers = JoinSet::new();
        for _ in 0..DRIPPERS {
            answers.spawn(drip(server.address(), call, drops.subscribe()));
        }
        let drippers = Self { answers, drops, bytes: DRIPPERS * (BODY_BYTES - UNSENT_BYTES) };
        drippers.have_come(http).await;
        drippers
    }

    /// One more byte of each body.
    async fn drop_one(&mut self, http: &mut Http) {
        self.drops.send(()).expect("all of them listen");
        self.bytes += DRIPPERS;
        self.have_come(http).await;
    }

    async fn have_come(&self, http: &mut Http) {
        http.until(async |http| http.metric("windlass_http_bytes_in_flight").await >= self.bytes).await;
    }
}

/// Sends a body but for its last bytes, and these one by one when it is told to. Tells how the body was answered.
async fn drip(address: SocketAddr, call: &'static str, mut drops: broadcast::Receiver<()>) -> Got {
    let mut http = Http::connect(address).await;
    let head = format!("POST /v1/{call} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
    let stream = http.stream_mut();
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream.write_all(&vec![b' '; BODY_BYTES - UNSENT_BYTES]).await.expect("sent");
    loop {
        tokio::select! {
            answered = http.stream_mut().readable() => {
                answered.expect("the socket is there");
                return http.receive().await;
            }
            told = drops.recv() => told.expect("no drop is missed"),
        }
        http.stream_mut().write_all(b" ").await.expect("sent");
    }
}

fn item_of(bytes: usize) -> Value {
    json!({"queue": "q", "items": [{"utf8": "x".repeat(bytes)}]})
}

#[tokio::test]
async fn small_calls_go_through_while_sixteen_bodies_drip() {
    let _clock = StillClock::stop();
    for call in ["queue.produce", "queue.complete"] {
        let server = TestServer::with(tight()).await;
        let mut http = server.connect().await;
        http.ok("queues.create", json!({"queue": "q"})).await;
        let mut drippers = Drippers::fill(&server, &mut http, call).await;
        drippers.drop_one(&mut http).await;
        http.ok("queue.produce", item_of(8 * KIB)).await;
        let leased = http.lease("q", 1).await.remove(0);
        let held = held_in("q", [&leased]);
        assert_eq!(http.ok("queue.extend", held.clone()).await["failed"], json!([]));
        assert_eq!(http.ok("queue.complete", held).await["completed"], 1);
        // All sixteen are still there: the calls did not go through in the room of one that was sent away.
        drippers.drop_one(&mut http).await;
        assert!(drippers.answers.try_join_next().is_none());
    }
}

#[tokio::test]
async fn a_large_body_takes_the_room_of_bodies_that_drip() {
    let clock = StillClock::stop();
    let server = TestServer::with(tight()).await;
    let mut http = server.connect().await;
    http.ok("queues.create", json!({"queue": "q"})).await;
    let mut drippers = Drippers::fill(&server, &mut http, "queue.produce").await;
    let large = item_of(40 * KIB).to_string();
    assert_eq!(server.connect().await.post("queue.produce", &large).await.status, 429);
    clock.advance(SLOW).await;
    drippers.drop_one(&mut http).await;
    assert_eq!(server.connect().await.post("queue.produce", &large).await.status, 200);
    let evicted = drippers.answers.join_next().await.expect("sixteen drip").expect("no panic");
    assert!(evicted.status == 429 && evicted.message().contains("came slower"), "{}", evicted.message());
    assert_eq!(http.metric("windlass_http_connections_closed_total{reason=\"body\"}").await, 1);
    assert!(drippers.answers.try_join_next().is_none());
}

#[tokio::test]
async fn a_large_body_takes_the_room_of_leases_that_wait() {
    let clock = StillClock::stop();
    let server = TestServer::with(tight()).await;
    let mut http = server.connect().await;
    for queue in ["q", "empty"] {
        http.ok("queues.create", json!({"queue": queue})).await;
    }
    let lease = json!({"queue": "empty", "client_id": "w", "batch_size": 1, "request_timeout": "10m"});
    let body = format!("{lease}{}", " ".repeat(BODY_BYTES - lease.to_string().len()));
    let mut waiting = Vec::new();
    for number in 1..=16 {
        let mut worker = server.connect().await;
        worker.send("POST", "/v1/queue.lease", &[], body.as_bytes()).await;
        waiting.push(worker);
        // One after the other, so that the first is the one that has waited for longest.
        http.until(async |http| http.metric("windlass_http_bytes_in_flight").await >= number * BODY_BYTES)
            .await;
    }
    http.until_lease_waiters("empty", 16).await;
    let large = item_of(40 * KIB).to_string();
    assert_eq!(server.connect().await.post("queue.produce", &large).await.status, 429);
    clock.advance(SLOW).await;
    assert_eq!(server.connect().await.post("queue.produce", &large).await.status, 200);
    assert_eq!(waiting[0].receive().await.json(), json!({"items": []}));
}

/// A client whose kernel takes next to nothing that the client does not take itself.
async fn small_window(address: SocketAddr) -> Http {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4 << 10).expect("a socket option");
    Http::over(socket.connect(address).await.expect("the server listens"))
}

async fn asks_and_reads_nothing(address: SocketAddr, path: &str) -> Http {
    let mut http = small_window(address).await;
    http.send("GET", path, &[], b"").await;
    http
}

#[tokio::test]
async fn a_hundred_streams_that_nobody_reads_leave_half_of_the_room_to_leases() {
    const EVENT_BYTES: usize = 400 * KIB;
    const READERS: usize = 100;
    let limits = RawLimits {
        body_bytes: Some("2MiB".into()),
        bytes_in_flight: Some("2MiB".into()),
        ..RawLimits::default()
    };
    let server = TestServer::with(limits).await;
    let mut http = server.connect().await;
    http.ok("queues.create", json!({"queue": "q"})).await;
    http.ok("queue.produce", item_of(1)).await;
    let followed = http.lease("q", 1).await.remove(0);
    let events = json!({"events": [{"utf8": "x".repeat(EVENT_BYTES)}]});
    http.ok("item.emit", with(held(&followed), events)).await;
    for _ in 0..2 {
        http.ok("queue.produce", item_of(EVENT_BYTES)).await;
    }
    let path = format!("/v1/item.events?id={}&after=0", followed["id"].as_str().expect("an id"));
    let mut asking = JoinSet::new();
    for _ in 0..READERS {
        let mut reader = asks_and_reads_nothing(server.address(), &path).await;
        asking.spawn(async move { (reader.receive_head().await.status, reader) });
    }
    let readers = asking.join_all().await;
    assert!(readers.iter().all(|(status, _)| *status == 200));
    // The readers for whom there is no room are sent away.
    http.until(async |http| subscribers(http).await <= 2 * MIB / EVENT_BYTES).await;
    assert_eq!(http.lease("q", 2).await.len(), 2);
    assert!(http.metric("windlass_http_reply_bytes_in_flight").await <= MIB);
}

/// A server whose page of metrics is large enough to be counted among the bytes of replies, and a connection to it.
async fn with_a_large_page() -> (TestServer, Http) {
    const QUEUES: usize = 800;
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    let name = "q".repeat(100);
    for number in 0..QUEUES {
        http.ok("queues.create", json!({"queue": format!("{name}{number}")})).await;
    }
    (server, http)
}

#[tokio::test]
async fn slow_readers_of_the_metrics_share_a_page() {
    const READERS: usize = 40;
    let (server, mut http) = with_a_large_page().await;
    let clock = StillClock::stop();
    let mut asking = JoinSet::new();
    for _ in 0..READERS {
        let mut reader = asks_and_reads_nothing(server.address(), "/metrics").await;
        asking.spawn(async move { (reader.receive_head().await, reader) });
    }
    let readers = asking.join_all().await;
    let page_bytes: usize = readers[0].0.headers["content-length"].parse().expect("a number");
    assert!(readers.iter().all(|(head, _)| head.status == 200));
    clock.advance(PAGE_AGE).await;
    // The page that tells of the bytes is not counted among them yet.
    assert_eq!(http.metric("windlass_http_reply_bytes_in_flight").await, page_bytes);
    drop(readers);
    http.until(async |http| http.metric("windlass_http_reply_bytes_in_flight").await == 0).await;
}

#[tokio::test]
async fn a_page_that_a_half_closed_client_has_taken_is_given_back() {
    // More replies than the kernels on both sides hold, so that the connection lasts.
    const NEXT_REPLIES: usize = 50;
    let (server, mut http) = with_a_large_page().await;
    let clock = StillClock::stop();
    let mut reader = small_window(server.address()).await;
    let get = |path| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let requests = get("/metrics") + &get("/openapi.json").repeat(NEXT_REPLIES);
    reader.stream_mut().write_all(requests.as_bytes()).await.expect("sent");
    reader.stream_mut().shutdown().await.expect("closed");
    let page = reader.receive().await;
    assert!(page.body.len() > SMALL_REPLY_BYTES, "a page of {} bytes is not counted", page.body.len());
    assert_eq!(reader.receive_head().await.status, 200);
    clock.advance(PAGE_AGE).await;
    assert_eq!(http.metric("windlass_http_reply_bytes_in_flight").await, 0);
    assert_eq!(http.metric("windlass_http_connections").await, 2, "the next reply still waits");
}
