//! items.change over HTTP.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_api::items::{ChangeItemsRequest, ItemFilter, Kinds};
use windlass_api::{JSON, PROTOBUF};
use windlass_server::lifecycle::Server;

use crate::http::Http;
use crate::stores::{self, Failing, configured};
use crate::world::{TestServer, list, with};

async fn change(http: &mut Http, action: &str, filter: Value) -> Value {
    http.ok("items.change", json!({"queue": "q", "action": action, "filter": filter})).await
}

fn all_changed(count: usize) -> Value {
    json!({"matched": count, "changed": count, "failed": []})
}

async fn fail_all(http: &mut Http) -> Vec<Value> {
    let leased = http.lease("q", 1000).await;
    let items: Vec<Value> = leased
        .iter()
        .map(|item| json!({"id": item["id"], "permit": item["permit"], "dead": true, "error": {"message": "no"}}))
        .collect();
    http.ok("queue.retry", json!({"queue": "q", "items": items})).await;
    leased.into_iter().map(|item| item["id"].clone()).collect()
}

async fn states(http: &mut Http, ids: &[Value]) -> Vec<String> {
    let mut states = Vec::new();
    for id in ids {
        let state = http.item(id).await["state"].as_str().expect("a state").to_owned();
        states.push(state);
    }
    states
}

#[tokio::test]
async fn each_action_changes_the_items_that_it_applies_to_and_matches_no_others() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 2})).await;
    http.ok("group.create", json!({"queue": "q", "group": "g"})).await;
    let failed = http.produce("q", json!([{"utf8": "x"}])).await;
    assert_eq!(fail_all(&mut http).await, failed);
    let leased = http.produce("q", json!([{"utf8": "x"}])).await;
    http.lease("q", 1).await;
    let scheduled = http.produce("q", json!([{"utf8": "x", "delay": "1h"}])).await;
    let held = http.produce("q", json!([{"utf8": "x", "group": "g"}])).await;
    let waiting = http.produce("q", json!([{"utf8": "x", "kind": "mail"}])).await;

    let urgent = json!({"queue": "q", "action": "set_priority", "priority": 7, "filter": {}});
    assert_eq!(http.ok("items.change", urgent).await, all_changed(3));
    for (id, priority) in
        [(&waiting[0], 7), (&held[0], 7), (&scheduled[0], 7), (&leased[0], 0), (&failed[0], 0)]
    {
        assert_eq!(http.item(id).await["priority"], priority);
    }
    assert_eq!(change(&mut http, "run_now", json!({})).await, all_changed(1));
    assert_eq!(states(&mut http, &scheduled).await, ["waiting"]);
    assert_eq!(change(&mut http, "cancel", json!({"kinds": ["mail"]})).await, all_changed(1));
    assert_eq!(change(&mut http, "cancel", json!({})).await, all_changed(3));
    assert_eq!(http.item(&leased[0]).await["cancel_requested"], true);
    assert_eq!(change(&mut http, "rerun", json!({"states": ["failed"]})).await, all_changed(1));
    let rerun = http.item(&failed[0]).await["moved_to"]["id"].clone();
    assert_eq!(http.item(&rerun).await["origin"]["reason"], "rerun");
    assert_eq!(change(&mut http, "rerun", json!({"states": ["failed"]})).await, all_changed(0));
    assert_eq!(change(&mut http, "cancel", json!({"states": ["failed", "completed"]})).await, all_changed(0));
    // The leased item, the failed one and what it was rerun as: of those that were cancelled, nothing is kept.
    assert_eq!(change(&mut http, "delete", json!({})).await, all_changed(3));
    assert_eq!(http.ok("items.find", json!({"queue": "q"})).await["items"], json!([]));
}

