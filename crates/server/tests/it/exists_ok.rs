//! Queues and crons that may be there already, and `meta` and times of queues, over HTTP.

use serde_json::{Value, json};
use windlass_api::crons::{CreateCronRequest, CronItem};
use windlass_api::queues::{
    CreateQueueRequest, ListQueuesRequest, QueueInfoRequest, RetryPolicyChange, UpdateQueueRequest,
};
use windlass_api::{PROTOBUF, Span, Time};

use crate::http::{Got, Http};
use crate::world::{TestServer, with};

async fn started() -> (TestServer, Http) {
    let server = TestServer::start().await;
    let http = server.connect().await;
    (server, http)
}

/// The field that a refusal names.
fn field(got: &Got) -> Value {
    assert_eq!((got.status, &*got.code()), (409, "already_exists"), "{}", got.message());
    let field = got.json()["error"]["details"]["field"].clone();
    assert!(field.as_str().is_none_or(|field| got.message().contains(field)), "{}", got.message());
    field
}

async fn info(http: &mut Http) -> Value {
    http.ok("queues.info", json!({"queue": "mail"})).await["queue"].clone()
}

#[tokio::test]
async fn a_queue_with_every_setting_given_is_answered_as_it_is() {
    let (_server, mut http) = started().await;
    let create = json!({
        "queue": "mail", "partitions": 2, "lease_timeout": "90s", "dead_queue": "dead", "retry": {"initial": "2s"},
        "meta": {"team": "post", "level": 1}, "exists_ok": true,
    });
    let made = http.ok("queues.create", create.clone()).await;
    assert_eq!(http.ok("queues.create", create.clone()).await, made);
    let same = [
        json!({"queue": "mail", "exists_ok": true}),
        with(
            create.clone(),
            json!({"lease_timeout": "1m30s", "reference": "", "retry": {"factor": 2, "initial": "2000ms"}}),
        ),
        with(
            create.clone(),
            json!({"meta": {"level": 1.0, "team": "post"}, "max_attempts": 3, "retention": "2d"}),
        ),
    ];
    for request in same {
        assert_eq!(http.ok("queues.create", request.clone()).await, made, "{request}");
    }
    let others = [
        ("partitions", json!({"partitions": 1, "lease_timeout": "1m"})),
        ("lease_timeout", json!({"lease_timeout": "1m", "max_attempts": 9})),
        ("max_attempts", json!({"max_attempts": 9})),
        ("dead_queue", json!({"dead_queue": ""})),
        ("retry.initial", json!({"retry": {"initial": "1s"}})),
        ("reference", json!({"reference": "mine"})),
        ("meta", json!({"meta": {"team": "post"}})),
        ("meta", json!({"meta": null})),
    ];
    for (differs, more) in others {
        let got = http.post("queues.create", &with(create.clone(), more.clone()).to_string()).await;
        assert_eq!(field(&got), differs, "{more}");
    }
    let plain =
        http.post("queues.create", &with(create.clone(), json!({"exists_ok": false})).to_string()).await;
    assert_eq!(field(&plain), Value::Null);
    assert_eq!(info(&mut http).await, made["queue"]);
}

#[tokio::test]
async fn a_malformed_setting_is_told_whether_or_not_the_queue_is_there() {
    let (_server, mut http) = started().await;
    for _ in 0..2 {
        let wrong = json!({"queue": "mail", "exists_ok": true, "retry": {"factor": 0}});
        let got = http.post("queues.create", &wrong.to_string()).await;
        assert_eq!((got.status, &*got.code()), (400, "invalid_argument"));
        http.ok("queues.create", json!({"queue": "mail", "exists_ok": true})).await;
    }
}

