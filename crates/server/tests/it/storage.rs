//! Lists, imports, deletions and reloads over HTTP, in both encodings.

use serde_json::{Value, json};
use windlass_api::items::{Item, LeaseRequest, LeasedItem, NewItem, ProduceRequest, Retry, RetryRequest};
use windlass_api::queues::{CreateQueueRequest, QueueStatsRequest};
use windlass_api::storage::{
    DeleteItemsRequest, ImportItem, ImportItemsRequest, ListItemsRequest, ListScheduledRequest,
    ReloadQueueRequest,
};
use windlass_api::{JSON, PROTOBUF, Span, Time};

use crate::http::Http;
use crate::world::{TestServer, held, held_in, list, with};

const QUEUE: &str = "q";

async fn create_in(http: &mut Http, encoding: &str, queue: &str) {
    let create = CreateQueueRequest { queue: queue.to_owned(), ..CreateQueueRequest::default() };
    http.call(encoding, &create).await.expect("made");
}

async fn partition(http: &mut Http, encoding: &str) -> u32 {
    let stats = http.call(encoding, &QueueStatsRequest { queue: QUEUE.to_owned() }).await.expect("stats");
    stats.partitions[0].partition
}

async fn lease_in(http: &mut Http, encoding: &str, batch_size: u32) -> Vec<LeasedItem> {
    let lease = LeaseRequest {
        queue: QUEUE.to_owned(),
        client_id: "worker".to_owned(),
        batch_size,
        request_timeout: Some(Span::ZERO),
        ..LeaseRequest::default()
    };
    http.call(encoding, &lease).await.expect("leased").items
}

/// Of several kinds, priorities and payloads; every tenth is due in a thousand years or so.
fn mixed(index: usize) -> NewItem {
    let far = |index: usize| Time::from_micros(32_000_000_000_000_000 + (index as i64 * 7919 % 13));
    let payload = format!("payload {index}");
    let item = NewItem {
        kind: Some(["default", "mail", "report"][index % 3].to_owned()),
        priority: Some((index * 7 % 5) as u32),
        enqueue_at: index.is_multiple_of(10).then(|| far(index)),
        max_attempts: index.is_multiple_of(4).then_some(9),
        reference: Some(format!("reference {index}")),
        headers: [("trace".to_owned(), index.to_string())].into(),
        ..NewItem::default()
    };
    match index % 3 {
        0 => NewItem { json: Some(json!({"text": payload}).to_string()), ..item },
        1 => NewItem { utf8: Some(payload), ..item },
        _ => NewItem { bytes: Some(payload.into()), ..item },
    }
}

async fn fill(http: &mut Http, encoding: &str, count: usize) {
    let items: Vec<NewItem> = (0..count).map(mixed).collect();
    for items in items.chunks(500) {
        let produce =
            ProduceRequest { queue: QUEUE.to_owned(), items: items.to_vec(), ..ProduceRequest::default() };
        http.call(encoding, &produce).await.expect("produced");
    }
}