#[tokio::test]
async fn a_thousand_items_of_a_call_are_changed_page_by_page_oldest_first() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.extend(http.produce("q", json!(vec![json!({"utf8": "x"}); 500])).await);
    }
    fail_all(&mut http).await;
    fail_all(&mut http).await;
    let request = json!({"queue": "q", "action": "rerun", "filter": {"states": ["failed"]}});
    let commits = http.metric("windlass_commits_total").await;
    let first = http.ok("items.change", request.clone()).await;
    assert_eq!((&first["matched"], &first["changed"]), (&json!(1000), &json!(1000)));
    let commits = http.metric("windlass_commits_total").await - commits;
    assert!(commits <= 100, "{commits} commits for 1000 reruns");
    assert!(http.item(&made[999]).await.get("moved_to").is_some());
    assert!(http.item(&made[1000]).await.get("moved_to").is_none());
    let second = http.ok("items.change", with(request, json!({"pivot": first["pivot"]}))).await;
    assert_eq!(second, all_changed(500));
    assert_eq!(http.stats("q").await["counts"]["waiting"], 1500);
    let two = json!({"queue": "q", "action": "delete", "filter": {"states": ["waiting"]}, "limit": 2});
    let deleted = http.ok("items.change", two).await;
    assert_eq!((&deleted["changed"], deleted["pivot"].is_string()), (&json!(2), true));
    assert_eq!(http.stats("q").await["counts"]["waiting"], 1498);
}

#[tokio::test]
async fn items_that_are_refused_are_told_as_the_single_call_would_tell_them() {
    let (_server, mut http) = TestServer::with_queue(json!({"retain_payload": "none"})).await;
    http.produce("q", json!(vec![json!({"utf8": "x"}); 150])).await;
    let failed = fail_all(&mut http).await;
    http.ok("queues.update", json!({"queue": "q", "retain_payload": "all"})).await;
    let first = http.produce("q", json!([{"utf8": "x", "address": "here"}])).await;
    fail_all(&mut http).await;
    let holder = http.produce("q", json!([{"utf8": "x", "address": "here"}])).await;

    let request = json!({"queue": "q", "action": "rerun", "filter": {}});
    for more in [json!({"dry_run": true}), json!({})] {
        let changed = http.ok("items.change", with(request.clone(), more)).await;
        assert_eq!((&changed["matched"], &changed["changed"]), (&json!(151), &json!(0)));
        let told = list(&changed["failed"]);
        assert_eq!((told.len(), &told[0]["id"], &told[0]["code"]), (100, &failed[0], &json!("wrong_state")));
        assert_eq!(told[0].get("permit"), None);
        let (_, _, message) = http.refused("item.rerun", &json!({"id": failed[0]})).await;
        assert_eq!(told[0]["message"], message);
        let of_address = with(request.clone(), json!({"filter": {"address": "here"}, "dry_run": true}));
        let told = http.ok("items.change", of_address).await["failed"][0].clone();
        assert_eq!((&told["id"], &told["code"]), (&first[0], &json!("duplicate_address")));
        assert_eq!(told["details"], json!({"id": holder[0]}));
    }
}

#[tokio::test]
async fn a_full_queue_takes_the_reruns_that_it_has_room_for() {
    let (_server, mut http) = TestServer::with_queue(json!({"max_items": 3})).await;
    http.produce("q", json!(vec![json!({"utf8": "x"}); 3])).await;
    fail_all(&mut http).await;
    http.produce("q", json!([{"utf8": "y"}])).await;
    let changed = change(&mut http, "rerun", json!({})).await;
    assert_eq!((&changed["matched"], &changed["changed"]), (&json!(3), &json!(2)));
    assert_eq!(changed["failed"][0]["code"], "overloaded");
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let made = http.produce("q", json!(vec![json!({"utf8": "x"}); 3])).await;
    for action in ["cancel", "delete"] {
        let request = json!({"queue": "q", "action": action, "filter": {}, "dry_run": true});
        assert_eq!(http.ok("items.change", request).await, all_changed(3));
    }
    assert_eq!(states(&mut http, &made).await, ["waiting"; 3]);
    let dry = json!({"queue": "q", "filter": {}, "dry_run": true});
    let urgent = with(dry.clone(), json!({"action": "set_priority", "priority": 9}));
    assert_eq!(http.ok("items.change", urgent).await, all_changed(3));
    assert_eq!(http.item(&made[0]).await["priority"], 0);
    fail_all(&mut http).await;
    let again = with(dry.clone(), json!({"action": "rerun"}));
    assert_eq!(http.ok("items.change", again).await, all_changed(3));
    assert_eq!(states(&mut http, &made).await, ["failed"; 3]);
    assert!(http.item(&made[0]).await.get("moved_to").is_none());
    let later = http.produce("q", json!([{"utf8": "x", "delay": "1h"}])).await;
    let now = with(dry, json!({"action": "run_now"}));
    assert_eq!(http.ok("items.change", now).await, all_changed(1));
    assert_eq!(states(&mut http, &later).await, ["scheduled"]);
}

