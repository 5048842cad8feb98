//! What items tell once something has become of them, and how they are rerun, followed and changed, over HTTP.

use serde_json::{Value, json};
use windlass_api::PROTOBUF;
use windlass_api::items::{GetItemRequest, RerunItemRequest, UpdateItemRequest};

use crate::http::Http;
use crate::streams::{Events, Frame};
use crate::world::{TestServer, held, with};

/// Produces an item, leases it, and fails it for good. Its id.
pub(crate) async fn failed(http: &mut Http, queue: &str, item: Value) -> String {
    let id = http.produce(queue, json!([item])).await[0].as_str().expect("an id").to_owned();
    let leased = http.lease(queue, 1).await;
    assert_eq!(leased[0]["id"], id);
    fail(http, queue, &leased[0]).await;
    id
}

pub(crate) async fn fail(http: &mut Http, queue: &str, leased: &Value) {
    let error = json!({"code": "broken", "message": "no hope"});
    let item = with(held(leased), json!({"dead": true, "error": error}));
    let reply = http.ok("queue.retry", json!({"queue": queue, "items": [item]})).await;
    assert_eq!((&reply["retried"], &reply["dead"]), (&json!(0), &json!(1)));
}

async fn get(http: &mut Http, id: &str) -> Value {
    http.ok("item.get", json!({"id": id})).await["item"].clone()
}

pub(crate) async fn rerun(http: &mut Http, id: &str) -> String {
    let item = http.ok("item.rerun", json!({"id": id})).await["item"].clone();
    assert_eq!(item["state"], "waiting");
    item["id"].as_str().expect("an id").to_owned()
}

/// Until an item tells where it went on.
pub(crate) async fn until_moved(http: &mut Http, id: &str) -> Value {
    http.until_some(async |http| get(http, id).await.get("moved_to").cloned()).await
}

/// The last frame of a stream that ends.
async fn last_frame(server: &TestServer, query: &str) -> Frame {
    let mut stream = Events::open(server, query, &[]).await;
    let mut last = stream.next().await.expect("a frame");
    while let Some(frame) = stream.next().await {
        last = frame;
    }
    last
}

#[tokio::test]
async fn an_item_tells_when_it_changed_who_had_it_and_each_attempt() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let id = http.produce("q", json!([{"json": {"to": "ada"}}])).await[0].as_str().expect("an id").to_owned();
    let item = get(&mut http, &id).await;
    assert_eq!((&item["changed_at"], &item["attempt_log"]), (&item["created_at"], &json!([])));
    assert!(item.get("started_at").is_none() && item.get("client_id").is_none(), "{item}");
    let listed = http.ok("storage/items.list", json!({"queue": "q", "partition": item["partition"]})).await;
    assert!(listed["items"][0].get("attempt_log").is_none(), "only item.get tells attempts");
    let leased = http.lease("q", 1).await;
    assert_eq!((&leased[0]["max_attempts"], leased[0].get("error")), (&json!(3), None));
    let item = get(&mut http, &id).await;
    assert_eq!((&item["started_at"], &item["changed_at"]), (&item["leased_at"], &item["leased_at"]));
    let error = json!({"code": "busy", "message": "come back later"});
    let retry = with(held(&leased[0]), json!({"delay": "0s", "error": error}));
    http.ok("queue.retry", json!({"queue": "q", "items": [retry]})).await;
    let waiting = get(&mut http, &id).await;
    assert_eq!((&waiting["client_id"], &waiting["started_at"]), (&item["client_id"], &item["started_at"]));
    assert!(waiting.get("permit").is_none() && waiting.get("leased_at").is_none(), "{waiting}");
    let leased = http.lease("q", 1).await;
    assert_eq!(leased[0]["error"], error, "that of the attempt before");
    fail(&mut http, "q", &leased[0]).await;
    let item = get(&mut http, &id).await;
    assert_eq!((&item["state"], &item["json"]), (&json!("failed"), &json!({"to": "ada"})));
    assert_eq!(item["changed_at"], item["finished_at"]);
    let log = item["attempt_log"].as_array().expect("a log");
    let outcomes: Vec<_> = log.iter().map(|attempt| (&attempt["attempt"], &attempt["outcome"])).collect();
    assert_eq!(outcomes, [(&json!(1), &json!("retried")), (&json!(2), &json!("dead"))]);
    assert_eq!((&log[0]["error"], &log[0]["client_id"]), (&error, &item["client_id"]));
    let waited = http.ok("item.wait", json!({"id": id})).await["item"].clone();
    assert_eq!(waited["json"], json!({"to": "ada"}));
    assert!(waited.get("attempt_log").is_none(), "only item.get tells attempts");
    let got: windlass_api::items::ItemReply = http
        .call(PROTOBUF, &GetItemRequest { id: Some(id), ..GetItemRequest::default() })
        .await
        .expect("shown");
    assert_eq!(got.item.attempt_log.expect("a log").attempts.len(), 2);
}

