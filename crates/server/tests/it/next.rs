//! queue.next over HTTP: a worker's turn.

use serde_json::{Value, json};
use windlass_api::items::{Completion, Extension, Held, NextLease, NextReply, NextRequest};
use windlass_api::{JSON, PROTOBUF};

use crate::http::{Got, Http};
use crate::world::{TestServer, held, list, with};

fn turn(more: Value) -> Value {
    with(json!({"queue": "q", "client_id": "c"}), more)
}

async fn texts(http: &mut Http, texts: &[&str]) -> Vec<Value> {
    http.produce("q", texts.iter().map(|text| json!({"utf8": text})).collect()).await
}

fn empty_reply() -> Value {
    json!({
        "completed": 0, "retried": 0, "dead": 0, "released": 0, "suspended": 0, "extended": [], "failed": [], "items": [],
    })
}

async fn next(http: &mut Http, request: &Value) -> Got {
    let got = http.post("queue.next", &request.to_string()).await;
    assert_eq!(got.status, 200, "{request}: {got:?}");
    got
}

#[tokio::test]
async fn a_turn_settles_and_leases_in_one_commit() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    texts(&mut http, &["a", "b"]).await;
    let leased = http.lease("q", 1).await;
    let before = http.metric("windlass_commits_total").await;
    let request = turn(json!({"complete": [held(&leased[0])], "lease": {"batch_size": 5}}));
    let got = next(&mut http, &request).await;
    assert_eq!(http.metric("windlass_commits_total").await, before + 1);
    assert_eq!(got.headers["windlass-commit"].matches(':').count(), 1, "{got:?}");
    let reply = got.json();
    assert_eq!((&reply["completed"], &reply["failed"]), (&json!(1), &json!([])));
    assert_eq!((&reply["items"][0]["utf8"], list(&reply["items"]).len()), (&json!("b"), 1));
    // What was leased is the worker's: it can be settled in turn.
    let last = turn(json!({"complete": [held(&reply["items"][0])], "lease": {"batch_size": 5}}));
    let reply = next(&mut http, &last).await.json();
    assert_eq!(reply, with(empty_reply(), json!({"completed": 1})), "and it does not wait");
    assert_eq!(http.metric("windlass_commits_total").await, before + 2);
}

#[tokio::test]
async fn every_verb_is_answered_and_every_field_is_always_there() {
    let (_server, mut http) = TestServer::with_queue(json!({"lease_timeout": "1m"})).await;
    texts(&mut http, &["done", "again", "dead", "back", "question", "longer", "longest", "next"]).await;
    let leased = http.lease("q", 7).await;
    let item = |index: usize, more: Value| with(held(&leased[index]), more);
    let request = turn(json!({
        "complete": [item(0, json!({"result": {"json": [1]}}))],
        "retry": [item(1, json!({"delay": "1h", "error": {"message": "busy"}})), item(2, json!({"dead": true}))],
        "release": [held(&leased[3])],
        "suspend": [item(4, json!({"reason": "an answer"}))],
        "extend": [held(&leased[5]), item(6, json!({"lease_timeout": "1h"}))],
        "lease": {"batch_size": 10},
    }));
    let reply = next(&mut http, &request).await.json();
    let counts = ["completed", "retried", "dead", "released", "suspended"].map(|name| reply[name].clone());
    assert_eq!(counts, [1, 1, 1, 1, 1].map(Value::from));
    let extended = list(&reply["extended"]);
    assert_eq!(extended.len(), 2);
    for (extended, leased) in extended.iter().zip(&leased[5..]) {
        assert_eq!((&extended["id"], &extended["cancel_requested"]), (&leased["id"], &json!(false)));
        assert_eq!(extended["inputs"], 0);
    }
    assert!(extended[0]["lease_deadline"].as_str() < extended[1]["lease_deadline"].as_str(), "{extended:?}");
    assert_eq!(reply["failed"], json!([]));
    // Not the one that it gave back, which stands before it.
    let got: Vec<_> = list(&reply["items"]).iter().map(|item| item["utf8"].clone()).collect();
    assert_eq!(got, ["next"]);
    assert_eq!(http.lease("q", 10).await[0]["utf8"], "back");
    assert_eq!(http.item(&leased[4]["id"]).await["reason"], "an answer");
    assert_eq!(http.item(&leased[0]["id"]).await["result"], json!({"json": [1]}));
}

