//! Bad input: each gets the contract's code and a message that names what is wrong, and changes nothing.

use serde_json::{Value, json};

use crate::http::{Got, Http};
use crate::world::{TestServer, with};

const ID: &str = "00000000-0000-8000-8000-000000000001";

/// A server with a queue that holds one waiting and one leased item.
async fn prepared() -> (TestServer, Http) {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    http.produce("q", json!([{"utf8": "a"}, {"utf8": "b"}])).await;
    http.lease("q", 1).await;
    (server, http)
}

/// Everything that a call could have changed.
async fn state(http: &mut Http) -> Value {
    let mut stats = http.stats("q").await;
    stats["oldest_waiting_age"] = Value::Null;
    json!({"queues": http.ok("queues.list", json!({})).await, "stats": stats})
}

#[tokio::test]
async fn bad_requests_are_refused_by_name_and_change_nothing() {
    let (_server, mut http) = prepared().await;
    let before = state(&mut http).await;
    let item = |fields: Value| json!({"queue": "q", "items": [fields]});
    let lease = |more: Value| {
        with(json!({"queue": "q", "client_id": "c", "batch_size": 1, "request_timeout": "0s"}), more)
    };
    let long = "x".repeat(129);
    let many: Vec<Value> = (0..1001).map(|_| json!({"utf8": "x"})).collect();
    let headers: serde_json::Map<String, Value> = (0..33).map(|n| (n.to_string(), json!("v"))).collect();
    // The call, its body, the code, and what the message must mention.
    let table = [
        ("queue.produce", json!({"queue": "q", "itmes": []}), "invalid_argument", "itmes"),
        ("queue.produce", item(json!({"utf8": "x", "knd": "k"})), "invalid_argument", "knd"),
        ("queue.produce", json!({"queue": 7, "items": [{"utf8": "x"}]}), "invalid_argument", "queue"),
        ("queue.produce", json!({"queue": "q", "items": {"utf8": "x"}}), "invalid_argument", "items"),
        ("queue.produce", json!({"queue": "q", "items": [[1]]}), "invalid_argument", "items[0]"),
        ("queue.produce", json!({"queue": "q", "items": ["x"]}), "invalid_argument", "an object"),
        ("queues.create", json!({"queue": "n", "retry": ["fixed"]}), "invalid_argument", "retry"),
        ("queue.complete", item(json!({"id": ID, "permit": 1, "result": [1]})), "invalid_argument", "result"),
        (
            "queue.retry",
            item(json!({"id": ID, "permit": 1, "error": ["a", "b"]})),
            "invalid_argument",
            "error",
        ),
        ("queue.complete", item(json!({"id": ID})), "invalid_argument", "items[0].permit"),
        ("queue.extend", item(json!({"id": ID, "permit": 0})), "invalid_argument", "items[0].permit"),
        ("queue.retry", item(json!({"id": ID})), "invalid_argument", "items[0].permit"),
        ("item.get", json!({"queue": "q", "address": "a"}), "not_found", "no item of the address `a`"),
        ("item.get", json!({"queue": "none", "address": "a"}), "not_found", "queue"),
        ("item.get", json!({"queue": "q"}), "invalid_argument", "`address`"),
        ("item.cancel", json!({"address": "a"}), "invalid_argument", "`queue`"),
        ("item.get", json!({}), "invalid_argument", "`id`"),
        ("item.cancel", json!({"id": ID, "queue": "q", "address": "a"}), "invalid_argument", "either `id`"),
        ("item.get", json!({"queue": "q", "address": ""}), "invalid_argument", "`address` must be 1 to 512"),
        ("queues.list", json!([]), "invalid_argument", "object"),
        ("queues.info", json!(["q"]), "invalid_argument", "object"),
        (
            "queue.produce",
            item(json!({"utf8": "x", "priority": "high"})),
            "invalid_argument",
            "items[0].priority",
        ),
        (
            "queue.produce",
            item(json!({"utf8": "x", "priority": 256})),
            "invalid_argument",
            "items[0].priority",
        ),
        (
            "queue.produce",
            item(json!({"utf8": "x", "priority": -1})),
            "invalid_argument",
            "items[0].priority",
        ),
        (
            "queue.produce",
            item(json!({"utf8": "x", "enqueue_at": "tomorrow"})),
            "invalid_argument",
            "enqueue_at",
        ),
        ("queue.produce", item(json!({"utf8": "x", "enqueue_at": 12})), "invalid_argument", "enqueue_at"),
        ("queue.produce", item(json!({"utf8": "x", "kind": ""})), "invalid_argument", "items[0].kind"),
        ("queue.produce", item(json!({"utf8": "x", "kind": long})), "invalid_argument", "items[0].kind"),
        ("queue.produce", item(json!({"utf8": "x", "kind": "a\u{0}b"})), "invalid_argument", "U+0000"),
        (
            "queue.produce",
            item(json!({"utf8": "x", "reference": "a\u{0}b"})),
            "invalid_argument",
            "reference",
        ),
        (
            "queue.produce",
            item(json!({"utf8": "x", "reference": "x".repeat(513)})),
            "invalid_argument",
            "512",
        ),
        (
            "queue.produce",
            item(json!({"utf8": "x", "headers": {"a": "\u{0}"}})),
            "invalid_argument",
            "headers",
        ),
        ("queue.produce", item(json!({"utf8": "x", "headers": headers})), "invalid_argument", "32"),
        (
            "queue.produce",
            item(json!({"utf8": "x", "headers": {"a": "x".repeat(4097)}})),
            "invalid_argument",
            "4096",
        ),
        ("queue.produce", item(json!({"utf8": "x", "headers": {"a": 1}})), "invalid_argument", "headers"),
        ("queue.produce", item(json!({"utf8": "x", "json": 1})), "invalid_argument", "exactly one"),
        ("queue.produce", item(json!({})), "invalid_argument", "exactly one"),
        ("queue.produce", item(json!({"bytes": "***"})), "invalid_argument", "base64"),
        ("queue.produce", item(json!({"utf8": "x".repeat((1 << 20) + 1)})), "too_large", "1048576"),
        ("queue.produce", item(json!({"json": "x".repeat(1 << 20)})), "too_large", "1048576"),
        ("queue.produce", json!({"queue": "q", "items": []}), "invalid_argument", "1 to 1000"),
        ("queue.produce", json!({"queue": "q", "items": many}), "invalid_argument", "at most 1000"),
        (
            "queue.produce",
            json!({"queue": "q", "items": [{"utf8": "good"}, {"utf8": 1}]}),
            "invalid_argument",
            "items[1]",
        ),
        (
            "queue.produce",
            json!({"queue": "q", "items": [{"utf8": "x"}], "request_timeout": "0s"}),
            "invalid_argument",
            "request_timeout",
        ),
        (
            "queue.produce",
            json!({"queue": "q", "items": [{"utf8": "x"}], "request_timeout": "16m"}),
            "invalid_argument",
            "15m",
        ),
        (
            "queue.produce",
            json!({"queue": "q", "items": [{"utf8": "x"}], "request_timeout": "fast"}),
            "invalid_argument",
            "request_timeout",
        ),
        ("queue.produce", json!({"queue": "none", "items": [{"utf8": "x"}]}), "not_found", "queue"),
        ("queue.produce", json!({"queue": "", "items": [{"utf8": "x"}]}), "invalid_argument", "queue"),
        ("queue.produce", json!({"items": [{"utf8": "x"}]}), "invalid_argument", "queue"),
        ("queue.produce", json!({"queue": "a/b", "items": [{"utf8": "x"}]}), "invalid_argument", "queue"),
        ("queue.produce", json!({"queue": "..", "items": [{"utf8": "x"}]}), "invalid_argument", "queue"),
        ("queue.produce", json!({"queue": long, "items": [{"utf8": "x"}]}), "invalid_argument", "128"),
        (
            "queue.produce",
            item(json!({"utf8": "x", "address": "a".repeat(513)})),
            "invalid_argument",
            "`items[0].address` must be 1 to 512",
        ),
        ("queue.produce", item(json!({"utf8": "x", "address": ""})), "invalid_argument", "items[0].address"),
        ("queue.produce", item(json!({"utf8": "x", "address": "\u{0}"})), "invalid_argument", "U+0000"),
        (
            "queue.produce",
            item(json!({"utf8": "x", "group": "no group"})),
            "invalid_argument",
            "`items[0].group` must be 1 to 128",
        ),
        (
            "queue.produce",
            json!({"queue": "q", "items": [{"utf8": "x"}], "idempotency_key": ""}),
            "invalid_argument",
            "`idempotency_key` must be 1 to 128",
        ),
        (
            "queue.produce",
            json!({"queue": "q", "items": [{"utf8": "x"}], "idempotency_key": "k".repeat(129)}),
            "invalid_argument",
            "`idempotency_key`",
        ),
        (
            "queue.produce",
            json!({"queue": "q", "items": [{"utf8": "x"}], "idempotency_key": "\u{0}"}),
            "invalid_argument",
            "U+0000",
        ),
        ("queue.lease", lease(json!({"batch_size": 0})), "invalid_argument", "batch_size"),
        ("queue.lease", lease(json!({"batch_size": 1001})), "invalid_argument", "batch_size"),
        ("queue.lease", lease(json!({"client_id": ""})), "invalid_argument", "client_id"),
        ("queue.lease", lease(json!({"client_id": "a\u{0}"})), "invalid_argument", "client_id"),
        ("queue.lease", lease(json!({"max_priority": 256})), "invalid_argument", "max_priority"),
        ("queue.lease", lease(json!({"kinds": "email"})), "invalid_argument", "kinds"),
        ("queue.lease", lease(json!({"kinds": [""]})), "invalid_argument", "`kinds`"),
        ("queue.lease", lease(json!({"kinds": vec!["k"; 1001]})), "invalid_argument", "kinds"),
        ("queue.lease", lease(json!({"lease_timeout": "0s"})), "invalid_argument", "lease_timeout"),
        ("queue.lease", lease(json!({"request_timeout": "901s"})), "invalid_argument", "15m"),
        ("queue.lease", lease(json!({"queue": "none"})), "not_found", "queue"),
        ("queue.complete", item(json!({"id": "7", "permit": 1})), "invalid_argument", "items[0].id"),
        ("queue.complete", item(json!({"id": ID, "permit": "1"})), "invalid_argument", "permit"),
        (
            "queue.complete",
            item(json!({"id": ID, "permit": 1, "result": {}})),
            "invalid_argument",
            "items[0].result",
        ),
        (
            "queue.complete",
            item(json!({"id": ID, "permit": 1, "result": {"utf8": "x".repeat((1 << 20) + 1)}})),
            "too_large",
            "1048576",
        ),
        (
            "queue.complete",
            json!({"queue": "none", "items": [{"id": ID, "permit": 1}]}),
            "not_found",
            "queue",
        ),
        (
            "queue.retry",
            item(json!({"id": ID, "permit": 1, "retry_at": "x"})),
            "invalid_argument",
            "retry_at",
        ),
        (
            "queue.retry",
            item(json!({"id": ID, "permit": 1, "error": {"message": "x".repeat(4097)}})),
            "invalid_argument",
            "4096",
        ),
        (
            "queue.retry",
            item(json!({"id": ID, "permit": 1, "error": {"code": "", "message": "x"}})),
            "invalid_argument",
            "error.code",
        ),
        (
            "queue.retry",
            item(json!({"id": ID, "permit": 1, "error": {"message": "a\u{0}"}})),
            "invalid_argument",
            "error.message",
        ),
        (
            "queue.extend",
            json!({"queue": "q", "lease_timeout": "0s", "items": [{"id": ID, "permit": 1}]}),
            "invalid_argument",
            "lease_timeout",
        ),
        ("queue.extend", json!({"queue": "q", "items": []}), "invalid_argument", "1 to 1000"),
        ("queue.release", item(json!({"id": ID, "permit": -1})), "invalid_argument", "permit"),
        ("item.get", json!({"id": "not one"}), "invalid_argument", "id"),
        ("item.get", json!({"id": ID}), "not_found", "item"),
        ("item.get", json!({"id": "f47ac10b-58cc-4372-a567-0e02b2c3d479"}), "not_found", "item"),
        ("item.cancel", json!({"id": ID}), "not_found", "item"),
        ("queues.create", json!({"queue": "q"}), "already_exists", "queue"),
        ("queues.create", json!({"queue": "n", "partitions": 0}), "invalid_argument", "partitions"),
        ("queues.create", json!({"queue": "n", "partitions": 1025}), "invalid_argument", "partitions"),
        ("queues.create", json!({"queue": "n", "lease_timeout": "0s"}), "invalid_argument", "lease_timeout"),
        (
            "queues.create",
            json!({"queue": "n", "lease_timeout": "1 minute"}),
            "invalid_argument",
            "lease_timeout",
        ),
        ("queues.create", json!({"queue": "n", "requeue": "front"}), "invalid_argument", "requeue"),
        (
            "queues.create",
            json!({"queue": "n", "retry": {"strategy": "random"}}),
            "invalid_argument",
            "strategy",
        ),
        ("queues.create", json!({"queue": "n", "retry": {"jitter": 2.0}}), "invalid_argument", "jitter"),
        ("queues.create", json!({"queue": "n", "retry": {"factor": 0.5}}), "invalid_argument", "factor"),
        (
            "queues.create",
            json!({"queue": "n", "dead_queue": "n"}),
            "invalid_argument",
            "`dead_queue` must be another queue",
        ),
        ("queues.update", json!({"queue": "q", "partitions": 2}), "invalid_argument", "use queue.rebalance"),
        ("queue.stats", json!({"queue": "q", "partitions": 2}), "invalid_argument", "unknown field"),
        ("queue.rebalance", json!({"queue": "none", "partitions": 2}), "not_found", "queue"),
        ("queue.rebalance", json!({"queue": "q"}), "invalid_argument", "`partitions`"),
        ("queue.rebalance", json!({"queue": "q", "partitions": 0}), "invalid_argument", "`partitions`"),
        ("queue.rebalance", json!({"queue": "q", "partitions": 1025}), "invalid_argument", "`partitions`"),
        ("queues.update", json!({"queue": "none"}), "not_found", "queue"),
        ("queues.info", json!({"queue": "none"}), "not_found", "queue"),
        ("queues.list", json!({"limit": 0}), "invalid_argument", "limit"),
        ("queues.list", json!({"limit": 1001}), "invalid_argument", "limit"),
        ("queues.list", json!({"order": "busiest"}), "invalid_argument", "`order`"),
        ("queues.list", json!({"order": "waiting", "pivot": "q"}), "invalid_argument", "`pivot`"),
        ("queues.history", json!({"queues": []}), "invalid_argument", "`queues`"),
        ("queues.history", json!({"queues": vec!["q"; 101]}), "invalid_argument", "`queues`"),
        ("queues.history", json!({"queues": [".."]}), "invalid_argument", "`queues`"),
        ("queues.history", json!({"span": "0s"}), "invalid_argument", "`span`"),
        ("queues.history", json!({"span": "25h"}), "invalid_argument", "`span`"),
        ("queues.delete", json!({"queue": "q"}), "not_empty", "force"),
        ("queue.stats", json!({"queue": "none"}), "not_found", "queue"),
        ("queue.clear", json!({"queue": "q", "waiting": "yes"}), "invalid_argument", "waiting"),
        ("queues.create", json!({"queue": "n", "dead_queue": "a/b"}), "invalid_argument", "`dead_queue`"),
        ("queues.create", json!({"queue": "n", "dead_timeout": "-1s"}), "invalid_argument", "dead_timeout"),
        ("queues.update", json!({"queue": "q", "dead_queue": "q"}), "invalid_argument", "`dead_queue`"),
        ("queue.redrive", json!({"queue": "none"}), "not_found", "queue"),
        ("queue.redrive", json!({"queue": "q", "to": "none"}), "not_found", "queue"),
        ("queue.redrive", json!({"queue": "q", "to": "q"}), "invalid_argument", "`to` must be another"),
        ("queue.redrive", json!({"queue": "q", "to": ".."}), "invalid_argument", "`to`"),
        ("queue.redrive", json!({"queue": "q", "kind": ""}), "invalid_argument", "`kind`"),
        ("queue.redrive", json!({"queue": "q", "limit": 0}), "invalid_argument", "`limit`"),
        (
            "storage/items.import",
            json!({"queue": "q", "items": [{"utf8": "a", "origin": {"queue": "a", "reason": "luck"}}]}),
            "invalid_argument",
            "`items[0].origin.reason`",
        ),
        (
            "storage/items.import",
            json!({"queue": "q", "items": [{"utf8": "a", "origin": {"queue": "a/b", "reason": "dead"}}]}),
            "invalid_argument",
            "`items[0].origin.queue`",
        ),
        ("queue.reload", json!({"queue": "none"}), "not_found", "queue"),
        ("storage/items.list", json!({"queue": "none", "partition": 1}), "not_found", "queue"),
        ("storage/items.list", json!({"queue": "q"}), "invalid_argument", "partition"),
        ("storage/items.list", json!({"queue": "q", "partition": 77}), "not_found", "partition"),
        (
            "storage/items.list",
            json!({"queue": "q", "partition": 1, "limit": 0}),
            "invalid_argument",
            "limit",
        ),
        (
            "storage/items.list",
            json!({"queue": "q", "partition": 1, "limit": 1001}),
            "invalid_argument",
            "limit",
        ),
        (
            "storage/items.list",
            json!({"queue": "q", "partition": 1, "pivot": "x"}),
            "invalid_argument",
            "pivot",
        ),
        (
            "storage/scheduled.list",
            json!({"queue": "q", "partition": 1, "pivot": "01980f7e-0000-7000-8000-000000000000"}),
            "not_found",
            "pivot",
        ),
        ("storage/items.import", json!({"queue": "q", "items": []}), "invalid_argument", "1 to 1000"),
        ("storage/items.import", json!({"queue": "none", "items": [{"utf8": "x"}]}), "not_found", "queue"),
        ("storage/items.import", item(json!({"utf8": "x", "json": 1})), "invalid_argument", "exactly one"),
        ("storage/items.import", item(json!({"utf8": "x", "kind": ""})), "invalid_argument", "items[0].kind"),
        (
            "storage/items.import",
            item(json!({"utf8": "x", "state": "new"})),
            "invalid_argument",
            "items[0].state",
        ),
        (
            "storage/items.import",
            item(json!({"utf8": "x", "state": "scheduled"})),
            "invalid_argument",
            "enqueue_at",
        ),
        ("storage/items.import", item(json!({"utf8": "x", "priority": 256})), "invalid_argument", "priority"),
        ("storage/items.import", item(json!({"utf8": "x", "colour": 1})), "invalid_argument", "colour"),
        ("storage/items.delete", json!({"queue": "q", "ids": []}), "invalid_argument", "ids"),
        ("storage/items.delete", json!({"queue": "q", "ids": ["x"]}), "invalid_argument", "ids[0]"),
        (
            "storage/items.delete",
            json!({"queue": "none", "ids": ["01980f7e-0000-7000-8000-000000000000"]}),
            "not_found",
            "queue",
        ),
        ("queue.prodduce", json!({}), "not_found", "queue.prodduce"),
    ];
    for (call, body, code, mention) in table {
        let got = http.post(call, &body.to_string()).await;
        check(&got, call, code, mention);
        assert_eq!(state(&mut http).await, before, "{call} {body} changed something");
    }
}