#[tokio::test]
async fn a_queue_says_what_is_kept_of_its_items() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let queue = http.ok("queues.info", json!({"queue": "q"})).await["queue"].clone();
    assert_eq!((&queue["retain_payload"], &queue["keep"]), (&json!("failed"), &json!("shown")));
    assert_eq!((&queue["indexed_headers"], queue.get("warnings")), (&json!([]), None));
    let update = json!({"queue": "q", "retain_payload": "none", "keep": "all"});
    let queue = http.ok("queues.update", update).await["queue"].clone();
    assert_eq!((&queue["retain_payload"], &queue["keep"]), (&json!("none"), &json!("all")));
    for (field, value) in [("retain_payload", "some"), ("keep", "nothing")] {
        let (status, code, message) =
            http.refused("queues.update", &json!({"queue": "q", field: value})).await;
        assert_eq!((status, &*code), (400, "invalid_argument"));
        assert!(message.contains(field), "{message}");
    }
    let id = failed(&mut http, "q", json!({"json": 1})).await;
    assert!(get(&mut http, &id).await.get("json").is_none());
    let (status, code, message) = http.refused("item.rerun", &json!({"id": id})).await;
    assert_eq!((status, &*code), (409, "wrong_state"));
    assert!(message.contains("retain_payload"), "{message}");
    http.ok("queues.update", json!({"queue": "q", "dead_queue": "nowhere"})).await;
    for reply in [
        http.ok("queues.info", json!({"queue": "q"})).await["queue"].clone(),
        http.ok("queues.list", json!({})).await["queues"][0].clone(),
        http.stats("q").await,
    ] {
        let warning = reply["warnings"][0].as_str().unwrap_or_default();
        assert!(warning.contains("dead_queue") && warning.contains("nowhere"), "{reply}");
    }
    http.ok("queues.create", json!({"queue": "nowhere"})).await;
    assert!(http.stats("q").await.get("warnings").is_none());
}

#[tokio::test]
async fn a_rerun_is_a_new_item_and_the_old_one_is_told_to_go_on_as_it() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 2})).await;
    let item = json!({
        "utf8": "again", "kind": "mail", "priority": 3, "address": "desk", "reference": "order 7", "headers": {"tenant": "a"},
        "max_attempts": 5, "dead_timeout": "1h",
    });
    let id = failed(&mut http, "q", item.clone()).await;
    let anew = rerun(&mut http, &id).await;
    let old = get(&mut http, &id).await;
    assert_eq!((&old["state"], &old["moved_to"]), (&json!("failed"), &json!({"queue": "q", "id": anew})));
    assert!(old.get("utf8").is_none(), "the payload went on");
    assert_eq!(old["reference"], "order 7");
    let new = get(&mut http, &anew).await;
    for (field, value) in item.as_object().expect("an object") {
        assert_eq!(&new[field], value, "{field}");
    }
    assert_eq!((&new["attempts"], &new["origin"]["reason"]), (&json!(0), &json!("rerun")));
    assert_eq!((&new["origin"]["id"], &new["origin"]["attempts"]), (&json!(id), &json!(1)));
    let got = http.post("item.rerun", &json!({"id": id}).to_string()).await;
    assert_eq!((got.status, &*got.code()), (409, "wrong_state"));
    assert_eq!(got.json()["error"]["details"]["id"], anew);
    let (status, code, _) = http.refused("item.rerun", &json!({"queue": "q", "address": "desk"})).await;
    assert_eq!(
        (status, &*code),
        (409, "wrong_state"),
        "the address is that of the new one by now, which lives"
    );
    let (status, code, _) =
        http.refused("item.rerun", &json!({"id": "00000000-0000-7000-8000-000000000000"})).await;
    assert_eq!((status, &*code), (404, "not_found"));
    let other = failed(&mut http, "q", json!({"utf8": "b"})).await;
    let request = RerunItemRequest { id: Some(other), ..RerunItemRequest::default() };
    let reply: windlass_api::items::RerunItemReply = http.call(PROTOBUF, &request).await.expect("rerun");
    assert_eq!(reply.item.state.as_deref(), Some("waiting"));
}