#[tokio::test]
async fn what_is_refused_is_told_with_its_verb_and_the_others_go_on() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    texts(&mut http, &["a", "b"]).await;
    let leased = http.lease("q", 2).await;
    let stale = json!({"id": leased[1]["id"], "permit": 999});
    let unknown = ["f47ac10b-58cc-4372-a567-0e02b2c3d479", "f47ac10b-58cc-4372-a567-0e02b2c3d47a"];
    let unknown = unknown.map(|id| json!({"id": id, "permit": 7}));
    let request = turn(json!({
        "complete": [held(&leased[0]), unknown[0]], "release": [unknown[1]], "extend": [stale],
    }));
    let reply = next(&mut http, &request).await.json();
    assert_eq!(reply["completed"], 1);
    let failed = list(&reply["failed"]);
    let told: Vec<_> =
        failed.iter().map(|failed| (&failed["verb"], &failed["code"], &failed["permit"])).collect();
    let [complete, release, extend] = ["complete", "release", "extend"].map(Value::from);
    let [not_found, lost] = ["not_found", "lease_lost"].map(Value::from);
    let [seven, many] = [7, 999].map(Value::from);
    assert_eq!(
        told,
        [(&complete, &not_found, &seven), (&release, &not_found, &seven), (&extend, &lost, &many)]
    );
    assert_eq!(failed[0]["details"], json!({"id": unknown[0]["id"]}));
    // Other calls tell no verb.
    let again = http.ok("queue.complete", json!({"queue": "q", "items": [held(&leased[0])]})).await;
    assert_eq!((&again["failed"][0]["code"], again["failed"][0].get("verb")), (&not_found, None));
}

#[tokio::test]
async fn a_cancel_reaches_the_worker_with_its_turn() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    texts(&mut http, &["a"]).await;
    let leased = http.lease("q", 1).await;
    http.ok("item.cancel", json!({"id": leased[0]["id"]})).await;
    let reply = next(&mut http, &turn(json!({"extend": [held(&leased[0])]}))).await.json();
    assert_eq!(reply["extended"][0]["cancel_requested"], true);
}

#[tokio::test]
async fn a_turn_without_items_is_a_lease_that_waits() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let mut waiting = server.connect().await;
    let request = turn(json!({"lease": {"batch_size": 5, "request_timeout": "15m", "kinds": ["default"]}}));
    waiting.send("POST", "/v1/queue.next", &[("content-type", JSON)], request.to_string().as_bytes()).await;
    http.until_lease_waiters("q", 1).await;
    let ids = texts(&mut http, &["a"]).await;
    let reply = waiting.receive().await.json();
    assert_eq!(reply["items"][0]["id"], ids[0]);
    assert_eq!(with(reply, json!({"items": []})), empty_reply());
    let at_once = turn(json!({"lease": {"batch_size": 5, "request_timeout": "0s"}}));
    assert_eq!(next(&mut http, &at_once).await.json(), empty_reply());
}

#[tokio::test]
async fn a_turn_that_waits_for_work_ends_with_its_client() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let mut vanishing = server.connect().await;
    let request = turn(json!({"lease": {"batch_size": 1, "request_timeout": "15m"}}));
    vanishing.send("POST", "/v1/queue.next", &[("content-type", JSON)], request.to_string().as_bytes()).await;
    http.until_lease_waiters("q", 1).await;
    drop(vanishing);
    http.until_lease_waiters("q", 0).await;
    texts(&mut http, &["a"]).await;
    assert_eq!(http.lease("q", 1).await[0]["attempts"], 1);
}

