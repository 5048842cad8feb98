//! What is kept of items that ended, how their attempts are told, and what falls back, over HTTP.

use serde_json::{Value, json};

use crate::http::Http;
use crate::world::{TestServer, held, held_in, list, with};

async fn produce_one(http: &mut Http, item: Value) -> String {
    http.produce("q", json!([item])).await[0].as_str().expect("an id").to_owned()
}

/// Produces an item and fails it for good.
async fn fail_one(http: &mut Http, item: Value) -> String {
    let id = produce_one(http, item).await;
    let leased = http.lease("q", 1).await;
    assert_eq!(leased[0]["id"], id);
    retry(http, &leased[0], json!({"dead": true})).await;
    id
}

async fn retry(http: &mut Http, leased: &Value, more: Value) {
    let reply = http.ok("queue.retry", json!({"queue": "q", "items": [with(held(leased), more)]})).await;
    assert_eq!(reply["failed"], json!([]), "{reply}");
}

async fn update(http: &mut Http, change: Value) -> Value {
    http.ok("queues.update", with(json!({"queue": "q"}), change)).await["queue"].clone()
}

async fn is_kept(http: &mut Http, id: &str) -> bool {
    let got = http.post("item.get", &json!({"id": id}).to_string()).await;
    assert!(matches!(got.status, 200 | 404), "{}", got.json());
    got.status == 200
}

/// The numbers of the attempts that an item tells, and how they ended.
async fn outcomes(http: &mut Http, id: &str) -> Vec<(u64, String)> {
    let told = |attempt: Value| {
        let outcome = attempt["outcome"].as_str().expect("a word").to_owned();
        (attempt["attempt"].as_u64().expect("a number"), outcome)
    };
    list(&http.item(id).await["attempt_log"]).into_iter().map(told).collect()
}

async fn until_retained(http: &mut Http, count: u64) {
    http.until(async |http| http.stats("q").await["retained"] == count).await;
}

#[tokio::test]
async fn attempts_tell_how_they_ended_and_travel_with_reruns() {
    let (_server, mut http) = TestServer::with_queue(json!({"max_attempts": 0})).await;
    let id = produce_one(&mut http, json!({"utf8": "a", "address": "desk"})).await;
    let leased = http.lease("q", 1).await;
    retry(&mut http, &leased[0], json!({"delay": "0s", "error": {"message": "of the first"}})).await;
    let leased = http.lease("q", 1).await;
    assert_eq!(leased[0]["error"], json!({"message": "of the first"}));
    http.ok("queue.revoke", held_in("q", &leased)).await;
    // It runs out by itself, and whoever waits has the item then.
    let lease = json!({"queue": "q", "client_id": "c", "batch_size": 1, "lease_timeout": "1ms"});
    let leased = list(&http.ok("queue.lease", lease).await["items"]);
    assert_eq!(leased[0].get("error"), None, "the attempt before was revoked");
    let deadline = leased[0]["lease_deadline"].clone();
    let leased = http.lease_within("q", 1, "30s").await;
    assert_eq!(leased[0].get("error"), None, "the attempt before ran out");
    let log = list(&http.item(&id).await["attempt_log"]);
    assert_eq!((&log[2]["outcome"], &log[2]["ended_at"]), (&json!("expired"), &deadline));
    assert!(log[1].get("error").is_none() && log[2].get("error").is_none(), "{log:?}");
    http.ok("item.cancel", json!({"id": id})).await;
    http.ok("queue.release", held_in("q", &leased)).await;
    let ended = ["retried", "revoked", "expired", "cancelled"];
    let expected: Vec<_> = (1..).zip(ended.map(ToOwned::to_owned)).collect();
    assert_eq!(outcomes(&mut http, &id).await, expected);
    let anew = http.ok("item.rerun", json!({"id": id})).await["item"]["id"].clone();
    let anew = anew.as_str().expect("an id");
    assert_eq!(outcomes(&mut http, anew).await, expected);
    for _ in 0..9 {
        let leased = http.lease("q", 1).await;
        retry(&mut http, &leased[0], json!({"delay": "0s"})).await;
    }
    let newest: Vec<_> = std::iter::once((4, "cancelled".to_owned()))
        .chain((1..=9).map(|attempt| (attempt, "retried".to_owned())))
        .collect();
    assert_eq!(outcomes(&mut http, anew).await, newest, "the newest ten");
}

#[tokio::test]
async fn a_clear_ends_attempts_and_tells_so_at_once() {
    let (_server, mut http) = TestServer::with_queue(json!({"keep": "all"})).await;
    let id = produce_one(&mut http, json!({"utf8": "a"})).await;
    http.lease("q", 1).await;
    http.ok("queue.clear", json!({"queue": "q", "leased": true})).await;
    assert_eq!(outcomes(&mut http, &id).await, [(1, "cancelled".to_owned())]);
}

