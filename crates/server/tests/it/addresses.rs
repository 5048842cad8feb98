//! Addresses, over HTTP.

use serde_json::{Value, json};

use crate::http::Http;
use crate::world::{TestServer, list};

/// What is answered for an item of each of these addresses.
async fn produce_at(http: &mut Http, addresses: &[&str]) -> Vec<Value> {
    let items: Vec<Value> =
        addresses.iter().map(|address| json!({"utf8": address, "address": address})).collect();
    let reply = http.ok("queue.produce", json!({"queue": "q", "items": items})).await;
    list(&reply["items"])
}

#[tokio::test]
async fn an_address_that_is_taken_is_refused_with_the_id_of_its_item() {
    for partitions in [1, 3] {
        let (_server, mut http) = TestServer::with_queue(json!({"partitions": partitions})).await;
        let first = produce_at(&mut http, &["a"]).await.remove(0);
        let again = produce_at(&mut http, &["b", "a", "c"]).await;
        assert_eq!((&again[0]["state"], &again[2]["state"]), (&json!("waiting"), &json!("waiting")));
        let error = &again[1]["error"];
        assert_eq!((&error["code"], &error["id"]), (&json!("duplicate_address"), &first["id"]));
        assert!(error["message"].is_string() && again[1].get("id").is_none(), "{again:?}");
    }
}

#[tokio::test]
async fn get_and_cancel_take_an_address() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 2})).await;
    let first = produce_at(&mut http, &["a"]).await.remove(0);
    let by_address = json!({"queue": "q", "address": "a"});
    let shown = http.ok("item.get", by_address.clone()).await["item"].clone();
    assert_eq!((&shown["id"], &shown["address"], &shown["utf8"]), (&first["id"], &json!("a"), &json!("a")));
    let leased = http.lease("q", 1).await.remove(0);
    assert_eq!(leased["address"], "a");
    http.complete("q", [&leased]).await;
    let shown = http.ok("item.get", by_address.clone()).await["item"].clone();
    assert_eq!((&shown["id"], &shown["state"]), (&first["id"], &json!("completed")), "kept for its address");

    let second = produce_at(&mut http, &["a"]).await.remove(0);
    let cancelled = http.ok("item.cancel", by_address.clone()).await["item"].clone();
    assert_eq!((&cancelled["id"], &cancelled["state"]), (&second["id"], &json!("cancelled")));
    let first = http.item(&first["id"]).await;
    assert_eq!(first["state"], "completed", "the earlier one has its own end");
    assert_eq!(http.ok("item.get", by_address).await["item"]["id"], second["id"]);
    for call in ["item.get", "item.wait", "item.cancel"] {
        let got = http.post(call, &json!({"queue": "q", "address": "nobody"}).to_string()).await;
        assert_eq!((got.status, got.code().as_str()), (404, "not_found"));
        assert!(got.message().starts_with("no item of the address `"), "{}", got.message());
    }
}

#[tokio::test]
async fn lists_show_addresses_and_imports_take_them() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 1})).await;
    produce_at(&mut http, &["a", "b"]).await;
    let list = json!({"queue": "q", "partition": 1});
    let listed = http.ok("storage/items.list", list).await["items"].clone();
    assert_eq!((&listed[0]["address"], &listed[1]["address"]), (&json!("a"), &json!("b")));
    http.ok("queues.create", json!({"queue": "other", "partitions": 3})).await;
    let import = json!({"queue": "other", "items": listed});
    let imported = http.ok("storage/items.import", import.clone()).await["items"].clone();
    let shown = http.ok("item.get", json!({"queue": "other", "address": "b"})).await["item"].clone();
    assert_eq!(shown["id"], imported[1]["id"]);
    let again = http.ok("storage/items.import", import).await["items"].clone();
    assert_eq!(again[0]["error"]["code"], "duplicate_address");
    assert_eq!(again[0]["error"]["id"], imported[0]["id"]);
}
