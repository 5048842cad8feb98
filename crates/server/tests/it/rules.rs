//! Pausing, blocking and explaining, over HTTP.

use serde_json::{Value, json};

use crate::http::Http;
use crate::world::{TestServer, held, with};

async fn produce_kinds(http: &mut Http, kinds: &[&str]) -> Vec<Value> {
    http.produce("q", kinds.iter().map(|kind| json!({"json": 1, "kind": kind})).collect()).await
}

async fn codes(http: &mut Http, id: &Value) -> Vec<String> {
    let told = http.ok("item.explain", json!({"id": id})).await;
    let reasons = told["reasons"].as_array().expect("a list");
    assert!(
        reasons.iter().all(|reason| reason["message"].as_str().is_some_and(|text| text.len() > 10)),
        "{told}"
    );
    reasons.iter().map(|reason| reason["code"].as_str().expect("a code").to_owned()).collect()
}

#[tokio::test]
async fn a_pause_and_a_block_are_set_listed_and_lifted() {
    let (mut server, mut http) = TestServer::with_queue(json!({})).await;
    produce_kinds(&mut http, &["mail", "report"]).await;
    let pause = json!({"queue": "q", "reason": "a deploy", "until": "2999-01-01T00:00:00Z"});
    let rule = http.ok("queue.pause", pause).await["rule"].clone();
    assert_eq!((&rule["rule"], &rule["queue"]), (&json!("pause"), &json!("q")));
    assert_eq!(
        (&rule["reason"], &rule["until"]),
        (&json!("a deploy"), &json!("2999-01-01T00:00:00.000000Z"))
    );
    assert!(rule.get("kind").is_none() && rule["created_at"].is_string(), "{rule}");
    let block = http.ok("queue.block", json!({"queue": "q", "kind": "mail"})).await["rule"].clone();
    assert_eq!((&block["rule"], &block["kind"]), (&json!("block"), &json!("mail")));
    let again = http.ok("queue.pause", json!({"queue": "q"})).await["rule"].clone();
    assert_eq!(again, json!({"rule": "pause", "queue": "q", "created_at": rule["created_at"]}));
    assert_eq!(http.lease("q", 100).await, Vec::<Value>::new());

    server.restart().await;
    let mut http = server.connect().await;
    let rules = http.ok("rules.list", json!({})).await["rules"].clone();
    assert_eq!(rules, json!([again, block]));
    assert_eq!(http.ok("rules.list", json!({"queue": "q"})).await["rules"], rules);
    let stats = http.stats("q").await;
    assert_eq!(
        (&stats["paused"], &stats["blocked"], &stats["stopped"]),
        (&json!(true), &json!(false), &json!(2))
    );
    assert_eq!(
        (&stats["counts"]["waiting"], &stats["partitions"][0]["state"]),
        (&json!(2), &json!("paused"))
    );

    assert_eq!(http.ok("queue.resume", json!({"queue": "q"})).await, json!({}));
    let kinds: Vec<_> = http.lease("q", 100).await.iter().map(|item| item["kind"].clone()).collect();
    assert_eq!(kinds, [json!("report")]);
    let stats = http.stats("q").await;
    assert_eq!((&stats["paused"], &stats["stopped"]), (&json!(false), &json!(1)));
    assert_eq!(stats["partitions"][0]["state"], "available");
    for _ in 0..2 {
        assert_eq!(http.ok("queue.unblock", json!({"queue": "q", "kind": "mail"})).await, json!({}));
    }
    assert_eq!(http.lease("q", 100).await.len(), 1);
    assert_eq!(http.ok("rules.list", json!({})).await, json!({"rules": []}));
}

