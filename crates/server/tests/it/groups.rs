//! Groups, over HTTP.

use serde_json::{Value, json};

use crate::http::Http;
use crate::world::{TestServer, held_in};

async fn with_queues(partitions: u32) -> (TestServer, Http) {
    let (server, mut http) = TestServer::with_queue(json!({"partitions": partitions})).await;
    http.ok("queues.create", json!({"queue": "other"})).await;
    (server, http)
}

fn payloads(items: &[Value]) -> Vec<&Value> {
    items.iter().map(|item| &item["json"]).collect()
}

#[tokio::test]
async fn a_group_from_its_making_to_its_end() {
    for partitions in [1, 3] {
        let (_server, mut http) = with_queues(partitions).await;
        let create = json!({
            "queue": "q", "group": "g",
            "end": {"json": "end", "kind": "finish", "reference": "r", "headers": {"a": "b"}},
            "items": [{"json": 1}, {"json": 2, "enqueue_at": "2999-01-01T00:00:00Z"}],
        });
        let reply = http.ok("group.create", create.clone()).await;
        assert_eq!((&reply["group"]["group"], &reply["group"]["state"]), (&json!("g"), &json!("open")));
        assert_eq!(
            (&reply["items"][0]["state"], &reply["items"][1]["state"]),
            (&json!("held"), &json!("scheduled"))
        );
        let again = http.post("group.create", &create.to_string()).await;
        assert_eq!((again.status, again.code()), (409, "already_exists".into()));

        let more = json!({"queue": "q", "items": [{"json": 3, "group": "g"}, {"json": 0}, {"json": 4, "group": "no"}]});
        let more = http.ok("queue.produce", more).await["items"].clone();
        assert_eq!((&more[0]["state"], &more[1]["state"]), (&json!("held"), &json!("waiting")));
        assert_eq!(more[2]["error"]["code"], "not_found");
        let held = http.item(&reply["items"][0]["id"]).await;
        assert_eq!((&held["state"], &held["group"], &held["json"]), (&json!("held"), &json!("g"), &json!(1)));
        let counts = http.stats("q").await["counts"].clone();
        assert_eq!(counts, json!({"held": 2, "scheduled": 1, "waiting": 1, "leased": 0, "suspended": 0}));
        assert_eq!(payloads(&http.lease("q", 100).await), [&json!(0)]);

        let delete = json!({"queue": "q", "group": "g"});
        assert_eq!(http.post("group.delete", &delete.to_string()).await.code(), "wrong_state");
        assert_eq!(http.ok("group.start", delete.clone()).await["group"]["state"], "started");
        assert_eq!(http.ok("group.start", delete.clone()).await["group"]["state"], "started");
        let members = http.lease("q", 100).await;
        assert_eq!(payloads(&members), [&json!(1), &json!(3)]);
        assert!(members.iter().all(|member| member["group"] == "g"));
        http.complete("q", &members).await;
        let due_later = json!({"queue": "q", "ids": [reply["items"][1]["id"]]});
        assert_eq!(http.ok("storage/items.delete", due_later).await["deleted"], 1);
        let group = http.ok("group.info", delete.clone()).await["group"].clone();
        assert_eq!(group["state"], "done");
        assert_eq!(
            group["members"],
            json!({
                "held": 0, "scheduled": 0, "waiting": 0, "leased": 0, "suspended": 0,
                "completed": 2, "failed": 0, "cancelled": 1, "expired": 0,
            })
        );
        let end = http.lease("q", 100).await;
        assert_eq!((payloads(&end), &end[0]["kind"]), (vec![&json!("end")], &json!("finish")));
        assert_eq!((&end[0]["reference"], &end[0]["headers"]["a"]), (&json!("r"), &json!("b")));
        assert!(end[0].get("group").is_none());

        let late = json!({"queue": "q", "items": [{"json": 5, "group": "g"}]});
        assert_eq!(http.ok("queue.produce", late).await["items"][0]["error"]["code"], "group_finished");
        for call in ["group.start", "group.cancel"] {
            let refused = http.post(call, &delete.to_string()).await;
            assert_eq!((refused.status, refused.code()), (409, "group_finished".into()), "{call}");
        }
        http.ok("group.delete", delete.clone()).await;
        assert_eq!(http.post("group.info", &delete.to_string()).await.code(), "not_found");
        http.ok("group.create", create).await;
    }
}

