//! Waiting for items to end, and taking them away from their workers, over HTTP.

use serde_json::{Value, json};
use windlass_api::items::WaitItemRequest;
use windlass_api::permits::{ListPermitsRequest, Permit, RevokeRequest};
use windlass_api::{JSON, PROTOBUF, Span};
use windlass_server::config::RawLimits;

use crate::http::Http;
use crate::world::{TestServer, held, with};

const ITEM_WAITERS: &str = "windlass_item_waiters{queue=\"q\"}";

async fn complete_with(http: &mut Http, leased: &Value, result: Value) -> Value {
    let item = with(held(leased), json!({"result": result}));
    http.ok("queue.complete", json!({"queue": "q", "items": [item]})).await
}

/// Begins to wait, and returns once the server knows.
async fn waiting(server: &TestServer, http: &mut Http, id: &Value) -> Http {
    let before = http.metric(ITEM_WAITERS).await;
    let mut waiting = server.connect().await;
    let request = json!({"id": id, "request_timeout": "10m"}).to_string();
    waiting.send("POST", "/v1/item.wait", &[("content-type", JSON)], request.as_bytes()).await;
    http.until(async |http| http.metric(ITEM_WAITERS).await != before).await;
    waiting
}

#[tokio::test]
async fn a_wait_is_answered_with_the_item_as_it_ended() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let ids =
        http.produce("q", json!([{"utf8": "a", "reference": "order 7"}, {"utf8": "b"}, {"utf8": "c"}])).await;
    let leased = http.lease("q", 2).await;
    let mut with_result = waiting(&server, &mut http, &ids[0]).await;
    let mut without = waiting(&server, &mut http, &ids[1]).await;
    let mut cleared = waiting(&server, &mut http, &ids[2]).await;
    complete_with(&mut http, &leased[0], json!({"json": [1]})).await;
    let got = with_result.receive().await;
    assert_eq!((got.status, got.headers.get("windlass-commit")), (200, None));
    let item = got.json()["item"].clone();
    assert_eq!((&item["state"], &item["result"]), (&json!("completed"), &json!({"json": [1]})));
    assert_eq!((&item["reference"], &item["utf8"]), (&json!("order 7"), &Value::Null));
    assert!(item["finished_at"].is_string());
    assert_eq!(http.ok("item.wait", json!({"id": ids[0]})).await["item"], item);
    http.complete("q", [&leased[1]]).await;
    let item = without.receive().await.json()["item"].clone();
    assert_eq!((&item["id"], &item["state"]), (&ids[1], &json!("completed")));
    assert_eq!(http.post("item.wait", &json!({"id": ids[1]}).to_string()).await.code(), "not_found");
    http.ok("queue.clear", json!({"queue": "q"})).await;
    assert_eq!(cleared.receive().await.json()["item"]["state"], "cancelled");
}

#[tokio::test]
async fn a_wait_ends_with_its_time_its_queue_or_its_server() {
    let mut server = TestServer::start().await;
    let mut http = server.connect().await;
    for queue in ["q", "other"] {
        http.ok("queues.create", json!({"queue": queue})).await;
    }
    let id = http.produce("q", json!([{"utf8": "a"}])).await.remove(0);
    let at_once = http.ok("item.wait", json!({"id": id, "request_timeout": "0s"})).await;
    assert_eq!((&at_once["item"]["state"], &at_once["item"]["utf8"]), (&json!("waiting"), &json!("a")));
    let soon = http.ok("item.wait", json!({"id": id, "request_timeout": "1ms"})).await;
    assert_eq!(soon, at_once);
    let mut waits = waiting(&server, &mut http, &id).await;
    http.ok("queues.delete", json!({"queue": "q", "force": true})).await;
    let got = waits.receive().await;
    assert_eq!((got.status, got.code().as_str()), (404, "not_found"));
    http.ok("queues.create", json!({"queue": "q"})).await;
    let id = http.produce("q", json!([{"utf8": "a"}])).await.remove(0);
    let mut waits = waiting(&server, &mut http, &id).await;
    let (got, ()) = tokio::join!(waits.receive(), server.stop());
    assert_eq!((got.status, got.json()["error"]["details"]["outcome"].clone()), (503, json!("not_applied")));
}

#[tokio::test]
async fn what_is_wrong_with_a_wait_is_told() {
    let limits = RawLimits { waiting_requests: Some(1.into()), ..RawLimits::default() };
    let server = TestServer::with(limits).await;
    let mut http = server.connect().await;
    http.ok("queues.create", json!({"queue": "q"})).await;
    let id = http.produce("q", json!([{"utf8": "a"}])).await.remove(0);
    let wrong = [
        (json!({"id": id, "request_timeout": "16m"}), "`request_timeout` must be at most 15m"),
        (json!({"id": "x"}), "`id` must be the id of an item, a UUID"),
    ];
    for (request, message) in wrong {
        let got = http.post("item.wait", &request.to_string()).await;
        assert_eq!((got.code().as_str(), got.message().as_str()), ("invalid_argument", message));
    }
    let _first = waiting(&server, &mut http, &id).await;
    let got = http.post("item.wait", &json!({"id": id}).to_string()).await;
    assert_eq!((got.status, got.code().as_str()), (429, "overloaded"));
    http.ok("item.wait", json!({"id": id, "request_timeout": "0s"})).await;
}

