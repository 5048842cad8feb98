//! Clients that send or take almost everything and then next to nothing: others are served all the while.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use windlass_server::config::RawLimits;

use crate::streams::subscribers;
use crate::support::{Http, TestServer};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

const BODY_BYTES: usize = 64 * KIB;
const UNSENT_BYTES: usize = 400;
const DRIP: Duration = Duration::from_millis(50);

/// Sixteen of the largest bodies fill the bytes in flight, as they do by default.
fn tight() -> RawLimits {
    RawLimits {
        payload_bytes: Some("48KiB".into()),
        body_bytes: Some("64KiB".into()),
        bytes_in_flight: Some("1MiB".into()),
        ..RawLimits::default()
    }
}

async fn gauge(http: &mut Http, name: &str) -> usize {
    let page = String::from_utf8(http.get("/metrics").await.body).expect("text");
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.expect("the metric is there").parse().expect("a number")
}

/// Sends a body quickly but for its last bytes, and these one by one. Tells how it was answered.
async fn drip(address: SocketAddr, call: &'static str) -> u16 {
    let mut http = Http::connect(address).await;
    let head = format!("POST /v1/{call} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
    let stream = http.stream_mut();
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream.write_all(&vec![b' '; BODY_BYTES - UNSENT_BYTES]).await.expect("sent");
    let mut drops = tokio::time::interval(DRIP);
    loop {
        tokio::select! {
            answered = http.stream_mut().readable() => {
                answered.expect("the socket is there");
                return http.receive_head().await.status;
            }
            _ = drops.tick() => {}
        }
        let _cut_off = http.stream_mut().write_all(b" ").await;
    }
}

async fn sixteen_drip(server: &TestServer, http: &mut Http, call: &'static str) -> JoinSet<u16> {
    let mut drippers = JoinSet::new();
    for _ in 0..16 {
        drippers.spawn(drip(server.address(), call));
    }
    while gauge(http, "windlass_http_bytes_in_flight").await < 16 * (BODY_BYTES - UNSENT_BYTES) {
        tokio::task::yield_now().await;
    }
    drippers
}

fn produce(bytes: usize) -> Value {
    json!({"queue": "q", "items": [{"utf8": "x".repeat(bytes)}]})
}

async fn lease(http: &mut Http, batch_size: usize) -> Value {
    let lease = json!({"queue": "q", "client_id": "w", "batch_size": batch_size, "request_timeout": "0s"});
    http.ok("queue.lease", lease).await["items"].clone()
}

#[tokio::test]
async fn small_calls_go_through_while_sixteen_bodies_drip() {
    for call in ["queue.produce", "queue.complete"] {
        let server = TestServer::with(tight()).await;
        let mut http = server.connect().await;
        http.ok("queues.create", json!({"queue": "q"})).await;
        let _drippers = sixteen_drip(&server, &mut http, call).await;
        http.ok("queue.produce", produce(8 * KIB)).await;
        let leased = lease(&mut http, 1).await[0].clone();
        let held = json!({"queue": "q", "items": [{"id": leased["id"], "permit": leased["permit"]}]});
        assert_eq!(http.ok("queue.extend", held.clone()).await["failed"], json!([]));
        assert_eq!(http.ok("queue.complete", held).await["completed"], 1);
    }
}

#[tokio::test]
async fn a_large_body_takes_the_room_of_bodies_that_drip() {
    let server = TestServer::with(tight()).await;
    let mut http = server.connect().await;
    http.ok("queues.create", json!({"queue": "q"})).await;
    let mut drippers = sixteen_drip(&server, &mut http, "queue.produce").await;
    let large = produce(40 * KIB).to_string();
    // A body counts as slow after a second; until then there may be no room.
    while server.connect().await.post("queue.produce", &large).await.status != 200 {
        tokio::task::yield_now().await;
    }
    let refused = drippers.join_next().await.expect("sixteen drip").expect("no panic");
    assert_eq!(refused, 429);
}

#[tokio::test]
async fn a_large_body_takes_the_room_of_leases_that_wait() {
    let server = TestServer::with(tight()).await;
    let mut http = server.connect().await;
    for queue in ["q", "empty"] {
        http.ok("queues.create", json!({"queue": queue})).await;
    }
    let lease = json!({"queue": "empty", "client_id": "w", "batch_size": 1, "request_timeout": "10m"});
    let body = format!("{lease}{}", " ".repeat(BODY_BYTES - lease.to_string().len()));
    let mut waiting = Vec::new();
    for _ in 0..16 {
        let mut worker = server.connect().await;
        worker.send("POST", "/v1/queue.lease", &[], body.as_bytes()).await;
        waiting.push(worker);
    }
    while gauge(&mut http, "windlass_http_bytes_in_flight").await < 16 * BODY_BYTES {
        tokio::task::yield_now().await;
    }
    let large = produce(40 * KIB).to_string();
    while server.connect().await.post("queue.produce", &large).await.status != 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(waiting[0].receive().await.json(), json!({"items": []}));
}

/// A client that takes next to nothing, and its kernel as little.
async fn asks_and_reads_nothing(address: SocketAddr, path: &str) -> Http {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4 << 10).expect("a socket option");
    let mut http = Http::over(socket.connect(address).await.expect("the server listens"));
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
    http.ok("queue.produce", produce(1)).await;
    let followed = lease(&mut http, 1).await[0].clone();
    let events = json!([{"utf8": "x".repeat(EVENT_BYTES)}]);
    let emit = json!({"id": followed["id"], "permit": followed["permit"], "events": events});
    http.ok("item.emit", emit).await;
    for _ in 0..2 {
        http.ok("queue.produce", produce(EVENT_BYTES)).await;
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
    while subscribers(&mut http).await > (2 * MIB / EVENT_BYTES) as u64 {
        tokio::task::yield_now().await;
    }
    assert_eq!(lease(&mut http, 2).await.as_array().expect("items").len(), 2);
    assert!(gauge(&mut http, "windlass_http_reply_bytes_in_flight").await <= MIB);
}

/// When the page was made, to the nanosecond: no other page has the same.
async fn made_at(reader: &mut Http) -> String {
    assert_eq!(reader.receive_head().await.status, 200);
    loop {
        let line = reader.receive_line().await;
        if let Some(uptime) = line.strip_prefix("windlass_uptime_seconds ") {
            return uptime.to_owned();
        }
    }
}

#[tokio::test]
async fn slow_readers_of_the_metrics_share_a_page() {
    const QUEUES: usize = 800;
    const READERS: usize = 40;
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    let name = "q".repeat(100);
    for number in 0..QUEUES {
        http.ok("queues.create", json!({"queue": format!("{name}{number}")})).await;
    }
    let page_bytes = http.get("/metrics").await.body.len();
    let begun = Instant::now();
    let mut asking = JoinSet::new();
    for _ in 0..READERS {
        let mut reader = asks_and_reads_nothing(server.address(), "/metrics").await;
        asking.spawn(async move { (made_at(&mut reader).await, reader) });
    }
    let readers = asking.join_all().await;
    let pages: BTreeSet<&String> = readers.iter().map(|(made_at, _)| made_at).collect();
    // A page that somebody still takes is given to others for a second.
    assert!(pages.len() <= 2 + begun.elapsed().as_secs() as usize, "{} pages", pages.len());
    let held = loop {
        // Zero on the page that the first reader asked for.
        match gauge(&mut http, "windlass_http_reply_bytes_in_flight").await {
            0 => tokio::task::yield_now().await,
            held => break held,
        }
    };
    assert!(held < (pages.len() + 1) * 2 * page_bytes, "{held} of {page_bytes}");
    drop(readers);
    while gauge(&mut http, "windlass_http_reply_bytes_in_flight").await > 0 {
        tokio::task::yield_now().await;
    }
}
