//! Priorities, kinds, addresses and revoked permits taken together, over HTTP.

use serde_json::{Value, json};

use crate::http::Http;
use crate::world::{TestServer, held_in, list, with};

/// Priority, kind and address of each item, in the order in which they are produced.
const ITEMS: [(u32, &str, Option<&str>); 9] = [
    (8, "mail", None),
    (8, "mail", None),
    (7, "mail", None),
    (4, "mail", None),
    (0, "mail", None),
    (0, "mail", None),
    (7, "mail", Some("abc")),
    (5, "mail", Some("def")),
    (8, "report", None),
];

async fn with_items() -> (TestServer, Http) {
    let (server, mut http) = TestServer::with_queue(json!({"requeue": "tail"})).await;
    let items: Vec<Value> = ITEMS
        .iter()
        .enumerate()
        .map(|(number, (priority, kind, address))| {
            json!({"json": number, "priority": priority, "kind": kind, "address": address})
        })
        .collect();
    let items: Vec<Value> = items.into_iter().map(without_nulls).collect();
    http.produce("q", json!(items)).await;
    (server, http)
}

fn without_nulls(mut item: Value) -> Value {
    item.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    item
}

/// All items of these `kinds` and this `max_priority`.
async fn lease_only(http: &mut Http, wanted: Value) -> Vec<Value> {
    let request = json!({"queue": "q", "client_id": "c", "batch_size": 9, "request_timeout": "0s"});
    list(&http.ok("queue.lease", with(request, wanted)).await["items"])
}

/// Which of the items, by the order of their production.
fn numbers(items: &[Value]) -> Vec<u64> {
    items.iter().map(|item| item["json"].as_u64().expect("a number")).collect()
}

async fn revoke(http: &mut Http, items: &[&Value]) {
    let count = items.len();
    let revoked = http.ok("queue.revoke", held_in("q", items.iter().copied())).await;
    assert_eq!(revoked["revoked"], json!(count));
}

#[tokio::test]
async fn items_come_by_priority_and_then_as_they_were_produced() {
    let (_server, mut http) = with_items().await;
    let first = http.lease("q", 4).await;
    assert_eq!(numbers(&first), [4, 5, 3, 7]);
    assert_eq!((&first[3]["address"], first[0].get("address")), (&json!("def"), None));
    let rest = http.lease("q", 100).await;
    assert_eq!(numbers(&rest), [2, 6, 0, 1, 8]);
    assert_eq!(rest[1]["address"], "abc");
}

#[tokio::test]
async fn revoked_items_have_their_places_back_among_those_that_wait() {
    let (_server, mut http) = with_items().await;
    let leased = http.lease("q", 7).await;
    // An urgent one, and those of an address and of priority 8, in an order of their own.
    revoke(&mut http, &[&leased[6], &leased[5], &leased[0]]).await;
    let again = http.lease("q", 100).await;
    assert_eq!(numbers(&again), [4, 6, 0, 1, 8]);
    let attempts: Vec<u64> = again.iter().map(|item| item["attempts"].as_u64().expect("a number")).collect();
    assert_eq!(attempts, [2, 2, 2, 1, 1]);
}

#[tokio::test]
async fn kinds_and_max_priority_choose_from_the_same_order() {
    let (_server, mut http) = with_items().await;
    assert_eq!(
        numbers(&lease_only(&mut http, json!({"kinds": ["report"], "max_priority": 7})).await),
        [0; 0]
    );
    assert_eq!(numbers(&lease_only(&mut http, json!({"kinds": []})).await), [0; 0]);
    let urgent = lease_only(&mut http, json!({"kinds": ["mail", "report"], "max_priority": 5})).await;
    assert_eq!(numbers(&urgent), [4, 5, 3, 7]);
    let report = lease_only(&mut http, json!({"kinds": ["report"]})).await;
    assert_eq!(numbers(&report), [8]);
    revoke(&mut http, &[&report[0], &urgent[3], &urgent[1]]).await;
    assert_eq!(
        numbers(&lease_only(&mut http, json!({"kinds": ["mail"], "max_priority": 7})).await),
        [5, 7, 2, 6]
    );
    assert_eq!(numbers(&lease_only(&mut http, json!({"kinds": ["report", "mail"]})).await), [0, 1, 8]);
}
