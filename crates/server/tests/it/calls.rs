//! The contract, from the outside: lives of items over HTTP.

use serde_json::{Value, json};
use windlass_api::call::{EachCall, for_each_call};
use windlass_api::{Call, JSON};
use windlass_server::config::RawLimits;

use crate::http::Http;
use crate::world::{TestServer, held_in, with};

/// A connection that has asked for items and is yet to be answered.
async fn waiting_lease(server: &TestServer, queue: &str, batch_size: u32) -> Http {
    let mut http = server.connect().await;
    let request =
        json!({"queue": queue, "client_id": "w", "batch_size": batch_size, "request_timeout": "10m"});
    http.send("POST", "/v1/queue.lease", &[("content-type", JSON)], request.to_string().as_bytes()).await;
    http
}

#[tokio::test]
async fn every_call_of_the_list_is_routed() {
    struct Names(Vec<&'static str>);
    impl EachCall for Names {
        fn visit<C: Call>(&mut self) {
            self.0.push(C::NAME);
        }
    }
    let mut names = Names(Vec::new());
    for_each_call(&mut names);
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    assert!(names.0.len() >= 16);
    for name in names.0 {
        let got = http.post(name, r#"{"no such field": 1}"#).await;
        assert_eq!(got.code(), "invalid_argument", "{name} is not routed to its call");
    }
}

#[tokio::test]
async fn an_item_lives_and_is_shown_at_every_step() {
    let (_server, mut http) = TestServer::with_queue(json!({"max_attempts": 5})).await;
    let item = json!({"json": {"to": "you"}, "kind": "email", "priority": 3, "reference": "order 7", "headers": {"a": "b"}});
    let id = http.produce("q", json!([item])).await.remove(0);
    let shown = http.item(&id).await;
    let expected = json!({
        "id": id, "queue": "q", "partition": 1, "state": "waiting", "kind": "email", "priority": 3, "attempts": 0,
        "max_attempts": 5, "created_at": shown["created_at"], "event_count": 0, "json": {"to": "you"},
        "reference": "order 7", "headers": {"a": "b"}, "changed_at": shown["created_at"], "attempt_log": [],
    });
    assert_eq!(shown, expected);
    let leased = http.lease("q", 10).await.remove(0);
    assert_eq!(
        (&leased["id"], &leased["attempts"], &leased["json"]),
        (&json!(id), &json!(1), &json!({"to": "you"}))
    );
    let shown = http.item(&id).await;
    assert_eq!((&shown["state"], &shown["permit"]), (&json!("leased"), &leased["permit"]));
    assert_eq!((&shown["client_id"], &shown["cancel_requested"]), (&json!("c"), &json!(false)));
    assert_eq!(shown["lease_deadline"], leased["lease_deadline"]);
    let done =
        json!({"queue": "q", "items": [{"id": id, "permit": leased["permit"], "result": {"utf8": "sent"}}]});
    assert_eq!(http.ok("queue.complete", done).await, json!({"completed": 1, "failed": []}));
    let shown = http.item(&id).await;
    assert_eq!((&shown["state"], &shown["result"]), (&json!("completed"), &json!({"utf8": "sent"})));
    assert!(
        shown.get("json").is_none() && shown.get("permit").is_none(),
        "payload and lease are gone: {shown}"
    );
    assert!(shown["finished_at"].as_str().expect("a time").ends_with('Z'));
    assert_eq!((&shown["reference"], &shown["headers"]), (&json!("order 7"), &json!({"a": "b"})));
    assert_eq!(
        with(http.ok("item.cancel", json!({"id": id})).await["item"].clone(), json!({"attempt_log": []})),
        shown,
        "it is final, and stays as it is"
    );
}

#[tokio::test]
async fn a_cancel_shows_reference_and_headers_of_what_it_ends() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let ids = http
        .produce(
            "q",
            json!([{"utf8": "x", "reference": "r"}, {"utf8": "y", "headers": {"a": "b"}}, {"utf8": "z"}]),
        )
        .await;
    let mut shown = Vec::new();
    for id in &ids {
        let item = http.ok("item.cancel", json!({"id": id})).await["item"].clone();
        assert_eq!((&item["state"], item.get("utf8")), (&json!("cancelled"), None));
        shown.push((item.get("reference").cloned(), item.get("headers").cloned()));
    }
    let expected = [(Some(json!("r")), None), (None, Some(json!({"a": "b"}))), (None, None)];
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn every_reply_to_a_change_tells_its_commit() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let got = http.post("queue.produce", r#"{"queue": "q", "items": [{"utf8": "x"}]}"#).await;
    let (partition, first) = got.headers["windlass-commit"].split_once(':').expect("partition:sequence");
    let first: u64 = first.parse().expect("a number");
    let got = http.post("queue.clear", r#"{"queue": "q"}"#).await;
    let (same, second) = got.headers["windlass-commit"].split_once(':').expect("partition:sequence");
    assert_eq!(same, partition);
    assert!(second.parse::<u64>().expect("a number") > first);
    let got = http.post("queues.update", r#"{"queue": "q", "max_attempts": 9}"#).await;
    assert!(got.headers["windlass-commit"].starts_with("0:"), "the registry is partition 0");
    let got = http.post("queues.info", r#"{"queue": "q"}"#).await;
    assert!(!got.headers.contains_key("windlass-commit"), "nothing was changed");
}

#[tokio::test]
async fn a_reply_names_at_most_32_partitions_and_counts_the_others() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 40})).await;
    let got = http.post("queue.clear", r#"{"queue": "q"}"#).await;
    let (named, more) = got.headers["windlass-commit"].rsplit_once(',').expect("several");
    assert_eq!((named.split(',').count(), more), (32, "+8"));
    for commit in named.split(',') {
        let (partition, sequence) = commit.split_once(':').expect("partition:sequence");
        assert!(partition.parse::<u32>().is_ok() && sequence.parse::<u64>().is_ok(), "{commit}");
    }
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 32})).await;
    let got = http.post("queue.clear", r#"{"queue": "q"}"#).await;
    assert_eq!(got.headers["windlass-commit"].split(',').filter(|commit| commit.contains(':')).count(), 32);
}