#[tokio::test]
async fn a_chain_is_followed_by_get_wait_and_streams() {
    let (server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    let id = failed(&mut http, "q", json!({"utf8": "a", "address": "desk"})).await;
    let letter = until_moved(&mut http, &id).await;
    assert_eq!(letter["queue"], "dead");
    let follow = json!({"id": id, "follow": true});
    assert_eq!(http.ok("item.get", follow.clone()).await["item"]["id"], id, "a dead letter is passed over");
    let redriven = http.ok("queue.redrive", json!({"queue": "dead"})).await;
    assert_eq!(redriven, json!({"moved": 1, "skipped": 0}));
    let back = until_moved(&mut http, letter["id"].as_str().expect("an id")).await;
    let letter = get(&mut http, letter["id"].as_str().expect("an id")).await;
    assert_eq!((&letter["state"], letter.get("utf8")), (&json!("cancelled"), None));
    let followed = http.ok("item.get", follow.clone()).await["item"].clone();
    assert_eq!((&followed["id"], &followed["address"]), (&back["id"], &json!("desk")));
    let waited = http.ok("item.wait", with(follow, json!({"request_timeout": "0s"}))).await["item"].clone();
    assert_eq!((&waited["id"], &waited["state"]), (&back["id"], &json!("waiting")));
    let end = last_frame(&server, &format!("id={id}&after=0")).await;
    assert_eq!((&*end.event, &end.data["moved_to"]), ("end", &json!({"queue": "dead", "id": letter["id"]})));
    let both = http.get(&format!("/v1/item.events?id={id}&after=0&follow=true")).await;
    assert_eq!((both.status, &*both.code()), (400, "invalid_argument"));
    let odd = http.get(&format!("/v1/item.events?id={id}&follow=maybe")).await;
    assert_eq!((odd.status, odd.message().contains("follow")), (400, true));
    http.ok("item.cancel", json!({"id": back["id"]})).await;
    let mut stream = Events::open(&server, &format!("id={id}&follow=true"), &[]).await;
    let snapshot = stream.next().await.expect("a frame");
    assert_eq!((&*snapshot.event, &snapshot.data["item"]["id"]), ("snapshot", &back["id"]));
}

#[tokio::test]
async fn a_letter_whose_address_is_taken_stays() {
    let (_server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    let id = failed(&mut http, "q", json!({"utf8": "a", "address": "desk"})).await;
    until_moved(&mut http, &id).await;
    http.produce("q", json!([{"utf8": "b", "address": "desk"}])).await;
    let redriven = http.ok("queue.redrive", json!({"queue": "dead"})).await;
    assert_eq!(redriven, json!({"moved": 0, "skipped": 1}));
    assert_eq!(http.stats("dead").await["counts"]["waiting"], 1);
}

#[tokio::test]
async fn an_update_changes_only_what_is_given() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let item = json!({"json": {"to": "ada"}, "priority": 5, "reference": "order 7", "headers": {"tenant": "a", "b": "c"}});
    let id = http.produce("q", json!([item])).await[0].as_str().expect("an id").to_owned();
    let before = get(&mut http, &id).await;
    let mut update =
        async |more: Value| http.ok("item.update", with(json!({"id": id}), more)).await["item"].clone();
    let same = update(json!({})).await;
    assert_eq!(with(same, json!({"attempt_log": []})), before);
    let changed = update(json!({"priority": 1, "headers": {"tenant": "b"}})).await;
    assert_eq!((&changed["priority"], &changed["headers"]), (&json!(1), &json!({"tenant": "b"})));
    assert_eq!((&changed["json"], &changed["reference"]), (&json!({"to": "ada"}), &json!("order 7")));
    assert_eq!(changed["changed_at"], before["changed_at"], "its state is the same");
    let changed = update(json!({"utf8": "new", "reference": "", "headers": {}})).await;
    assert_eq!((&changed["utf8"], changed.get("json")), (&json!("new"), None));
    assert_eq!((changed.get("reference"), changed.get("headers")), (None, None));
    let changed = update(json!({"delay": "1h", "max_attempts": 9})).await;
    assert_eq!((&changed["state"], &changed["max_attempts"]), (&json!("scheduled"), &json!(9)));
    assert_ne!(changed["changed_at"], before["changed_at"]);
    let changed = update(json!({"delay": "0s"})).await;
    assert_eq!(changed["state"], "waiting");
    let changed = update(json!({"dead_timeout": "1us"})).await;
    assert_eq!((&changed["state"], &changed["error"]["code"]), (&json!("expired"), &json!("dead_timeout")));
    for (wrong, field) in [
        (json!({"priority": 256}), "priority"),
        (json!({"delay": "1s", "enqueue_at": "2030-01-01T00:00:00Z"}), "delay"),
        (json!({"json": 1, "utf8": "a"}), "json"),
        (json!({"reference": "x".repeat(513)}), "reference"),
    ] {
        let (status, code, message) =
            http.refused("item.update", &with(json!({"id": id}), wrong.clone())).await;
        assert_eq!((status, &*code), (400, "invalid_argument"), "{wrong}");
        assert!(message.contains(field), "{message}");
    }
    let (status, code, message) = http.refused("item.update", &json!({"id": id, "priority": 1})).await;
    assert_eq!((status, &*code), (409, "wrong_state"));
    assert!(message.contains("expired"), "{message}");
    let at = http.produce("q", json!([{"utf8": "a", "address": "desk"}])).await[0].clone();
    let request = UpdateItemRequest {
        queue: Some("q".into()),
        address: Some("desk".into()),
        priority: Some(7),
        ..UpdateItemRequest::default()
    };
    let reply: windlass_api::items::ItemReply = http.call(PROTOBUF, &request).await.expect("changed");
    assert_eq!((json!(reply.item.id), reply.item.priority), (at, 7));
}

#[tokio::test]
async fn items_tell_the_cron_that_made_them_and_the_cron_its_last_item() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let create =
        json!({"cron": "nightly", "queue": "q", "schedule": "0 3 * * *", "item": {"utf8": "report"}});
    let cron = http.ok("crons.create", create).await["cron"].clone();
    assert!(cron.get("last_item").is_none(), "{cron}");
    let id = http.ok("crons.trigger", json!({"cron": "nightly"})).await["item"]["id"].clone();
    let info = http.ok("crons.info", json!({"cron": "nightly"})).await["cron"].clone();
    assert_eq!(info["last_item"], json!({"id": id, "state": "waiting"}));
    let leased = http.lease("q", 1).await;
    assert_eq!((&leased[0]["id"], &leased[0]["cron"]), (&id, &json!("nightly")));
    assert!(leased[0]["scheduled_at"].is_string(), "{}", leased[0]);
    fail(&mut http, "q", &leased[0]).await;
    http.ok("crons.delete", json!({"cron": "nightly"})).await;
    let item = get(&mut http, id.as_str().expect("an id")).await;
    assert_eq!((&item["cron"], &item["scheduled_at"]), (&json!("nightly"), &leased[0]["scheduled_at"]));
    let anew = rerun(&mut http, id.as_str().expect("an id")).await;
    assert_eq!(get(&mut http, &anew).await["cron"], "nightly");
}