#[tokio::test]
async fn what_is_malformed_fails_the_whole_turn_and_settles_nothing() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    texts(&mut http, &["a", "b"]).await;
    let leased = http.lease("q", 2).await;
    let (first, second) = (held(&leased[0]), held(&leased[1]));
    let capitals = json!({"id": leased[0]["id"].as_str().map(str::to_uppercase), "permit": 1});
    let many: Vec<Value> =
        (0..600).map(|number| json!({"id": format!("{number:032x}"), "permit": 1})).collect();
    let wrong_id = json!({"id": "x", "permit": 1});
    let table = [
        (json!({}), "`lease`"),
        (json!({"complete": [], "extend": []}), "`lease`"),
        (json!({"complete": [first], "release": [first]}), "`release[0].id`"),
        (json!({"complete": [first], "retry": [capitals]}), "`retry[0].id`"),
        (json!({"complete": [first, first]}), "`complete[1].id`"),
        (json!({"complete": many, "release": many}), "1000"),
        (json!({"complete": [first], "suspend": [wrong_id]}), "`suspend[0].id`"),
        (
            json!({"complete": [first], "extend": [with(second.clone(), json!({"lease_timeout": "0s"}))]}),
            "`extend[0].lease_timeout`",
        ),
        (
            json!({"complete": [first], "retry": [with(second.clone(), json!({"error": {"message": ""}}))]}),
            "`retry[0].error.message`",
        ),
        (
            json!({"complete": [first], "retry": [with(second.clone(), json!({"delay": "1s", "retry_at": "2020-01-01T00:00:00Z"}))]}),
            "`retry[0].delay`",
        ),
        (json!({"complete": [first, with(second.clone(), json!({"result": {}}))]}), "complete[1].result."),
        (json!({"complete": [first], "lease": {"batch_size": 0}}), "`lease.batch_size`"),
        (json!({"complete": [first], "lease": {"batch_size": 1001}}), "`lease.batch_size`"),
        (
            json!({"complete": [first], "lease": {"batch_size": 1, "request_timeout": "16m"}}),
            "`lease.request_timeout`",
        ),
        (
            json!({"complete": [first], "lease": {"batch_size": 1, "max_priority": 256}}),
            "`lease.max_priority`",
        ),
        (json!({"complete": [first], "lease": {"batch_size": 1, "kinds": [""]}}), "`lease.kinds`"),
        (json!({"complete": [first], "client_id": ""}), "`client_id`"),
        (json!({"complete": [first], "queue": "."}), "`queue`"),
        (json!({"complete": [first], "finish": []}), "finish"),
    ];
    for (request, named) in table {
        let (status, code, message) = http.refused("queue.next", &turn(request.clone())).await;
        assert_eq!((status, code.as_str()), (400, "invalid_argument"), "{request}: {message}");
        assert!(message.contains(named), "{request}: {message}");
    }
    assert_eq!(http.stats("q").await["counts"]["leased"], 2);
    let (status, code, _) =
        http.refused("queue.next", &with(turn(json!({"complete": [first]})), json!({"queue": "none"}))).await;
    assert_eq!((status, code.as_str()), (404, "not_found"));
}

#[tokio::test]
async fn a_lease_by_a_turn_has_a_small_body() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let mut request = turn(json!({"lease": {"batch_size": 1, "request_timeout": "0s"}})).to_string();
    request.push_str(&" ".repeat(2 << 20));
    let got = http.post("queue.next", &request).await;
    assert_eq!((got.status, got.code()), (413, "too_large".to_owned()));
}

async fn typed(encoding: &str) -> (NextReply, NextReply) {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    texts(&mut http, &["a", "b", "c"]).await;
    let leased = http.lease("q", 3).await;
    let name = |index: usize| {
        (
            leased[index]["id"].as_str().expect("an id").to_owned(),
            leased[index]["permit"].as_u64().expect("a permit"),
        )
    };
    let [(done, permit), (kept, kept_permit), (back, back_permit)] = [name(0), name(1), name(2)];
    let request = NextRequest {
        queue: "q".into(),
        client_id: "c".into(),
        complete: vec![Completion { id: done, permit, result: None }],
        release: vec![Held { id: back.clone(), permit: back_permit }],
        extend: vec![Extension { id: kept, permit: kept_permit, lease_timeout: None }],
        lease: Some(NextLease { batch_size: 1, ..NextLease::default() }),
        ..NextRequest::default()
    };
    let first = http.call(encoding, &request).await.expect("done");
    let lease = Some(NextLease { batch_size: 1, ..NextLease::default() });
    let request = NextRequest { queue: "q".into(), client_id: "c".into(), lease, ..NextRequest::default() };
    (first, http.call(encoding, &request).await.expect("leased"))
}

#[tokio::test]
async fn a_turn_is_answered_alike_in_both_encodings() {
    for encoding in [JSON, PROTOBUF] {
        let (settled, leased) = typed(encoding).await;
        assert_eq!((settled.completed, settled.released, settled.extended.len()), (1, 1, 1), "{encoding}");
        assert_eq!((settled.items.len(), settled.failed.len()), (0, 0), "{encoding}");
        assert_eq!((leased.completed, leased.items.len()), (0, 1), "{encoding}");
        assert_eq!(leased.items[0].utf8.as_deref(), Some("c"), "{encoding}");
    }
}
