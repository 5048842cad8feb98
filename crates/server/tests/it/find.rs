//! items.find and items.errors over HTTP.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_api::PROTOBUF;
use windlass_api::items::{FindItemsRequest, States};

use crate::http::Http;
use crate::world::{TestServer, held, held_in, list, with};

const ALL_STATES: [&str; 9] =
    ["held", "scheduled", "waiting", "leased", "suspended", "completed", "failed", "cancelled", "expired"];

pub(crate) async fn find(http: &mut Http, filter: Value) -> Value {
    http.ok("items.find", with(json!({"queue": "q"}), filter)).await
}

/// The ids that are found on one page, which must be the last.
pub(crate) async fn ids(http: &mut Http, filter: Value) -> Vec<Value> {
    let page = find(http, filter.clone()).await;
    assert!(page.get("pivot").is_none(), "{filter}: {page}");
    list(&page["items"]).iter().map(|item| item["id"].clone()).collect()
}

/// The ids of all pages.
pub(crate) async fn walk(http: &mut Http, request: Value) -> Vec<Value> {
    let (mut seen, mut pivot) = (Vec::new(), None);
    loop {
        let more = pivot.map_or_else(|| json!({}), |pivot: Value| json!({"pivot": pivot}));
        let page = http.ok("items.find", with(request.clone(), more)).await;
        assert!(page["scanned"].as_u64().is_some_and(|scanned| scanned <= 10_000), "{page}");
        seen.extend(list(&page["items"]).iter().map(|item| item["id"].clone()));
        match page.get("pivot") {
            Some(next) => pivot = Some(next.clone()),
            None => return seen,
        }
    }
}

pub(crate) async fn produce_one(http: &mut Http, item: Value) -> Value {
    http.produce("q", json!([with(json!({"utf8": "x"}), item)])).await.remove(0)
}

/// Fails the first waiting item with an error of this code.
pub(crate) async fn fail_one(http: &mut Http, queue: &str, error: Value) -> Value {
    let leased = http.lease(queue, 1).await.remove(0);
    let item = json!({"id": leased["id"], "permit": leased["permit"], "dead": true, "error": error});
    http.ok("queue.retry", json!({"queue": queue, "items": [item]})).await;
    leased["id"].clone()
}

#[tokio::test]
async fn each_filter_finds_what_it_names_and_all_must_hold() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.ok("group.create", json!({"queue": "q", "group": "g"})).await;
    let plain = produce_one(&mut http, json!({})).await;
    let mail =
        produce_one(&mut http, json!({"kind": "mail", "reference": "r", "headers": {"a": "1", "b": "2"}}))
            .await;
    let other =
        produce_one(&mut http, json!({"kind": "mail", "headers": {"a": "1"}, "address": "here"})).await;
    let member = produce_one(&mut http, json!({"group": "g"})).await;
    let later = produce_one(&mut http, json!({"delay": "1h"})).await;
    let leased = fail_one(&mut http, "q", json!({"code": "broken", "message": "no"})).await;
    assert_eq!(leased, plain);

    let found = [
        (json!({}), vec![&later, &member, &other, &mail, &plain]),
        (json!({"order": "oldest"}), vec![&plain, &mail, &other, &member, &later]),
        (json!({"states": ["failed"]}), vec![&plain]),
        (json!({"states": ["held", "scheduled"]}), vec![&later, &member]),
        (json!({"states": []}), vec![]),
        (json!({"kinds": []}), vec![]),
        (json!({"kinds": ["mail"]}), vec![&other, &mail]),
        (json!({"kinds": ["mail", "default"], "states": ["waiting"]}), vec![&other, &mail]),
        (json!({"group": "g"}), vec![&member]),
        (json!({"group": "nowhere"}), vec![]),
        (json!({"address": "here"}), vec![&other]),
        (json!({"reference": "r"}), vec![&mail]),
        (json!({"headers": {"a": "1"}}), vec![&other, &mail]),
        (json!({"headers": {"a": "1", "b": "2"}}), vec![&mail]),
        (json!({"headers": {"a": "1", "b": "3"}}), vec![]),
        (json!({"headers": {"a": "1"}, "address": "here"}), vec![&other]),
        (json!({"client_id": "c"}), vec![&plain]),
        (json!({"client_id": "d"}), vec![]),
        (json!({"error_code": "broken"}), vec![&plain]),
        (json!({"cron": "nightly"}), vec![]),
        (json!({"created_before": "2000-01-01T00:00:00Z"}), vec![]),
        (json!({"changed_before": "2000-01-01T00:00:00Z"}), vec![]),
        (json!({"created_after": "2000-01-01T00:00:00Z", "kinds": ["mail"]}), vec![&other, &mail]),
    ];
    for (filter, expected) in found {
        assert_eq!(
            ids(&mut http, filter.clone()).await,
            expected.into_iter().cloned().collect::<Vec<_>>(),
            "{filter}"
        );
    }
    let cron = json!({"cron": "nightly", "queue": "q", "schedule": "@yearly", "item": {"utf8": "x"}});
    http.ok("crons.create", cron).await;
    let made = http.ok("crons.trigger", json!({"cron": "nightly"})).await["item"]["id"].clone();
    assert_eq!(ids(&mut http, json!({"cron": "nightly"})).await, [made]);
}