#[tokio::test]
async fn a_cancelled_group_asks_its_workers_to_stop_and_leaves_its_abort_item_elsewhere() {
    let (_server, mut http) = with_queues(1).await;
    let create = json!({
        "queue": "q", "group": "g", "start": true, "abort": {"json": "abort", "queue": "other"},
        "items": [{"json": 1}, {"json": 2}, {"json": 3}],
    });
    http.ok("group.create", create).await;
    let leased = http.lease("q", 1).await.remove(0);
    let name = json!({"queue": "q", "group": "g"});
    let group = http.ok("group.cancel", name.clone()).await["group"].clone();
    assert_eq!((&group["state"], &group["members"]["leased"]), (&json!("cancelled"), &json!(1)));
    assert_eq!(group["members"]["cancelled"], 2);
    let held = held_in("q", [&leased]);
    assert_eq!(http.ok("queue.extend", held.clone()).await["items"][0]["cancel_requested"], true);
    let shown = http.item(&leased["id"]).await;
    assert_eq!(shown["cancel_requested"], true);
    assert_eq!(http.ok("queue.release", held).await["released"], 1);
    let group = http.ok("group.cancel", name).await["group"].clone();
    assert_eq!((&group["state"], &group["members"]["cancelled"]), (&json!("aborted"), &json!(3)));
    let abort = http.lease_within("other", 100, "10s").await;
    assert_eq!(payloads(&abort), [&json!("abort")]);
    let origin = http.item(&abort[0]["id"]).await["origin"].clone();
    assert_eq!(
        (&origin["queue"], &origin["group"], &origin["reason"]),
        (&json!("q"), &json!("g"), &json!("group_abort"))
    );
    assert!(origin.get("id").is_none() && origin.get("attempts").is_none(), "{origin}");
}

#[tokio::test]
async fn a_bad_item_a_taken_address_or_a_missing_queue_refuses_all_of_a_new_group() {
    let (_server, mut http) = with_queues(1).await;
    let first = json!({"queue": "q", "items": [{"json": 1, "address": "a"}]});
    let first = http.ok("queue.produce", first).await["items"][0]["id"].clone();
    let with = |items: Value| json!({"queue": "q", "group": "g", "items": items});
    for (request, status, code) in [
        (with(json!([{"json": 1}, {"kind": "no payload"}])), 400, "invalid_argument"),
        (with(json!([{"json": 1, "group": "another"}])), 400, "invalid_argument"),
        (with(json!([{"json": 1}, {"json": 2, "address": "a"}])), 409, "duplicate_address"),
        (json!({"queue": "q", "group": "g", "end": {"json": 1, "queue": "none"}}), 404, "not_found"),
        (json!({"queue": "q", "group": "g", "end": {"json": 1, "address": "x"}}), 400, "invalid_argument"),
        (json!({"queue": "q", "group": "g", "end": {"json": 1, "group": "x"}}), 400, "invalid_argument"),
        (json!({"queue": "q", "group": "no name"}), 400, "invalid_argument"),
        (json!({"queue": "none", "group": "g"}), 404, "not_found"),
    ] {
        let refused = http.post("group.create", &request.to_string()).await;
        assert_eq!((refused.status, refused.code()), (status, code.to_owned()), "{request}");
        if code == "duplicate_address" {
            assert_eq!(refused.json()["error"]["details"]["id"], first);
        }
    }
    assert_eq!(http.ok("groups.list", json!({"queue": "q"})).await["groups"], json!([]));
    assert_eq!(http.stats("q").await["counts"]["waiting"], 1);
    http.ok("queues.create", json!({"queue": "wide", "partitions": 2})).await;
    http.ok("group.create", json!({"queue": "wide", "group": "g"})).await;
    let two_keys =
        json!({"queue": "wide", "items": [{"json": 0}, {"json": 1, "group": "g", "address": "a"}]});
    assert_eq!(http.post("queue.produce", &two_keys.to_string()).await.code(), "invalid_argument");
}

#[tokio::test]
async fn groups_are_listed_by_name_page_by_page() {
    let (_server, mut http) = with_queues(3).await;
    for name in ["c", "a", "d", "b"] {
        http.ok("group.create", json!({"queue": "q", "group": name})).await;
    }
    let page = http.ok("groups.list", json!({"queue": "q", "limit": 2})).await["groups"].clone();
    assert_eq!((&page[0]["group"], &page[1]["group"]), (&json!("a"), &json!("b")));
    let page = http.ok("groups.list", json!({"queue": "q", "pivot": "bb"})).await["groups"].clone();
    assert_eq!(
        (&page[0]["group"], &page[1]["group"], page.as_array().map(Vec::len)),
        (&json!("c"), &json!("d"), Some(2))
    );
}

#[tokio::test]
async fn held_items_are_listed_and_come_back_into_a_group_of_the_name() {
    let (_server, mut http) = with_queues(1).await;
    http.ok("group.create", json!({"queue": "q", "group": "g", "items": [{"json": 1}, {"json": 2}]})).await;
    let stats = http.stats("q").await;
    let list = json!({"queue": "q", "partition": stats["partitions"][0]["partition"]});
    let listed = http.ok("storage/items.list", list).await["items"].clone();
    assert_eq!((&listed[0]["state"], &listed[1]["group"]), (&json!("held"), &json!("g")));
    let import = json!({"queue": "other", "items": listed});
    let refused = http.ok("storage/items.import", import.clone()).await["items"].clone();
    assert_eq!(refused[0]["error"]["code"], "not_found");
    http.ok("group.create", json!({"queue": "other", "group": "g"})).await;
    let taken = http.ok("storage/items.import", import).await["items"].clone();
    assert!(taken[0]["id"].is_string() && taken[1]["id"].is_string());
    let group = http.ok("group.info", json!({"queue": "other", "group": "g"})).await["group"].clone();
    assert_eq!(group["members"]["held"], 2);
}
