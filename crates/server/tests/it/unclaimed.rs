//! Partitions that no queue names, through the API.

use std::sync::Arc;

use serde_json::json;
use windlass_core::id::PartitionId;
use windlass_engine::store::Store;
use windlass_engine::store::memory::MemoryStore;
use windlass_server::lifecycle::Server;

use crate::http::Http;
use crate::stores::{configured, directory};

/// A server whose registry was lost: two partitions of the queue `mail` with 2 items each.
async fn without_registry() -> Server {
    let directory = directory();
    let store = Arc::new(MemoryStore::new());
    let start = async || {
        let config = configured(directory.path(), &[]);
        Server::start_on(config, store.clone(), Vec::new()).await.expect("it starts")
    };
    let server = start().await;
    let mut http = Http::connect(server.address()).await;
    http.ok("queues.create", json!({"queue": "mail", "partitions": 2})).await;
    for _ in 0..2 {
        http.produce("mail", json!([{"json": 1}, {"json": 2}])).await;
    }
    server.stop().await;
    store.drop_partition(PartitionId::REGISTRY).await.expect("the registry is lost");
    start().await
}

#[tokio::test]
async fn unclaimed_partitions_are_told_by_ready_the_metrics_and_a_list() {
    let server = without_registry().await;
    let mut http = Http::connect(server.address()).await;
    let ready = http.get("/ready").await;
    let expected = json!([{"store": "default", "partition": 1}, {"store": "default", "partition": 2}]);
    assert_eq!((ready.status, &ready.json()["unclaimed"]), (200, &expected));
    let page = http.metrics().await;
    assert!(page.contains("windlass_partitions_unclaimed{store=\"default\"} 2\n"), "{page}");
    let one = |number| {
        json!({
            "partition": number, "store": "default", "queue": "mail",
            "items": 2, "crons": 0, "retained": 0,
        })
    };
    let listed = http.ok("storage/unclaimed.list", json!({})).await;
    assert_eq!(listed["partitions"], json!([one(1), one(2)]));
    let listed = http.ok("storage/unclaimed.list", json!({"limit": 1})).await;
    assert_eq!(listed["partitions"], json!([one(1)]));
    let listed = http.ok("storage/unclaimed.list", json!({"pivot": 1})).await;
    assert_eq!(listed["partitions"], json!([one(2)]));
    assert_eq!(http.ok("storage/unclaimed.list", json!({"pivot": 2})).await["partitions"], json!([]));
    let (status, code, _) = http.refused("storage/unclaimed.list", &json!({"limit": 0})).await;
    assert_eq!((status, &*code), (400, "invalid_argument"));
    server.stop().await;
}

#[tokio::test]
async fn unclaimed_partitions_are_adopted_and_dropped_by_number() {
    let server = without_registry().await;
    let mut http = Http::connect(server.address()).await;
    let adopt = json!({"partition": 1, "queue": "post"});
    let (status, code, message) = http.refused("storage/unclaimed.adopt", &adopt).await;
    assert_eq!((status, &*code), (404, "not_found"));
    assert!(message.contains("queues.create"), "{message}");
    http.ok("queues.create", json!({"queue": "post", "partitions": 1})).await;
    let adopted = http.ok("storage/unclaimed.adopt", adopt.clone()).await;
    assert_eq!(adopted["queue"]["partitions"], 2);
    assert_eq!(http.lease("post", 9).await.len(), 2);
    let (status, code, message) = http.refused("storage/unclaimed.adopt", &adopt).await;
    assert_eq!((status, &*code), (404, "not_found"));
    assert!(message.contains("storage/unclaimed.list"), "{message}");

    let (status, code, message) = http.refused("storage/unclaimed.drop", &json!({"partition": 2})).await;
    assert_eq!((status, &*code), (409, "not_empty"));
    assert!(message.contains("2 items") && message.contains("`force`"), "{message}");
    let elsewhere = json!({"partition": 2, "store": "second", "force": true});
    let (status, ..) = http.refused("storage/unclaimed.drop", &elsewhere).await;
    assert_eq!(status, 404);
    http.ok("storage/unclaimed.drop", json!({"partition": 2, "store": "default", "force": true})).await;
    assert_eq!(http.ok("storage/unclaimed.list", json!({})).await["partitions"], json!([]));
    assert_eq!(http.get("/ready").await.json()["unclaimed"], json!([]));
    server.stop().await;
}