#[tokio::test]
async fn a_cron_with_every_field_given_is_answered_as_it_is() {
    let (_server, mut http) = started().await;
    http.ok("queues.create", json!({"queue": "q", "partitions": 2})).await;
    http.ok("queues.create", json!({"queue": "other"})).await;
    let item = json!({"json": {"a": 1, "b": "ü"}, "priority": 3, "headers": {"h": "v"}, "delay": "1h"});
    let create = json!({
        "cron": "tick", "queue": "q", "schedule": "@hourly", "item": item, "overlap": "skip", "exists_ok": true,
    });
    let made = http.ok("crons.create", create.clone()).await;
    let text = r#"{"exists_ok":true,"cron":"tick","queue":"q","schedule":"0  * * * *","item":{"reference":"","delay":"60m",
        "json":{"b":"\u00fc","a":1.0},"kind":"default","priority":3,"headers":{"h":"v"}},"timezone":"utc"}"#;
    for request in [create.to_string(), text.to_owned()] {
        let got = http.post("crons.create", &request).await;
        assert_eq!((got.status, got.json()), (200, made.clone()), "{request}");
    }
    let of_item = |more: Value| json!({"item": with(item.clone(), more)});
    let others = [
        ("queue", json!({"queue": "other", "schedule": "@daily"})),
        ("schedule", json!({"schedule": "@daily", "item": {"json": 2}})),
        ("timezone", json!({"timezone": "Europe/Berlin"})),
        ("item", json!({"item": {"json": {"a": 1, "b": "ü"}}})),
        ("item", of_item(json!({"json": {"a": 2}}))),
        ("item", of_item(json!({"kind": "other"}))),
        ("item", of_item(json!({"headers": {"h": "w"}}))),
        ("item", with(of_item(json!({"reference": "r"})), json!({"overlap": "allow"}))),
        ("item", of_item(json!({"delay": "2h"}))),
        ("catch_up", json!({"catch_up": "all"})),
        ("overlap", json!({"overlap": "allow"})),
    ];
    for (differs, more) in others {
        let got = http.post("crons.create", &with(create.clone(), more.clone()).to_string()).await;
        assert_eq!(field(&got), differs, "{more}");
    }
    let plain =
        http.post("crons.create", &with(create.clone(), json!({"exists_ok": false})).to_string()).await;
    assert_eq!(field(&plain), Value::Null);
    assert_eq!(http.ok("crons.info", json!({"cron": "tick"})).await, made);
}

#[tokio::test]
async fn meta_is_shown_replaced_and_removed() {
    let (mut server, mut http) = started().await;
    let meta = json!({"team": "post", "nested": {"list": [1, null, "x"]}});
    let made = http.ok("queues.create", json!({"queue": "mail", "meta": meta})).await;
    assert_eq!(made["queue"]["meta"], meta);
    let kept = http.ok("queues.update", json!({"queue": "mail", "max_attempts": 9})).await;
    assert_eq!(kept["queue"]["meta"], meta);
    server.restart().await;
    let mut http = server.connect().await;
    assert_eq!(info(&mut http).await, kept["queue"]);
    let list = http.ok("queues.list", json!({})).await;
    assert_eq!(list["queues"][0].get("meta"), None);
    assert_eq!(http.ok("queues.list", json!({"meta": true})).await["queues"][0]["meta"], meta);
    let replaced = http.ok("queues.update", json!({"queue": "mail", "meta": {}})).await;
    assert_eq!((&replaced["queue"]["meta"], &replaced["queue"]["max_attempts"]), (&json!({}), &json!(9)));
    let removed = http.ok("queues.update", json!({"queue": "mail", "meta": null})).await;
    assert_eq!(removed["queue"].get("meta"), None);
    http.ok("queues.create", json!({"queue": "none", "meta": null})).await;
    assert_eq!(http.ok("queues.info", json!({"queue": "none"})).await["queue"].get("meta"), None);
}

#[tokio::test]
async fn meta_must_be_an_object_of_at_most_64_kib() {
    let (_server, mut http) = started().await;
    http.ok("queues.create", json!({"queue": "mail"})).await;
    let large = |bytes: usize| json!({"a": "x".repeat(bytes - 8)});
    for wrong in [json!([]), json!("{}"), json!(1), json!(true), large(65537)] {
        let requests = [("queues.create", "new"), ("queues.update", "mail")];
        for (call, queue) in requests {
            let got = http.post(call, &json!({"queue": queue, "meta": wrong}).to_string()).await;
            assert_eq!((got.status, &*got.code()), (400, "invalid_argument"), "{call}");
            assert!(got.message().contains("`meta`"), "{}", got.message());
        }
    }
    http.ok("queues.update", json!({"queue": "mail", "meta": large(65536)})).await;
    assert_eq!(http.ok("queues.list", json!({})).await["queues"].as_array().map(Vec::len), Some(1));
}