async fn queued(http: &mut Http, encoding: &str, limit: Option<u32>) -> Vec<Item> {
    let partition = partition(http, encoding).await;
    let mut all: Vec<Item> = Vec::new();
    loop {
        let pivot = all.last().map(|item| item.id.clone());
        let request = ListItemsRequest { queue: QUEUE.to_owned(), partition, pivot, limit };
        let page = http.call(encoding, &request).await.expect("a page").items;
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

async fn scheduled(http: &mut Http, encoding: &str, limit: Option<u32>) -> Vec<Item> {
    let partition = partition(http, encoding).await;
    let mut all: Vec<Item> = Vec::new();
    loop {
        let pivot = all.last().map(|item| item.id.clone());
        let request = ListScheduledRequest { queue: QUEUE.to_owned(), partition, pivot, limit };
        let page = http.call(encoding, &request).await.expect("a page").items;
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

async fn pages_are_what_a_lease_hands_out(encoding: &str) {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    create_in(&mut http, encoding, QUEUE).await;
    fill(&mut http, encoding, 2500).await;
    let held = lease_in(&mut http, encoding, 100).await;
    let listed = queued(&mut http, encoding, Some(333)).await;
    assert_eq!(listed.len(), 2250);
    let (leased, waiting): (Vec<Item>, Vec<Item>) =
        listed.into_iter().partition(|item| item.state == "leased");
    let ids = |items: &[Item]| items.iter().map(|item| item.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&leased), held.iter().map(|item| item.id.clone()).collect::<Vec<_>>());
    let mut order = Vec::new();
    loop {
        let batch = lease_in(&mut http, encoding, 1000).await;
        if batch.is_empty() {
            break;
        }
        order.extend(batch);
    }
    assert_eq!(ids(&waiting), order.iter().map(|item| item.id.clone()).collect::<Vec<_>>());
    for (shown, given) in waiting.iter().zip(&order) {
        assert_eq!((&shown.json, &shown.utf8, &shown.bytes), (&given.json, &given.utf8, &given.bytes));
        assert_eq!((&shown.reference, &shown.headers), (&given.reference, &given.headers));
    }
    let later = scheduled(&mut http, encoding, Some(77)).await;
    assert_eq!(later.len(), 250);
    assert!(later.is_sorted_by_key(|item| (item.enqueue_at, item.id.clone())));
}

#[tokio::test]
async fn pages_in_json_are_what_a_lease_hands_out() {
    pages_are_what_a_lease_hands_out(JSON).await;
}

#[tokio::test]
async fn pages_in_protobuf_are_what_a_lease_hands_out() {
    pages_are_what_a_lease_hands_out(PROTOBUF).await;
}

/// Everything of an item that an import keeps.
fn kept(item: Item) -> Item {
    let state = if item.state == "scheduled" { "scheduled" } else { "waiting" };
    Item {
        id: String::new(),
        partition: 0,
        state: state.to_owned(),
        permit: None,
        leased_at: None,
        lease_deadline: None,
        cancel_requested: None,
        ..item
    }
}

async fn import(http: &mut Http, encoding: &str, items: Vec<Item>) {
    for page in items.chunks(1000) {
        let items: Vec<ImportItem> = page.iter().cloned().map(ImportItem::from).collect();
        let import = ImportItemsRequest { queue: QUEUE.to_owned(), items };
        let imported = http.call(encoding, &import).await.expect("imported").items;
        assert_eq!(imported.len(), page.len());
        assert!(imported.iter().all(|item| item.id.is_some() && item.error.is_none()));
    }
}

async fn what_one_server_shows_another_takes(encoding: &str) {
    let (from, to) = (TestServer::start().await, TestServer::start().await);
    let (mut there, mut here) = (from.connect().await, to.connect().await);
    create_in(&mut there, encoding, QUEUE).await;
    create_in(&mut here, encoding, QUEUE).await;
    fill(&mut there, encoding, 1200).await;
    let leased = lease_in(&mut there, encoding, 30).await;
    let retry = |item: &LeasedItem| Retry {
        id: item.id.clone(),
        permit: item.permit,
        retry_at: Some(Time::from_micros(33_000_000_000_000_000)),
        delay: None,
        dead: false,
        error: Some(windlass_api::items::ItemError { code: None, message: "it broke".to_owned() }),
    };
    let items = leased[..10].iter().map(retry).collect();
    there.call(encoding, &RetryRequest { queue: QUEUE.to_owned(), items }).await.expect("judged");

    let exported = queued(&mut there, encoding, None).await;
    let later = scheduled(&mut there, encoding, None).await;
    assert_eq!((exported.len(), later.len()), (1070, 130));
    import(&mut here, encoding, exported.clone()).await;
    import(&mut here, encoding, later.clone()).await;
    let shown = |items: Vec<Item>| items.into_iter().map(kept).collect::<Vec<_>>();
    assert_eq!(shown(exported), shown(queued(&mut here, encoding, Some(100)).await));
    assert_eq!(shown(later), shown(scheduled(&mut here, encoding, Some(100)).await));
}

#[tokio::test]
async fn what_one_server_shows_in_json_another_takes() {
    what_one_server_shows_another_takes(JSON).await;
}

#[tokio::test]
async fn what_one_server_shows_in_protobuf_another_takes() {
    what_one_server_shows_another_takes(PROTOBUF).await;
}

#[tokio::test]
async fn a_pivot_that_is_gone_is_not_found_and_the_next_one_goes_on() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    create_in(&mut http, JSON, QUEUE).await;
    let items: Vec<Value> = (0..3).map(|number| json!({"json": number})).collect();
    let produced = http.ok("queue.produce", json!({"queue": QUEUE, "items": items})).await;
    let ids: Vec<Value> = (0..3).map(|at| produced["items"][at]["id"].clone()).collect();
    http.ok("storage/items.delete", json!({"queue": QUEUE, "ids": [ids[0]]})).await;
    let list = |pivot: &Value| json!({"queue": QUEUE, "partition": 1, "pivot": pivot}).to_string();
    let got = http.post("storage/items.list", &list(&ids[0])).await;
    assert_eq!((got.status, got.code().as_str()), (404, "not_found"));
    assert!(got.message().contains("pivot"), "{}", got.message());
    let got = http.post("storage/items.list", &list(&ids[1])).await.json();
    assert_eq!((got["items"].as_array().map(Vec::len), &got["items"][0]["id"]), (Some(1), &ids[2]));
    let got = http.post("storage/items.list", &list(&ids[2])).await.json();
    assert_eq!(got, json!({"items": []}));
}

#[tokio::test]
async fn items_that_have_ended_or_lost_their_payload_are_refused_one_by_one() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    create_in(&mut http, JSON, QUEUE).await;
    let items = json!([
        {"utf8": "a", "state": "waiting"},
        {"utf8": "b", "state": "failed", "finished_at": "2026-01-31T12:00:00Z"},
        {"utf8": "c", "state": "scheduled", "enqueue_at": "2999-01-31T12:00:00Z", "max_attempts": 0},
        {"utf8": "d", "state": "suspended"},
        {"json": null},
        {"kind": "lost"}
    ]);
    let imported = http.ok("storage/items.import", json!({"queue": QUEUE, "items": items})).await;
    let taken: Vec<bool> = (0..6)
        .map(|at| {
            imported["items"][at]["id"].is_string() != imported["items"][at]["error"].is_object()
                && imported["items"][at]["id"].is_string()
        })
        .collect();
    assert_eq!(taken, [true, false, true, true, true, false]);
    assert_eq!(imported["items"][1]["error"]["code"], "invalid_argument");
    assert_eq!(imported["items"][5]["error"]["code"], "invalid_argument");
    let listed = http.ok("storage/items.list", json!({"queue": QUEUE, "partition": 1})).await;
    assert_eq!((&listed["items"][0]["utf8"], &listed["items"][2]["json"]), (&json!("a"), &Value::Null));
    assert_eq!(listed["items"][1]["state"], "suspended");
    assert_eq!(
        (&listed["items"][0]["max_attempts"], listed["items"].as_array().map(Vec::len)),
        (&json!(3), Some(3))
    );
    let later = http.ok("storage/scheduled.list", json!({"queue": QUEUE, "partition": 1})).await;
    assert_eq!((&later["items"][0]["utf8"], &later["items"][0]["max_attempts"]), (&json!("c"), &json!(0)));
    let none = json!({"queue": QUEUE, "items": [{"utf8": "x", "state": "expired"}]});
    let imported = http.ok("storage/items.import", none).await;
    assert_eq!(imported["items"][0]["error"]["code"], "invalid_argument");
}

/// What an import takes over of the past of an item.
const PAST: [&str; 5] = ["created_at", "changed_at", "started_at", "client_id", "attempts"];

#[tokio::test]
async fn an_import_takes_what_a_list_shows_of_live_items() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 1, "max_attempts": 0})).await;
    http.ok("queues.create", json!({"queue": "other"})).await;
    let ids = http.produce(QUEUE, json!([{"utf8": "a"}, {"utf8": "b"}, {"utf8": "c"}, {"utf8": "d"}])).await;
    let error = json!({"message": "busy", "code": "later"});
    for _ in 0..2 {
        let leased = http.lease(QUEUE, 4).await;
        let again = |item: &Value| with(held(item), json!({"delay": "0s", "error": error}));
        let again: Vec<Value> = leased.iter().map(again).collect();
        http.ok("queue.retry", json!({"queue": QUEUE, "items": again})).await;
    }
    // One is leased, one suspended, one scheduled, and one waits.
    let leased = http.lease(QUEUE, 3).await;
    http.ok("queue.suspend", held_in(QUEUE, &leased[1..2])).await;
    let later = with(held(&leased[2]), json!({"delay": "1h"}));
    http.ok("queue.retry", json!({"queue": QUEUE, "items": [later]})).await;
    for (id, state) in ids.iter().zip(["waiting", "suspended", "scheduled", "waiting"]) {
        let mut shown = http.item(id).await;
        // `item.get` alone tells the attempts.
        shown.as_object_mut().expect("an object").remove("attempt_log").expect("it has attempts");
        let import = json!({"queue": "other", "items": [shown]});
        let imported = http.ok("storage/items.import", import).await["items"][0]["id"].clone();
        let imported = http.item(&imported).await;
        assert_eq!(imported["state"], state);
        for field in PAST {
            assert!(shown.get(field).is_some(), "{field}: {shown}");
            assert_eq!(imported[field], shown[field], "{field} of one that is {state}");
        }
        assert_eq!((imported.get("leased_at"), imported.get("lease_deadline")), (None, None));
    }
    let waits = http.lease("other", 2).await;
    let elsewhere = json!({"id": waits[0]["id"], "permit": leased[0]["permit"]});
    let judged = http.ok("queue.complete", json!({"queue": "other", "items": [elsewhere]})).await;
    let failed = &judged["failed"][0];
    assert_eq!((&failed["code"], failed.get("details")), (&json!("lease_lost"), None), "{failed}");
}

