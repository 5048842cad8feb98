//! Clients that close their side once they have asked, as `nc -N` does: they are answered, and nothing waits for them.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::http::Got;
use crate::world::{TestServer, held, with};

async fn post_and_close(server: &TestServer, call: &str, body: Value) -> Got {
    let mut http = server.connect().await;
    http.send("POST", &format!("/v1/{call}"), &[], body.to_string().as_bytes()).await;
    http.stream_mut().shutdown().await.expect("closed");
    http.receive().await
}

fn patient_lease() -> Value {
    json!({"queue": "q", "client_id": "w", "batch_size": 1, "request_timeout": "30s"})
}

#[tokio::test]
async fn a_call_of_a_client_that_closed_its_side_is_answered() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    for _ in 0..20 {
        let got =
            post_and_close(&server, "queue.produce", json!({"queue": "q", "items": [{"utf8": "a"}]})).await;
        assert_eq!(got.status, 200);
    }
    assert_eq!(http.stats("q").await["counts"]["waiting"], 20);
    let got = post_and_close(&server, "queue.lease", patient_lease()).await;
    assert_eq!(got.json()["items"].as_array().expect("a list").len(), 1);
}

#[tokio::test]
async fn a_lease_does_not_wait_for_a_client_that_closed_its_side() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    assert_eq!(post_and_close(&server, "queue.lease", patient_lease()).await.json(), json!({"items": []}));
    let items = json!([{"utf8": "a", "address": "here"}]);
    let ids = http.produce("q", items).await;
    let by_id = json!({"id": ids[0], "request_timeout": "30s"});
    let by_address = json!({"queue": "q", "address": "here", "request_timeout": "30s"});
    for wait in [by_id, by_address] {
        assert_eq!(post_and_close(&server, "item.wait", wait).await.json()["item"]["state"], "waiting");
    }
}

#[tokio::test]
async fn a_lease_of_a_worker_that_died_is_given_back_uncharged() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    http.produce("q", json!([{"utf8": "a"}])).await;
    for _ in 0..5 {
        let mut worker = server.connect().await;
        worker.send("POST", "/v1/queue.lease", &[], patient_lease().to_string().as_bytes()).await;
        drop(worker);
    }
    let leased = http.lease_within("q", 1, "30s").await;
    assert_eq!(leased[0]["attempts"], 1, "{leased:?}");
}

#[tokio::test]
async fn a_stream_of_a_client_that_closed_its_side_tells_what_there_is() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    http.produce("q", json!([{"utf8": "a"}])).await;
    let leased = http.lease("q", 1).await.remove(0);
    let events = json!({"events": [{"utf8": "one"}, {"utf8": "two"}]});
    http.ok("item.emit", with(held(&leased), events)).await;
    let mut reader = server.connect().await;
    let path = format!("/v1/item.events?id={}&after=0", leased["id"].as_str().expect("an id"));
    reader.send("GET", &path, &[], b"").await;
    reader.stream_mut().shutdown().await.expect("closed");
    assert_eq!(reader.receive_head().await.status, 200);
    let mut text = Vec::new();
    while let Some(piece) = reader.receive_chunk().await {
        text.extend(piece);
    }
    let text = String::from_utf8(text).expect("text");
    assert_eq!(text.matches("event: message").count(), 2, "{text}");
}