/// A page is bounded in bytes, and all queues come by pages.
#[tokio::test]
async fn a_list_with_large_meta_comes_in_pages() {
    let (_server, mut http) = started().await;
    let meta = json!({"a": "x".repeat(65_000)});
    for number in 0..150 {
        http.ok("queues.create", json!({"queue": format!("q{number:03}"), "meta": meta})).await;
    }
    let mut seen = Vec::new();
    let mut pages = 0;
    loop {
        let pivot = seen.last().cloned().unwrap_or_else(|| json!(""));
        let page = http.ok("queues.list", json!({"meta": true, "pivot": pivot})).await["queues"].clone();
        let page = page.as_array().expect("a list").clone();
        if page.is_empty() {
            break;
        }
        assert!(page.iter().all(|queue| queue["meta"] == meta));
        seen.extend(page.into_iter().map(|queue| queue["queue"].clone()));
        pages += 1;
    }
    assert_eq!((seen.len(), pages), (150, 2));
    assert_eq!(http.ok("queues.list", json!({})).await["queues"].as_array().map(Vec::len), Some(150));
}

#[tokio::test]
async fn a_queue_tells_when_it_was_made_and_last_updated() {
    let (_server, mut http) = started().await;
    let time = |queue: &Value, field: &str| -> Time {
        queue[field].as_str().expect("a time").parse().expect("a time")
    };
    let made = http.ok("queues.create", json!({"queue": "mail"})).await["queue"].clone();
    assert_eq!(made["created_at"], made["updated_at"]);
    let wider = http.ok("queue.rebalance", json!({"queue": "mail", "partitions": 2})).await["queue"].clone();
    assert_eq!(wider["updated_at"], made["updated_at"]);
    let changed =
        http.ok("queues.update", json!({"queue": "mail", "max_attempts": 9})).await["queue"].clone();
    assert_eq!(changed["created_at"], made["created_at"]);
    assert!(time(&changed, "updated_at") > time(&made, "updated_at"));
    assert_eq!(http.ok("queues.list", json!({})).await["queues"][0]["updated_at"], changed["updated_at"]);
}

#[tokio::test]
async fn meta_times_and_exists_ok_travel_in_protobuf() {
    let (_server, mut http) = started().await;
    let create = CreateQueueRequest {
        queue: "mail".into(),
        meta: Some(r#"{ "team" : "post" }"#.into()),
        exists_ok: true,
        ..CreateQueueRequest::default()
    };
    let made = http.call(PROTOBUF, &create).await.expect("made").queue;
    assert_eq!(made.meta.as_deref(), Some(r#"{ "team" : "post" }"#));
    assert!(made.created_at > Time::default() && made.created_at == made.updated_at);
    assert_eq!(http.call(PROTOBUF, &create).await.expect("there").queue, made);
    let retry = Some(RetryPolicyChange { max: Some(Span::from_secs(1)), ..RetryPolicyChange::default() });
    let refused =
        http.call(PROTOBUF, &CreateQueueRequest { retry, ..create.clone() }).await.expect_err("other");
    assert_eq!(refused.error.details.and_then(|details| details.field).as_deref(), Some("retry.max"));
    for wrong in ["", "{", "[]", "{} {}"] {
        let request =
            UpdateQueueRequest { queue: "mail".into(), meta: Some(wrong.into()), ..Default::default() };
        let refused = http.call(PROTOBUF, &request).await.expect_err("no JSON object");
        assert_eq!(refused.error.code, "invalid_argument", "{wrong}");
    }
    let list = ListQueuesRequest { meta: true, ..ListQueuesRequest::default() };
    assert_eq!(http.call(PROTOBUF, &list).await.expect("listed").queues, [made]);
    let update =
        UpdateQueueRequest { queue: "mail".into(), meta: Some(" null ".into()), ..Default::default() };
    assert_eq!(http.call(PROTOBUF, &update).await.expect("updated").queue.meta, None);
    let shown = http.call(PROTOBUF, &QueueInfoRequest { queue: "mail".into() }).await.expect("shown");
    assert_eq!(shown.queue.meta, None);

    let item = CronItem { json: Some(r#"{"a": 1}"#.into()), ..CronItem::default() };
    let cron = |json: &str| CreateCronRequest {
        cron: "tick".into(),
        queue: "mail".into(),
        schedule: "@hourly".into(),
        item: CronItem { json: Some(json.into()), ..item.clone() },
        exists_ok: true,
        ..CreateCronRequest::default()
    };
    let made = http.call(PROTOBUF, &cron(r#"{"a": 1}"#)).await.expect("made");
    assert_eq!(http.call(PROTOBUF, &cron(r#"{"a":1.0}"#)).await, Ok(made));
    let refused = http.call(PROTOBUF, &cron(r#"{"a":2}"#)).await.expect_err("other");
    assert_eq!(refused.error.details.and_then(|details| details.field).as_deref(), Some("item"));
}
