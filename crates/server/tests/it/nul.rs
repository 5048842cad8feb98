//! U+0000 is refused in every text of every request but in payloads.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::http::Http;
use crate::world::{TestServer, with};

const ID: &str = "00000000-0000-8080-8000-000000000063";
const TIME: &str = "2100-01-01T00:00:00Z";
/// Fields that hold payloads, which may hold any text.
const PAYLOADS: [&str; 3] = ["json", "utf8", "bytes"];

/// Every text of an item to be produced, but for the time it is due.
fn item() -> Value {
    json!({
        "utf8": "x\u{0}", "kind": "k", "reference": "r", "headers": {"name": "value"}, "dead_timeout": "1h",
    })
}

/// Calls that take only a pivot that an earlier page ended with: every other text is refused there, with U+0000 or without.
const PIVOTS_OF_A_PAGE: [&str; 2] = ["items.find", "items.change"];

/// Requests that are not `invalid_argument`. Those of a call have, together, every text that it takes.
fn requests() -> Vec<(&'static str, Value)> {
    let queue = json!({"queue": "q"});
    let settings = json!({
        "queue": "q", "dead_queue": "d", "dead_timeout": "1h", "lease_timeout": "1m", "reference": "r",
        "requeue": "keep", "retention": "1h", "retry": {"initial": "1s", "max": "1h", "strategy": "fixed"},
        "retain_payload": "all", "keep": "all", "indexed_headers": ["h"],
    });
    let rule = json!({"queue": "q", "kind": "k", "reason": "because", "until": TIME});
    let (by_id, by_address) = (json!({"id": ID}), json!({"queue": "q", "address": "a"}));
    let held = json!({"queue": "q", "items": [{"id": ID, "permit": 1}]});
    let at = |more: Value| with(with(item(), json!({"enqueue_at": TIME})), more);
    let delayed = |more: Value| with(with(item(), json!({"delay": "1s"})), more);
    let end = |name: &str| {
        let (at, delayed) = (at(json!({"queue": "q"})), delayed(json!({"queue": "q"})));
        (
            json!({"queue": "q", "group": name, "end": at, "abort": delayed}),
            json!({"queue": "q", "group": name, "end": delayed, "abort": at}),
        )
    };
    let group = json!({"queue": "q", "group": "g"});
    let cron = json!({
        "cron": "c", "queue": "q", "schedule": "@hourly", "timezone": "UTC", "catch_up": "skip", "overlap": "allow",
        "item": delayed(json!({"address": "a"})),
    });
    let error = json!({"code": "c", "message": "m"});
    let imported = json!({
        "id": ID, "queue": "q", "client_id": "w", "state": "suspended", "reason": "because", "address": "b",
        "created_at": TIME, "leased_at": TIME, "lease_deadline": TIME, "finished_at": TIME, "error": error,
        "origin": {"queue": "o", "id": ID, "group": "g", "address": "a", "reason": "dead", "error": error, "moved_at": TIME},
        "result": {"utf8": "x"}, "cron": "c", "scheduled_at": TIME, "changed_at": TIME, "started_at": TIME,
        "moved_to": {"queue": "o", "id": ID},
    });
    let filter = json!({
        "states": ["failed"], "kinds": ["k"], "group": "g", "address": "a", "reference": "r", "headers": {"name": "value"},
        "client_id": "w", "error_code": "c", "cron": "c", "created_after": TIME, "created_before": TIME,
        "changed_after": TIME, "changed_before": TIME,
    });
    let page = json!({"queue": "q", "partition": 1, "pivot": ID});
    let mut requests = vec![
        ("queues.update", settings.clone()),
        ("queues.create", settings),
        ("queues.info", queue.clone()),
        ("queues.list", json!({"pivot": "p"})),
        ("queues.list", json!({"order": "waiting"})),
        ("queues.history", json!({"queues": ["q"], "span": "1h"})),
        ("items.find", with(with(queue.clone(), filter.clone()), json!({"order": "oldest"}))),
        ("items.change", json!({"queue": "q", "filter": filter, "action": "cancel"})),
        ("items.errors", queue.clone()),
        ("queue.stats", queue.clone()),
        ("queue.clear", queue.clone()),
        ("queue.redrive", json!({"queue": "q", "kind": "k", "to": "d"})),
        ("queue.rebalance", json!({"queue": "q", "partitions": 1})),
        (
            "queue.produce",
            json!({
                "queue": "q", "request_timeout": "1s", "idempotency_key": "k",
                "items": [at(json!({"address": "a"})), delayed(json!({"group": "g"}))],
            }),
        ),
        (
            "queue.lease",
            json!({
                "queue": "q", "client_id": "w", "batch_size": 1, "request_timeout": "0s", "lease_timeout": "1m", "kinds": ["k"],
            }),
        ),
        (
            "queue.complete",
            json!({
                "queue": "q", "request_timeout": "1s", "items": [{"id": ID, "permit": 1, "result": {"utf8": "\u{0}"}}],
            }),
        ),
        (
            "queue.retry",
            json!({
                "queue": "q",
                "items": [
                    {"id": ID, "permit": 1, "retry_at": TIME, "error": error}, {"id": ID, "permit": 1, "delay": "1s"},
                ],
            }),
        ),
        ("queue.extend", with(held.clone(), json!({"lease_timeout": "1m"}))),
        ("queue.release", held.clone()),
        (
            "queue.suspend",
            json!({
                "queue": "q",
                "items": [{"id": ID, "permit": 1, "reason": "r"}],
            }),
        ),
        (
            "queue.next",
            json!({
                "queue": "q", "client_id": "c", "complete": [{"id": ID, "permit": 1, "result": {"utf8": "\u{0}"}}],
                "lease": {"batch_size": 1, "kinds": ["k"], "lease_timeout": "1m", "request_timeout": "1s"},
            }),
        ),
        (
            "queue.next",
            json!({
                "queue": "q", "client_id": "c", "retry": [{"id": ID, "permit": 1, "retry_at": TIME, "error": error}],
            }),
        ),
        (
            "queue.next",
            json!({"queue": "q", "client_id": "c", "retry": [{"id": ID, "permit": 1, "delay": "1s"}]}),
        ),
        ("queue.next", json!({"queue": "q", "client_id": "c", "release": [{"id": ID, "permit": 1}]})),
        (
            "queue.next",
            json!({"queue": "q", "client_id": "c", "suspend": [{"id": ID, "permit": 1, "reason": "r"}]}),
        ),
        (
            "queue.next",
            json!({"queue": "q", "client_id": "c", "extend": [{"id": ID, "permit": 1, "lease_timeout": "1m"}]}),
        ),
        ("queue.permits", json!({"queue": "q", "pivot": ID})),
        ("queue.revoke", held),
        ("item.wait", with(by_id.clone(), json!({"request_timeout": "0s"}))),
        ("item.emit", json!({"id": ID, "permit": 1, "events": [{"type": "t", "utf8": "\u{0}"}]})),
        ("item.close_streams", with(by_id.clone(), json!({"mode": "graceful"}))),
        ("item.close_streams", with(by_address.clone(), json!({"mode": "immediate"}))),
        (
            "group.create",
            with(
                end("g").0,
                json!({
                    "items": [at(json!({"address": "c", "group": "g"})), delayed(json!({}))],
                }),
            ),
        ),
        ("group.create", end("h").1),
        ("group.set_end", end("g").0),
        ("group.set_end", end("g").1),
        ("groups.list", json!({"queue": "q", "pivot": "p"})),
        ("crons.create", cron.clone()),
        ("crons.update", cron),
        ("crons.list", json!({"pivot": "p"})),
        ("queue.reload", queue.clone()),
        ("storage/items.list", page.clone()),
        ("storage/scheduled.list", page),
        (
            "storage/items.import",
            json!({"queue": "q", "items": [
                with(item(), imported), with(item(), json!({"group": "g", "enqueue_at": TIME})),
            ]}),
        ),
        ("storage/items.delete", json!({"queue": "q", "ids": [ID]})),
        ("storage/unclaimed.list", json!({})),
        ("storage/unclaimed.adopt", json!({"queue": "q", "partition": 99, "store": "s"})),
        ("storage/unclaimed.drop", json!({"partition": 99, "store": "s"})),
        ("rules.list", queue.clone()),
        ("server.info", json!({})),
        ("server.backup", json!({"backup": "b"})),
    ];
    for call in ["queue.pause", "queue.resume", "queue.block", "queue.unblock"] {
        requests.push((call, rule.clone()));
    }
    let change =
        json!({"utf8": "x\u{0}", "reference": "r", "headers": {"name": "value"}, "dead_timeout": "1h"});
    for name in [&by_id, &by_address] {
        let change = with(name.clone(), change.clone());
        requests.push(("item.update", with(change.clone(), json!({"enqueue_at": TIME}))));
        requests.push(("item.update", with(change, json!({"delay": "1s"}))));
        requests.push(("item.rerun", with(name.clone(), json!({"delay": "1s"}))));
    }
    for call in ["item.get", "item.wait", "item.cancel", "item.explain", "item.resume"] {
        requests.extend([(call, by_id.clone()), (call, by_address.clone())]);
    }
    for call in ["group.start", "group.cancel", "group.info", "group.delete"] {
        requests.push((call, group.clone()));
    }
    for call in ["crons.info", "crons.pause", "crons.resume", "crons.trigger", "crons.delete"] {
        requests.push((call, json!({"cron": "c"})));
    }
    requests.push(("queues.delete", queue));
    requests
}

