//! Bounds that waiting does not mend: `overloaded` with `details.limit` and without `Retry-After`.

use serde_json::{Value, json};

use crate::http::{Got, Http};
use crate::world::TestServer;

const CONNECTIONS: usize = 20;

fn lasting(got: &Got) -> Value {
    assert_eq!((got.status, got.code().as_str()), (429, "overloaded"), "{}", got.message());
    assert_eq!(got.headers.get("retry-after"), None);
    got.json()["error"]["details"].clone()
}

/// Pauses kinds of the queue side by side: their commits are synced together.
async fn pause_kinds(server: &TestServer, kinds: usize) {
    let pausing = (0..CONNECTIONS).map(|lane| {
        let address = server.address();
        tokio::spawn(async move {
            let mut http = Http::connect(address).await;
            for kind in (lane..kinds).step_by(CONNECTIONS) {
                http.ok("queue.pause", json!({"queue": "q", "kind": format!("k{kind}")})).await;
            }
        })
    });
    for done in pausing.collect::<Vec<_>>() {
        done.await.expect("all were paused");
    }
}

#[tokio::test]
async fn rules_beyond_those_of_a_queue_are_refused_for_good() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    pause_kinds(&server, 1000).await;
    let got = http.post("queue.pause", r#"{"queue": "q", "kind": "more"}"#).await;
    assert_eq!(lasting(&got), json!({"limit": "rules_per_queue"}));
    assert!(got.message().contains("1000"), "{}", got.message());
    http.ok("queue.resume", json!({"queue": "q", "kind": "k7"})).await;
    http.ok("queue.pause", json!({"queue": "q", "kind": "more"})).await;
}

#[tokio::test]
async fn a_queue_at_max_items_passes_with_time() {
    let (_server, mut http) = TestServer::with_queue(json!({"max_items": 1})).await;
    http.produce("q", json!([{"utf8": "a"}])).await;
    let got = http.post("queue.produce", r#"{"queue": "q", "items": [{"utf8": "b"}]}"#).await;
    assert_eq!((got.status, got.code().as_str()), (429, "overloaded"));
    assert_eq!(got.headers.get("retry-after").map(String::as_str), Some("1"));
    assert_eq!(got.json()["error"].get("details"), None);
}
