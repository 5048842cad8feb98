//! Crons, over HTTP.

use serde_json::{Value, json};
use windlass_api::PROTOBUF;
use windlass_api::crons::{CreateCronRequest, CronInfoRequest, CronItem};

use crate::world::TestServer;

fn hourly(name: &str) -> Value {
    json!({"cron": name, "queue": "q", "schedule": "@hourly", "item": {"json": {"run": 1}}})
}

#[tokio::test]
async fn a_cron_is_made_shown_changed_stopped_and_deleted() {
    for partitions in [1, 3] {
        let (_server, mut http) = TestServer::with_queue(json!({"partitions": partitions})).await;
        let create = json!({
            "cron": "nightly", "queue": "q", "schedule": "30 2 * * *", "timezone": "Europe/Berlin",
            "item": {
                "json": {"run": 1}, "kind": "report", "priority": 7, "max_attempts": 5, "dead_timeout": "1h",
                "reference": "r", "headers": {"a": "b"},
            },
            "catch_up": "one", "overlap": "skip",
        });
        let made = http.ok("crons.create", create.clone()).await["cron"].clone();
        for field in ["cron", "queue", "schedule", "timezone", "item", "catch_up", "overlap"] {
            assert_eq!(made[field], create[field], "{field}");
        }
        assert_eq!((&made["paused"], &made["last_at"]), (&json!(false), &Value::Null));
        assert_eq!(made["next_times"].as_array().map(Vec::len), Some(10));
        assert_eq!(made["next_at"], made["next_times"][0]);
        let next = made["next_at"].as_str().expect("a time");
        assert!(next.ends_with("T00:30:00.000000Z") || next.ends_with("T01:30:00.000000Z"), "{next}");
        assert_eq!(http.ok("crons.info", json!({"cron": "nightly"})).await["cron"], made);
        let (status, code, _) = http.refused("crons.create", &create).await;
        assert_eq!((status, &*code), (409, "already_exists"));

        let change = json!({"cron": "nightly", "queue": "q", "schedule": "@every 90s", "catch_up": "all"});
        let changed = http.ok("crons.update", change).await["cron"].clone();
        assert_eq!((&changed["schedule"], &changed["catch_up"]), (&json!("@every 90s"), &json!("all")));
        assert_eq!((&changed["item"], &changed["overlap"]), (&made["item"], &json!("skip")));
        let change = json!({"cron": "nightly", "item": {"utf8": "text", "address": "here"}});
        let changed = http.ok("crons.update", change).await["cron"].clone();
        assert_eq!(
            changed["item"],
            json!({"utf8": "text", "kind": "default", "priority": 0, "address": "here"})
        );

        let paused = http.ok("crons.pause", json!({"cron": "nightly"})).await["cron"].clone();
        assert_eq!((&paused["paused"], paused["next_at"].is_string()), (&json!(true), true));
        assert_eq!(http.ok("crons.resume", json!({"cron": "nightly"})).await, json!({}));
        assert_eq!(http.ok("crons.info", json!({"cron": "nightly"})).await["cron"]["paused"], false);
        assert_eq!(http.ok("crons.delete", json!({"cron": "nightly"})).await, json!({}));
        for call in ["info", "delete", "pause", "resume", "trigger", "update"] {
            let (status, code, _) = http.refused(&format!("crons.{call}"), &json!({"cron": "nightly"})).await;
            assert_eq!((status, &*code), (404, "not_found"), "{call}");
        }
        http.ok("crons.create", create).await;
    }
}

#[tokio::test]
async fn an_item_appears_each_second() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 1})).await;
    let create = json!({
        "cron": "tick", "queue": "q", "schedule": "* * * * * *",
        "item": {"json": "now", "kind": "tick", "reference": "r"},
    });
    let made = http.ok("crons.create", create).await["cron"].clone();
    for _ in 0..2 {
        let items = http.lease_within("q", 100, "30s").await;
        assert_eq!((&items[0]["json"], &items[0]["kind"]), (&json!("now"), &json!("tick")));
        assert_eq!(items[0]["reference"], "r");
    }
    let ran = http.ok("crons.info", json!({"cron": "tick"})).await["cron"].clone();
    assert!(ran["last_at"].as_str() >= made["next_at"].as_str(), "{ran}");
    assert!(http.metric(r#"windlass_cron_runs_total{queue="q"}"#).await >= 2);
}

#[tokio::test]
async fn a_trigger_produces_now_and_the_times_stay() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 3})).await;
    let mut create = hourly("tick");
    create["item"]["address"] = json!("here");
    let made = http.ok("crons.create", create).await["cron"].clone();
    http.ok("crons.pause", json!({"cron": "tick"})).await;
    let triggered = http.ok("crons.trigger", json!({"cron": "tick"})).await["item"].clone();
    assert_eq!(triggered, json!({"id": triggered["id"], "state": "waiting"}));
    assert_eq!(http.ok("crons.info", json!({"cron": "tick"})).await["cron"]["next_at"], made["next_at"]);
    let again = http.post("crons.trigger", &json!({"cron": "tick"}).to_string()).await;
    assert_eq!((again.status, again.code()), (409, "duplicate_address".into()));
    assert_eq!(again.json()["error"]["details"]["id"], triggered["id"]);
    let items = http.lease("q", 100).await;
    assert_eq!((&items[0]["id"], &items[0]["address"]), (&triggered["id"], &json!("here")));
}