/// A time long ago.
fn past(second: usize) -> String {
    format!("2020-01-01T00:00:{second:02}Z")
}

#[tokio::test]
async fn an_imported_item_changed_no_earlier_than_it_was_made() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 1})).await;
    let items = json!([
        {"utf8": "due long ago", "enqueue_at": past(1)},
        {"utf8": "changed before it was made", "changed_at": past(1)},
        {"utf8": "made and due long ago", "created_at": past(1), "enqueue_at": past(2)},
        {"utf8": "changed long ago", "created_at": past(1), "changed_at": past(2)},
    ]);
    http.ok("storage/items.import", json!({"queue": QUEUE, "items": items})).await;
    let mut waiting = Vec::new();
    while waiting.len() < 4 {
        let listed = http.ok("storage/items.list", json!({"queue": QUEUE, "partition": 1})).await;
        waiting = list(&listed["items"]);
    }
    for item in &waiting {
        let expected = match item["utf8"].as_str().expect("a text") {
            "due long ago" | "changed before it was made" => item["created_at"].clone(),
            _ => json!("2020-01-01T00:00:02.000000Z"),
        };
        assert_eq!(item["changed_at"], expected, "{item}");
    }
}

#[tokio::test]
async fn an_import_refuses_a_client_that_cannot_be() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let import = json!({"queue": QUEUE, "items": [{"utf8": "a", "client_id": "", "started_at": past(1)}]});
    let (status, code, message) = http.refused("storage/items.import", &import).await;
    assert_eq!((status, &*code), (400, "invalid_argument"));
    assert!(message.contains("items[0].client_id"), "{message}");
}

