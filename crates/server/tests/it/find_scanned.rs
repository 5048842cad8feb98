//! How many items items.find looks at, as `scanned` tells.

use serde_json::{Value, json};

use crate::find::{fail_one, find, produce_one};
use crate::http::Http;
use crate::world::{TestServer, list, with};

/// The ids on the only page, and how many items were looked at.
async fn scanned(http: &mut Http, filter: Value) -> (Vec<Value>, u64) {
    only_page(find(http, with(json!({"limit": 1000}), filter)).await)
}

fn only_page(page: Value) -> (Vec<Value>, u64) {
    assert_eq!(page.get("pivot"), None, "{page}");
    let ids = list(&page["items"]).iter().map(|item| item["id"].clone()).collect();
    (ids, page["scanned"].as_u64().expect("a number"))
}

#[tokio::test]
async fn a_filter_on_states_looks_only_at_items_of_these_states_beside_a_header_or_a_group() {
    let (_server, mut http) = TestServer::with_queue(json!({"indexed_headers": ["tenant"]})).await;
    let of_x = json!({"utf8": "x", "headers": {"tenant": "x"}});
    http.produce("q", json!([of_x])).await;
    let failed = fail_one(&mut http, "q", json!({"message": "no"})).await;
    let member = json!({"utf8": "x", "group": "g"});
    let items = json!([{"utf8": "x"}, {"utf8": "x"}]);
    http.ok("group.create", json!({"queue": "q", "group": "g", "items": items, "start": true})).await;
    let of_group = fail_one(&mut http, "q", json!({"message": "no"})).await;
    http.produce("q", json!(vec![of_x; 300])).await;
    http.produce("q", json!(vec![member; 300])).await;

    let tenant = json!({"headers": {"tenant": "x"}});
    let of = |states: &[&str], filter: &Value| with(json!({"states": states}), filter.clone());
    assert_eq!(scanned(&mut http, of(&["failed"], &tenant)).await, (vec![failed.clone()], 1));
    assert_eq!(
        scanned(&mut http, of(&["failed", "leased", "suspended"], &tenant)).await,
        (vec![failed.clone()], 1)
    );
    assert_eq!(scanned(&mut http, of(&["expired"], &tenant)).await, (vec![], 0));
    assert_eq!(scanned(&mut http, of(&[], &tenant)).await, (vec![], 0));
    let group = json!({"group": "g"});
    assert_eq!(scanned(&mut http, of(&["failed"], &group)).await, (vec![of_group], 1));
    assert_eq!(scanned(&mut http, of(&["expired"], &group)).await, (vec![], 0));
    let in_all_queues = http.ok("items.find", of(&["failed"], &tenant)).await;
    assert_eq!(only_page(in_all_queues), (vec![failed], 1));
}

#[tokio::test]
async fn of_several_indexed_filters_the_narrowest_bounds_what_is_looked_at() {
    let (_server, mut http) = TestServer::with_queue(json!({"indexed_headers": ["common"]})).await;
    http.ok("queues.update", json!({"queue": "q", "indexed_headers": ["common", "rare", "reference"]})).await;
    http.ok("group.create", json!({"queue": "q", "group": "g"})).await;
    let common = |rare: &str| json!({"utf8": "x", "headers": {"common": "x", "rare": rare}, "group": "g"});
    http.produce("q", json!(vec![common("no"); 300])).await;
    let wanted = produce_one(&mut http, with(common("yes"), json!({"reference": "r"}))).await;
    http.produce("q", json!(vec![common("no"); 300])).await;
    let one = (vec![wanted], 1);
    let filters = [
        json!({"headers": {"common": "x", "rare": "yes"}}),
        json!({"headers": {"rare": "yes"}, "group": "g"}),
        json!({"reference": "r", "group": "g"}),
        json!({"reference": "r", "headers": {"common": "x"}}),
        json!({"reference": "r", "headers": {"common": "x", "rare": "yes", "other": "1"}}),
    ];
    for (filter, expected) in
        filters[..4].iter().map(|filter| (filter, one.clone())).chain([(&filters[4], (vec![], 1))])
    {
        for order in ["newest", "oldest"] {
            let filter = with(filter.clone(), json!({"order": order}));
            assert_eq!(scanned(&mut http, filter.clone()).await, expected, "{filter}");
        }
    }
    assert_eq!(scanned(&mut http, json!({"headers": {"common": "x", "rare": "?"}})).await, (vec![], 0));
}

#[tokio::test]
async fn what_a_clear_keeps_is_found_at_once_and_by_itself_once_it_is_swept_up() {
    let (_server, mut http) = TestServer::with_queue(json!({"keep": "all"})).await;
    let made = http.produce("q", json!(vec![json!({"utf8": "x"}); 800])).await;
    http.ok("queue.clear", json!({"queue": "q"})).await;
    http.produce("q", json!(vec![json!({"utf8": "x"}); 100])).await;
    let mut swept = false;
    while !swept {
        let (found, looked) = scanned(&mut http, json!({"states": ["cancelled"], "order": "oldest"})).await;
        assert_eq!(found, made);
        assert!((800..=900).contains(&looked), "{looked}");
        swept = looked == 800;
    }
    assert_eq!(scanned(&mut http, json!({"states": ["cancelled", "failed"]})).await.1, 800);
}

