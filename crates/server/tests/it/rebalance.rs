//! More partitions for a queue and fewer, over HTTP.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::http::Http;
use crate::world::{TestServer, list};

async fn rebalance(http: &mut Http, partitions: u32) {
    let reply = http.ok("queue.rebalance", json!({"queue": "q", "partitions": partitions})).await;
    assert_eq!((&reply["queue"]["queue"], &reply["queue"]["partitions"]), (&json!("q"), &json!(partitions)));
}

async fn partitions(http: &mut Http) -> Vec<Value> {
    list(&http.stats("q").await["partitions"])
}

/// Until so many are listed: the server tells nobody.
async fn drained_to(http: &mut Http, count: usize) {
    http.until(async |http| partitions(http).await.len() == count).await;
}

async fn complete_all(http: &mut Http) -> usize {
    let leased = http.lease("q", 1000).await;
    if !leased.is_empty() {
        http.complete("q", &leased).await;
    }
    leased.len()
}

fn addresses(count: usize) -> Value {
    let item = |number| json!({"json": number, "address": format!("a{number}")});
    (0..count).map(item).collect()
}

#[tokio::test]
async fn a_queue_grows_at_once_and_shrinks_by_draining() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 2})).await;
    let produce = json!({"queue": "q", "items": addresses(40)});
    let first = http.ok("queue.produce", produce.clone()).await["items"].clone();
    let got = http.post("queue.rebalance", r#"{"queue": "q", "partitions": 5}"#).await;
    assert_eq!(got.status, 200);
    assert!(got.headers["windlass-commit"].starts_with("0:"), "a change of the registry: {:?}", got.headers);
    let shown = partitions(&mut http).await;
    assert_eq!(shown.len(), 5);
    assert!(
        shown.iter().all(|one| one["state"] == "available" && one.get("remaining").is_none()),
        "{shown:?}"
    );

    rebalance(&mut http, 1).await;
    let shown = partitions(&mut http).await;
    assert_eq!((shown.len(), &shown[0]["state"]), (5, &json!("available")));
    // The three that were new have nothing to do, and may be gone any moment.
    let busy = shown.iter().find(|one| one["partition"] == 2).expect("it has items");
    assert_eq!(busy["state"], "draining");
    assert_eq!(busy["remaining"], json!({"items": busy["counts"]["waiting"], "groups": 0}));
    let refused = http.post("queue.rebalance", r#"{"queue": "q", "partitions": 2}"#).await;
    assert_eq!((refused.status, refused.code()), (409, "wrong_state".into()));
    assert_eq!(http.ok("queues.info", json!({"queue": "q"})).await["queue"]["partitions"], 1);
    let metrics = http.metrics().await;
    assert!(metrics.contains("windlass_partitions{state=\"draining\"}"), "{metrics}");

    let again = http.ok("queue.produce", produce.clone()).await["items"].clone();
    for (again, first) in again.as_array().expect("a list").iter().zip(first.as_array().expect("a list")) {
        assert_eq!(
            (&again["error"]["code"], &again["error"]["id"]),
            (&json!("duplicate_address"), &first["id"])
        );
    }
    assert_eq!(complete_all(&mut http).await, 40);
    drained_to(&mut http, 1).await;
    // What was kept is found where it is; and the address is free.
    for (number, item) in first.as_array().expect("a list").iter().enumerate() {
        let by_address = json!({"queue": "q", "address": format!("a{number}")});
        let kept = http.ok("item.get", by_address).await["item"].clone();
        assert_eq!((&kept["id"], &kept["state"]), (&item["id"], &json!("completed")));
    }
    assert_eq!(http.stats("q").await["retained"], 40);
    let made = http.ok("queue.produce", produce).await["items"].clone();
    assert!(made.as_array().expect("a list").iter().all(|item| item["state"] == "waiting"), "{made}");
    rebalance(&mut http, 2).await;
}

#[tokio::test]
async fn a_group_stays_where_it_is_until_it_is_finished() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 2})).await;
    let names: Vec<String> = (0..12).map(|number| format!("g{number}")).collect();
    for name in &names {
        let create = json!({"queue": "q", "group": name, "end": {"json": name}, "items": [{"json": 1}]});
        http.ok("group.create", create).await;
    }
    rebalance(&mut http, 5).await;
    rebalance(&mut http, 1).await;
    let draining = partitions(&mut http).await.into_iter().find(|one| one["partition"] == 2).expect("groups");
    assert_eq!(draining["remaining"]["groups"], draining["remaining"]["items"]);
    for name in &names {
        let of = json!({"queue": "q", "group": name});
        let again = http.post("group.create", &of.to_string()).await;
        assert_eq!((again.status, again.code()), (409, "already_exists".into()));
        let more = json!({"queue": "q", "items": [{"json": 2, "group": name}]});
        assert_eq!(http.ok("queue.produce", more).await["items"][0]["state"], "held");
        let with_address = json!({"queue": "q", "items": [{"json": 2, "group": name, "address": "a"}]});
        assert_eq!(http.post("queue.produce", &with_address.to_string()).await.code(), "invalid_argument");
        assert_eq!(http.ok("group.start", of.clone()).await["group"]["members"]["waiting"], 2);
        assert_eq!(http.ok("group.info", of).await["group"]["state"], "started");
    }
    assert_eq!(complete_all(&mut http).await, 24);
    let ends: BTreeSet<String> =
        http.lease("q", 1000).await.iter().map(|end| end["json"].to_string()).collect();
    assert_eq!(ends.len(), 12, "each exactly once: {ends:?}");
    assert_eq!(http.lease("q", 1000).await.len(), 0);
    http.ok("queue.clear", json!({"queue": "q", "leased": true})).await;
    drained_to(&mut http, 1).await;
    let listed = http.ok("groups.list", json!({"queue": "q"})).await["groups"].clone();
    assert_eq!(listed.as_array().expect("a list").len(), 12);
    for name in &names {
        let of = json!({"queue": "q", "group": name});
        let late = json!({"queue": "q", "items": [{"json": 3, "group": name}]});
        assert_eq!(http.ok("queue.produce", late).await["items"][0]["error"]["code"], "group_finished");
        assert_eq!(http.post("group.create", &of.to_string()).await.code(), "already_exists");
        http.ok("group.delete", of.clone()).await;
        assert_eq!(http.ok("group.create", of).await["group"]["state"], "open");
    }
}
