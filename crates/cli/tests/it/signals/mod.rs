//! Ends of both sides: a server that is told to stop, and clients that vanish.

mod vanished;

use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_client::api::Code;
use windlass_client::api::items::NewItem;
use windlass_client::{Client, ClientError, Lease, Outcome, QueueClient, new_item};

use crate::server_process::{Metrics, PATIENCE, ServerProcess};

/// Longer than anything here takes.
const WAIT: Duration = Duration::from_secs(10 * 60);

fn item() -> NewItem {
    new_item(&"work").expect("a string is JSON")
}

/// A connection that can be left in any state.
#[derive(Debug)]
struct Connection(TcpStream);

impl Connection {
    /// Sends a request up to the last bytes of its body, which are given back.
    async fn begin<'a>(server: &ServerProcess, call: &str, body: &'a str, unsent: usize) -> (Self, &'a str) {
        let socket = TcpSocket::new_v4().expect("a socket");
        // So little that the server cannot get rid of a large answer before it is read.
        socket.set_recv_buffer_size(16 << 10).expect("set before it is connected");
        let address = server.address().parse().expect("an address");
        let mut stream = socket.connect(address).await.expect("connected");
        let (sent, rest) = body.split_at(body.len() - unsent);
        let length = body.len();
        let head = format!("POST /v1/{call} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n");
        let request = format!("{head}content-type: application/json\r\n\r\n{sent}");
        stream.write_all(request.as_bytes()).await.expect("sent");
        (Self(stream), rest)
    }

    /// Sends the rest, and reads until the server closes.
    async fn finish(mut self, rest: &str) -> String {
        self.0.write_all(rest.as_bytes()).await.expect("the server still listens");
        let mut answer = String::new();
        let read = timeout(PATIENCE, self.0.read_to_string(&mut answer));
        read.await.expect("it answers in time").expect("it answers");
        answer
    }

    /// Reads a little of the answer, so that it is known to be under way.
    async fn taste(&mut self) {
        let mut beginning = [0; 12];
        let read = timeout(PATIENCE, self.0.read_exact(&mut beginning));
        read.await.expect("it answers in time").expect("it answers");
        assert_eq!(&beginning, b"HTTP/1.1 200");
    }

    /// With a reset: for the kernel at the other end it is gone when this returns.
    fn vanish(self) {
        self.0.set_zero_linger().expect("a socket of ours");
    }
}

/// A produce of one item, of which the server waits for the last byte.
async fn slow_produce(server: &ServerProcess) -> (Connection, &'static str) {
    let body = r#"{"queue": "work", "items": [{"json": "slow"}]}"#;
    let slow = Connection::begin(server, "queue.produce", body, 1).await;
    let client = server.client();
    until(&client, |metrics| metrics.sum("windlass_http_bytes_in_flight") > 0).await;
    slow
}

/// Looks again until it is so.
async fn until(client: &Client, is_so: impl Fn(&Metrics) -> bool) {
    let looking = async { while !is_so(&Metrics::of(client).await) {} };
    timeout(PATIENCE, looking).await.expect("it comes to be so");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_told_to_stop_answers_what_is_under_way_and_all_it_acknowledged_is_kept() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = ServerProcess::start(directory.path()).await;
    let client = server.client();
    client.queue("work").create().await.expect("created");
    client.queue("idle").create().await.expect("created");
    let mut waiting = JoinSet::new();
    for number in 0..50 {
        let queue = client.queue("idle");
        let lease = Lease { wait: Some(WAIT), ..Lease::new(format!("worker-{number}")) };
        waiting.spawn(async move { queue.lease(&lease).await });
    }
    until(&client, |metrics| metrics.sum("windlass_lease_waiters") == 50).await;
    let (slow, _rest) = slow_produce(&server).await;
    let busy = Producers::start(&server, 4).await;

    server.signal(Signal::TERM);
    until_not_ready(&client).await;
    for lease in timeout(PATIENCE, waiting.join_all()).await.expect("all are answered") {
        assert_eq!(lease.expect("an answer, not an error"), []);
    }
    let answer = slow.finish("").await;
    let refused = answer.starts_with("HTTP/1.1 503 ") && answer.contains("not_applied");
    assert!(refused, "what was not complete is refused: {answer}");
    let Produced { acknowledged, in_doubt } = busy.end().await;
    assert_eq!(server.ended().await.code(), Some(0));

    let server = ServerProcess::start(directory.path()).await;
    let client = server.client();
    let waiting = client.queue("work").stats().await.expect("counted").counts.waiting;
    let least = acknowledged.len() as u64;
    assert!((least..=least + in_doubt).contains(&waiting), "{waiting} of {least} and {in_doubt} in doubt");
    for id in acknowledged {
        assert_eq!(client.item(id).await.expect("it is there").state, "waiting");
    }
    server.kill().await;
}