#[tokio::test]
async fn the_client_is_that_of_the_latest_lease() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let id = produce_one(&mut http, json!({})).await;
    for client in ["first", "second"] {
        let lease = json!({"queue": "q", "client_id": client, "batch_size": 1, "request_timeout": "0s"});
        let leased = http.ok("queue.lease", lease).await["items"][0].clone();
        assert_eq!(ids(&mut http, json!({"client_id": client})).await, std::slice::from_ref(&id));
        http.ok("queue.release", held_in("q", [&leased])).await;
    }
    assert_eq!(ids(&mut http, json!({"client_id": "second"})).await, [id]);
    assert!(ids(&mut http, json!({"client_id": "first"})).await.is_empty());
}

#[tokio::test]
async fn a_live_item_is_found_by_the_code_of_its_error() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let id = produce_one(&mut http, json!({})).await;
    for code in ["timeout", "refused"] {
        let leased = http.lease("q", 1).await.remove(0);
        let retry = with(
            held(&leased),
            json!({"retry_at": "2020-01-01T00:00:00Z", "error": {"code": code, "message": "no"}}),
        );
        http.ok("queue.retry", json!({"queue": "q", "items": [retry]})).await;
        assert_eq!(
            ids(&mut http, json!({"error_code": code, "states": ["waiting"]})).await,
            std::slice::from_ref(&id)
        );
    }
    assert!(ids(&mut http, json!({"error_code": "timeout"})).await.is_empty(), "the latest error counts");
}

#[tokio::test]
async fn a_group_filter_finds_the_members_of_every_group_that_had_the_name() {
    let (_server, mut http) = TestServer::with_queue(json!({"keep": "all"})).await;
    let g = json!({"queue": "q", "group": "g"});
    let mut members = Vec::new();
    for _ in 0..2 {
        http.ok("group.create", g.clone()).await;
        members.push(produce_one(&mut http, json!({"group": "g"})).await);
        produce_one(&mut http, json!({})).await;
        assert_eq!(ids(&mut http, json!({"group": "g", "order": "oldest"})).await, members);
        http.ok("group.cancel", g.clone()).await;
        http.until(async |http| http.ok("group.info", g.clone()).await["group"]["state"] == "aborted").await;
        http.ok("group.delete", g.clone()).await;
        assert_eq!(http.item(members.last().expect("one was made")).await["group"], "g");
    }
    assert_eq!(ids(&mut http, json!({"group": "g", "order": "oldest"})).await, members);
    assert_eq!(
        ids(&mut http, json!({"group": "g", "states": ["cancelled"], "order": "oldest"})).await,
        members
    );
}

#[tokio::test]
async fn partitions_are_merged_by_the_time_of_production() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 3})).await;
    let mut made = Vec::new();
    for _ in 0..20 {
        made.push(produce_one(&mut http, json!({})).await);
    }
    let page = find(&mut http, json!({"order": "oldest"})).await;
    let partitions: BTreeSet<u64> =
        list(&page["items"]).iter().filter_map(|item| item["partition"].as_u64()).collect();
    assert_eq!(partitions.len(), 3);
    assert_eq!(ids(&mut http, json!({"order": "oldest"})).await, made);
    assert_eq!(walk(&mut http, json!({"queue": "q", "order": "oldest", "limit": 3})).await, made);
    made.reverse();
    assert_eq!(walk(&mut http, json!({"queue": "q", "limit": 3})).await, made);
}