#[tokio::test]
async fn payloads_come_back_in_the_field_and_the_form_they_were_sent_in() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let body = r#"{"queue":"q","items":[{"json":{"z": 1.10, "a":12345678901234567890123}},{"json":null},{"utf8":""},{"utf8":"\u0000"},{"bytes":""},{"bytes":"AP8="}]}"#;
    assert_eq!(http.post("queue.produce", body).await.status, 200);
    let got = http.post("queue.lease", r#"{"queue":"q","client_id":"c","batch_size":10}"#).await;
    let text = String::from_utf8(got.body.clone()).expect("UTF-8");
    assert!(
        text.contains(r#"{"z": 1.10, "a":12345678901234567890123}"#),
        "the text of the JSON is kept: {text}"
    );
    let items = got.json()["items"].clone();
    assert_eq!((items[1].get("json"), items[1].get("utf8")), (Some(&Value::Null), None));
    assert_eq!((&items[2]["utf8"], &items[3]["utf8"]), (&json!(""), &json!("\u{0}")));
    assert_eq!((&items[4]["bytes"], &items[5]["bytes"]), (&json!(""), &json!("AP8=")));
}

#[tokio::test]
async fn a_queue_is_made_changed_listed_and_deleted() {
    let (_server, mut http) =
        TestServer::with_queue(json!({"lease_timeout": "1h30m", "retry": {"initial": "250ms"}})).await;
    let shown = http.ok("queues.info", json!({"queue": "q"})).await["queue"].clone();
    assert!(shown["created_at"].is_string() && shown["updated_at"] == shown["created_at"], "{shown}");
    let expected = json!({
        "queue": "q", "partitions": 1, "lease_timeout": "1h30m", "max_attempts": 3, "dead_timeout": "0s",
        "retry": {"strategy": "exponential", "initial": "250ms", "factor": 2.0, "max": "1h", "jitter": 0.1},
        "requeue": "keep", "retention": "48h", "retention_max_items": 1_000_000,
        "retention_max_bytes": 1_073_741_824, "max_items": 0, "retain_payload": "failed", "keep": "shown",
        "indexed_headers": [], "created_at": shown["created_at"], "updated_at": shown["updated_at"],
    });
    assert_eq!(shown, expected);
    let update = json!({"queue": "q", "retry": {"factor": 3.5}, "reference": "ours"});
    let changed = http.ok("queues.update", update).await["queue"].clone();
    assert_eq!((&changed["retry"]["factor"], &changed["retry"]["initial"]), (&json!(3.5), &json!("250ms")));
    assert_eq!(changed["reference"], "ours");
    let removed = http.ok("queues.update", json!({"queue": "q", "reference": ""})).await;
    assert!(removed["queue"].get("reference").is_none());
    for name in ["a", "b", "z"] {
        http.ok("queues.create", json!({"queue": name, "partitions": 2})).await;
    }
    let names = |list: &Value| -> Vec<String> {
        list["queues"]
            .as_array()
            .unwrap()
            .iter()
            .map(|queue| queue["queue"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&http.ok("queues.list", json!({})).await), ["a", "b", "q", "z"]);
    assert_eq!(names(&http.ok("queues.list", json!({"pivot": "aa", "limit": 2})).await), ["b", "q"]);
    http.produce("q", json!([{"utf8": "x"}])).await;
    let counted = http.ok("queues.list", json!({"counts": true, "pivot": "b", "limit": 1})).await;
    assert_eq!(counted["queues"][0]["counts"]["waiting"], 1);
    assert_eq!(http.post("queues.delete", r#"{"queue": "q"}"#).await.code(), "not_empty");
    assert_eq!(http.ok("queues.delete", json!({"queue": "q", "force": true})).await, json!({}));
    assert_eq!(http.post("queue.stats", r#"{"queue": "q"}"#).await.code(), "not_found");
}

#[tokio::test]
async fn stats_count_exactly_and_in_full() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 2})).await;
    let items = json!([
        {"utf8": "a", "kind": "x"}, {"utf8": "b", "kind": "y", "priority": 9},
        {"utf8": "c", "kind": "x", "enqueue_at": "2999-01-01T00:00:00Z"},
    ]);
    http.produce("q", items).await;
    http.lease("q", 1).await;
    let stats = http.stats("q").await;
    let counts = json!({"held": 0, "scheduled": 1, "waiting": 1, "leased": 1, "suspended": 0});
    assert_eq!(stats["counts"], counts);
    assert_eq!(
        stats["kinds"]["x"],
        json!({"held": 0, "scheduled": 1, "waiting": 0, "leased": 1, "suspended": 0})
    );
    assert_eq!(stats["kinds"]["y"]["waiting"], 1);
    assert_eq!(stats["priorities"], json!({"9": 1}));
    let zeros = ["moving", "retained", "stopped", "lease_waiters"].map(|name| stats[name].clone());
    assert_eq!(zeros, [0, 0, 0, 0].map(Value::from));
    assert_eq!((&stats["paused"], &stats["blocked"]), (&json!(false), &json!(false)));
    assert_eq!(stats["partitions"].as_array().map(Vec::len), Some(2));
    assert_eq!(stats["partitions"][0]["state"], "available");
}

#[tokio::test]
async fn max_items_is_a_bound_and_says_so() {
    let (_server, mut http) = TestServer::with_queue(json!({"max_items": 2})).await;
    http.produce("q", json!([{"utf8": "a"}])).await;
    let got = http.post("queue.produce", r#"{"queue": "q", "items": [{"utf8": "b"}, {"utf8": "c"}]}"#).await;
    assert_eq!((got.status, got.code()), (429, "overloaded".to_owned()));
    assert!(got.headers.contains_key("retry-after") && got.message().contains("max_items"), "{got:?}");
    http.produce("q", json!([{"utf8": "b"}])).await;
    assert_eq!(http.stats("q").await["counts"]["waiting"], 2);
}

#[tokio::test]
async fn cancelling_answers_with_the_item_and_reaches_the_worker() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let ids = http.produce("q", json!([{"utf8": "a"}, {"utf8": "b"}])).await;
    let leased = http.lease("q", 1).await.remove(0);
    let asked = http.ok("item.cancel", json!({"id": ids[0]})).await["item"].clone();
    assert_eq!((&asked["state"], &asked["cancel_requested"]), (&json!("leased"), &json!(true)));
    let cancelled = http.ok("item.cancel", json!({"id": ids[1]})).await["item"].clone();
    assert_eq!((&cancelled["state"], &cancelled["id"]), (&json!("cancelled"), &json!(ids[1])));
    assert_eq!(leased["id"], ids[0]);
    let held = held_in("q", [&leased]);
    let extended = http.ok("queue.extend", held.clone()).await;
    assert_eq!(extended["items"][0]["cancel_requested"], true);
    http.ok("queue.release", held.clone()).await;
    assert_eq!(http.ok("queue.complete", held).await["completed"], 0);
}

#[tokio::test]
async fn a_lease_that_waits_is_handed_what_another_client_produces() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let mut waiting = waiting_lease(&server, "q", 5).await;
    http.until_lease_waiters("q", 1).await;
    let ids = http.produce("q", json!([{"utf8": "a"}, {"utf8": "b"}])).await;
    let got = waiting.receive().await.json();
    assert_eq!((&got["items"][0]["id"], &got["items"][1]["id"]), (&json!(ids[0]), &json!(ids[1])));
}

#[tokio::test]
async fn a_lease_whose_client_vanished_takes_nothing_along() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    for _ in 0..20 {
        let vanishing = waiting_lease(&server, "q", 1).await;
        http.until_lease_waiters("q", 1).await;
        drop(vanishing);
        http.until_lease_waiters("q", 0).await;
    }
    http.produce("q", json!([{"utf8": "a"}])).await;
    let leased = http.lease("q", 1).await;
    assert_eq!(leased[0]["attempts"], 1, "nobody else was charged for it");
}

