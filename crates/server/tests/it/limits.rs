//! Limits that an operator sets, over HTTP.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use windlass_server::config::RawLimits;

use crate::http::{Got, Http};
use crate::world::{TestServer, held_in};

const MIB: usize = 1 << 20;

/// The limit that is named by an `overloaded` which waiting does not mend.
fn limit(got: &Got) -> Value {
    assert_eq!((got.status, got.code().as_str()), (429, "overloaded"), "{}", got.message());
    assert_eq!(got.headers.get("retry-after"), None);
    got.json()["error"]["details"]["limit"].clone()
}

#[tokio::test]
async fn queues_and_partitions_beyond_their_limits_are_refused_for_good() {
    let limits = RawLimits { queues: Some(2.into()), partitions: Some(3.into()), ..RawLimits::default() };
    let server = TestServer::with(limits).await;
    let mut http = server.connect().await;
    http.ok("queues.create", json!({"queue": "a"})).await;
    let got = http.post("queues.create", r#"{"queue": "b", "partitions": 3}"#).await;
    assert_eq!(limit(&got), "limits.partitions");
    http.ok("queues.create", json!({"queue": "b"})).await;
    let got = http.post("queues.create", r#"{"queue": "c"}"#).await;
    assert_eq!(limit(&got), "limits.queues");
    let got = http.post("queue.rebalance", r#"{"queue": "b", "partitions": 3}"#).await;
    assert_eq!(limit(&got), "limits.partitions");
    assert!(got.message().contains("raise `limits.partitions`"), "{}", got.message());
    http.ok("queue.rebalance", json!({"queue": "b", "partitions": 2})).await;
}

/// A body that takes all bytes in flight but one, and never ends.
async fn fill(server: &TestServer, http: &mut Http) -> Http {
    let mut slow = server.connect().await;
    let head = format!(
        "POST /v1/queue.produce HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {MIB}\r\n\r\n"
    );
    let stream = slow.stream_mut();
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream.write_all(&vec![b' '; MIB - 1]).await.expect("sent");
    http.until(async |http| http.metric("windlass_http_bytes_in_flight").await >= MIB - 1).await;
    slow
}

#[tokio::test]
async fn work_is_kept_alive_and_ended_while_produces_take_all_bytes_in_flight() {
    let limits = RawLimits {
        payload_bytes: Some("1KiB".into()),
        body_bytes: Some("1MiB".into()),
        bytes_in_flight: Some("1MiB".into()),
        ..RawLimits::default()
    };
    let server = TestServer::with(limits).await;
    let mut http = server.connect().await;
    http.ok("queues.create", json!({"queue": "q"})).await;
    http.produce("q", json!([{"utf8": "a"}])).await;
    let leased = http.lease("q", 1).await.remove(0);
    let held = held_in("q", [&leased]);
    let large = format!("{}{}", " ".repeat(20 << 10), r#"{"queue": "q", "items": [{"utf8": "b"}]}"#);
    let (_slow, got) = loop {
        let slow = fill(&server, &mut http).await;
        let got = server.connect().await.post("queue.produce", &large).await;
        // On a busy machine the body that fills the room may be called slow before, and give way.
        if got.status != 200 {
            break (slow, got);
        }
    };
    assert_eq!((got.status, got.code().as_str()), (429, "overloaded"));
    assert_eq!(got.headers.get("retry-after").map(String::as_str), Some("1"));
    assert_eq!(http.ok("queue.extend", held.clone()).await["failed"], json!([]));
    assert_eq!(http.ok("queue.complete", held).await["failed"], json!([]));
}

#[tokio::test]
async fn beyond_the_memory_limit_produces_are_refused_for_a_while() {
    let _taken_up = vec![1_u8; 80 * MIB];
    let limits = RawLimits { memory: Some("64MiB".into()), ..RawLimits::default() };
    let server = TestServer::with(limits).await;
    let mut http = server.connect().await;
    http.ok("queues.create", json!({"queue": "q"})).await;
    let got = http.post("queue.produce", r#"{"queue": "q", "items": [{"utf8": "a"}]}"#).await;
    assert_eq!((got.status, got.code().as_str()), (429, "overloaded"), "{}", got.message());
    assert_eq!(got.headers.get("retry-after").map(String::as_str), Some("1"));
    assert!(got.message().contains("`limits.memory` is 67108864"), "{}", got.message());
    assert_eq!(http.lease("q", 1).await, Vec::<Value>::new());
    let page = http.metrics().await;
    assert!(page.contains("\nwindlass_memory_limit_bytes 67108864\n"), "{page}");
    assert!(page.contains("\nwindlass_memory_refused_total 1\n"), "{page}");
}