#[tokio::test]
async fn a_filter_on_states_a_group_or_an_address_looks_only_at_what_matches() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.ok("group.create", json!({"queue": "q", "group": "g"})).await;
    produce_one(&mut http, json!({})).await;
    let failed = fail_one(&mut http, "q", json!({"message": "no"})).await;
    produce_one(&mut http, json!({})).await;
    let leased = http.lease("q", 1).await[0]["id"].clone();
    http.produce("q", json!(vec![json!({"utf8": "x"}); 50])).await;
    let member = produce_one(&mut http, json!({"group": "g"})).await;
    let addressed = produce_one(&mut http, json!({"address": "here"})).await;
    let expected = [
        (json!({"states": ["failed"]}), vec![&failed]),
        (json!({"states": ["leased", "suspended", "failed"]}), vec![&leased, &failed]),
        (json!({"states": ["completed", "cancelled", "expired"]}), vec![]),
        (json!({"group": "g"}), vec![&member]),
        (json!({"address": "here"}), vec![&addressed]),
    ];
    for (filter, ids) in expected {
        let page = find(&mut http, filter.clone()).await;
        let found: Vec<Value> = list(&page["items"]).iter().map(|item| item["id"].clone()).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), ids, "{filter}");
        assert_eq!(page["scanned"], json!(ids.len()), "{filter}");
    }
}

#[tokio::test]
async fn an_item_on_its_way_to_another_queue_is_found_as_it_ended() {
    let (_server, mut http) = TestServer::with_queue(json!({"dead_queue": "later", "max_attempts": 1})).await;
    produce_one(&mut http, json!({})).await;
    let failed = fail_one(&mut http, "q", json!({"code": "broken", "message": "no"})).await;
    assert_eq!(http.stats("q").await["moving"], 1);
    for filter in [json!({}), json!({"states": ["failed"]}), json!({"error_code": "broken"})] {
        assert_eq!(ids(&mut http, filter).await, std::slice::from_ref(&failed));
    }
}

#[tokio::test]
async fn after_is_inclusive_and_before_is_exclusive() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let id = produce_one(&mut http, json!({})).await;
    let at = http.item(&id).await["created_at"].clone();
    for (from, until) in [("created_after", "created_before"), ("changed_after", "changed_before")] {
        assert_eq!(ids(&mut http, json!({from: at})).await, std::slice::from_ref(&id));
        assert!(ids(&mut http, json!({until: at})).await.is_empty());
    }
}

#[tokio::test]
async fn payloads_and_results_are_shown_only_if_asked_for_and_errors_always() {
    let (_server, mut http) = TestServer::with_queue(json!({"retain_payload": "all"})).await;
    produce_one(&mut http, json!({"reference": "r", "headers": {"a": "1"}})).await;
    let failed = fail_one(&mut http, "q", json!({"message": "no"})).await;
    produce_one(&mut http, json!({})).await;
    let leased = http.lease("q", 1).await.remove(0);
    let done = json!({"id": leased["id"], "permit": leased["permit"], "result": {"json": {"a": 1}}});
    http.ok("queue.complete", json!({"queue": "q", "items": [done]})).await;
    let bare = find(&mut http, json!({})).await;
    let (newest, oldest) = (&bare["items"][0], &bare["items"][1]);
    assert_eq!((newest.get("result"), newest.get("utf8"), oldest.get("utf8")), (None, None, None));
    assert_eq!(
        (&oldest["id"], &oldest["error"]["message"], &oldest["reference"]),
        (&failed, &json!("no"), &json!("r"))
    );
    assert_eq!(oldest["headers"], json!({"a": "1"}));
    let whole = find(&mut http, json!({"payloads": true})).await;
    assert_eq!(
        (&whole["items"][0]["result"], &whole["items"][0]["utf8"]),
        (&json!({"json": {"a": 1}}), &json!("x"))
    );
    let mut shown = http.item(&failed).await;
    shown.as_object_mut().expect("an item").remove("attempt_log");
    assert_eq!(whole["items"][1], shown);
}