fn check(got: &Got, what: &str, code: &str, mention: &str) {
    let text = String::from_utf8_lossy(&got.body);
    assert_eq!(got.code(), code, "{what}: {text}");
    assert!(got.message().contains(mention), "{what} does not mention {mention:?}: {text}");
    let status = windlass_api::Code::parse(code).expect("a code of the contract").status();
    assert_eq!(got.status, status, "{what}");
    assert!(got.headers.contains_key("windlass-request-id"), "{what}");
}

#[tokio::test]
async fn what_is_not_json_or_not_a_call_is_refused() {
    let (server, mut http) = prepared().await;
    let json = [("content-type", "application/json")];
    for body in [&b"{"[..], b"nothing", b"{} {}", b"\xff\xfe", b"{\"queue\": \"q\", \"queue\": \"q\"}"] {
        let got = http.request("POST", "/v1/queues.info", &json, body).await;
        check(&got, "not json", "invalid_argument", "");
    }
    let got = http.request("GET", "/v1/queues.info", &[], b"").await;
    check(&got, "GET", "method_not_allowed", "POST");
    assert_eq!(got.headers["allow"], "POST");
    let got = http.request("POST", "/metrics", &json, b"{}").await;
    check(&got, "POST /metrics", "method_not_allowed", "GET");
    // A body that nobody read ends the connection.
    assert_eq!(got.headers["connection"], "close");
    let mut http = server.connect().await;
    check(&http.get("/nothing").await, "/nothing", "not_found", "path");
    for media in ["text/plain", "application/x-www-form-urlencoded", "nonsense"] {
        let mut http = server.connect().await;
        let got = http.request("POST", "/v1/queues.info", &[("content-type", media)], b"{}").await;
        check(&got, media, "unsupported_media_type", "application/json");
    }
    let mut http = server.connect().await;
    let got = http.request("POST", "/v1/queues.list", &[("origin", "http://elsewhere.example")], b"{}").await;
    check(&got, "origin", "permission_denied", "origin");
}