#[tokio::test]
async fn held_and_suspended_items_are_updated_and_leased_ones_are_not() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.ok("group.create", json!({"queue": "q", "group": "g"})).await;
    let held_one = http.produce("q", json!([{"utf8": "a", "group": "g"}])).await[0].clone();
    let suspended = http.produce("q", json!([{"utf8": "a"}])).await[0].clone();
    let leased = http.lease("q", 1).await;
    let suspend = json!({"queue": "q", "items": [held(&leased[0])]});
    assert_eq!(http.ok("queue.suspend", suspend).await["suspended"], 1);
    for (id, state) in [(&held_one, "held"), (&suspended, "suspended")] {
        let update = json!({"id": id, "priority": 4, "reference": "r", "headers": {"a": "b"}, "json": [1]});
        let changed = http.ok("item.update", update).await["item"].clone();
        assert_eq!((&changed["state"], &changed["priority"]), (&json!(state), &json!(4)));
        assert_eq!((&changed["json"], &changed["headers"]), (&json!([1]), &json!({"a": "b"})));
        for time in [json!({"delay": "0s"}), json!({"enqueue_at": "2090-01-01T00:00:00Z"})] {
            let timed = with(json!({"id": id, "priority": 9}), time);
            let (status, code, message) = http.refused("item.update", &timed).await;
            assert_eq!((status, &*code), (409, "wrong_state"), "{message}");
            assert!(message.contains(state), "{message}");
        }
        assert_eq!(get(&mut http, id.as_str().expect("an id")).await["priority"], 4);
    }
    let id = http.produce("q", json!([{"utf8": "a"}])).await[0].clone();
    http.lease("q", 1).await;
    for update in [json!({"priority": 1}), json!({"utf8": "b"}), json!({"reference": "r"}), json!({})] {
        let (status, code, message) = http.refused("item.update", &with(json!({"id": id}), update)).await;
        assert_eq!((status, &*code), (409, "wrong_state"), "{message}");
        assert!(message.contains("leased"), "{message}");
    }
}