#[tokio::test]
async fn pages_lead_through_every_item_once_also_over_a_restart_and_a_rebalance() {
    let (mut server, mut http) = TestServer::with_queue(json!({"partitions": 3})).await;
    let mut made = Vec::new();
    for _ in 0..10 {
        made.extend(http.produce("q", json!(vec![json!({"utf8": "x"}); 7])).await);
    }
    let first = find(&mut http, json!({"limit": 20})).await;
    http.produce("q", json!([{"utf8": "later"}])).await;
    server.restart().await;
    let mut http = server.connect().await;
    http.ok("queue.rebalance", json!({"queue": "q", "partitions": 1})).await;
    let rest = walk(&mut http, json!({"queue": "q", "limit": 13, "pivot": first["pivot"]})).await;
    assert!(!rest.is_empty());
    let first: Vec<Value> = list(&first["items"]).iter().map(|item| item["id"].clone()).collect();
    let mut seen: Vec<String> = first.iter().chain(&rest).map(Value::to_string).collect();
    seen.sort_unstable();
    let mut made: Vec<String> = made.iter().map(Value::to_string).collect();
    made.sort_unstable();
    assert_eq!(seen, made);
}

#[tokio::test]
async fn pages_go_on_where_partitions_were_added() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let mut made = http.produce("q", json!(vec![json!({"utf8": "x"}); 30])).await;
    let first = find(&mut http, json!({"limit": 12})).await;
    http.ok("queue.rebalance", json!({"queue": "q", "partitions": 4})).await;
    for _ in 0..8 {
        produce_one(&mut http, json!({})).await;
    }
    let rest = walk(&mut http, json!({"queue": "q", "limit": 7, "pivot": first["pivot"]})).await;
    made.reverse();
    let first: Vec<Value> = list(&first["items"]).iter().map(|item| item["id"].clone()).collect();
    assert_eq!([first, rest].concat(), made);
}

#[tokio::test]
async fn a_walk_sees_each_item_once_while_items_come_move_and_are_run_again() {
    let settings = json!({"partitions": 2, "keep": "all", "dead_queue": "dead", "retain_payload": "all"});
    let (_server, mut http) = TestServer::with_queue(settings).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    for order in ["newest", "oldest"] {
        http.produce("q", json!(vec![json!({"utf8": "x"}); 40])).await;
        let before = walk(&mut http, json!({"queue": "q", "order": order, "limit": 1000})).await;
        let (mut seen, mut pivot) = (Vec::new(), Value::Null);
        for round in 0.. {
            let mut request = json!({"queue": "q", "order": order, "limit": 7});
            if pivot.is_string() {
                request["pivot"] = pivot;
            }
            let page = http.ok("items.find", request).await;
            seen.extend(list(&page["items"]).iter().map(|item| item["id"].clone()));
            pivot = match page.get("pivot") {
                Some(next) => next.clone(),
                None => break,
            };
            produce_one(&mut http, json!({})).await;
            fail_one(&mut http, "q", json!({"message": "no"})).await;
            let leased = http.lease("q", 1).await;
            http.complete("q", &leased).await;
            let cancelled = &before[round % before.len()];
            http.ok("item.cancel", json!({"id": cancelled})).await;
            // What has moved is not run again.
            http.post("item.rerun", &json!({"id": cancelled}).to_string()).await;
            http.ok("queue.redrive", json!({"queue": "dead"})).await;
        }
        assert_eq!(seen.len(), before.len(), "{order}");
        let in_order = |ids: &[Value]| ids.iter().map(Value::to_string).collect::<BTreeSet<_>>();
        assert_eq!(in_order(&seen), in_order(&before), "{order}");
    }
}

#[tokio::test]
async fn a_page_looks_at_no_more_than_ten_thousand_items_and_the_walk_goes_on() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let wanted = produce_one(&mut http, json!({"kind": "rare"})).await;
    for _ in 0..11 {
        http.produce("q", json!(vec![json!({"utf8": "x"}); 1000])).await;
    }
    let first = find(&mut http, json!({"kinds": ["rare"]})).await;
    assert_eq!((&first["items"], &first["scanned"]), (&json!([]), &json!(10_000)));
    let second = find(&mut http, json!({"kinds": ["rare"], "pivot": first["pivot"]})).await;
    assert_eq!((&second["items"][0]["id"], &second["scanned"]), (&wanted, &json!(1001)));
    assert_eq!(second.get("pivot"), None);
}

