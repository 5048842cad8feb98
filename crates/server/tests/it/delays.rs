//! `delay` instead of a time, over HTTP.

use serde_json::{Value, json};
use windlass_api::items::{GetItemRequest, NewItem, ProduceRequest, Retry, RetryRequest};
use windlass_api::{PROTOBUF, Span, Time};

use crate::world::{TestServer, held, with};

fn time(value: &Value) -> Time {
    value.as_str().and_then(|text| text.parse().ok()).expect("a time")
}

/// How long after `from` the item is due.
fn due_after(item: &Value, from: &Value) -> i64 {
    assert_eq!(item["state"], "scheduled");
    time(&item["enqueue_at"]).as_micros() - time(from).as_micros()
}

const HOUR: i64 = 3_600_000_000;

#[tokio::test]
async fn an_item_with_a_delay_is_scheduled_by_the_servers_clock() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let items = json!([{"json": 1, "delay": "1h"}, {"json": 2, "delay": "0s"}]);
    let made = http.ok("queue.produce", json!({"queue": "q", "items": items})).await;
    let shown = http.item(&made["items"][0]["id"]).await;
    assert_eq!(due_after(&shown, &shown["created_at"]), HOUR);
    assert_eq!(made["items"][1]["state"], "waiting");
}

#[tokio::test]
async fn the_same_delay_is_the_same_body_for_an_idempotency_key() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let call = |delay: &str| {
        json!({"queue": "q", "idempotency_key": "k", "items": [{"json": 1, "delay": delay}]}).to_string()
    };
    let first = http.post("queue.produce", &call("1h")).await.json();
    assert_eq!(http.post("queue.produce", &call("60m")).await.json(), first);
    let other = http.post("queue.produce", &call("2h")).await;
    assert_eq!((other.status, &*other.code()), (409, "already_exists"));
    let counts = http.stats("q").await["counts"].clone();
    assert_eq!(counts["scheduled"], 1);
}

#[tokio::test]
async fn a_retry_takes_a_delay() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.produce("q", json!([{"json": 1}, {"json": 2}])).await;
    let (first, second) = (http.lease("q", 1).await.remove(0), http.lease("q", 1).await.remove(0));
    let retry = |item: &Value, delay: &str| with(held(item), json!({"delay": delay}));
    let items = [retry(&first, "1h"), retry(&second, "0s")];
    let reply = http.ok("queue.retry", json!({"queue": "q", "items": items})).await;
    assert_eq!((&reply["retried"], &reply["failed"]), (&json!(2), &json!([])));
    let shown = http.item(&first["id"]).await;
    assert!(due_after(&shown, &shown["created_at"]) >= HOUR, "{shown}");
    assert_eq!(http.item(&second["id"]).await["state"], "waiting");
}

#[tokio::test]
async fn the_items_of_crons_and_of_ends_of_groups_take_a_delay() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let cron_item = json!({"json": 1, "kind": "default", "priority": 0, "delay": "1h"});
    let create = json!({"cron": "tick", "queue": "q", "schedule": "@yearly", "item": cron_item});
    assert_eq!(http.ok("crons.create", create).await["cron"]["item"], cron_item);
    let made = http.ok("crons.trigger", json!({"cron": "tick"})).await["item"].clone();
    assert_eq!(made["state"], "scheduled");
    let shown = http.item(&made["id"]).await;
    assert_eq!(due_after(&shown, &shown["created_at"]), HOUR);

    let end = json!({"json": "end", "delay": "1h"});
    let items = json!([{"json": 1, "delay": "2h"}]);
    let create = json!({"queue": "q", "group": "g", "end": end, "abort": end, "items": items});
    let made = http.ok("group.create", create).await;
    let member = http.item(&made["items"][0]["id"]).await;
    assert_eq!(due_after(&member, &member["created_at"]), 2 * HOUR);
    let ended = http.ok("group.cancel", json!({"queue": "q", "group": "g"})).await["group"].clone();
    assert_eq!(ended["state"], "aborted");
    let list = json!({"queue": "q", "partition": member["partition"]});
    let scheduled = http.ok("storage/scheduled.list", list).await["items"].clone();
    let last_word = scheduled.as_array().expect("a list").iter().find(|item| item["json"] == "end");
    assert_eq!(due_after(last_word.expect("the abort item"), &ended["finished_at"]), HOUR);
}