#[tokio::test]
async fn a_payload_and_an_attempt_log_by_themselves_are_nothing_to_show() {
    let (_server, mut http) = TestServer::with_queue(json!({"retain_payload": "all"})).await;
    let id = produce_one(&mut http, json!({"utf8": "a"})).await;
    let leased = http.lease("q", 1).await;
    retry(&mut http, &leased[0], json!({"delay": "0s"})).await;
    assert_eq!(outcomes(&mut http, &id).await.len(), 1);
    let leased = http.lease("q", 1).await;
    http.complete("q", &leased).await;
    assert!(!is_kept(&mut http, &id).await);
    let id = produce_one(&mut http, json!({"utf8": "a"})).await;
    let leased = http.lease("q", 1).await;
    let done = with(held(&leased[0]), json!({"result": {"utf8": "done"}}));
    http.ok("queue.complete", json!({"queue": "q", "items": [done]})).await;
    let kept = http.item(&id).await;
    assert_eq!((&kept["state"], &kept["utf8"]), (&json!("completed"), &json!("a")));
    let anew = http.ok("item.rerun", json!({"id": id})).await["item"].clone();
    assert_eq!(anew["state"], "waiting");
}

#[tokio::test]
async fn the_payload_of_an_expired_item_is_kept() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let id = produce_one(&mut http, json!({"utf8": "a", "dead_timeout": "1ms"})).await;
    let expired = http.ok("item.wait", json!({"id": id, "request_timeout": "30s"})).await["item"].clone();
    assert_eq!((&expired["state"], &expired["utf8"]), (&json!("expired"), &json!("a")));
    assert_eq!(http.item(&id).await["utf8"], "a");
}

#[tokio::test]
async fn a_queue_that_keeps_all_keeps_all_but_what_is_deleted_and_only_from_then_on() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    for (keep, expected) in
        [("shown", [false; 5]), ("all", [true, true, true, true, false]), ("shown", [false; 5])]
    {
        update(&mut http, json!({"keep": keep})).await;
        let mut ids = vec![produce_one(&mut http, json!({"utf8": "completed"})).await];
        let leased = http.lease("q", 1).await;
        http.complete("q", &leased).await;
        ids.push(produce_one(&mut http, json!({"utf8": "cancelled"})).await);
        http.ok("item.cancel", json!({"id": ids[1]})).await;
        ids.push(produce_one(&mut http, json!({"utf8": "cleared"})).await);
        http.ok("queue.clear", json!({"queue": "q"})).await;
        let create = json!({"queue": "q", "group": keep, "items": [{"utf8": "member"}]});
        let made = http.ok("group.create", create).await;
        ids.push(made["items"][0]["id"].as_str().expect("an id").to_owned());
        http.ok("group.cancel", json!({"queue": "q", "group": keep})).await;
        http.ok("group.delete", json!({"queue": "q", "group": keep})).await;
        ids.push(produce_one(&mut http, json!({"utf8": "deleted"})).await);
        http.ok("storage/items.delete", json!({"queue": "q", "ids": [ids[4]]})).await;
        for (id, expected) in ids.iter().zip(expected) {
            assert_eq!(is_kept(&mut http, id).await, expected, "{keep} {id}");
        }
    }
    assert_eq!(http.stats("q").await["retained"], 4, "what ended while the queue kept all");
}

#[tokio::test]
async fn payloads_results_errors_and_events_count_against_the_bytes_that_are_kept() {
    let text = "x".repeat(1000);
    for large in ["payload", "result", "error", "event"] {
        let settings = json!({"partitions": 1, "retention_max_bytes": 2700});
        let (_server, mut http) = TestServer::with_queue(settings).await;
        let mut ids = Vec::new();
        for count in 1..=4 {
            let payload = if large == "payload" { &*text } else { "" };
            ids.push(produce_one(&mut http, json!({"utf8": payload})).await);
            let leased = http.lease("q", 1).await.remove(0);
            let complete = |more| json!({"queue": "q", "items": [with(held(&leased), more)]});
            match large {
                "result" => {
                    drop(http.ok("queue.complete", complete(json!({"result": {"utf8": text}}))).await)
                }
                "event" => {
                    let emit = with(held(&leased), json!({"events": [{"utf8": text}]}));
                    http.ok("item.emit", emit).await;
                    http.ok("queue.complete", complete(json!({}))).await;
                }
                // It is kept twice: of the item, and of the attempt.
                "error" => {
                    let error = json!({"message": text[..500]});
                    retry(&mut http, &leased, json!({"dead": true, "error": error})).await;
                }
                _ => retry(&mut http, &leased, json!({"dead": true})).await,
            }
            until_retained(&mut http, count.min(2)).await;
        }
        for (id, expected) in ids.iter().zip([false, false, true, true]) {
            assert_eq!(is_kept(&mut http, id).await, expected, "{large}: the oldest go first");
        }
    }
}