/// Callers that produce one item after the other for as long as they are let.
struct Producers {
    tasks: JoinSet<Produced>,
}

#[derive(Default)]
struct Produced {
    acknowledged: Vec<String>,
    /// Items whose call was cut off.
    in_doubt: u64,
}

impl Producers {
    /// Returns when they are at it.
    async fn start(server: &ServerProcess, count: usize) -> Self {
        let (begun, mut beginning) = mpsc::channel(count);
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            tasks.spawn(produce_on(server.client().queue("work"), begun.clone()));
        }
        for _ in 0..count {
            timeout(PATIENCE, beginning.recv()).await.expect("in time").expect("each one begins");
        }
        Self { tasks }
    }

    async fn end(self) -> Produced {
        let all = timeout(PATIENCE, self.tasks.join_all()).await.expect("the server ends it");
        all.into_iter().fold(Produced::default(), |mut all, one| {
            all.acknowledged.extend(one.acknowledged);
            all.in_doubt += one.in_doubt;
            all
        })
    }
}

/// Until the server does not take any more, which it says, or its connection is closed.
async fn produce_on(queue: QueueClient, begun: mpsc::Sender<()>) -> Produced {
    let mut acknowledged = Vec::new();
    let refused = loop {
        match queue.produce([item()]).await {
            Ok(mut items) => acknowledged.extend(items.pop().and_then(|item| item.id)),
            Err(error) => break error,
        }
        // Once is enough.
        let _told_before = begun.try_send(());
    };
    if let ClientError::Refused { .. } = refused {
        assert_eq!(refused.code(), Some(Code::Unavailable), "{refused}");
        assert_eq!(refused.outcome(), Outcome::NotApplied, "{refused}");
    }
    Produced { acknowledged, in_doubt: u64::from(refused.outcome() == Outcome::Unknown) }
}

/// It says so, or does not answer any more.
async fn until_not_ready(client: &Client) {
    let asking = async { while client.ready().await.is_ok_and(|readiness| readiness.ready) {} };
    timeout(PATIENCE, asking).await.expect("it stops to be ready");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_the_server_at_once() {
    for second in [Signal::TERM, Signal::INT] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let server = ServerProcess::start(directory.path()).await;
        let client = server.client();
        client.queue("work").create().await.expect("created");
        let produced = client.queue("work").produce([item()]).await.expect("produced");
        let (_slow, _rest) = slow_produce(&server).await;
        server.signal(Signal::TERM);
        until_not_ready(&client).await;
        server.signal(second);
        assert_eq!(server.ended().await.code(), Some(130));

        let server = ServerProcess::start(directory.path()).await;
        let id = produced[0].id.as_deref().expect("it has an id");
        assert_eq!(server.client().item(id).await.expect("it is there").state, "waiting");
        let counts = server.client().queue("work").stats().await.expect("counted").counts;
        assert_eq!(counts.waiting, 1, "half a request is none");
        server.kill().await;
    }
}