#[tokio::test]
async fn a_page_of_changes_looks_at_ten_thousand_items_and_the_next_goes_on() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    for _ in 0..12 {
        http.produce("q", json!(vec![json!({"utf8": "x"}); 1000])).await;
    }
    let last = http.produce("q", json!([{"utf8": "x", "reference": "the last"}])).await;
    let request = json!({"queue": "q", "action": "cancel", "filter": {"reference": "the last"}});
    let first = http.ok("items.change", request.clone()).await;
    assert_eq!((&first["matched"], first["pivot"].is_string()), (&json!(0), true), "{first}");
    assert_eq!(states(&mut http, &last).await, ["waiting"]);
    let second = http.ok("items.change", with(request, json!({"pivot": first["pivot"]}))).await;
    assert_eq!(second, all_changed(1));
    assert_eq!(http.stats("q").await["counts"]["waiting"], 12_000);
}

#[tokio::test]
async fn suspended_items_are_changed_with_the_others() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let made = http.produce("q", json!(vec![json!({"utf8": "x"}); 2])).await;
    let leased = http.lease("q", 2).await;
    let items: Vec<Value> = leased.iter().map(crate::world::held).collect();
    http.ok("queue.suspend", json!({"queue": "q", "items": items})).await;
    let suspended = json!({"states": ["suspended"]});
    let urgent = json!({"queue": "q", "action": "set_priority", "priority": 7, "filter": suspended});
    assert_eq!(http.ok("items.change", urgent).await, all_changed(2));
    assert_eq!(http.item(&made[0]).await["priority"], 7);
    assert_eq!(change(&mut http, "run_now", suspended.clone()).await, all_changed(0));
    assert_eq!(change(&mut http, "cancel", suspended).await, all_changed(2));
    assert_eq!(http.stats("q").await["counts"]["suspended"], 0);
}

#[tokio::test]
async fn wrong_changes_are_refused_by_name() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.produce("q", json!(vec![json!({"utf8": "x"}); 3])).await;
    let wrong = [
        (json!({"action": "cancel"}), "`filter`"),
        (json!({"filter": {}}), "`action`"),
        (json!({"filter": {}, "action": "explode"}), "`action`"),
        (json!({"filter": {}, "action": "set_priority"}), "`priority`"),
        (json!({"filter": {}, "action": "set_priority", "priority": 256}), "`priority`"),
        (json!({"filter": {}, "action": "cancel", "priority": 1}), "`priority`"),
        (json!({"filter": {"states": ["moving"]}, "action": "cancel"}), "`filter.states`"),
        (json!({"filter": {"client_id": ""}, "action": "cancel"}), "`filter.client_id`"),
        (json!({"filter": {"color": "red"}, "action": "cancel"}), "color"),
        (json!({"filter": {}, "action": "cancel", "limit": 1001}), "`limit`"),
        (json!({"filter": {}, "action": "cancel", "pivot": "x"}), "`pivot`"),
    ];
    for (request, named) in wrong {
        let request = with(json!({"queue": "q"}), request);
        let (status, code, message) = http.refused("items.change", &request).await;
        assert_eq!((status, code.as_str()), (400, "invalid_argument"), "{request}: {message}");
        assert!(message.contains(named), "{request}: {message}");
    }
    let nowhere = json!({"queue": "nowhere", "action": "cancel", "filter": {}});
    assert_eq!(http.refused("items.change", &nowhere).await.0, 404);
    let pivot = json!({"queue": "q", "action": "cancel", "filter": {}, "limit": 1, "dry_run": true});
    let pivot = http.ok("items.change", pivot).await["pivot"].clone();
    let of_find = json!({"queue": "q", "order": "oldest", "pivot": pivot});
    assert_eq!(http.refused("items.find", &of_find).await.0, 400);
    let other = json!({"queue": "q", "action": "delete", "filter": {}, "pivot": pivot});
    assert_eq!(http.refused("items.change", &other).await.0, 400);
    let same = json!({"queue": "q", "action": "cancel", "filter": {}, "pivot": pivot});
    assert_eq!(http.ok("items.change", same).await, all_changed(2));
}