#[tokio::test]
async fn retain_payload_counts_for_what_ends_from_then_on() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 1, "keep": "all"})).await;
    let mut ended = Vec::new();
    for (setting, failed, completed) in
        [("failed", true, false), ("none", false, false), ("all", true, true), ("failed", true, false)]
    {
        update(&mut http, json!({"retain_payload": setting})).await;
        ended.push((fail_one(&mut http, json!({"utf8": setting})).await, failed));
        let done = produce_one(&mut http, json!({"utf8": setting})).await;
        let leased = http.lease("q", 1).await;
        http.complete("q", &leased).await;
        ended.push((done, completed));
        let cleared = produce_one(&mut http, json!({"utf8": setting})).await;
        http.ok("queue.clear", json!({"queue": "q"})).await;
        ended.push((cleared, failed));
        let create = json!({"queue": "q", "group": "g", "items": [{"utf8": setting}]});
        let member = http.ok("group.create", create).await["items"][0]["id"].clone();
        http.ok("group.cancel", json!({"queue": "q", "group": "g"})).await;
        http.ok("group.delete", json!({"queue": "q", "group": "g"})).await;
        ended.push((member.as_str().expect("an id").to_owned(), failed));
        for (id, kept) in &ended {
            let item = http.item(id).await;
            assert_eq!(item.get("utf8").is_some(), *kept, "by now it is {setting}: {item}");
        }
    }
}

#[tokio::test]
async fn partitions_share_the_bytes_that_are_kept() {
    let settings = json!({"partitions": 4, "retention_max_bytes": 4 * 2700});
    let (_server, mut http) = TestServer::with_queue(settings).await;
    for _ in 0..12 {
        produce_one(&mut http, json!({"utf8": "x".repeat(1000)})).await;
    }
    for leased in http.lease("q", 12).await {
        retry(&mut http, &leased, json!({"dead": true})).await;
    }
    until_retained(&mut http, 8).await;
    let kept = http.ok("items.find", json!({"queue": "q", "states": ["failed"]})).await;
    for partition in list(&http.stats("q").await["partitions"]) {
        let is_here = |item: &&Value| item["partition"] == partition["partition"];
        assert_eq!(list(&kept["items"]).iter().filter(is_here).count(), 2, "room for two and a half");
    }
}

#[tokio::test]
async fn what_fell_back_counts_as_ended_then_can_be_rerun_and_moves_no_more() {
    let settings = json!({"partitions": 1, "dead_queue": "nowhere", "retention_max_bytes": 1500});
    let (_server, mut http) = TestServer::with_queue(settings).await;
    let text = "x".repeat(1000);
    let id = fail_one(&mut http, json!({"utf8": text})).await;
    let moving = http.item(&id).await;
    assert_eq!((&http.stats("q").await["moving"], moving.get("utf8")), (&json!(1), None));
    let later = fail_one(&mut http, json!({"utf8": text})).await;
    let later = http.item(&later).await;
    http.until(async |http| http.stats("q").await["moving"] == 1).await;
    let fallen = http.item(&id).await;
    assert_eq!((&fallen["state"], &fallen["utf8"]), (&json!("failed"), &json!(text)));
    assert!(fallen["finished_at"].as_str() > later["finished_at"].as_str(), "it counts as ended by now");
    assert_eq!(fallen["changed_at"], moving["changed_at"], "its state is the same");
    http.ok("queues.create", json!({"queue": "nowhere"})).await;
    http.until(async |http| http.stats("nowhere").await["counts"]["waiting"] == 1).await;
    assert_eq!(http.item(&id).await, fallen);
    let anew = http.ok("item.rerun", json!({"id": id})).await["item"].clone();
    assert_eq!(http.item(&anew["id"]).await["utf8"], json!(text));
    assert_eq!(http.item(&id).await["moved_to"], json!({"queue": "q", "id": anew["id"]}));
    let letters = http.lease("nowhere", 10).await;
    assert_eq!((letters.len(), &letters[0]["origin"]["id"]), (1, &later["id"]));
}

#[tokio::test]
async fn each_partition_keeps_at_least_one_item() {
    let settings = json!({"partitions": 4, "retention_max_items": 2});
    let (_server, mut http) = TestServer::with_queue(settings).await;
    for _ in 0..12 {
        produce_one(&mut http, json!({"utf8": "a"})).await;
    }
    for leased in http.lease("q", 12).await {
        retry(&mut http, &leased, json!({"dead": true})).await;
    }
    until_retained(&mut http, 4).await;
}

