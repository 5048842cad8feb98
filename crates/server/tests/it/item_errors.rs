//! items.errors over HTTP: which codes are told, and that their counts follow the items.

use serde_json::{Value, json};

use crate::find::{fail_one, produce_one};
use crate::http::Http;
use crate::world::{TestServer, held, list, with};

/// Codes and counts as they are told.
async fn told(http: &mut Http) -> Vec<(String, u64)> {
    let errors = list(&http.ok("items.errors", json!({"queue": "q"})).await["errors"]);
    let one = |error: &Value| {
        (error["code"].as_str().expect("a text").to_owned(), error["count"].as_u64().expect("a number"))
    };
    errors.iter().map(one).collect()
}

fn counts(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect()
}

async fn until_told(http: &mut Http, expected: &[(&str, u64)]) {
    http.until(async |http| told(http).await == counts(expected)).await;
}

async fn fail_with(http: &mut Http, code: &str) -> Value {
    produce_one(http, json!({})).await;
    fail_one(http, "q", json!({"code": code, "message": "no"})).await
}

/// Fails new items, each with a code of its own.
async fn fail_all(http: &mut Http, codes: std::ops::Range<usize>) {
    http.produce("q", json!(vec![json!({"utf8": "x"}); codes.len()])).await;
    let leased = http.lease("q", codes.len()).await;
    let dead = |(item, number): (&Value, usize)| {
        with(
            held(item),
            json!({"dead": true, "error": {"code": format!("code {number:04}"), "message": "no"}}),
        )
    };
    let items: Vec<Value> = leased.iter().zip(codes).map(dead).collect();
    http.ok("queue.retry", json!({"queue": "q", "items": items})).await;
}

#[tokio::test]
async fn the_fifty_most_frequent_codes_are_told_and_those_beyond_a_thousand_as_other() {
    let (mut server, mut http) = TestServer::with_queue(json!({})).await;
    fail_all(&mut http, 0..60).await;
    fail_with(&mut http, "often").await;
    fail_with(&mut http, "often").await;
    let few = told(&mut http).await;
    assert_eq!(
        (few.len(), &few[..2], &few[49].0[..]),
        (50, &counts(&[("often", 2), ("code 0000", 1)])[..], "code 0048")
    );
    fail_all(&mut http, 60..1000).await;
    fail_all(&mut http, 1000..1020).await;
    for _ in ["before", "after a restart"] {
        let many = told(&mut http).await;
        assert_eq!(
            (many.len(), &many[..3]),
            (50, &counts(&[("other", 21), ("often", 2), ("code 0000", 1)])[..])
        );
        server.restart().await;
        http = server.connect().await;
    }
}

#[tokio::test]
async fn a_code_counts_for_as_long_as_its_items_are_kept() {
    let (mut server, mut http) = TestServer::with_queue(json!({})).await;
    let first = fail_with(&mut http, "a").await;
    let second = fail_with(&mut http, "a").await;
    fail_with(&mut http, "b").await;
    assert_eq!(told(&mut http).await, counts(&[("a", 2), ("b", 1)]));
    let latest = http.ok("items.errors", json!({"queue": "q"})).await["errors"][0]["id"].clone();
    assert_eq!(latest, second);
    let delete = |id: &Value| {
        let at = json!({"error_code": "a"});
        (json!({"queue": "q", "action": "delete", "filter": at, "limit": 1}), id.clone())
    };
    let (oldest, id) = delete(&first);
    http.ok("items.change", oldest).await;
    assert_eq!(http.refused("item.get", &json!({"id": id})).await.0, 404);
    assert_eq!(told(&mut http).await, counts(&[("a", 1), ("b", 1)]));
    server.restart().await;
    let mut http = server.connect().await;
    assert_eq!(told(&mut http).await, counts(&[("a", 1), ("b", 1)]));

    // A live item's error does not count before the item has ended, here by a clear.
    produce_one(&mut http, json!({})).await;
    let leased = http.lease("q", 1).await.remove(0);
    let error = json!({"retry_at": "2020-01-01T00:00:00Z", "error": {"code": "c", "message": "no"}});
    http.ok("queue.retry", json!({"queue": "q", "items": [with(held(&leased), error)]})).await;
    assert_eq!(told(&mut http).await, counts(&[("a", 1), ("b", 1)]));
    http.ok("queue.clear", json!({"queue": "q"})).await;
    until_told(&mut http, &[("a", 1), ("b", 1), ("c", 1)]).await;

    http.ok("queues.update", json!({"queue": "q", "retention_max_items": 1})).await;
    until_told(&mut http, &[("c", 1)]).await;
    http.ok("queues.update", json!({"queue": "q", "retention": "1ms"})).await;
    until_told(&mut http, &[]).await;
}