#[tokio::test]
async fn an_empty_body_is_an_empty_object() {
    let (_server, mut http) = prepared().await;
    let got = http.request("POST", "/v1/queues.list", &[], b"").await;
    assert_eq!(got.status, 200);
    assert_eq!(got.json()["queues"][0]["queue"], "q");
}

#[tokio::test]
async fn truncated_protobuf_is_refused_at_every_byte() {
    use prost::Message;
    use windlass_api::error::ErrorReply;
    use windlass_api::items::{NewItem, ProduceRequest};

    let (_server, mut http) = prepared().await;
    let item = NewItem { utf8: Some("text".into()), kind: Some("k".into()), ..NewItem::default() };
    let request = ProduceRequest { queue: "q".into(), items: vec![item], ..ProduceRequest::default() };
    let whole = request.encode_to_vec();
    let before = state(&mut http).await;
    let headers = [("content-type", "application/protobuf")];
    for cut in 0..whole.len() {
        let got = http.request("POST", "/v1/queue.produce", &headers, &whole[..cut]).await;
        assert_eq!(got.status, 400, "cut at {cut}");
        let reply = ErrorReply::decode(&*got.body).expect("an error in the request's encoding");
        assert_eq!(reply.error.code, "invalid_argument", "cut at {cut}");
    }
    assert_eq!(state(&mut http).await, before);
}

