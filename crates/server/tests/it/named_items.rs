//! Calls on one item take its address as well as its id.

use serde_json::{Value, json};

use crate::http::Http;
use crate::world::{TestServer, held_in, with};

/// A server with one waiting item in the queue `q`, whose address is `a/b`, and its id.
async fn prepared() -> (TestServer, Http, String) {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let ids = http.produce("q", json!([{"utf8": "x", "address": "a/b"}])).await;
    let id = ids[0].as_str().unwrap().to_owned();
    (server, http, id)
}

fn by_address(more: Value) -> Value {
    with(json!({"queue": "q", "address": "a/b"}), more)
}

#[tokio::test]
async fn an_item_is_explained_and_resumed_by_its_address() {
    let (_server, mut http, id) = prepared().await;
    let explained = http.ok("item.explain", by_address(json!({}))).await;
    assert_eq!((&explained["id"], &explained["state"]), (&json!(id), &json!("waiting")));
    let leased = http.lease("q", 1).await;
    http.ok("queue.suspend", held_in("q", &leased)).await;
    http.ok("item.resume", by_address(json!({"utf8": "go on"}))).await;
    assert_eq!(http.lease("q", 1).await[0]["input"], json!({"utf8": "go on"}));
}

#[tokio::test]
async fn a_stream_is_followed_and_closed_by_the_address_of_its_item() {
    let (server, mut http, id) = prepared().await;
    let mut reader = server.connect().await;
    reader.send("GET", "/v1/item.events?queue=q&address=a%2Fb", &[], b"").await;
    assert_eq!(reader.receive_head().await.status, 200);
    let first = String::from_utf8(reader.receive_chunk().await.expect("the snapshot")).unwrap();
    assert!(first.contains("event: snapshot") && first.contains(&id), "{first}");
    let closed = http.ok("item.close_streams", by_address(json!({"mode": "graceful"}))).await;
    assert_eq!(closed, json!({"closed": 1}));
    let last = String::from_utf8(reader.receive_chunk().await.expect("the end")).unwrap();
    assert!(last.contains("event: end") && last.contains("\"closed\""), "{last}");
}

#[tokio::test]
async fn an_item_is_named_in_one_way_only() {
    let (_server, mut http, id) = prepared().await;
    for (call, more) in [
        ("item.explain", json!({})),
        ("item.resume", json!({})),
        ("item.close_streams", json!({"mode": "graceful"})),
    ] {
        let both = by_address(json!({"id": id}));
        for name in [both, json!({}), json!({"queue": "q"}), json!({"address": "a/b"})] {
            let request = with(name, more.clone());
            let got = http.post(call, &request.to_string()).await;
            assert_eq!((got.status, got.code().as_str()), (400, "invalid_argument"), "{call} {request}");
            assert!(got.message().contains("either `id`"), "{}", got.message());
        }
    }
    for query in
        [format!("id={id}&queue=q&address=a"), "queue=q".to_owned(), "address=a".to_owned(), String::new()]
    {
        let got = http.get(&format!("/v1/item.events?{query}")).await;
        assert_eq!((got.status, got.code().as_str()), (400, "invalid_argument"), "{query}");
        assert!(got.message().contains("either `id`"), "{query}: {}", got.message());
    }
}