#[tokio::test]
async fn an_indexed_header_is_found_by_looking_at_nothing_else() {
    let (_server, mut http) =
        TestServer::with_queue(json!({"indexed_headers": ["trace", "reference"]})).await;
    http.produce("q", json!(vec![json!({"utf8": "x", "headers": {"trace": "no"}}); 500])).await;
    let wanted = produce_one(&mut http, json!({"headers": {"trace": "yes"}, "reference": "r"})).await;
    for filter in [json!({"headers": {"trace": "yes"}}), json!({"reference": "r"})] {
        let page = find(&mut http, filter).await;
        assert_eq!((&page["items"][0]["id"], &page["scanned"]), (&wanted, &json!(1)));
    }
}

#[tokio::test]
async fn an_item_is_indexed_however_it_was_made() {
    let (_server, mut http) = TestServer::with_queue(json!({"indexed_headers": ["trace"]})).await;
    let to_q = json!({"queue": "p", "dead_queue": "q", "max_attempts": 1});
    http.ok("queues.create", to_q).await;
    let item = |id: &str| json!({"utf8": "x", "headers": {"trace": id, "other": "1"}});
    http.produce(
        "q",
        json!([{"utf8": "x", "headers": {"trace": "another"}}, {"utf8": "x", "reference": "r"}]),
    )
    .await;
    let once = json!({"queue": "q", "idempotency_key": "k", "items": [item("once")]});
    http.ok("queue.produce", once).await;
    let group =
        json!({"queue": "q", "group": "g", "items": [item("member")], "end": item("end"), "start": true});
    http.ok("group.create", group).await;
    http.ok("items.change", json!({"queue": "q", "action": "delete", "filter": {"group": "g"}})).await;
    let cron = json!({"cron": "c", "queue": "q", "schedule": "@yearly", "item": item("cron")});
    http.ok("crons.create", cron).await;
    http.ok("crons.trigger", json!({"cron": "c"})).await;
    http.ok("crons.update", json!({"cron": "c", "item": item("cron again")})).await;
    http.ok("crons.trigger", json!({"cron": "c"})).await;
    http.ok("storage/items.import", json!({"queue": "q", "items": [item("import")]})).await;
    let updated = produce_one(&mut http, json!({})).await;
    http.ok("item.update", json!({"id": updated, "headers": {"trace": "update"}})).await;
    http.produce("p", json!([item("dead")])).await;
    let died = fail_one(&mut http, "p", json!({"message": "no"})).await;
    http.until(async |http| http.item(&died).await.get("moved_to").is_some()).await;
    for trace in ["once", "end", "cron", "cron again", "import", "update", "dead"] {
        let page = find(&mut http, json!({"headers": {"trace": trace}})).await;
        assert_eq!((list(&page["items"]).len(), &page["scanned"]), (1, &json!(1)), "{trace}: {page}");
    }
    let rerun = http
        .ok(
            "items.change",
            json!({"queue": "q", "action": "cancel", "filter": {"headers": {"trace": "once"}}}),
        )
        .await;
    assert_eq!(rerun["changed"], 1);
    let older = json!({"queue": "q", "indexed_headers": ["trace", "other"]});
    http.ok("queues.update", older).await;
    let page = find(&mut http, json!({"headers": {"other": "1"}})).await;
    assert!(list(&page["items"]).len() >= 5, "items from before the setting are scanned: {page}");
    let again = json!({"queue": "q", "idempotency_key": "k", "items": [item("once")]});
    let counts = http.stats("q").await["counts"]["waiting"].clone();
    http.ok("queue.produce", again).await;
    assert_eq!(http.stats("q").await["counts"]["waiting"], counts, "the same call, whatever is indexed");
}

#[tokio::test]
async fn a_page_ends_before_its_bodies_come_to_more_than_16_mib() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let payload = "x".repeat(900_000);
    for _ in 0..20 {
        http.produce("q", json!([{"utf8": payload}])).await;
    }
    let page = find(&mut http, json!({"payloads": true})).await;
    assert_eq!((list(&page["items"]).len(), page["pivot"].is_string()), (18, true));
    let rest = find(&mut http, json!({"payloads": true, "pivot": page["pivot"]})).await;
    assert_eq!((list(&rest["items"]).len(), rest.get("pivot")), (2, None));
    assert_eq!(list(&find(&mut http, json!({})).await["items"]).len(), 20);
}