#[tokio::test]
async fn a_change_of_rules_tells_the_commits_of_the_registry_and_of_each_partition() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 3})).await;
    for call in ["queue.pause", "queue.resume"] {
        let got = http.post(call, r#"{"queue": "q"}"#).await;
        let commits = got.headers.get("windlass-commit").expect("it changed something").clone();
        assert_eq!(commits.split(',').count(), 4, "{commits}");
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let long = "x".repeat(513);
    for (call, body, status, code, says) in [
        ("queue.pause", json!({"queue": "no"}), 404, "not_found", "no queue"),
        ("queue.resume", json!({"queue": "no"}), 404, "not_found", "no queue"),
        ("rules.list", json!({"queue": "no"}), 404, "not_found", "no queue"),
        (
            "queue.block",
            json!({"queue": "q", "until": "2000-01-01T00:00:00Z"}),
            400,
            "invalid_argument",
            "until",
        ),
        ("queue.block", json!({"queue": "q", "reason": long}), 400, "invalid_argument", "reason"),
        ("queue.pause", json!({"queue": "q", "kind": ""}), 400, "invalid_argument", "kind"),
        ("queue.unblock", json!({"queue": "q", "kind": "a\u{0}b"}), 400, "invalid_argument", "kind"),
        ("queue.pause", json!({"queue": "q", "kinds": ["a"]}), 400, "invalid_argument", "kinds"),
        ("item.explain", json!({"id": "no"}), 400, "invalid_argument", "id"),
        ("item.explain", json!({"id": "01980f7e-0000-7000-8000-000000000001"}), 404, "not_found", "item"),
    ] {
        let got = http.post(call, &body.to_string()).await;
        assert_eq!((got.status, got.code().as_str()), (status, code), "{call} {body}");
        assert!(got.message().contains(says), "{call} {body}: {}", got.message());
    }
    assert_eq!(http.ok("rules.list", json!({})).await, json!({"rules": []}));
}

#[tokio::test]
async fn an_item_is_told_everything_that_stands_in_its_way() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let ids = produce_kinds(&mut http, &["mail", "report", "mail"]).await;
    assert_eq!(codes(&mut http, &ids[0]).await, ["no_worker"]);
    let told = http.ok("item.explain", json!({"id": ids[2]})).await;
    assert_eq!((&told["id"], &told["state"]), (&json!(ids[2]), &json!("waiting")));
    let behind = &told["reasons"][0];
    assert_eq!(
        (&behind["code"], &behind["position"], &behind["exact"]),
        (&json!("behind"), &json!(2), &json!(true))
    );

    http.ok("queue.block", json!({"queue": "q", "reason": "an audit"})).await;
    http.ok("queue.pause", json!({"queue": "q", "kind": "mail", "until": "2999-01-01T00:00:00Z"})).await;
    let told = http.ok("item.explain", json!({"id": ids[0]})).await["reasons"].clone();
    assert_eq!((&told[0]["code"], &told[0]["reason"]), (&json!("blocked"), &json!("an audit")));
    assert!(told[0].get("kind").is_none() && told[0]["created_at"].is_string(), "{told}");
    assert_eq!((&told[1]["code"], &told[1]["kind"]), (&json!("paused"), &json!("mail")));
    assert_eq!(told[1]["until"], "2999-01-01T00:00:00.000000Z");
    assert_eq!(codes(&mut http, &ids[1]).await, ["blocked", "no_worker"]);
    http.ok("queue.unblock", json!({"queue": "q"})).await;

    let leased = http.lease("q", 100).await;
    let told = http.ok("item.explain", json!({"id": ids[1]})).await;
    assert_eq!((&told["state"], &told["reasons"][0]["code"]), (&json!("leased"), &json!("leased")));
    assert_eq!(told["reasons"][0]["client_id"], "c");
    assert_eq!(told["reasons"][0]["lease_deadline"], leased[0]["lease_deadline"]);
    let item = with(held(&leased[0]), json!({"result": {"json": 1}}));
    http.ok("queue.complete", json!({"queue": "q", "items": [item]})).await;
    assert_eq!(codes(&mut http, &ids[1]).await, ["final"]);
}

#[tokio::test]
async fn what_is_scheduled_held_or_on_its_way_is_told_so() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let at = "2999-01-01T00:00:00.000000Z";
    let later = http.produce("q", json!([{"json": 1, "enqueue_at": at}])).await;
    let told = http.ok("item.explain", json!({"id": later[0]})).await["reasons"][0].clone();
    assert_eq!((&told["code"], &told["until"]), (&json!("scheduled"), &json!(at)));
    let group = json!({"queue": "q", "group": "g", "items": [{"json": 1}]});
    let member = http.ok("group.create", group).await["items"][0]["id"].clone();
    let told = http.ok("item.explain", json!({"id": member})).await;
    assert_eq!((&told["state"], &told["reasons"][0]["code"]), (&json!("held"), &json!("held")));
    assert_eq!(told["reasons"][0]["group"], "g");
    http.ok("queues.update", json!({"queue": "q", "dead_queue": "not-there-yet"})).await;
    produce_kinds(&mut http, &["mail"]).await;
    let leased = http.lease("q", 100).await;
    let dead = with(held(&leased[0]), json!({"dead": true}));
    http.ok("queue.retry", json!({"queue": "q", "items": [dead]})).await;
    let told = http.ok("item.explain", json!({"id": leased[0]["id"]})).await;
    assert_eq!((&told["state"], &told["reasons"][0]["code"]), (&json!("failed"), &json!("moving")));
    assert_eq!(
        (&told["reasons"][0]["to"], &told["reasons"][1]["code"]),
        (&json!("not-there-yet"), &json!("final"))
    );
}

#[tokio::test]
async fn the_list_of_queues_and_the_metrics_tell_what_is_stopped() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.ok("queues.create", json!({"queue": "r"})).await;
    produce_kinds(&mut http, &["mail", "report"]).await;
    http.ok("queue.pause", json!({"queue": "q", "kind": "mail"})).await;
    http.ok("queue.block", json!({"queue": "r"})).await;
    let queues = http.ok("queues.list", json!({"counts": true})).await["queues"].clone();
    assert_eq!((&queues[0]["counts"]["waiting"], &queues[0]["activity"]["stopped"]), (&json!(2), &json!(1)));
    assert_eq!(
        (&queues[0]["activity"]["paused"], &queues[0]["activity"]["produced"]),
        (&json!(false), &json!(2))
    );
    assert_eq!(queues[1]["activity"]["blocked"], true);
    let bare = http.ok("queues.list", json!({})).await["queues"].clone();
    assert!(bare[0].get("counts").is_none() && bare[0].get("activity").is_none(), "{bare}");
    let metrics = http.metrics().await;
    for line in [
        r#"windlass_stopped_items{queue="q"} 1"#,
        r#"windlass_stopped_items{queue="r"} 0"#,
        r#"windlass_rules{queue="q",rule="pause"} 1"#,
        r#"windlass_rules{queue="r",rule="block"} 1"#,
        r#"windlass_rules{queue="r",rule="pause"} 0"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is missing");
    }
}
