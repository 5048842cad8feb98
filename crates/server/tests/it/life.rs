//! How items end that nobody completes, and where they go, over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Http, TestServer};

const PATIENCE: Duration = Duration::from_secs(60);

async fn produce(http: &mut Http, queue: &str, item: Value) -> Value {
    let produced = http.ok("queue.produce", json!({"queue": queue, "items": [item]})).await;
    produced["items"][0]["id"].clone()
}

/// Waits for an item.
async fn lease(http: &mut Http, queue: &str) -> Value {
    let request = json!({"queue": queue, "client_id": "c", "batch_size": 1, "request_timeout": "30s"});
    let leased = http.ok("queue.lease", request).await["items"][0].clone();
    assert!(leased.is_object(), "nothing came to {queue}");
    leased
}

async fn give_up(http: &mut Http, queue: &str, leased: &Value) {
    let error = json!({"code": "broken", "message": "it broke"});
    let items = json!([{"id": leased["id"], "permit": leased["permit"], "dead": true, "error": error}]);
    let reply = http.ok("queue.retry", json!({"queue": queue, "items": items})).await;
    assert_eq!(reply, json!({"retried": 0, "dead": 1, "failed": []}));
}

async fn release(http: &mut Http, queue: &str, leased: &Value) {
    let items = json!([{"id": leased["id"], "permit": leased["permit"]}]);
    let reply = http.ok("queue.release", json!({"queue": queue, "items": items})).await;
    assert_eq!(reply["released"], json!(1));
}

async fn item(http: &mut Http, id: &Value) -> Value {
    http.ok("item.get", json!({"id": id})).await["item"].clone()
}

async fn moving(http: &mut Http, queue: &str) -> u64 {
    let stats = http.ok("queue.stats", json!({"queue": queue})).await;
    assert_eq!(stats["counts"]["waiting"].as_u64().zip(stats["counts"]["leased"].as_u64()), Some((0, 0)));
    stats["moving"].as_u64().expect("a number")
}

/// What was taken is forgotten by its source a commit later.
async fn arrived(http: &mut Http, queue: &str) {
    let all_arrived = async { while moving(http, queue).await > 0 {} };
    tokio::time::timeout(PATIENCE, all_arrived).await.expect("everything arrives");
}