#[tokio::test]
async fn a_pivot_is_refused_for_another_queue_filter_or_order() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.ok("queues.create", json!({"queue": "p"})).await;
    http.produce("q", json!(vec![json!({"utf8": "x"}); 3])).await;
    let request = json!({"queue": "q", "kinds": ["default", "mail"], "limit": 1});
    let pivot = http.ok("items.find", request.clone()).await["pivot"].clone();
    let again = with(request, json!({"pivot": pivot}));
    let same = [
        json!({"limit": 1000}),
        json!({"payloads": true}),
        json!({"kinds": ["mail", "default"]}),
        json!({"order": "newest"}),
    ];
    for same in same {
        http.ok("items.find", with(again.clone(), same)).await;
    }
    let others = [
        json!({"queue": "p"}),
        json!({"kinds": ["default"]}),
        json!({"order": "oldest"}),
        json!({"states": ["waiting"]}),
        json!({"headers": {"a": "1"}}),
        json!({"group": "g"}),
        json!({"address": "here"}),
        json!({"reference": "r"}),
        json!({"client_id": "c"}),
        json!({"cron": "nightly"}),
        json!({"error_code": "broken"}),
        json!({"created_after": "2000-01-01T00:00:00Z"}),
        json!({"created_before": "2100-01-01T00:00:00Z"}),
        json!({"changed_after": "2000-01-01T00:00:00Z"}),
        json!({"changed_before": "2100-01-01T00:00:00Z"}),
        json!({"pivot": "garbage"}),
        json!({"pivot": "1"}),
        json!({"pivot": ""}),
        json!({"pivot": &pivot.as_str().expect("a text")[..20]}),
    ];
    for other in others {
        let (status, code, message) = http.refused("items.find", &with(again.clone(), other.clone())).await;
        assert_eq!((status, code.as_str()), (400, "invalid_argument"), "{other}");
        assert!(message.contains("`pivot`"), "{message}");
    }
}

#[tokio::test]
async fn wrong_values_are_refused_by_name() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let wrong = [
        (json!({"states": ["done"]}), "`states`"),
        (json!({"states": ["waiting", "moving"]}), "`expired`"),
        (json!({"kinds": [""]}), "`kinds`"),
        (json!({"kinds": vec!["k"; 1001]}), "kinds"),
        (json!({"kinds": vec!["k"; 1001]}), "at most 1000"),
        (json!({"states": vec!["failed"; 1001]}), "states"),
        (json!({"states": vec!["failed"; 1001]}), "at most 1000"),
        (json!({"group": "a b"}), "`group`"),
        (json!({"address": ""}), "`address`"),
        (json!({"reference": ""}), "`reference`"),
        (json!({"reference": "x".repeat(513)}), "`reference`"),
        (json!({"headers": {"a": "x".repeat(5000)}}), "`headers`"),
        (json!({"client_id": ""}), "`client_id`"),
        (json!({"error_code": "x".repeat(129)}), "`error_code`"),
        (json!({"cron": ""}), "`cron`"),
        (json!({"order": "random"}), "`order`"),
        (json!({"limit": 0}), "`limit`"),
        (json!({"limit": 1001}), "`limit`"),
        (json!({"queue": ""}), "`queue`"),
        (json!({"created_after": "yesterday"}), "created_after"),
    ];
    for (filter, named) in wrong {
        let request = with(json!({"queue": "q"}), filter);
        let (status, code, message) = http.refused("items.find", &request).await;
        assert_eq!((status, code.as_str()), (400, "invalid_argument"), "{request}: {message}");
        assert!(message.contains(named), "{request}: {message}");
    }
    let (status, code, _) = http.refused("items.find", &json!({"queue": "nowhere"})).await;
    assert_eq!((status, code.as_str()), (404, "not_found"));
}