#[tokio::test]
async fn crons_of_all_queues_are_listed_by_name() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 2})).await;
    http.ok("queues.create", json!({"queue": "other"})).await;
    for (name, queue) in [("c", "q"), ("a", "other"), ("b", "q")] {
        let mut create = hourly(name);
        create["queue"] = json!(queue);
        http.ok("crons.create", create).await;
    }
    let names = |listed: &Value| -> Vec<String> {
        let crons = listed["crons"].as_array().expect("a list");
        crons.iter().map(|cron| cron["cron"].as_str().expect("a name").to_owned()).collect()
    };
    let all = http.ok("crons.list", json!({})).await;
    assert_eq!(names(&all), ["a", "b", "c"]);
    assert_eq!(
        (&all["crons"][0]["queue"], &all["crons"][0]["item"]["json"]),
        (&json!("other"), &json!({"run": 1}))
    );
    assert_eq!(names(&http.ok("crons.list", json!({"limit": 2})).await), ["a", "b"]);
    assert_eq!(names(&http.ok("crons.list", json!({"pivot": "aa", "limit": 1})).await), ["b"]);
    assert!(names(&http.ok("crons.list", json!({"pivot": "c"})).await).is_empty());
    http.ok("queues.delete", json!({"queue": "q"})).await;
    assert_eq!(names(&http.ok("crons.list", json!({})).await), ["a"]);
    let (status, code, _) = http.refused("crons.create", &hourly("b")).await;
    assert_eq!((status, &*code), (404, "not_found"));
    http.ok("queues.create", json!({"queue": "q"})).await;
    http.ok("crons.create", hourly("b")).await;
}

#[tokio::test]
async fn what_is_wrong_is_said_with_its_field() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 1})).await;
    http.ok("queues.create", json!({"queue": "other"})).await;
    http.ok("crons.create", hourly("there")).await;
    let with = |field: &str, value: Value| {
        let mut create = hourly("tick");
        create[field] = value;
        create
    };
    let cases = [
        (with("schedule", json!("61 * * * *")), "`schedule` has `61` as minute, which must be 0 to 59"),
        (with("schedule", json!("* * * *")), "`schedule` must have five fields"),
        (with("schedule", json!("")), "`schedule` must have five fields"),
        (with("schedule", json!("0 0 31 2 *")), "`0 0 31 2 *` never comes"),
        (with("schedule", json!("@every 1ms")), "every 1s or more"),
        (with("schedule", json!("* * * * \u{0}")), "`schedule` has"),
        (with("timezone", json!("Berlin")), "`timezone` must be a name"),
        (with("timezone", json!("")), "`timezone` must be a name"),
        (with("catch_up", json!("some")), "`catch_up` must be"),
        (with("overlap", json!("some")), "`overlap` must be"),
        (with("cron", json!("no name")), "`cron` must be"),
        (with("queue", json!("no name")), "`queue` must be"),
        (with("item", json!({})), "exactly one of them"),
        (with("item", json!({"json": 1, "group": "g"})), "unknown field `group`"),
        (
            with("item", json!({"json": 1, "enqueue_at": "2026-01-01T00:00:00Z"})),
            "unknown field `enqueue_at`",
        ),
        (with("item", json!({"json": 1, "kind": ""})), "`item.kind` must be"),
        (with("item", json!({"json": 1, "priority": 256})), "`item.priority` must be"),
        (with("item", json!({"json": 1, "address": ""})), "`item.address` must be"),
        (with("enabled", json!(true)), "unknown field `enabled`"),
    ];
    for (request, expected) in cases {
        let (status, code, message) = http.refused("crons.create", &request).await;
        assert_eq!((status, &*code), (400, "invalid_argument"), "{request}: {message}");
        assert!(message.contains(expected), "{request}: {message}");
    }
    let large = with("item", json!({"utf8": "x".repeat((1 << 20) + 1)}));
    assert_eq!(http.refused("crons.create", &large).await.0, 413);
    for (change, expected) in [
        (json!({"cron": "there", "schedule": "x"}), "`schedule` must have five fields"),
        (json!({"cron": "there", "timezone": "x"}), "`timezone` must be"),
        (json!({"cron": "there", "queue": "other"}), "`queue` must be unset or `q`"),
        (json!({"cron": "there", "item": {"utf8": "a", "json": 1}}), "exactly one of them"),
    ] {
        let (status, code, message) = http.refused("crons.update", &change).await;
        assert_eq!((status, &*code), (400, "invalid_argument"), "{change}: {message}");
        assert!(message.contains(expected), "{change}: {message}");
    }
    assert_eq!(http.ok("crons.info", json!({"cron": "there"})).await["cron"]["schedule"], "@hourly");
    assert_eq!(http.refused("crons.list", &json!({"limit": 0})).await.0, 400);
}

#[tokio::test]
async fn crons_outlive_a_restart_and_speak_protobuf() {
    let (mut server, mut http) = TestServer::with_queue(json!({"partitions": 1})).await;
    let item = CronItem { bytes: Some(vec![0, 1, 2].into()), ..CronItem::default() };
    let request = CreateCronRequest {
        cron: "tick".into(),
        queue: "q".into(),
        schedule: "@daily".into(),
        item,
        ..CreateCronRequest::default()
    };
    let made = http.call(PROTOBUF, &request).await.expect("made").cron;
    assert_eq!((made.last_at, made.next_times.len(), &*made.timezone), (None, 10, "UTC"));
    server.restart().await;
    let mut http = server.connect().await;
    let shown = http.call(PROTOBUF, &CronInfoRequest { cron: "tick".into() }).await.expect("shown");
    assert_eq!(shown.cron, made);
}