#[tokio::test]
async fn a_rerun_by_itself_is_refused_by_a_taken_address_and_by_a_full_queue() {
    let (_server, mut http) = TestServer::with_queue(json!({"max_items": 1})).await;
    let id = failed(&mut http, "q", json!({"utf8": "a", "address": "desk"})).await;
    let holder = http.produce("q", json!([{"utf8": "b", "address": "desk"}])).await[0].clone();
    let got = http.post("item.rerun", &json!({"id": id}).to_string()).await;
    assert_eq!((got.status, &*got.code()), (409, "duplicate_address"));
    assert_eq!(got.json()["error"]["details"]["id"], holder);
    http.ok("item.cancel", json!({"id": holder})).await;
    http.produce("q", json!([{"utf8": "c"}])).await;
    let (status, code, _) = http.refused("item.rerun", &json!({"id": id})).await;
    assert_eq!((status, &*code), (429, "overloaded"));
    let leased = http.lease("q", 1).await;
    http.complete("q", &leased).await;
    let later = http.ok("item.rerun", json!({"id": id, "delay": "1h"})).await["item"].clone();
    assert_eq!(later["state"], "scheduled");
}

#[tokio::test]
async fn of_two_letters_of_one_address_the_later_stays() {
    let (_server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    for payload in ["first", "second"] {
        let id = failed(&mut http, "q", json!({"utf8": payload, "address": "desk"})).await;
        until_moved(&mut http, &id).await;
    }
    let redriven = http.ok("queue.redrive", json!({"queue": "dead"})).await;
    assert_eq!(redriven, json!({"moved": 1, "skipped": 1}));
    let left = http.lease("dead", 10).await;
    assert_eq!((left.len(), &left[0]["utf8"]), (1, &json!("second")));
}
