//! Sixteen connections whose bodies fill the bytes in flight, and then drip: others are served all the while.

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_client::api::items::{Completion, NewItem};
use windlass_client::{Lease, QueueClient};

use crate::server_process::{Metrics, PATIENCE, ServerProcess};

const ATTACKS: usize = 3;
const DRIPPERS: usize = 16;
const BODY_BYTES: usize = 64 << 10;
/// Bytes at the end of each body that are sent one by one. Those of all bodies together are fewer than any call takes, so that
/// small calls need the room that is kept for them.
const UNSENT_BYTES: usize = 4;
/// Payload of a produce call that may use the room that is kept for small bodies.
const SMALL_BYTES: usize = 8 << 10;
/// Payload of a produce call that is too large for that room.
const LARGE_BYTES: usize = 40 << 10;

/// Counter of bodies that gave way. A body that was refused is not counted.
const TOO_SLOW: &str = "windlass_http_connections_closed_total{reason=\"body\"}";

/// Bodies that fill the bytes in flight but for a few bytes, and then come byte by byte.
struct Drippers {
    answers: JoinSet<String>,
    drops: broadcast::Sender<()>,
    /// Bytes of all bodies that have been sent so far.
    bytes: usize,
}

/// A body of which too little came for ten seconds is given up, whether or not there is room.
#[derive(Debug)]
struct GivenUp;

impl Drippers {
    async fn fill(server: &ServerProcess) -> Result<Self, GivenUp> {
        let (drops, _) = broadcast::channel(UNSENT_BYTES);
        let mut answers = JoinSet::new();
        for _ in 0..DRIPPERS {
            answers.spawn(drip(server.address().to_owned(), drops.subscribe()));
        }
        let mut drippers = Self { answers, drops, bytes: DRIPPERS * (BODY_BYTES - UNSENT_BYTES) };
        drippers.have_come(server).await?;
        Ok(drippers)
    }

    /// Sends one more byte of each body. Returns once all have come: a byte that came during a call would find no room.
    async fn drop_one(&mut self, server: &ServerProcess) -> Result<(), GivenUp> {
        self.drops.send(()).map_err(|_| GivenUp)?;
        self.bytes += DRIPPERS;
        self.have_come(server).await
    }

    async fn have_come(&mut self, server: &ServerProcess) -> Result<(), GivenUp> {
        while in_flight(server).await < self.bytes {
            if let Some(answer) = self.answers.try_join_next() {
                return Err(given_up(&answer.expect("no panic")));
            }
        }
        Ok(())
    }

    /// No body has been answered, and so all of them hold their bytes.
    async fn are_all_there(&mut self, server: &ServerProcess) -> Result<(), GivenUp> {
        if in_flight(server).await >= self.bytes { Ok(()) } else { Err(given_up(&self.answer().await)) }
    }

    /// Waits for the first body that is answered, and returns the answer.
    async fn answer(&mut self) -> String {
        let answer = timeout(PATIENCE, self.answers.join_next()).await.expect("a body gives way");
        answer.expect("sixteen drip").expect("no panic")
    }
}

async fn in_flight(server: &ServerProcess) -> usize {
    Metrics::of(&server.client()).await.sum("windlass_http_bytes_in_flight") as usize
}

#[track_caller]
fn given_up(answer: &str) -> GivenUp {
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    GivenUp
}

/// Sends a body but for its last bytes, and these one by one when it is told to. Tells how the body was answered.
async fn drip(address: String, mut drops: broadcast::Receiver<()>) -> String {
    let mut stream = TcpStream::connect(&address).await.expect("connected");
    let head =
        format!("POST /v1/queue.produce HTTP/1.1\r\nhost: {address}\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream.write_all(&vec![b' '; BODY_BYTES - UNSENT_BYTES]).await.expect("sent");
    loop {
        tokio::select! {
            answered = stream.readable() => break answered.expect("the socket is there"),
            told = drops.recv() => told.expect("no drop is missed"),
        }
        stream.write_all(b" ").await.expect("sent");
    }
    let mut answer = Vec::new();
    // The server keeps the connection open for a while, so that its answer is not lost: the end of the error ends the wait.
    while !answer.ends_with(b"}}\n") && stream.read_buf(&mut answer).await.expect("an answer") > 0 {}
    String::from_utf8_lossy(&answer).into_owned()
}

fn item(bytes: usize) -> NewItem {
    NewItem { utf8: Some("x".repeat(bytes)), ..NewItem::default() }
}

async fn small_calls_go_through(queue: &QueueClient) {
    queue.produce([item(SMALL_BYTES)]).await.expect("a small produce goes through");
    let leased = queue.lease(&Lease::new("worker")).await.expect("a lease goes through");
    let done = Completion { id: leased[0].id.clone(), permit: leased[0].permit, ..Completion::default() };
    assert_eq!(queue.complete([done]).await.expect("a completion goes through").completed, 1);
}

/// Proves nothing if a body was given up meanwhile.
async fn attack(server: &ServerProcess, queue: &QueueClient) -> Result<(), GivenUp> {
    let mut drippers = Drippers::fill(server).await?;
    drippers.drop_one(server).await?;
    small_calls_go_through(queue).await;
    // The calls were not served in the room of a body that was sent away.
    drippers.are_all_there(server).await?;
    let too_slow = Metrics::of(&server.client()).await.sum(TOO_SLOW);

    // A body counts as slow after a second; until then there is no room for a large one.
    let large = async { while queue.produce([item(LARGE_BYTES)]).await.is_err() {} };
    timeout(PATIENCE, large).await.expect("a large produce goes through");
    let answer = drippers.answer().await;
    if !answer.contains("this body came slower") {
        return Err(given_up(&answer));
    }
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(Metrics::of(&server.client()).await.sum(TOO_SLOW) > too_slow);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_bodies_that_drip_lock_nobody_out() {
    // On a machine that is too busy for an attack within ten seconds, another one follows.
    for _ in 0..ATTACKS {
        let directory = TempDir::new().expect("a temporary directory");
        let flags =
            ["--limits-payload-bytes=48KiB", "--limits-body-bytes=64KiB", "--limits-bytes-in-flight=1MiB"];
        let server = ServerProcess::start_with(directory.path(), &flags.map(Into::into)).await;
        let queue = server.client().queue("work");
        queue.create().await.expect("created");
        let attacked = attack(&server, &queue).await;
        server.kill().await;
        if attacked.is_ok() {
            return;
        }
    }
    panic!("bodies that drip are given up after ten seconds, and do not give way before");
}
