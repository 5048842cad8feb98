//! How items end that nobody completes, and where they go, over HTTP.

use serde_json::{Value, json};

use crate::http::Http;
use crate::world::{TestServer, held, held_in, with};

async fn produce_one(http: &mut Http, queue: &str, item: Value) -> Value {
    http.produce(queue, json!([item])).await.remove(0)
}

/// Waits for an item: a move takes a while.
async fn lease_next(http: &mut Http, queue: &str) -> Value {
    let leased = http.lease_within(queue, 1, "30s").await;
    leased.into_iter().next().unwrap_or_else(|| panic!("nothing came to {queue}"))
}

async fn give_up(http: &mut Http, queue: &str, leased: &Value) {
    let error = json!({"code": "broken", "message": "it broke"});
    let dead = with(held(leased), json!({"dead": true, "error": error}));
    let reply = http.ok("queue.retry", json!({"queue": queue, "items": [dead]})).await;
    assert_eq!(reply, json!({"retried": 0, "dead": 1, "failed": []}));
}

async fn release(http: &mut Http, queue: &str, leased: &Value) {
    let reply = http.ok("queue.release", held_in(queue, [leased])).await;
    assert_eq!(reply["released"], json!(1));
}

async fn moving(http: &mut Http, queue: &str) -> u64 {
    let stats = http.stats(queue).await;
    assert_eq!(stats["counts"]["waiting"].as_u64().zip(stats["counts"]["leased"].as_u64()), Some((0, 0)));
    stats["moving"].as_u64().expect("a number")
}

/// Returns once `queue` has nothing on its way: the source of a move forgets it a commit after the target took it.
async fn arrived(http: &mut Http, queue: &str) {
    http.until(async |http| moving(http, queue).await == 0).await;
}

