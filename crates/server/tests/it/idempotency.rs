//! Idempotency keys, over HTTP.

use serde_json::{Value, json};
use windlass_api::PROTOBUF;
use windlass_api::items::{NewItem, ProduceRequest};

use crate::http::Http;
use crate::world::TestServer;

async fn waiting(http: &mut Http) -> Value {
    http.stats("q").await["counts"]["waiting"].clone()
}

#[tokio::test]
async fn the_same_call_under_the_same_key_gives_the_first_answer() {
    for partitions in [1, 3] {
        let (_server, mut http) = TestServer::with_queue(json!({"partitions": partitions})).await;
        http.produce("q", json!([{"utf8": "x", "address": "taken"}])).await;
        let items =
            json!([{"json": {"n": 1}}, {"utf8": "b", "address": "b"}, {"utf8": "c", "address": "taken"}]);
        let call = json!({"queue": "q", "idempotency_key": "k", "items": items});
        let first = http.ok("queue.produce", call.clone()).await;
        assert_eq!(first["items"][2]["error"]["code"], "duplicate_address");
        assert_eq!(http.ok("queue.produce", call.clone()).await, first);
        assert_eq!(waiting(&mut http).await, 3);
        // How long the client would wait is no part of what it asked for.
        let mut patient = call.clone();
        patient["request_timeout"] = json!("1m");
        assert_eq!(http.ok("queue.produce", patient).await, first);

        let other = json!({"queue": "q", "idempotency_key": "k", "items": [{"utf8": "other"}]});
        let refused = http.post("queue.produce", &other.to_string()).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "already_exists"));
        assert_eq!(waiting(&mut http).await, 3);
    }
}

#[tokio::test]
async fn neither_encoding_nor_the_order_of_fields_makes_another_call_of_it() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 1})).await;
    let text = r#"{"queue": "q", "idempotency_key": "k", "items": [{"kind": "mail", "json": {"a":1}, "priority": 3}]}"#;
    let first: Value = http.post("queue.produce", text).await.json();
    let turned =
        r#"{"items":[{"priority":3,"json":{"a":1},"kind":"mail"}],"idempotency_key":"k","queue":"q"}"#;
    assert_eq!(http.post("queue.produce", turned).await.json(), first);
    let item = NewItem {
        json: Some(r#"{"a":1}"#.into()),
        kind: Some("mail".into()),
        priority: Some(3),
        ..NewItem::default()
    };
    let request = ProduceRequest {
        queue: "q".into(),
        idempotency_key: Some("k".into()),
        items: vec![item],
        ..ProduceRequest::default()
    };
    let reply = http.call(PROTOBUF, &request).await.expect("the first answer");
    assert_eq!(json!(reply.items[0].id), first["items"][0]["id"]);
    assert_eq!(waiting(&mut http).await, 1);
}