#[tokio::test]
async fn deletions_are_judged_one_by_one() {
    for encoding in [JSON, PROTOBUF] {
        let server = TestServer::start().await;
        let mut http = server.connect().await;
        create_in(&mut http, encoding, QUEUE).await;
        fill(&mut http, encoding, 12).await;
        let leased = lease_in(&mut http, encoding, 1).await;
        let later = scheduled(&mut http, encoding, None).await;
        let stranger = "01980f7e-0000-7000-8000-000000000000".to_owned();
        let ids = vec![leased[0].id.clone(), stranger.clone(), later[0].id.clone()];
        let request = DeleteItemsRequest { queue: QUEUE.to_owned(), ids };
        let reply = http.call(encoding, &request).await.expect("judged");
        assert_eq!(reply.deleted, 2);
        assert_eq!((&reply.failed[0].id, reply.failed[0].code.as_str()), (&stranger, "not_found"));
        assert_eq!(queued(&mut http, encoding, None).await.len(), 9);
        assert_eq!(scheduled(&mut http, encoding, None).await.len(), 1);
    }
}

#[tokio::test]
async fn a_final_item_is_not_deleted() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    create_in(&mut http, JSON, QUEUE).await;
    fill(&mut http, JSON, 2).await;
    let leased = lease_in(&mut http, JSON, 1).await;
    let (id, permit) = (&leased[0].id, leased[0].permit);
    let done = json!({"queue": QUEUE, "items": [{"id": id, "permit": permit, "result": {"utf8": "done"}}]});
    http.ok("queue.complete", done).await;
    let deleted = http.ok("storage/items.delete", json!({"queue": QUEUE, "ids": [id]})).await;
    assert_eq!((&deleted["deleted"], &deleted["failed"][0]["code"]), (&json!(0), &json!("wrong_state")));
    assert!(deleted["failed"][0].get("permit").is_none());
}

#[tokio::test]
async fn a_reload_is_answered_when_everything_is_back() {
    for encoding in [JSON, PROTOBUF] {
        let server = TestServer::start().await;
        let mut http = server.connect().await;
        create_in(&mut http, encoding, QUEUE).await;
        fill(&mut http, encoding, 100).await;
        let before = queued(&mut http, encoding, None).await;
        http.call(encoding, &ReloadQueueRequest { queue: QUEUE.to_owned() }).await.expect("acquired anew");
        assert_eq!(queued(&mut http, encoding, None).await, before);
        let stats = http.call(encoding, &QueueStatsRequest { queue: QUEUE.to_owned() }).await.expect("stats");
        assert_eq!((stats.partitions[0].state.as_str(), stats.counts.waiting), ("available", 90));
    }
}