#[tokio::test]
async fn items_are_changed_in_protobuf() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.produce("q", json!([{"utf8": "a"}, {"utf8": "b", "kind": "mail"}])).await;
    let kinds = Some(Kinds { kinds: vec!["mail".into()] });
    let request = ChangeItemsRequest {
        queue: "q".into(),
        filter: Some(ItemFilter { kinds, ..ItemFilter::default() }),
        action: "cancel".into(),
        ..ChangeItemsRequest::default()
    };
    let changed = http.call(PROTOBUF, &request).await.expect("changed");
    assert_eq!((changed.matched, changed.changed, changed.pivot), (1, 1, None));
    let none = ChangeItemsRequest { filter: None, ..request };
    assert!(http.call(PROTOBUF, &none).await.is_err());
}

/// The items that these went on as.
async fn reruns_of(http: &mut Http, ids: &[Value]) -> BTreeSet<String> {
    let mut reruns = BTreeSet::new();
    for id in ids {
        let moved_to = http.item(id).await["moved_to"]["id"].clone();
        reruns.insert(moved_to.as_str().expect("it was rerun").to_owned());
    }
    reruns
}

#[tokio::test]
async fn items_are_rerun_whatever_way_they_ended() {
    let (_server, mut http) = TestServer::with_queue(json!({"retain_payload": "all", "keep": "all"})).await;
    let completed = http.produce("q", json!(vec![json!({"utf8": "completed"}); 2])).await;
    let leased = http.lease("q", 2).await;
    http.complete("q", &leased).await;
    let cancelled = http.produce("q", json!(vec![json!({"utf8": "cancelled"}); 3])).await;
    assert_eq!(change(&mut http, "cancel", json!({})).await, all_changed(3));
    let expired = http.produce("q", json!(vec![json!({"utf8": "expired"}); 4])).await;
    for id in &expired {
        http.ok("item.update", json!({"id": id, "dead_timeout": "1us"})).await;
    }
    let ended = [(completed, "completed"), (cancelled, "cancelled"), (expired, "expired")];
    for (ids, state) in &ended {
        assert_eq!(states(&mut http, ids).await, vec![*state; ids.len()]);
        let filter =
            json!({"states": [state], "created_before": http.item(&ids[ids.len() - 1]).await["finished_at"]});
        assert_eq!(change(&mut http, "rerun", filter.clone()).await, all_changed(ids.len()), "{state}");
        for id in reruns_of(&mut http, ids).await {
            let item = http.item(&id).await;
            assert_eq!((&item["utf8"], &item["origin"]["reason"]), (&json!(state), &json!("rerun")));
        }
        assert_eq!(change(&mut http, "rerun", filter).await, all_changed(0), "{state}: once");
        assert_eq!(states(&mut http, ids).await, vec![*state; ids.len()], "they stay as they ended");
    }
}

#[tokio::test]
async fn a_walk_of_changes_goes_on_over_a_restart_and_a_rebalance() {
    let (mut server, mut http) = TestServer::with_queue(json!({"partitions": 3})).await;
    let mut made = Vec::new();
    for _ in 0..60 {
        made.extend(http.produce("q", json!([{"utf8": "x"}])).await);
    }
    let request = json!({"queue": "q", "action": "set_priority", "priority": 9, "filter": {}, "limit": 20});
    let mut page = http.ok("items.change", request.clone()).await;
    assert_eq!(page["changed"], 20);
    let mut changed = 20;
    let mut later = http.produce("q", json!(vec![json!({"utf8": "later"}); 5])).await;
    server.restart().await;
    let mut http = server.connect().await;
    http.ok("queue.rebalance", json!({"queue": "q", "partitions": 5})).await;
    while let Some(pivot) = page.get("pivot").cloned() {
        later.extend(http.produce("q", json!([{"utf8": "later"}, {"utf8": "later"}])).await);
        page = http.ok("items.change", with(request.clone(), json!({"pivot": pivot}))).await;
        assert_eq!(page["failed"], json!([]));
        changed += page["changed"].as_u64().expect("a number");
    }
    assert_eq!(changed, 60, "each once");
    for (ids, priority) in [(made, 9), (later, 0)] {
        for id in ids {
            assert_eq!(http.item(&id).await["priority"], priority);
        }
    }
}

