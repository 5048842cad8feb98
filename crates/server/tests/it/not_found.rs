//! Every `not_found` says in `details` what was not found.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_api::call::{Call, EachCall, for_each_call};
use windlass_api::error::Details;
use windlass_api::items::{GetItemRequest, ProduceRequest};
use windlass_api::queues::QueueInfoRequest;
use windlass_api::{JSON, PROTOBUF};

use crate::http::{Got, Http};
use crate::world::TestServer;

const ID: &str = "00000000-0000-8080-8000-000000000063";
/// A UUID that no item can have.
const FOREIGN: &str = "6F9619FF-8B86-D011-B42D-00C04FC964FF";

/// Calls that name nothing which must be there.
const NAME_NOTHING: [&str; 6] =
    ["queues.create", "queues.list", "crons.list", "storage/unclaimed.list", "server.info", "server.backup"];

/// Requests for what is not there, and the `details` they are refused with.
fn requests() -> Vec<(&'static str, Value, Value)> {
    let no_queue = || json!({"queue": "no"});
    let end = json!({"utf8": "x", "queue": "no"});
    let mut table = vec![
        ("queue.redrive", json!({"queue": "q", "to": "no"}), no_queue()),
        ("queue.rebalance", json!({"queue": "no", "partitions": 2}), no_queue()),
        ("queue.produce", json!({"queue": "no", "items": [{"utf8": "x"}]}), no_queue()),
        ("queue.lease", json!({"queue": "no", "client_id": "w", "batch_size": 1}), no_queue()),
        ("group.create", json!({"queue": "no", "group": "g"}), no_queue()),
        ("group.create", json!({"queue": "q", "group": "g", "end": end}), no_queue()),
        ("group.create", json!({"queue": "q", "group": "g", "abort": end}), no_queue()),
        ("group.set_end", json!({"queue": "q", "group": "there", "end": end}), no_queue()),
        ("group.set_end", json!({"queue": "q", "group": "g", "end": {"utf8": "x"}}), json!({"group": "g"})),
        (
            "crons.create",
            json!({"cron": "c", "queue": "no", "schedule": "@hourly", "item": {"utf8": "x"}}),
            no_queue(),
        ),
        ("storage/items.import", json!({"queue": "no", "items": [{"utf8": "x"}]}), no_queue()),
        ("storage/items.delete", json!({"queue": "no", "ids": [ID]}), no_queue()),
        ("storage/unclaimed.adopt", json!({"queue": "q", "partition": 99}), json!({"partition": 99})),
        ("storage/unclaimed.drop", json!({"partition": 99}), json!({"partition": 99})),
        ("item.emit", json!({"id": ID, "permit": 1, "events": [{"utf8": "x"}]}), json!({"id": ID})),
    ];
    for call in [
        "queues.update",
        "queues.info",
        "queues.delete",
        "queue.stats",
        "queue.clear",
        "queue.redrive",
        "queue.permits",
        "groups.list",
        "queue.reload",
        "queue.pause",
        "queue.resume",
        "queue.block",
        "queue.unblock",
        "rules.list",
        "items.find",
        "items.errors",
    ] {
        table.push((call, no_queue(), no_queue()));
    }
    for call in
        ["queue.complete", "queue.retry", "queue.extend", "queue.release", "queue.suspend", "queue.revoke"]
    {
        table.push((call, json!({"queue": "no", "items": [{"id": ID, "permit": 1}]}), no_queue()));
    }
    table.push(("items.change", json!({"queue": "no", "filter": {}, "action": "cancel"}), no_queue()));
    table.push(("queues.history", json!({"queues": ["q", "no"]}), no_queue()));
    let next = json!({"queue": "no", "client_id": "c", "complete": [{"id": ID, "permit": 1}]});
    table.push(("queue.next", next, no_queue()));
    for call in [
        "item.get",
        "item.wait",
        "item.cancel",
        "item.update",
        "item.rerun",
        "item.explain",
        "item.resume",
        "item.close_streams",
    ] {
        let address = json!({"queue": "q", "address": "a"});
        let elsewhere = json!({"queue": "no", "address": "a"});
        let of = |name: Value| if call == "item.close_streams" { with_mode(name) } else { name };
        table.extend([
            (call, of(json!({"id": ID})), json!({"id": ID})),
            (call, of(json!({"id": FOREIGN})), json!({"id": FOREIGN})),
            (call, of(address.clone()), address),
            (call, of(elsewhere), no_queue()),
        ]);
    }
    for call in ["group.start", "group.cancel", "group.info", "group.delete"] {
        table.push((call, json!({"queue": "no", "group": "g"}), no_queue()));
        table.push((call, json!({"queue": "q", "group": "g"}), json!({"group": "g"})));
    }
    for call in ["crons.update", "crons.info", "crons.delete", "crons.pause", "crons.resume", "crons.trigger"]
    {
        table.push((call, json!({"cron": "c"}), json!({"cron": "c"})));
    }
    for call in ["storage/items.list", "storage/scheduled.list"] {
        let pivot = json!({"queue": "q", "partition": 1, "pivot": ID});
        let partition = json!({"queue": "q", "partition": 99});
        table.push((call, json!({"queue": "no", "partition": 1}), no_queue()));
        table.push((call, partition.clone(), partition));
        table.push((call, pivot, json!({"id": ID})));
    }
    table
}