async fn with_dead_queue() -> (TestServer, Http) {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    http.ok("queues.create", json!({"queue": "q", "dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    (server, http)
}

#[tokio::test]
async fn a_queue_shows_where_its_dead_go_and_how_old_items_may_grow() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    let made = http.ok("queues.create", json!({"queue": "plain", "dead_queue": ""})).await["queue"].clone();
    assert_eq!((&made["dead_timeout"], made.get("dead_queue")), (&json!("0s"), None));
    let set = json!({"queue": "q", "dead_timeout": "1h", "dead_queue": "dead"});
    let made = http.ok("queues.create", set).await["queue"].clone();
    assert_eq!((&made["dead_timeout"], &made["dead_queue"]), (&json!("1h"), &json!("dead")));
    let kept = http.ok("queues.update", json!({"queue": "q", "max_attempts": 9})).await["queue"].clone();
    assert_eq!((&kept["dead_timeout"], &kept["dead_queue"]), (&json!("1h"), &json!("dead")));
    let bare = json!({"queue": "q", "dead_timeout": "0s", "dead_queue": ""});
    http.ok("queues.update", bare).await;
    let shown = http.ok("queues.info", json!({"queue": "q"})).await["queue"].clone();
    assert_eq!((&shown["dead_timeout"], shown.get("dead_queue")), (&json!("0s"), None));
}

#[tokio::test]
async fn what_a_worker_gives_up_goes_on_in_the_dead_queue_and_tells_where_it_came_from() {
    let (_server, mut http) = with_dead_queue().await;
    let new =
        json!({"json": [1], "kind": "mail", "priority": 7, "reference": "order 7", "headers": {"a": "b"}});
    let id = produce(&mut http, "q", new).await;
    let first = lease(&mut http, "q").await;
    give_up(&mut http, "q", &first).await;

    let there = lease(&mut http, "dead").await;
    release(&mut http, "dead", &there).await;
    let shown = item(&mut http, &there["id"]).await;
    let error = json!({"code": "broken", "message": "it broke"});
    let ended = item(&mut http, &id).await;
    let expected = json!({
        "id": there["id"], "queue": "dead", "partition": shown["partition"], "state": "waiting", "kind": "mail",
        "priority": 7, "attempts": 0, "max_attempts": 3, "created_at": shown["created_at"], "event_count": 0,
        "json": [1], "reference": "order 7", "headers": {"a": "b"},
        "origin": {
            "queue": "q", "id": id, "attempts": 1, "reason": "dead", "error": error, "moved_at": ended["finished_at"],
        },
    });
    assert_eq!(shown, expected);
    assert_eq!((&ended["state"], &ended["error"]), (&json!("failed"), &error));
    assert!(ended.get("json").is_none() && ended["queue"] == "q", "{ended}");
    arrived(&mut http, "q").await;
    assert_eq!(item(&mut http, &id).await, ended);
}

#[tokio::test]
async fn attempts_that_run_out_are_told_apart_from_items_given_up() {
    let (_server, mut http) = with_dead_queue().await;
    let id = produce(&mut http, "q", json!({"utf8": "a", "max_attempts": 1})).await;
    let leased = lease(&mut http, "q").await;
    let items = json!([{"id": id, "permit": leased["permit"]}]);
    let reply = http.ok("queue.retry", json!({"queue": "q", "items": items})).await;
    assert_eq!((&reply["retried"], &reply["dead"]), (&json!(0), &json!(1)));
    let there = lease(&mut http, "dead").await;
    let origin = item(&mut http, &there["id"]).await["origin"].clone();
    assert_eq!((&origin["reason"], &origin["error"]["code"]), (&json!("attempts"), &json!("max_attempts")));
    assert_eq!(item(&mut http, &id).await["error"], origin["error"]);
}

#[tokio::test]
async fn an_item_that_waits_for_too_long_expires() {
    let (_server, mut http) = with_dead_queue().await;
    http.ok("queues.update", json!({"queue": "q", "dead_timeout": "1h"})).await;
    let patient = produce(&mut http, "q", json!({"utf8": "patient"})).await;
    let ageless = produce(&mut http, "q", json!({"utf8": "ageless", "dead_timeout": "0s"})).await;
    let id = produce(&mut http, "q", json!({"utf8": "hasty", "dead_timeout": "1ms"})).await;
    let there = lease(&mut http, "dead").await;
    assert_eq!(there["utf8"], json!("hasty"));
    let origin = item(&mut http, &there["id"]).await["origin"].clone();
    assert_eq!((&origin["id"], &origin["reason"], &origin["attempts"]), (&id, &json!("expired"), &json!(0)));
    let ended = item(&mut http, &id).await;
    assert_eq!((&ended["state"], &ended["dead_timeout"]), (&json!("expired"), &json!("1ms")));
    assert_eq!(ended["error"]["code"], json!("dead_timeout"));
    assert_eq!(item(&mut http, &patient).await["dead_timeout"], json!("1h"));
    let ageless = item(&mut http, &ageless).await;
    assert_eq!((&ageless["state"], ageless.get("dead_timeout")), (&json!("waiting"), None));
}

#[tokio::test]
async fn what_goes_to_a_queue_that_is_not_there_is_on_its_way_until_it_is() {
    let mut server = TestServer::start().await;
    let mut http = server.connect().await;
    http.ok("queues.create", json!({"queue": "q", "dead_queue": "dead"})).await;
    let id = produce(&mut http, "q", json!({"utf8": "a"})).await;
    let leased = lease(&mut http, "q").await;
    give_up(&mut http, "q", &leased).await;
    assert_eq!(moving(&mut http, "q").await, 1);
    assert_eq!(item(&mut http, &id).await["state"], json!("failed"));
    let refused = http.post("queues.delete", r#"{"queue": "q"}"#).await;
    assert_eq!(refused.code(), "not_empty", "{}", refused.message());

    server.restart().await;
    let mut http = server.connect().await;
    assert_eq!(moving(&mut http, "q").await, 1);
    http.ok("queues.create", json!({"queue": "dead"})).await;
    assert_eq!(lease(&mut http, "dead").await["utf8"], json!("a"));
    arrived(&mut http, "q").await;
    http.ok("queues.delete", json!({"queue": "q"})).await;
}

#[tokio::test]
async fn a_redrive_sends_items_back_and_leaves_those_that_came_from_nowhere() {
    let (_server, mut http) = with_dead_queue().await;
    let native = produce(&mut http, "dead", json!({"utf8": "native", "priority": 9})).await;
    for kind in ["one", "two"] {
        produce(&mut http, "q", json!({"utf8": kind, "kind": kind})).await;
        let leased = lease(&mut http, "q").await;
        give_up(&mut http, "q", &leased).await;
    }
    arrived(&mut http, "q").await;

    let got = http.post("queue.redrive", r#"{"queue": "dead", "kind": "two"}"#).await;
    assert_eq!(got.json(), json!({"moved": 1}));
    assert!(got.headers.contains_key("windlass-commit"), "{:?}", got.headers);
    let back = lease(&mut http, "q").await;
    assert_eq!((&back["utf8"], &back["attempts"]), (&json!("two"), &json!(1)));
    let origin = item(&mut http, &back["id"]).await["origin"].clone();
    assert_eq!((&origin["queue"], &origin["reason"]), (&json!("dead"), &json!("redrive")));

    assert_eq!(http.ok("queue.redrive", json!({"queue": "dead"})).await, json!({"moved": 1}));
    assert_eq!(lease(&mut http, "q").await["utf8"], json!("one"));
    assert_eq!(http.ok("queue.redrive", json!({"queue": "dead"})).await, json!({"moved": 0}));
    assert_eq!(item(&mut http, &native).await["state"], json!("waiting"));

    http.ok("queues.create", json!({"queue": "other"})).await;
    let redrive = json!({"queue": "dead", "to": "other", "limit": 1});
    assert_eq!(http.ok("queue.redrive", redrive).await, json!({"moved": 1}));
    assert_eq!(lease(&mut http, "other").await["utf8"], json!("native"));
}

#[tokio::test]
async fn an_import_keeps_age_and_origin_so_that_it_can_be_redriven() {
    let (_server, mut http) = with_dead_queue().await;
    http.ok("queues.update", json!({"queue": "dead", "dead_timeout": "7d"})).await;
    produce(&mut http, "q", json!({"utf8": "a"})).await;
    let leased = lease(&mut http, "q").await;
    give_up(&mut http, "q", &leased).await;
    let there = lease(&mut http, "dead").await;
    release(&mut http, "dead", &there).await;
    let page = json!({"queue": "dead", "partition": there["partition"]});
    let listed = http.ok("storage/items.list", page).await["items"].clone();

    http.ok("queues.create", json!({"queue": "copy"})).await;
    let imported = http.ok("storage/items.import", json!({"queue": "copy", "items": listed})).await;
    let copy = item(&mut http, &imported["items"][0]["id"]).await;
    assert_eq!(copy["dead_timeout"], json!("7d"));
    assert_eq!((&copy["origin"], &copy["created_at"]), (&listed[0]["origin"], &listed[0]["created_at"]));
    assert_eq!(http.ok("queue.redrive", json!({"queue": "copy"})).await, json!({"moved": 1}));
    assert_eq!(lease(&mut http, "q").await["utf8"], json!("a"));
}