/// Where a text stands in a request: `.items[].kind`. The name and the value of a header both stand at `.headers{}`.
fn texts(value: &Value, place: &str, found: &mut BTreeMap<String, Vec<String>>, pointer: &str) {
    match value {
        Value::String(_) => found.entry(place.to_owned()).or_default().push(pointer.to_owned()),
        Value::Array(list) => {
            for (index, element) in list.iter().enumerate() {
                texts(element, &format!("{place}[]"), found, &format!("{pointer}/{index}"));
            }
        }
        Value::Object(fields) => {
            let is_map = place.ends_with(".headers");
            for (name, value) in fields.iter().filter(|(name, _)| !PAYLOADS.contains(&name.as_str())) {
                let place = if is_map { format!("{place}{{}}") } else { format!("{place}.{name}") };
                texts(value, &place, found, &format!("{pointer}/{name}"));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The same places, as the schema of a request tells them.
fn places(schema: &Value, schemas: &Map<String, Value>, place: &str, found: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return places(&schemas[name], schemas, place, found);
    }
    let is = |kind: &str| {
        schema["type"] == kind || schema["type"].as_array().is_some_and(|t| t.contains(&json!(kind)))
    };
    if is("string") {
        found.insert(place.to_owned());
    }
    if is("array") {
        places(&schema["items"], schemas, &format!("{place}[]"), found);
    }
    for choices in ["anyOf", "oneOf", "allOf"] {
        for choice in schema[choices].as_array().into_iter().flatten() {
            places(choice, schemas, place, found);
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if !PAYLOADS.contains(&name.as_str()) {
            places(property, schemas, &format!("{place}.{name}"), found);
        }
    }
    if schema["additionalProperties"].is_object() {
        places(&schema["additionalProperties"], schemas, &format!("{place}{{}}"), found);
    }
}

fn places_of_all_calls() -> BTreeMap<String, BTreeSet<String>> {
    let document = windlass_api::openapi::document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let posts = document["paths"].as_object().unwrap().iter().filter(|(_, path)| path["post"].is_object());
    let call = |(path, methods): (&String, &Value)| {
        let mut found = BTreeSet::new();
        let schema = &methods["post"]["requestBody"]["content"]["application/json"]["schema"];
        places(schema, schemas, "", &mut found);
        (path.trim_start_matches("/v1/").to_owned(), found)
    };
    posts.map(call).collect()
}

#[test]
fn the_requests_of_this_test_have_every_text_of_every_call() {
    let mut covered: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (call, request) in requests() {
        let mut found = BTreeMap::new();
        texts(&request, "", &mut found, "");
        covered.entry(call.to_owned()).or_default().extend(found.into_keys());
    }
    let wanted = places_of_all_calls();
    assert_eq!(covered.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (call, mut places) in wanted {
        if PIVOTS_OF_A_PAGE.contains(&call.as_str()) {
            places.remove(".pivot");
        }
        assert_eq!(covered[&call], places, "the texts of {call}");
    }
}

/// The request with U+0000 in the text at that place; at a header, once in its name and once in its value.
fn spoilt(request: &Value, pointer: &str) -> Vec<Value> {
    let mut in_value = request.clone();
    let text = in_value.pointer_mut(pointer).unwrap();
    *text = json!(format!("{}\u{0}", text.as_str().unwrap()));
    let mut all = vec![in_value];
    if let Some((headers, name)) =
        pointer.rsplit_once('/').filter(|(headers, _)| headers.ends_with("/headers"))
    {
        let mut in_name = request.clone();
        let headers = in_name.pointer_mut(headers).unwrap().as_object_mut().unwrap();
        let value = headers.remove(name).unwrap();
        headers.insert(format!("{name}\u{0}"), value);
        all.push(in_name);
    }
    all
}

async fn taken(http: &mut Http, call: &str, request: &Value) -> Vec<String> {
    let mut found = BTreeMap::new();
    texts(request, "", &mut found, "");
    let mut taken = Vec::new();
    for (place, pointers) in found {
        for spoilt in pointers.iter().flat_map(|pointer| spoilt(request, pointer)) {
            let got = http.post(call, &spoilt.to_string()).await;
            let code = if got.status == 200 { String::new() } else { got.code() };
            if (got.status, code.as_str()) != (400, "invalid_argument") {
                taken.push(format!("{call} {place}: {} {code}", got.status));
            }
        }
    }
    taken
}

#[tokio::test]
async fn a_nul_is_refused_in_every_text_of_every_request() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.ok("queues.create", json!({"queue": "d"})).await;
    let mut all_taken = Vec::new();
    for (call, request) in requests() {
        all_taken.extend(taken(&mut http, call, &request).await);
        let got = http.post(call, &request.to_string()).await;
        let refused = got.status == 400;
        assert!(!refused, "{call} refuses what it should take: {}", String::from_utf8_lossy(&got.body));
    }
    assert!(all_taken.is_empty(), "{all_taken:#?}");
}

#[tokio::test]
async fn a_nul_is_refused_in_the_query_of_a_stream() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    for query in ["id=a%00b", "queue=q%00&address=a", "queue=q&address=a%00b"] {
        let got = http.get(&format!("/v1/item.events?{query}")).await;
        assert_eq!((got.status, got.code().as_str()), (400, "invalid_argument"), "{query}");
        assert!(!got.message().contains("no parameter"), "{}", got.message());
    }
}