fn with_mode(mut name: Value) -> Value {
    name["mode"] = json!("graceful");
    name
}

/// A server with the queue `q` and, in it, the group `there`.
async fn prepared() -> (TestServer, Http) {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    http.ok("group.create", json!({"queue": "q", "group": "there"})).await;
    (server, http)
}

fn check(got: &Got, what: &str, details: &Value) {
    assert_eq!((got.status, got.code().as_str()), (404, "not_found"), "{what}: {}", got.message());
    assert_eq!(got.json()["error"]["details"], *details, "{what}");
    for name in details.as_object().unwrap().values() {
        let name = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
        assert!(got.message().contains(&name), "{what}: {}", got.message());
    }
}

#[tokio::test]
async fn every_call_says_what_was_not_found() {
    struct Names(BTreeSet<String>);

    impl EachCall for Names {
        fn visit<C: Call>(&mut self) {
            self.0.insert(C::NAME.to_owned());
        }
    }

    let (_server, mut http) = prepared().await;
    let mut unasked = Names(BTreeSet::new());
    for_each_call(&mut unasked);
    for call in NAME_NOTHING {
        unasked.0.remove(call);
    }
    for (call, request, details) in requests() {
        unasked.0.remove(call);
        check(&http.post(call, &request.to_string()).await, &format!("{call} {request}"), &details);
    }
    assert!(unasked.0.is_empty(), "not asked for something that is not there: {:?}", unasked.0);
}

#[tokio::test]
async fn a_stream_says_what_was_not_found() {
    let (_server, mut http) = prepared().await;
    let table = [
        (format!("id={ID}"), json!({"id": ID})),
        ("queue=q&address=a".to_owned(), json!({"queue": "q", "address": "a"})),
        ("queue=no&address=a".to_owned(), json!({"queue": "no"})),
    ];
    for (query, details) in table {
        check(&http.get(&format!("/v1/item.events?{query}")).await, &query, &details);
    }
}

#[tokio::test]
async fn items_of_a_batch_say_what_was_not_found() {
    let (_server, mut http) = prepared().await;
    for call in
        ["queue.complete", "queue.retry", "queue.extend", "queue.release", "queue.suspend", "queue.revoke"]
    {
        let reply = http.ok(call, json!({"queue": "q", "items": [{"id": FOREIGN, "permit": 1}]})).await;
        let failed = &reply["failed"][0];
        assert_eq!(
            (&failed["code"], &failed["details"]),
            (&json!("not_found"), &json!({"id": FOREIGN})),
            "{call}"
        );
    }
    let reply = http.ok("storage/items.delete", json!({"queue": "q", "ids": [ID]})).await;
    assert_eq!(reply["failed"][0]["details"], json!({"id": ID}));
}

#[tokio::test]
async fn a_member_of_no_group_says_which_group_was_not_found() {
    let (_server, mut http) = prepared().await;
    let items = json!([{"utf8": "x", "group": "there"}, {"utf8": "x", "group": "g"}]);
    let once = json!({"queue": "q", "idempotency_key": "k", "items": items});
    // The second time the answer comes from what is kept of the first.
    for request in [json!({"queue": "q", "items": items}), once.clone(), once] {
        let reply = http.ok("queue.produce", request).await;
        let error = &reply["items"][1]["error"];
        assert_eq!(
            (&error["code"], &error["details"]),
            (&json!("not_found"), &json!({"group": "g"})),
            "{reply}"
        );
    }
    let reply = http.ok("storage/items.import", json!({"queue": "q", "items": items})).await;
    assert_eq!(reply["items"][1]["error"]["details"], json!({"group": "g"}), "{reply}");
}

#[tokio::test]
async fn both_encodings_say_what_was_not_found() {
    let (_server, mut http) = prepared().await;
    for encoding in [JSON, PROTOBUF] {
        let by_address = GetItemRequest {
            queue: Some("q".into()),
            address: Some("a".into()),
            ..GetItemRequest::default()
        };
        let error = http.call(encoding, &by_address).await.unwrap_err().error;
        assert_eq!(
            serde_json::to_value(error.details.unwrap()).unwrap(),
            json!({"queue": "q", "address": "a"}),
            "{encoding}"
        );
        let error = http.call(encoding, &QueueInfoRequest { queue: "no".into() }).await.unwrap_err().error;
        assert_eq!(
            serde_json::to_value(error.details.unwrap()).unwrap(),
            json!({"queue": "no"}),
            "{encoding}"
        );
    }
    let items = serde_json::from_value(json!([{"utf8": "x", "group": "g"}])).unwrap();
    let request = ProduceRequest { queue: "q".into(), items, ..ProduceRequest::default() };
    let error = http.call(PROTOBUF, &request).await.unwrap().items.remove(0).error.unwrap();
    let details = error.details.unwrap_or_else(Details::default);
    assert_eq!(serde_json::to_value(details).unwrap(), json!({"group": "g"}));
}
