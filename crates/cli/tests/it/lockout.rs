//! Sixteen connections whose bodies fill the bytes in flight, and then drip: others are served all the while.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_client::Lease;
use windlass_client::api::items::{Completion, NewItem};

use crate::server_process::{Metrics, PATIENCE, ServerProcess};

const BODY_BYTES: usize = 64 << 10;
const UNSENT_BYTES: usize = 400;
/// Of a body that may use the room of its own that small bodies have, and of one that may not.
const SMALL_BYTES: usize = 8 << 10;
const LARGE_BYTES: usize = 40 << 10;
const DRIP: Duration = Duration::from_millis(50);

/// Sends a body quickly but for its last bytes, and these one by one. Tells how it was answered.
async fn drip(address: String) -> String {
    let mut stream = TcpStream::connect(&address).await.expect("connected");
    let head =
        format!("POST /v1/queue.produce HTTP/1.1\r\nhost: {address}\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream.write_all(&vec![b' '; BODY_BYTES - UNSENT_BYTES]).await.expect("sent");
    let mut drops = tokio::time::interval(DRIP);
    loop {
        tokio::select! {
            _ = stream.readable() => break,
            _ = drops.tick() => {}
        }
        let _cut_off = stream.write_all(b" ").await;
    }
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.expect("an answer");
    String::from_utf8_lossy(&status).into_owned()
}

async fn sixteen_drip(server: &ServerProcess) -> JoinSet<String> {
    let mut drippers = JoinSet::new();
    for _ in 0..16 {
        drippers.spawn(drip(server.address().to_owned()));
    }
    let (client, filled) = (server.client(), 16 * (BODY_BYTES - UNSENT_BYTES) as u64);
    while Metrics::of(&client).await.sum("windlass_http_bytes_in_flight") < filled {}
    drippers
}

fn item(bytes: usize) -> NewItem {
    NewItem { utf8: Some("x".repeat(bytes)), ..NewItem::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_bodies_that_drip_lock_nobody_out() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let flags =
        ["--limits-payload-bytes=48KiB", "--limits-body-bytes=64KiB", "--limits-bytes-in-flight=1MiB"];
    let server = ServerProcess::start_with(directory.path(), &flags.map(Into::into)).await;
    let queue = server.client().queue("work");
    queue.create().await.expect("created");
    let mut drippers = sixteen_drip(&server).await;

    queue.produce([item(SMALL_BYTES)]).await.expect("a small produce goes through");
    let leased = queue.lease(&Lease::new("worker")).await.expect("a lease goes through");
    let done = Completion { id: leased[0].id.clone(), permit: leased[0].permit, ..Completion::default() };
    assert_eq!(queue.complete([done]).await.expect("a completion goes through").completed, 1);

    // A body counts as slow after a second; until then there may be no room for a large one.
    let large = async { while queue.produce([item(LARGE_BYTES)]).await.is_err() {} };
    timeout(PATIENCE, large).await.expect("a large produce goes through");
    let cut_off = timeout(PATIENCE, drippers.join_next()).await.expect("a body gives way");
    assert_eq!(cut_off.expect("sixteen drip").expect("no panic"), "HTTP/1.1 429");
    server.kill().await;
}
