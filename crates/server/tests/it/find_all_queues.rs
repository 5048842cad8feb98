//! items.find without a queue.

use serde_json::{Value, json};

use crate::find::{fail_one, produce_one};
use crate::http::Http;
use crate::world::{TestServer, held, list, with};

/// The ids of the items found, the newest first.
async fn ids(http: &mut Http, filter: Value) -> Vec<Value> {
    let page = http.ok("items.find", filter.clone()).await;
    assert_eq!(page.get("pivot"), None, "{filter}");
    list(&page["items"]).iter().map(|item| item["id"].clone()).collect()
}

#[tokio::test]
async fn all_filters_hold_in_all_queues_also_after_a_restart_and_for_items_on_their_way() {
    let (mut server, mut http) =
        TestServer::with_queue(json!({"dead_queue": "later", "partitions": 2})).await;
    http.ok("queues.create", json!({"queue": "p", "indexed_headers": ["a"]})).await;
    http.ok("queues.create", json!({"queue": "quiet"})).await;
    http.ok(
        "group.create",
        json!({"queue": "p", "group": "g", "items": [{"utf8": "x"}, {"utf8": "y"}], "start": true}),
    )
    .await;
    let member = fail_one(&mut http, "p", json!({"code": "one", "message": "no"})).await;
    http.ok("queue.clear", json!({"queue": "p"})).await;
    http.produce("p", json!([{"utf8": "x", "headers": {"a": "1"}, "address": "here"}])).await;
    let addressed = fail_one(&mut http, "p", json!({"code": "two", "message": "no"})).await;
    produce_one(&mut http, json!({"kind": "mail", "headers": {"a": "1"}, "reference": "r"})).await;
    let moving = fail_one(&mut http, "q", json!({"code": "two", "message": "no"})).await;
    produce_one(&mut http, json!({"headers": {"a": "1"}})).await;
    for _ in ["before", "after a restart"] {
        assert_eq!(http.stats("q").await["moving"], 1);
        let expected = [
            (json!({}), vec![&moving, &addressed, &member]),
            (json!({"error_code": "two"}), vec![&moving, &addressed]),
            (json!({"headers": {"a": "1"}}), vec![&moving, &addressed]),
            (json!({"kinds": ["mail"]}), vec![&moving]),
            (json!({"reference": "r"}), vec![&moving]),
            (json!({"address": "here"}), vec![&addressed]),
            (json!({"group": "g"}), vec![&member]),
            (json!({"client_id": "c", "kinds": ["default"]}), vec![&addressed, &member]),
            (json!({"created_before": "2000-01-01T00:00:00Z"}), vec![]),
            (json!({"kinds": []}), vec![]),
            (json!({"limit": 1}), vec![&moving]),
        ];
        for (filter, expected) in expected {
            let request = with(json!({"states": ["failed", "suspended"]}), filter);
            assert_eq!(
                ids(&mut http, request.clone()).await.iter().collect::<Vec<_>>(),
                expected,
                "{request}"
            );
        }
        server.restart().await;
        http = server.connect().await;
    }
}

#[tokio::test]
async fn at_most_a_thousand_of_all_queues_are_shown_the_newest() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.ok("queues.create", json!({"queue": "p"})).await;
    let mut failed = Vec::new();
    for (queue, count) in [("q", 300), ("p", 500), ("q", 400)] {
        failed.extend(http.produce(queue, json!(vec![json!({"utf8": "x"}); count])).await);
        let leased = http.lease(queue, count).await;
        let dead = leased.iter().map(|item| with(held(item), json!({"dead": true})));
        let dead: Vec<Value> = dead.collect();
        http.ok("queue.retry", json!({"queue": queue, "items": dead})).await;
    }
    failed.reverse();
    assert_eq!(ids(&mut http, json!({"states": ["failed"]})).await, failed[..100]);
    let found = ids(&mut http, json!({"states": ["failed"], "limit": 1000})).await;
    assert_eq!((found.len(), &found[..]), (1000, &failed[..1000]));
    let (status, _, message) =
        http.refused("items.find", &json!({"states": ["failed"], "limit": 1001})).await;
    assert!(status == 400 && message.contains("`limit`"), "{message}");
}