#[tokio::test]
async fn all_queues_are_searched_for_items_that_somebody_may_have_to_see_to() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 2})).await;
    let mut failed = Vec::new();
    for queue in ["a", "b", "c"] {
        http.ok("queues.create", json!({"queue": queue})).await;
    }
    for queue in ["a", "b", "q", "a"] {
        http.produce(queue, json!([{"utf8": "x"}, {"utf8": "y"}])).await;
        failed.push(fail_one(&mut http, queue, json!({"message": "no"})).await);
        http.lease(queue, 1).await;
    }
    failed.reverse();
    let found =
        |page: Value| -> Vec<Value> { list(&page["items"]).iter().map(|item| item["id"].clone()).collect() };
    let page = http.ok("items.find", json!({"states": ["failed", "suspended"]})).await;
    assert_eq!(page.get("pivot"), None);
    assert_eq!(found(page), failed);
    let page = http.ok("items.find", json!({"states": ["failed"], "limit": 2})).await;
    assert_eq!(page.get("pivot"), None);
    assert_eq!(found(page), failed[..2]);
    let none = http.ok("items.find", json!({"states": ["expired"], "payloads": true})).await;
    assert_eq!(none, json!({"items": [], "scanned": 0}));

    let others = ALL_STATES.iter().filter(|state| !["suspended", "failed", "expired"].contains(state));
    for state in others {
        let (status, _, message) = http.refused("items.find", &json!({"states": ["failed", state]})).await;
        assert!(status == 400 && message.contains("`states`"), "{message}");
    }
    let wrong = [
        (json!({}), "`states`"),
        (json!({"states": ["failed"], "pivot": "1"}), "`pivot`"),
        (json!({"states": ["failed"], "order": "oldest"}), "`order`"),
    ];
    for (request, named) in wrong {
        let (status, _, message) = http.refused("items.find", &request).await;
        assert!(status == 400 && message.contains(named), "{request}: {message}");
    }
}

#[tokio::test]
async fn the_most_frequent_error_codes_come_first_with_the_latest_item_of_each() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 2})).await;
    assert_eq!(http.ok("items.errors", json!({"queue": "q"})).await, json!({"errors": []}));
    let mut last = Vec::new();
    for (code, message) in [("a", "1"), ("b", "2"), ("b", "3"), ("a", "4"), ("b", "5")] {
        http.produce("q", json!([{"utf8": "x"}])).await;
        last.push(fail_one(&mut http, "q", json!({"code": code, "message": message})).await);
    }
    http.produce("q", json!([{"utf8": "x"}])).await;
    last.push(fail_one(&mut http, "q", json!({"message": "no code"})).await);
    let errors = list(&http.ok("items.errors", json!({"queue": "q"})).await["errors"]);
    let told: Vec<_> = errors
        .iter()
        .map(|error| {
            (error["code"].as_str(), error["count"].as_u64(), error["message"].as_str(), &error["id"])
        })
        .collect();
    let expected = [
        (Some("b"), Some(3), Some("5"), &last[4]),
        (Some("a"), Some(2), Some("4"), &last[3]),
        (Some(""), Some(1), Some("no code"), &last[5]),
    ];
    assert_eq!(told, expected);
    assert_eq!(errors[0]["latest_at"], http.item(&last[4]).await["finished_at"]);
    let (status, code, _) = http.refused("items.errors", &json!({"queue": "nowhere"})).await;
    assert_eq!((status, code.as_str()), (404, "not_found"));
}

#[tokio::test]
async fn items_are_found_in_protobuf() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.produce("q", json!([{"utf8": "a"}, {"utf8": "b"}])).await;
    let request = FindItemsRequest {
        queue: Some("q".into()),
        states: Some(States { states: vec!["waiting".into()] }),
        payloads: true,
        limit: Some(1),
        ..FindItemsRequest::default()
    };
    let page = http.call(PROTOBUF, &request).await.expect("found");
    assert_eq!((page.items[0].utf8.as_deref(), page.scanned), (Some("b"), 1));
    let request = FindItemsRequest { pivot: page.pivot, ..request };
    let rest = http.call(PROTOBUF, &request).await.expect("found");
    assert_eq!((rest.items[0].utf8.as_deref(), rest.pivot), (Some("a"), None));
    let none = FindItemsRequest { states: Some(States::default()), pivot: None, ..request };
    assert!(http.call(PROTOBUF, &none).await.expect("found").items.is_empty());
}