#[tokio::test]
async fn a_permit_of_another_lease_and_an_item_of_another_queue_are_judged_by_themselves() {
    let (_server, mut http) = prepared().await;
    http.ok("queues.create", json!({"queue": "other"})).await;
    http.produce("other", json!([{"utf8": "x"}])).await;
    let leased = http.lease("other", 1).await.remove(0);
    let (id, permit) = (&leased["id"], leased["permit"].as_u64().expect("a number"));
    let unknown = "f47ac10b-58cc-4372-a567-0e02b2c3d479";
    let items = json!([
        {"id": id, "permit": permit + 1},
        {"id": unknown, "permit": permit},
        {"id": id, "permit": permit},
        {"id": id, "permit": permit},
    ]);
    for (call, done) in [("queue.extend", "items"), ("queue.complete", "completed")] {
        let wrong_queue = http.ok(call, json!({"queue": "q", "items": [{"id": id, "permit": permit}]})).await;
        assert_eq!(wrong_queue["failed"][0]["code"], "not_found", "{call}");
        let judged = http.ok(call, json!({"queue": "other", "items": items})).await;
        let failed = judged["failed"].as_array().expect("a list");
        assert_eq!(failed[0]["code"], "lease_lost", "{call}: {judged}");
        assert_eq!(failed[0]["id"], *id);
        assert_eq!(failed[0]["permit"], permit + 1);
        assert!(failed[0].get("details").is_none(), "no reason for a permit that was never given");
        assert_eq!(failed[1]["code"], "not_found", "{call}");
        match call {
            "queue.extend" => assert_eq!(judged[done].as_array().map(Vec::len), Some(2)),
            _ => assert_eq!((judged[done].as_u64(), &failed[2]["code"]), (Some(1), &json!("not_found"))),
        }
    }
}