#[tokio::test]
async fn items_and_permits_survive_a_restart() {
    let (mut server, mut http) = TestServer::with_queue(json!({"lease_timeout": "1h"})).await;
    http.produce("q", json!([{"utf8": "a"}, {"utf8": "b"}])).await;
    let leased = http.lease("q", 1).await.remove(0);
    server.restart().await;
    let mut http = server.connect().await;
    http.complete("q", [&leased]).await;
    assert_eq!(http.lease("q", 5).await[0]["utf8"], "b");
}

#[tokio::test]
async fn the_pages_answer() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    assert_eq!(http.get("/health").await.status, 200);
    let ready = http.get("/ready").await;
    assert_eq!((ready.status, ready.json()["ready"].clone()), (200, json!(true)));
    let page = String::from_utf8(http.get("/").await.body).expect("text");
    assert!(
        page.contains("Windlass")
            && page.contains(env!("CARGO_PKG_VERSION"))
            && page.contains("/openapi.json")
    );
    let document = http.get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/v1/queue.produce"]["post"].is_object());
}

#[tokio::test]
async fn waiting_leases_are_answered_empty_when_the_server_stops() {
    let (mut server, mut http) = TestServer::with_queue(json!({})).await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(waiting_lease(&server, "q", 1).await);
    }
    http.until_lease_waiters("q", 5).await;
    server.stop().await;
    for mut one in waiting {
        let got = one.receive().await;
        assert_eq!((got.status, got.json()), (200, json!({"items": []})));
    }
}