#[tokio::test]
async fn after_a_change_of_the_setting_older_items_are_looked_at_too() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let index = |names: &[&str]| json!({"queue": "q", "indexed_headers": names});
    let items = json!([
        {"utf8": "x", "headers": {"a": "1"}}, {"utf8": "x", "headers": {"a": "2"}}, {"utf8": "x"},
    ]);
    let one = json!({"headers": {"a": "1"}});
    let mut made = vec![http.produce("q", items.clone()).await.remove(0)];
    assert_eq!(scanned(&mut http, one.clone()).await, (made.clone(), 3), "not indexed");
    http.ok("queues.update", index(&["a"])).await;
    made.insert(0, http.produce("q", items.clone()).await.remove(0));
    assert_eq!(scanned(&mut http, one.clone()).await, (made.clone(), 3 + 1), "three from before");
    http.ok("queues.update", index(&["b", "a"])).await;
    assert_eq!(scanned(&mut http, one.clone()).await, (made.clone(), 3 + 1), "the name stayed");
    http.ok("queues.update", index(&[])).await;
    assert_eq!(scanned(&mut http, one.clone()).await, (made.clone(), 6), "not indexed any more");
    http.ok("queues.update", index(&["a"])).await;
    made.insert(0, http.produce("q", items).await.remove(0));
    assert_eq!(scanned(&mut http, one.clone()).await, (made.clone(), 6 + 1), "six from before it came back");
    let updated = http.ok("item.update", json!({"id": made[2], "headers": {"a": "2"}})).await;
    assert_eq!(updated["item"]["headers"], json!({"a": "2"}));
    assert_eq!(scanned(&mut http, one).await.0, made[..2]);
}

#[tokio::test]
async fn an_update_that_removes_headers_or_reference_takes_the_item_out_of_the_index() {
    let (_server, mut http) = TestServer::with_queue(json!({"indexed_headers": ["a", "reference"]})).await;
    let new = json!({"headers": {"a": "1"}, "reference": "r"});
    let updated = produce_one(&mut http, new.clone()).await;
    let other = produce_one(&mut http, new).await;
    let (of_header, of_reference) = (json!({"headers": {"a": "1"}}), json!({"reference": "r"}));
    let both = (vec![other.clone(), updated.clone()], 2);
    assert_eq!(scanned(&mut http, of_header.clone()).await, both);
    http.ok("item.update", json!({"id": updated, "headers": {}})).await;
    assert_eq!(scanned(&mut http, of_header).await, (vec![other.clone()], 1));
    assert_eq!(scanned(&mut http, of_reference.clone()).await, both);
    http.ok("item.update", json!({"id": updated, "reference": ""})).await;
    assert_eq!(scanned(&mut http, of_reference).await, (vec![other], 1));
}

#[tokio::test]
async fn the_names_of_indexed_headers_are_at_most_eight_different_ones() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let eight = ["a", "b", "c", "d", "e", "f", "g", "reference"];
    let indexed = http.ok("queues.update", json!({"queue": "q", "indexed_headers": eight})).await;
    assert_eq!(indexed["queue"]["indexed_headers"], json!(eight));
    let long = "x".repeat(129);
    let wrong = [&[&eight[..], &["i"]].concat()[..], &["a", "a"], &[""], &[&long], &["a\0"]];
    for names in wrong {
        let made = json!({"queue": "p", "indexed_headers": names});
        let changed = json!({"queue": "q", "indexed_headers": names});
        for (call, request) in [("queues.create", made), ("queues.update", changed)] {
            let (status, code, message) = http.refused(call, &request).await;
            assert_eq!((status, code.as_str()), (400, "invalid_argument"), "{request}");
            assert!(message.contains("`indexed_headers`"), "{message}");
        }
    }
    let kept = http.ok("queues.info", json!({"queue": "q"})).await;
    assert_eq!(kept["queue"]["indexed_headers"], json!(eight));
}

#[tokio::test]
async fn an_item_on_its_way_to_another_queue_is_found_by_what_it_shows() {
    let settings = json!({"dead_queue": "later", "indexed_headers": ["a"]});
    let (mut server, mut http) = TestServer::with_queue(settings).await;
    let new = json!({
        "kind": "mail", "address": "here", "reference": "r", "headers": {"a": "1", "b": "2"},
    });
    let moving = produce_one(&mut http, new).await;
    assert_eq!(fail_one(&mut http, "q", json!({"code": "broken", "message": "no"})).await, moving);
    http.produce("q", json!(vec![json!({"utf8": "x"}); 20])).await;
    for _ in ["before", "after a restart"] {
        assert_eq!(http.stats("q").await["moving"], 1);
        let indexed =
            [json!({"headers": {"a": "1"}}), json!({"address": "here"}), json!({"states": ["failed"]})];
        for filter in indexed {
            assert_eq!(scanned(&mut http, filter.clone()).await, (vec![moving.clone()], 1), "{filter}");
        }
        let walked = [json!({"headers": {"b": "2"}}), json!({"reference": "r"}), json!({"kinds": ["mail"]})];
        for filter in walked {
            assert_eq!(scanned(&mut http, filter.clone()).await, (vec![moving.clone()], 21), "{filter}");
        }
        assert_eq!(scanned(&mut http, json!({"headers": {"a": "2"}})).await, (vec![], 0));
        server.restart().await;
        http = server.connect().await;
    }
}