async fn with_dead_queue() -> (TestServer, Http) {
    let (server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
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
    let id = produce_one(&mut http, "q", new).await;
    let first = lease_next(&mut http, "q").await;
    give_up(&mut http, "q", &first).await;

    let there = lease_next(&mut http, "dead").await;
    release(&mut http, "dead", &there).await;
    let shown = http.item(&there["id"]).await;
    let error = json!({"code": "broken", "message": "it broke"});
    let ended = http.item(&id).await;
    let expected = json!({
        "id": there["id"], "queue": "dead", "partition": shown["partition"], "state": "waiting", "kind": "mail",
        "priority": 7, "attempts": 0, "max_attempts": 3, "created_at": shown["created_at"], "event_count": 0,
        "json": [1], "reference": "order 7", "headers": {"a": "b"}, "client_id": "c",
        "changed_at": shown["changed_at"], "started_at": shown["started_at"], "attempt_log": ended["attempt_log"],
        "origin": {
            "queue": "q", "id": id, "attempts": 1, "reason": "dead", "error": error, "moved_at": ended["finished_at"],
        },
    });
    assert_eq!(shown, expected);
    assert_eq!((&ended["state"], &ended["error"]), (&json!("failed"), &error));
    assert!(ended.get("json").is_none() && ended["queue"] == "q", "{ended}");
    arrived(&mut http, "q").await;
    let moved_to = json!({"queue": "dead", "id": there["id"]});
    assert_eq!(http.item(&id).await, with(ended, json!({"moved_to": moved_to})));
}

#[tokio::test]
async fn attempts_that_run_out_are_told_apart_from_items_given_up() {
    let (_server, mut http) = with_dead_queue().await;
    let id = produce_one(&mut http, "q", json!({"utf8": "a", "max_attempts": 1})).await;
    let leased = lease_next(&mut http, "q").await;
    let items = json!([{"id": id, "permit": leased["permit"]}]);
    let reply = http.ok("queue.retry", json!({"queue": "q", "items": items})).await;
    assert_eq!((&reply["retried"], &reply["dead"]), (&json!(0), &json!(1)));
    let there = lease_next(&mut http, "dead").await;
    let origin = http.item(&there["id"]).await["origin"].clone();
    assert_eq!((&origin["reason"], &origin["error"]["code"]), (&json!("attempts"), &json!("max_attempts")));
    assert_eq!(http.item(&id).await["error"], origin["error"]);
}

#[tokio::test]
async fn an_item_that_waits_for_too_long_expires() {
    let (_server, mut http) = with_dead_queue().await;
    http.ok("queues.update", json!({"queue": "q", "dead_timeout": "1h"})).await;
    let patient = produce_one(&mut http, "q", json!({"utf8": "patient"})).await;
    let ageless = produce_one(&mut http, "q", json!({"utf8": "ageless", "dead_timeout": "0s"})).await;
    let id = produce_one(&mut http, "q", json!({"utf8": "hasty", "dead_timeout": "1ms"})).await;
    let there = lease_next(&mut http, "dead").await;
    assert_eq!(there["utf8"], json!("hasty"));
    let origin = http.item(&there["id"]).await["origin"].clone();
    assert_eq!((&origin["id"], &origin["reason"], &origin["attempts"]), (&id, &json!("expired"), &json!(0)));
    let ended = http.item(&id).await;
    assert_eq!((&ended["state"], &ended["dead_timeout"]), (&json!("expired"), &json!("1ms")));
    assert_eq!(ended["error"]["code"], json!("dead_timeout"));
    assert_eq!(http.item(&patient).await["dead_timeout"], json!("1h"));
    let ageless = http.item(&ageless).await;
    assert_eq!((&ageless["state"], ageless.get("dead_timeout")), (&json!("waiting"), None));
}

#[tokio::test]
async fn what_goes_to_a_queue_that_is_not_there_is_on_its_way_until_it_is() {
    let (mut server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    let id = produce_one(&mut http, "q", json!({"utf8": "a"})).await;
    let leased = lease_next(&mut http, "q").await;
    give_up(&mut http, "q", &leased).await;
    assert_eq!(moving(&mut http, "q").await, 1);
    assert_eq!(http.item(&id).await["state"], json!("failed"));
    let refused = http.post("queues.delete", r#"{"queue": "q"}"#).await;
    assert_eq!(refused.code(), "not_empty", "{}", refused.message());

    server.restart().await;
    let mut http = server.connect().await;
    assert_eq!(moving(&mut http, "q").await, 1);
    http.ok("queues.create", json!({"queue": "dead"})).await;
    assert_eq!(lease_next(&mut http, "dead").await["utf8"], json!("a"));
    arrived(&mut http, "q").await;
    http.ok("queues.delete", json!({"queue": "q"})).await;
}

#[tokio::test]
async fn a_redrive_sends_items_back_and_leaves_those_that_came_from_nowhere() {
    let (_server, mut http) = with_dead_queue().await;
    let native = produce_one(&mut http, "dead", json!({"utf8": "native", "priority": 9})).await;
    for kind in ["one", "two"] {
        produce_one(&mut http, "q", json!({"utf8": kind, "kind": kind})).await;
        let leased = lease_next(&mut http, "q").await;
        give_up(&mut http, "q", &leased).await;
    }
    arrived(&mut http, "q").await;

    let got = http.post("queue.redrive", r#"{"queue": "dead", "kind": "two"}"#).await;
    assert_eq!(got.json(), json!({"moved": 1, "skipped": 0}));
    assert!(got.headers.contains_key("windlass-commit"), "{:?}", got.headers);
    let back = lease_next(&mut http, "q").await;
    assert_eq!((&back["utf8"], &back["attempts"]), (&json!("two"), &json!(1)));
    let origin = http.item(&back["id"]).await["origin"].clone();
    assert_eq!((&origin["queue"], &origin["reason"]), (&json!("dead"), &json!("redrive")));

    assert_eq!(http.ok("queue.redrive", json!({"queue": "dead"})).await, json!({"moved": 1, "skipped": 0}));
    assert_eq!(lease_next(&mut http, "q").await["utf8"], json!("one"));
    assert_eq!(http.ok("queue.redrive", json!({"queue": "dead"})).await, json!({"moved": 0, "skipped": 0}));
    assert_eq!(http.item(&native).await["state"], json!("waiting"));

    http.ok("queues.create", json!({"queue": "other"})).await;
    let redrive = json!({"queue": "dead", "to": "other", "limit": 1});
    assert_eq!(http.ok("queue.redrive", redrive).await, json!({"moved": 1, "skipped": 0}));
    assert_eq!(lease_next(&mut http, "other").await["utf8"], json!("native"));
}

#[tokio::test]
async fn an_import_keeps_age_and_origin_so_that_it_can_be_redriven() {
    let (_server, mut http) = with_dead_queue().await;
    http.ok("queues.update", json!({"queue": "dead", "dead_timeout": "7d"})).await;
    produce_one(&mut http, "q", json!({"utf8": "a"})).await;
    let leased = lease_next(&mut http, "q").await;
    give_up(&mut http, "q", &leased).await;
    let there = lease_next(&mut http, "dead").await;
    release(&mut http, "dead", &there).await;
    let page = json!({"queue": "dead", "partition": there["partition"]});
    let listed = http.ok("storage/items.list", page).await["items"].clone();

    http.ok("queues.create", json!({"queue": "copy"})).await;
    let imported = http.ok("storage/items.import", json!({"queue": "copy", "items": listed})).await;
    let copy = http.item(&imported["items"][0]["id"]).await;
    assert_eq!(copy["dead_timeout"], json!("7d"));
    assert_eq!((&copy["origin"], &copy["created_at"]), (&listed[0]["origin"], &listed[0]["created_at"]));
    assert_eq!(http.ok("queue.redrive", json!({"queue": "copy"})).await, json!({"moved": 1, "skipped": 0}));
    assert_eq!(lease_next(&mut http, "q").await["utf8"], json!("a"));
}
