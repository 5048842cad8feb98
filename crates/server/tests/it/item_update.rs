//! item.update over HTTP: what a new priority, time, `max_attempts` or `dead_timeout` makes of an item in each of its states.

use serde_json::{Value, json};
use windlass_api::Time;

use crate::http::Http;
use crate::world::{TestServer, held, held_in, with};

const PAST: &str = "2001-01-01T00:00:00Z";
const FUTURE: &str = "2090-01-01T00:00:00Z";

async fn update(http: &mut Http, id: &Value, change: Value) -> Value {
    http.ok("item.update", with(json!({"id": id}), change)).await["item"].clone()
}

fn payloads(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["utf8"].as_str().expect("a text")).collect()
}

fn time(value: &Value) -> Option<Time> {
    value.as_str()?.parse().ok()
}

/// Leases the one item that waits, and has it wait again at once. What the retry counted.
async fn retry(http: &mut Http, attempts: u32) -> Value {
    let leased = http.lease("q", 1).await;
    assert_eq!(leased[0]["attempts"], attempts);
    let item = with(held(&leased[0]), json!({"delay": "0s"}));
    let reply = http.ok("queue.retry", json!({"queue": "q", "items": [item]})).await;
    json!([reply["retried"], reply["dead"]])
}

#[tokio::test]
async fn an_item_is_leased_at_its_own_place_among_those_of_its_new_priority() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let of = |name: &str, priority: u8| json!({"utf8": name, "priority": priority});
    let items = json!([of("a", 5), of("b", 1), of("c", 5), of("d", 1), of("e", 5), of("f", 0)]);
    let ids = http.produce("q", items).await;
    update(&mut http, &ids[0], json!({"priority": 1})).await;
    update(&mut http, &ids[3], json!({"priority": 5})).await;
    let leased = http.lease("q", 10).await;
    assert_eq!(payloads(&leased), ["f", "a", "b", "c", "d", "e"]);
    assert_eq!((&leased[1]["priority"], &leased[4]["priority"]), (&json!(1), &json!(5)));
}

#[tokio::test]
async fn a_max_attempts_that_is_not_above_the_attempts_made_leaves_one_more() {
    for fewer in [1, 2] {
        let (_server, mut http) = TestServer::with_queue(json!({"max_attempts": 5})).await;
        let id = http.produce("q", json!([{"utf8": "a"}])).await[0].clone();
        for attempts in [1, 2] {
            assert_eq!(retry(&mut http, attempts).await, json!([1, 0]));
        }
        let changed = update(&mut http, &id, json!({"max_attempts": fewer})).await;
        assert_eq!((&changed["state"], &changed["attempts"]), (&json!("waiting"), &json!(2)));
        assert_eq!(retry(&mut http, 3).await, json!([0, 1]), "it was the last");
        let item = http.item(&id).await;
        assert_eq!((&item["state"], &item["error"]["code"]), (&json!("failed"), &json!("max_attempts")));
    }
}

#[tokio::test]
async fn a_time_in_the_past_makes_a_scheduled_item_wait_at_once() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let id = http.produce("q", json!([{"utf8": "a", "enqueue_at": FUTURE}])).await[0].clone();
    assert_eq!(http.item(&id).await["state"], "scheduled");
    for _ in ["the first", "one that changes nothing"] {
        let changed = update(&mut http, &id, json!({"enqueue_at": PAST})).await;
        assert_eq!((&changed["state"], changed.get("enqueue_at")), (&json!("waiting"), None));
    }
    assert_eq!(http.lease("q", 10).await[0]["id"], id);
}

#[tokio::test]
async fn a_time_in_the_future_makes_a_waiting_item_scheduled() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let ids = http.produce("q", json!([{"utf8": "waits"}, {"utf8": "later", "delay": "1h"}])).await;
    for id in &ids {
        let changed = update(&mut http, id, json!({"enqueue_at": FUTURE})).await;
        assert_eq!(changed["state"], "scheduled");
        assert_eq!(time(&changed["enqueue_at"]), FUTURE.parse().ok(), "{changed}");
    }
    assert_eq!(http.lease("q", 10).await, [] as [Value; 0]);
    assert_eq!(http.stats("q").await["counts"]["scheduled"], 2);
}

#[tokio::test]
async fn a_scheduled_member_of_a_group_that_was_not_started_becomes_held_at_once() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.ok("group.create", json!({"queue": "q", "group": "g"})).await;
    let member = |name: &str| json!({"utf8": name, "group": "g", "delay": "1h"});
    let ids = http.produce("q", json!([member("a"), member("b"), member("c")])).await;
    for (id, due) in ids.iter().zip([json!({"delay": "0s"}), json!({"enqueue_at": PAST})]) {
        assert_eq!(http.item(id).await["state"], "scheduled");
        let changed = update(&mut http, id, due).await;
        assert_eq!((&changed["state"], changed.get("enqueue_at")), (&json!("held"), None));
        assert_ne!(changed["changed_at"], changed["created_at"], "its state is another");
    }
    let members =
        http.ok("group.info", json!({"queue": "q", "group": "g"})).await["group"]["members"].clone();
    assert_eq!((&members["held"], &members["scheduled"]), (&json!(2), &json!(1)));
    assert_eq!(http.lease("q", 10).await, [] as [Value; 0]);
    http.ok("group.start", json!({"queue": "q", "group": "g"})).await;
    assert_eq!(payloads(&http.lease("q", 10).await), ["a", "b"]);
}

#[tokio::test]
async fn a_dead_timeout_shorter_than_its_age_expires_an_item_in_any_state_that_can_be_updated() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.ok("group.create", json!({"queue": "q", "group": "g"})).await;
    let suspended = http.produce("q", json!([{"utf8": "a"}])).await[0].clone();
    let leased = http.lease("q", 1).await;
    http.ok("queue.suspend", held_in("q", &leased)).await;
    let others = json!([{"utf8": "a", "group": "g"}, {"utf8": "a", "delay": "1h"}, {"utf8": "a"}]);
    let others = http.produce("q", others).await;
    let ids = [&suspended, &others[0], &others[1], &others[2]];
    for (id, state) in ids.into_iter().zip(["suspended", "held", "scheduled", "waiting"]) {
        let changed = update(&mut http, id, json!({"dead_timeout": "1h"})).await;
        assert_eq!((&changed["state"], &changed["dead_timeout"]), (&json!(state), &json!("1h")));
        let changed = update(&mut http, id, json!({"dead_timeout": "1us"})).await;
        assert_eq!(
            (&changed["state"], &changed["error"]["code"]),
            (&json!("expired"), &json!("dead_timeout"))
        );
        assert_eq!(http.item(id).await["state"], "expired");
    }
    let counts = http.stats("q").await["counts"].clone();
    assert_eq!(counts, json!({"held": 0, "scheduled": 0, "waiting": 0, "leased": 0, "suspended": 0}));
}
