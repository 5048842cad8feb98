//! Streams over servers that are killed in mid-stream: what a worker was told is there is never lost, and nothing is shown that
//! is not in the log.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use windlass_api::events::{EmitRequest, NewEvent};
use windlass_api::items::{
    CompleteRequest, Completion, GetItemRequest, LeaseRequest, NewItem, ProduceRequest,
};
use windlass_api::queues::CreateQueueRequest;
use windlass_client::Client;

use crate::server_process::ServerProcess;

const LIVES: u64 = 8;
/// How many events a follower sees before a server is killed.
const EVENTS: usize = 150;
/// How many are emitted in one life at most: an item keeps 10,000, and the follower may be held up.
const EMITTED_MAX: usize = 1000;

/// The events of a stream, by number, and whether it came to its end.
struct Followed {
    events: BTreeMap<u64, String>,
    is_over: bool,
}

/// Follows an item until so many events have come, or the stream has ended or been cut.
async fn follow(address: &str, id: &str, after: u64, enough: usize) -> Followed {
    let mut stream = BufReader::new(TcpStream::connect(address).await.expect("the server listens"));
    let request = format!("GET /v1/item.events?id={id}&after={after} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    let mut status = String::new();
    stream.read_line(&mut status).await.expect("an answer");
    assert!(status.starts_with("HTTP/1.1 200"), "event {after} was shown and is not there: {status}");
    let mut followed = Followed { events: BTreeMap::new(), is_over: false };
    let mut line = String::new();
    while followed.events.len() < enough && !followed.is_over {
        line.clear();
        if !matches!(stream.read_line(&mut line).await, Ok(1..)) {
            break;
        }
        // The sizes of chunks stand on lines of their own.
        let Some(data) = line.trim_end().strip_prefix("data: ") else { continue };
        // The last line may have been cut.
        let Ok(data) = serde_json::from_str::<Value>(data) else { break };
        if let Some(seq) = data["seq"].as_u64() {
            let content = data["utf8"].as_str().expect("a text").to_owned();
            assert!(followed.events.insert(seq, content).is_none(), "event {seq} came twice");
        } else if data["reason"] == "final" {
            followed.is_over = true;
        } else {
            assert!(data.get("from").is_none(), "a gap: {data}");
        }
    }
    followed
}

/// Emits until the server is gone, as a rule. Tells what was acknowledged.
async fn emit_until_killed(client: Client, id: String, permit: u64, first: u64) -> BTreeMap<u64, String> {
    let mut acknowledged = BTreeMap::new();
    let mut last = first;
    while acknowledged.len() < EMITTED_MAX {
        let count = 1 + last % 3;
        let content = |seq: u64| format!("event {seq} of a life that began after {first}");
        let event = |seq| NewEvent { utf8: Some(content(seq)), ..NewEvent::default() };
        let events = (last + 1..=last + count).map(event).collect();
        let request = EmitRequest { id: id.clone(), permit, after: Some(last), events };
        let Ok(reply) = client.call(&request).await else { return acknowledged };
        assert_eq!((reply.first_seq, reply.last_seq), (last + 1, last + count));
        acknowledged.extend((reply.first_seq..=reply.last_seq).map(|seq| (seq, content(seq))));
        last = reply.last_seq;
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_resumed_by_number_over_servers_that_were_killed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut server = ServerProcess::start(directory.path()).await;
    let (id, permit) = leased(&server.client()).await;
    let (mut seen, mut acknowledged) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..LIVES {
        let shown = server.client().call(&GetItemRequest::of(&id)).await.expect("it is there").item;
        assert!(acknowledged.keys().all(|seq| *seq <= shown.event_count), "acknowledged events are lost");
        let emitter = emit_until_killed(server.client(), id.clone(), permit, shown.event_count);
        let emitting = tokio::spawn(emitter);
        let after = seen.keys().next_back().copied().unwrap_or(0);
        let followed = follow(server.address(), &id, after, EVENTS).await;
        server.kill().await;
        acknowledged.extend(emitting.await.expect("it ran"));
        seen.extend(followed.events);
        server = ServerProcess::start(directory.path()).await;
    }
    let item = Completion { id: id.clone(), permit, result: None };
    let request = CompleteRequest { queue: "q".to_owned(), items: vec![item], ..CompleteRequest::default() };
    assert_eq!(server.client().call(&request).await.expect("judged").completed, 1);
    let after = seen.keys().next_back().copied().unwrap_or(0);
    let rest = follow(server.address(), &id, after, usize::MAX).await;
    assert!(rest.is_over);
    seen.extend(rest.events);
    let whole = follow(server.address(), &id, 0, usize::MAX).await;
    let numbers: Vec<u64> = whole.events.keys().copied().collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "numbers are dense");
    assert!(seen == whole.events, "who came and went saw something else than what is in the log");
    for (seq, content) in &acknowledged {
        assert_eq!(whole.events.get(seq), Some(content), "what was acknowledged is not there");
    }
    assert!(acknowledged.len() as u64 >= LIVES * 100, "only {} events", acknowledged.len());
}

async fn leased(client: &Client) -> (String, u64) {
    let create = CreateQueueRequest { queue: "q".to_owned(), ..CreateQueueRequest::default() };
    client.call(&create).await.expect("made");
    let item = NewItem { utf8: Some("work".to_owned()), ..NewItem::default() };
    let produce = ProduceRequest { queue: "q".to_owned(), items: vec![item], ..ProduceRequest::default() };
    client.call(&produce).await.expect("produced");
    let lease = LeaseRequest {
        queue: "q".to_owned(),
        client_id: "test".to_owned(),
        batch_size: 1,
        lease_timeout: Some("1h".parse().expect("a span")),
        ..LeaseRequest::default()
    };
    let item = client.call(&lease).await.expect("leased").items.remove(0);
    (item.id, item.permit)
}