#[tokio::test]
async fn what_was_sent_is_told_back_only_in_part() {
    let (_server, mut http) = prepared().await;
    let long = "x".repeat(1 << 20);
    for body in [json!({long.clone(): 1}), json!({"limit": long})] {
        let got = http.post("queues.list", &body.to_string()).await;
        assert_eq!((got.status, got.code().as_str()), (400, "invalid_argument"));
        assert!(got.body.len() < 2000, "{} bytes", got.body.len());
    }
}

#[tokio::test]
async fn a_list_without_end_is_refused_before_it_is_held_in_memory() {
    use prost::Message;
    use windlass_api::error::ErrorReply;

    let (_server, mut http) = prepared().await;
    // Each element takes two bytes here, and hundreds as an item.
    let many = [&b"\x0a\x01q"[..], &b"\x1a\x00".repeat(1001)].concat();
    let headers = [("content-type", "application/protobuf")];
    let got = http.request("POST", "/v1/queue.produce", &headers, &many).await;
    let reply = ErrorReply::decode(&*got.body).expect("an error in the request's encoding");
    assert_eq!((got.status, reply.error.code.as_str()), (400, "invalid_argument"));
    assert!(reply.error.message.contains("at most 1000"), "{reply:?}");
    let lease = format!(
        r#"{{"queue": "q", "client_id": "c", "batch_size": 1, "kinds": ["{}"]}}"#,
        "k".repeat(1 << 20)
    );
    let got = http.post("queue.lease", &lease).await;
    assert_eq!((got.status, got.code().as_str()), (413, "too_large"));
}

#[tokio::test]
async fn bad_changes_of_an_item_are_refused_before_it_is_sought() {
    let (_server, mut http) = prepared().await;
    let nobody = "00000000-0000-8000-8000-00000000ffff";
    // `ID` is leased, which would be `wrong_state`.
    let names = [json!({"id": nobody}), json!({"id": ID}), json!({"queue": "none", "address": "a"})];
    for name in names {
        for (call, fields, mentioned) in [
            ("item.update", json!({"priority": 256}), "`priority`"),
            ("item.update", json!({"enqueue_at": "2030-01-01T00:00:00Z", "delay": "1s"}), "`delay`"),
            ("item.update", json!({"delay": "36501d"}), "`delay`"),
            ("item.update", json!({"json": 1, "utf8": "x"}), "`json`"),
            ("item.update", json!({"reference": "x".repeat(513)}), "`reference`"),
            ("item.rerun", json!({"delay": "36501d"}), "`delay`"),
        ] {
            let request = with(name.clone(), fields);
            let (status, code, message) = http.refused(call, &request).await;
            assert_eq!((status, &*code), (400, "invalid_argument"), "{call} {request}");
            assert!(message.contains(mentioned), "{call} {request}: {message}");
        }
    }
}