#[tokio::test]
async fn a_delay_beside_a_time_fails_the_whole_call() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.produce("q", json!([{"json": 1}])).await;
    let leased = http.lease("q", 1).await.remove(0);
    let both = json!({"json": 1, "delay": "1h", "enqueue_at": "2999-01-01T00:00:00Z"});
    let too_long = json!({"json": 1, "delay": "36501d"});
    let retry = with(held(&leased), json!({"delay": "1h", "retry_at": "2999-01-01T00:00:00Z"}));
    let table = [
        ("queue.produce", json!({"queue": "q", "items": [{"json": 1}, both]}), "items[1].delay"),
        ("queue.produce", json!({"queue": "q", "items": [too_long]}), "at most 36500d"),
        ("queue.produce", json!({"queue": "q", "items": [{"json": 1, "delay": "soon"}]}), "not a duration"),
        ("group.create", json!({"queue": "q", "group": "g", "items": [both]}), "items[0].delay"),
        ("group.create", json!({"queue": "q", "group": "g", "end": both}), "end.delay"),
        ("group.create", json!({"queue": "q", "group": "g", "abort": both}), "abort.delay"),
        (
            "crons.create",
            json!({"cron": "c", "queue": "q", "schedule": "@daily", "item": both}),
            "enqueue_at",
        ),
        ("queue.retry", json!({"queue": "q", "items": [retry]}), "items[0].delay"),
    ];
    for (call, body, word) in table {
        let got = http.post(call, &body.to_string()).await;
        assert_eq!((got.status, &*got.code()), (400, "invalid_argument"), "{call} {body}");
        assert!(got.message().contains(word), "{call} {body}: {}", got.message());
    }
    let counts = http.stats("q").await["counts"].clone();
    assert_eq!(
        (&counts["leased"], &counts["waiting"], &counts["scheduled"]),
        (&json!(1), &json!(0), &json!(0))
    );
}

#[tokio::test]
async fn delays_travel_in_protobuf() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let new = NewItem { utf8: Some("x".into()), delay: Some(Span::from_secs(3600)), ..NewItem::default() };
    let both = NewItem { enqueue_at: Some(Time::from_micros(1)), ..new.clone() };
    let produce = |item| ProduceRequest { queue: "q".into(), items: vec![item], ..ProduceRequest::default() };
    let made = http.call(PROTOBUF, &produce(new)).await.expect("produced").items.remove(0);
    let id = made.id.expect("an id");
    let shown = http.call(PROTOBUF, &GetItemRequest::of(id)).await.expect("shown").item;
    let due = shown.enqueue_at.expect("it is scheduled");
    assert_eq!(due.as_micros() - shown.created_at.as_micros(), HOUR);
    let refused = http.call(PROTOBUF, &produce(both)).await.expect_err("both");
    assert_eq!(refused.error.code, "invalid_argument");

    http.produce("q", json!([{"json": 1}])).await;
    let held = http.lease("q", 1).await.remove(0);
    let (id, permit) =
        (held["id"].as_str().expect("an id").to_owned(), held["permit"].as_u64().expect("one"));
    let retry = Retry { id: id.clone(), permit, delay: Some(Span::from_secs(3600)), ..Retry::default() };
    let reply = http.call(PROTOBUF, &RetryRequest { queue: "q".into(), items: vec![retry] }).await;
    assert_eq!(reply.expect("judged").retried, 1);
    let shown = http.call(PROTOBUF, &GetItemRequest::of(id)).await.expect("shown").item;
    assert!(shown.enqueue_at.expect("scheduled").as_micros() - shown.created_at.as_micros() >= HOUR);
}