#[tokio::test]
async fn what_waits_for_a_queue_that_is_not_there_falls_back() {
    let settings = json!({
        "partitions": 1, "dead_queue": "nowhere", "retention_max_bytes": 2500, "retain_payload": "none",
    });
    let (_server, mut http) = TestServer::with_queue(settings).await;
    let text = "x".repeat(1000);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(fail_one(&mut http, json!({"utf8": text})).await);
    }
    http.until(async |http| http.stats("q").await["moving"] == 2).await;
    let fallen = http.item(&ids[0]).await;
    assert_eq!((&fallen["state"], &fallen["utf8"]), (&json!("failed"), &json!(text)));
    assert_eq!(http.item(&ids[3]).await.get("utf8"), None, "it is on its way");
    // Less may wait by now, and one that was deleted is gone for good.
    let filter = json!({"queue": "q", "filter": {"states": ["failed"]}, "action": "delete"});
    assert_eq!(http.ok("items.change", filter).await["changed"], 4);
    assert_eq!(http.stats("q").await["moving"], 2);
    update(&mut http, json!({"retention_max_bytes": 1})).await;
    http.until(async |http| http.stats("q").await["moving"] == 0).await;
    for id in &ids {
        assert!(!is_kept(&mut http, id).await);
    }
    update(&mut http, json!({"retention_max_bytes": 100_000})).await;
    let kept = fail_one(&mut http, json!({"utf8": text})).await;
    http.ok("queues.create", json!({"queue": "nowhere"})).await;
    http.until(async |http| http.item(&kept).await.get("moved_to").is_some()).await;
    let moved_to = http.item(&kept).await["moved_to"]["id"].clone();
    let rerun = http.post("item.rerun", &json!({"id": kept}).to_string()).await;
    assert_eq!((rerun.status, &*rerun.code()), (409, "wrong_state"));
    assert_eq!(rerun.json()["error"]["details"]["id"], moved_to);
}

#[tokio::test]
async fn a_dead_queue_that_does_not_exist_is_warned_of_at_once() {
    let (_server, mut http) = TestServer::with_queue(json!({"dead_queue": "nowhere"})).await;
    let updated = update(&mut http, json!({"max_attempts": 4})).await;
    let create = json!({"queue": "other", "dead_queue": "nowhere"});
    for queue in [updated, http.ok("queues.create", create).await["queue"].clone()] {
        let warning = queue["warnings"][0].as_str().unwrap_or_default();
        assert!(warning.contains("nowhere"), "{queue}");
    }
    let updated = update(&mut http, json!({"dead_queue": ""})).await;
    assert_eq!(updated.get("warnings"), None);
    let (status, code, _) = http.refused("queues.update", &json!({"queue": "q", "dead_queue": "q"})).await;
    assert_eq!((status, &*code), (400, "invalid_argument"));
}

#[tokio::test]
async fn what_a_cron_made_says_so_in_the_dead_queue_and_after_an_import() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 1, "dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead", "partitions": 1})).await;
    let create = json!({
        "cron": "nightly", "queue": "q", "schedule": "@yearly", "overlap": "skip", "item": {"utf8": "report"},
    });
    http.ok("crons.create", create).await;
    let made = http.ok("crons.trigger", json!({"cron": "nightly"})).await["item"]["id"].clone();
    let item = http.item(&made).await;
    assert_eq!(item["cron"], "nightly");
    let leased = http.lease("q", 1).await;
    assert_eq!(leased[0]["scheduled_at"], item["scheduled_at"]);
    retry(&mut http, &leased[0], json!({"dead": true})).await;
    let letter = http.lease_within("dead", 1, "30s").await.remove(0);
    for field in ["cron", "scheduled_at"] {
        assert_eq!(letter[field], item[field], "{field}");
    }
    assert_eq!(letter["origin"]["id"], made);
    let info = http.ok("crons.info", json!({"cron": "nightly"})).await["cron"].clone();
    assert_eq!(info["last_item"], json!({"id": made, "state": "failed"}), "what it made itself");

    http.ok("queues.create", json!({"queue": "other"})).await;
    let import = |item: Value| json!({"queue": "other", "items": [item]});
    let of_cron = json!({"utf8": "x", "cron": "nightly", "scheduled_at": item["scheduled_at"]});
    let imported = http.ok("storage/items.import", import(of_cron)).await["items"][0]["id"].clone();
    let imported = http.item(&imported).await;
    assert_eq!((&imported["cron"], &imported["scheduled_at"]), (&json!("nightly"), &item["scheduled_at"]));
    let without_time = import(json!({"utf8": "x", "cron": "nightly"}));
    let (status, code, message) = http.refused("storage/items.import", &without_time).await;
    assert_eq!((status, &*code, message.contains("scheduled_at")), (400, "invalid_argument", true));
}