#[tokio::test]
async fn permits_are_listed_and_revoked_in_both_encodings() {
    for encoding in [JSON, PROTOBUF] {
        let (_server, mut http) = TestServer::with_queue(json!({"partitions": 2})).await;
        let mut ids = http.produce("q", json!([{"utf8": "a", "kind": "mail"}, {"utf8": "b"}])).await;
        ids.extend(http.produce("q", json!([{"utf8": "c"}])).await);
        let leased = http.lease("q", 3).await;
        let list = |pivot: Option<&str>, limit| ListPermitsRequest {
            queue: "q".to_owned(),
            pivot: pivot.map(str::to_owned),
            limit: Some(limit),
        };
        let all = http.call(encoding, &list(None, 1000)).await.expect("listed").permits;
        let mut sorted: Vec<_> = ids.iter().map(|id| id.as_str().expect("a text").to_owned()).collect();
        sorted.sort();
        assert_eq!(all.iter().map(|permit| permit.id.clone()).collect::<Vec<_>>(), sorted);
        let first = http.call(encoding, &list(None, 2)).await.expect("listed").permits;
        let rest = http.call(encoding, &list(Some(&first[1].id), 2)).await.expect("listed").permits;
        assert_eq!([first, rest].concat(), all);
        // A UUID that is no item's has its place among them all the same.
        let nobody = format!("{}f", &all[0].id[..all[0].id.len() - 1]);
        let after = http.call(encoding, &list(Some(&nobody), 1000)).await.expect("listed").permits;
        assert_eq!(after, all[1..]);
        let last = http.call(encoding, &list(Some("ffffffff-ffff-4fff-8fff-ffffffffffff"), 1000)).await;
        assert_eq!(last.expect("listed").permits, []);
        let before = http.call(encoding, &list(Some("00000000-0000-0000-0000-000000000000"), 1000)).await;
        assert_eq!(before.expect("listed").permits, all);
        let Permit { id, permit, .. } = all[0].clone();
        let shown = leased.iter().find(|item| item["id"] == json!(id)).expect("it is leased");
        assert_eq!(
            (json!(permit), json!(all[0].lease_deadline)),
            (shown["permit"].clone(), shown["lease_deadline"].clone())
        );
        assert_eq!((all[0].client_id.as_str(), all[0].attempts), ("c", 1));
        let held = windlass_api::items::Held { id: id.clone(), permit };
        let revoke = RevokeRequest { queue: "q".to_owned(), items: vec![held] };
        assert_eq!(http.call(encoding, &revoke).await.expect("judged").revoked, 1);
        let again = http.call(encoding, &revoke).await.expect("judged");
        let reason = again.failed[0].details.as_ref().and_then(|details| details.reason.clone());
        assert_eq!(
            (again.revoked, again.failed[0].code.as_str(), reason.as_deref()),
            (0, "lease_lost", Some("revoked"))
        );
        let seen = WaitItemRequest { request_timeout: Some(Span::from_secs(0)), ..WaitItemRequest::of(id) };
        assert_eq!(http.call(encoding, &seen).await.expect("shown").item.state, "waiting");
        assert_eq!(http.lease("q", 1).await[0]["attempts"], 2);
    }
}

#[tokio::test]
async fn a_wait_for_a_member_is_answered_when_its_group_is_cancelled() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let group = json!({"queue": "q", "group": "g"});
    http.ok("group.create", group.clone()).await;
    let items = json!([{"utf8": "a", "group": "g", "address": "here"}, {"utf8": "b", "group": "g"}]);
    let call = json!({"queue": "q", "idempotency_key": "call", "items": items});
    let produced = http.ok("queue.produce", call.clone()).await;
    assert_eq!(produced["items"][0]["state"], "held");
    let at = json!({"queue": "q", "address": "here", "request_timeout": "0s"});
    let held = http.ok("item.wait", at.clone()).await["item"].clone();
    assert_eq!((&held["id"], &held["state"]), (&produced["items"][0]["id"], &json!("held")));
    let mut waiting = waiting(&server, &mut http, &produced["items"][1]["id"]).await;
    http.ok("group.cancel", group).await;
    let told = waiting.receive().await.json()["item"].clone();
    assert_eq!((&told["state"], &told["group"]), (&json!("cancelled"), &json!("g")));
    let kept = http.ok("item.wait", at).await["item"].clone();
    assert_eq!((&kept["state"], &kept["group"]), (&json!("cancelled"), &json!("g")));
    assert_eq!(http.ok("queue.produce", call).await, produced);
}