#[tokio::test]
async fn what_was_changed_stays_changed_where_the_caller_goes_away() {
    let (directory, store) = (stores::directory(), Arc::new(Failing::default()));
    let server = Server::start_on(configured(directory.path(), &[]), store.clone(), Vec::new());
    let server = server.await.expect("it starts");
    let mut http = Http::connect(server.address()).await;
    http.ok("queues.create", json!({"queue": "q", "partitions": 2})).await;
    for _ in 0..2 {
        http.produce("q", json!(vec![json!({"utf8": "x"}); 400])).await;
    }
    let failed = fail_all(&mut http).await;
    assert_eq!(failed.len(), 800);
    let request = json!({"queue": "q", "action": "rerun", "filter": {"states": ["failed"]}});
    let mut gone = Http::connect(server.address()).await;
    store.held.send_replace(true);
    gone.send("POST", "/v1/items.change", &[("content-type", JSON)], request.to_string().as_bytes()).await;
    let is_committing = || store.held.receiver_count() > 0;
    http.until(async |_| is_committing()).await;
    // By a reset: a client that only closes its side is answered.
    gone.stream_mut().set_zero_linger().expect("a socket option");
    drop(gone);
    http.until(async |http| http.metric("windlass_http_connections").await == 1).await;
    store.held.send_replace(false);
    let early = http.ok("items.find", json!({"queue": "q", "states": ["waiting"], "limit": 1000})).await;
    let early = list(&early["items"]);
    assert!((1..800).contains(&early.len()), "the call is cut off: {}", early.len());
    // Once nothing is left to match, the call that was cut off has nothing to do either.
    let change_rest = async |http: &mut Http| http.ok("items.change", request.clone()).await;
    http.until(async |http| change_rest(http).await["matched"] == 0).await;
    let reruns = reruns_of(&mut http, &failed).await;
    assert_eq!(reruns.len(), 800, "each went on as an item of its own");
    assert!(early.iter().all(|item| reruns.contains(item["id"].as_str().expect("an id"))));
    assert_eq!(http.stats("q").await["counts"]["waiting"], 800);
    server.stop().await;
}

#[tokio::test]
async fn of_two_bulk_reruns_at_once_each_item_is_rerun_once() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let item = |number: usize| match number % 2 {
        0 => json!({"utf8": "x"}),
        _ => json!({"utf8": "x", "address": format!("desk {number}")}),
    };
    http.produce("q", (0..300).map(item).collect()).await;
    let failed = fail_all(&mut http).await;
    http.ok("queue.rebalance", json!({"queue": "q", "partitions": 3})).await;
    let request = json!({"queue": "q", "action": "rerun", "filter": {"states": ["failed"]}});
    let mut begun = Vec::new();
    for _ in 0..2 {
        let (mut http, request) = (server.connect().await, request.clone());
        begun.push(tokio::spawn(async move { http.ok("items.change", request).await }));
    }
    let mut changed = 0;
    for call in begun {
        let page = call.await.expect("it was answered");
        changed += page["changed"].as_u64().expect("a number");
        for refused in list(&page["failed"]) {
            assert_eq!(refused["code"], "wrong_state", "{refused}");
            assert_eq!(refused["details"]["id"], http.item(&refused["id"]).await["moved_to"]["id"]);
        }
    }
    assert_eq!(changed, 300);
    assert_eq!(reruns_of(&mut http, &failed).await.len(), 300);
    assert_eq!(http.stats("q").await["counts"]["waiting"], 300);
}