#[tokio::test]
async fn a_lease_takes_a_waiting_place_only_if_it_has_to_wait() {
    let server =
        TestServer::with(RawLimits { waiting_requests: Some(1.into()), ..RawLimits::default() }).await;
    let mut http = server.connect().await;
    http.ok("queues.create", json!({"queue": "q"})).await;
    http.ok("queues.create", json!({"queue": "other"})).await;
    let _waiting = waiting_lease(&server, "other", 1).await;
    http.until_lease_waiters("other", 1).await;
    let lease = r#"{"queue": "q", "client_id": "c", "batch_size": 1}"#;
    let got = http.post("queue.lease", lease).await;
    assert_eq!(
        (got.status, got.code().as_str()),
        (429, "overloaded"),
        "there is nothing, and no place to wait"
    );
    http.produce("q", json!([{"utf8": "a"}])).await;
    assert_eq!(http.post("queue.lease", lease).await.json()["items"][0]["utf8"], "a");
}

#[tokio::test]
async fn a_backup_is_made_once_and_can_be_served_from() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.produce("q", json!([{"utf8": "a"}])).await;
    let made = http.ok("server.backup", json!({"backup": "monday"})).await;
    assert_eq!(http.post("server.backup", r#"{"backup": "monday"}"#).await.code(), "already_exists");
    assert_eq!(http.post("server.backup", r#"{"backup": "../out"}"#).await.code(), "invalid_argument");
    let restored = TestServer::on(std::path::Path::new(made["path"].as_str().expect("a path"))).await;
    let mut http = restored.connect().await;
    assert_eq!(http.lease("q", 1).await[0]["utf8"], "a");
}

#[tokio::test]
async fn a_cleared_item_with_an_error_is_shown_as_cancelled() {
    let (_server, mut http) = TestServer::with_queue(json!({"max_attempts": 5})).await;
    let id = http.produce("q", json!([{"utf8": "x", "reference": "order 7"}])).await.remove(0);
    let permit = http.lease("q", 1).await[0]["permit"].clone();
    let error = json!({"code": "smtp", "message": "no answer"});
    let retry = json!({"id": id, "permit": permit, "retry_at": "2020-01-01T00:00:00Z", "error": error});
    http.ok("queue.retry", json!({"queue": "q", "items": [retry]})).await;
    let permit = http.lease("q", 1).await[0]["permit"].clone();
    assert_eq!(http.ok("queue.clear", json!({"queue": "q", "leased": true})).await, json!({"cleared": 1}));
    let shown = http.item(&id).await;
    assert_eq!((&shown["state"], &shown["error"]), (&json!("cancelled"), &error));
    assert_eq!((&shown["reference"], &shown["utf8"]), (&json!("order 7"), &json!("x")));
    assert!(shown["finished_at"].is_string() && shown.get("permit").is_none(), "{shown}");
    let done = json!({"queue": "q", "items": [{"id": id, "permit": permit}]});
    let failed = http.ok("queue.complete", done).await["failed"][0].clone();
    assert_eq!((&failed["code"], &failed["details"]["reason"]), (&json!("lease_lost"), &json!("cancelled")));
    assert_eq!(http.stats("q").await["retained"], 1);
}
