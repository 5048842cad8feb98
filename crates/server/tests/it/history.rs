//! What went on in queues lately, and which queues are worth a look, over HTTP.

use serde_json::{Value, json};
use windlass_api::PROTOBUF;
use windlass_api::queues::{QueueNames, QueuesHistoryRequest};

use crate::http::Http;
use crate::world::{TestServer, held, held_in, list, with};

/// The sum of a count over all buckets of a queue.
fn sum(history: &Value, count: &str) -> u64 {
    let buckets = list(&history["buckets"]);
    assert!((1..=60).contains(&buckets.len()), "{history}");
    buckets.iter().map(|bucket| bucket[count].as_u64().expect("a number")).sum()
}

async fn fail(http: &mut Http, queue: &str, items: &[Value]) {
    let dead = |item| with(held(item), json!({"dead": true, "error": {"message": "broken"}}));
    let dead: Vec<Value> = items.iter().map(dead).collect();
    http.ok("queue.retry", json!({"queue": queue, "items": dead})).await;
}

#[tokio::test]
async fn a_history_counts_what_was_done_and_tells_how_long_items_waited() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 3})).await;
    let quiet = http.ok("queues.history", json!({"queues": ["q"]})).await["queues"][0].clone();
    assert_eq!((&quiet["queue"], sum(&quiet, "produced")), (&json!("q"), 0));
    assert!(list(&quiet["buckets"]).iter().all(|bucket| bucket.get("waited_p50").is_none()), "{quiet}");
    http.produce("q", json!([{"utf8": "a"}, {"utf8": "b"}, {"utf8": "c"}, {"utf8": "d"}])).await;
    let leased = http.lease("q", 3).await;
    http.complete("q", &leased[..1]).await;
    http.ok("queue.retry", held_in("q", &leased[1..2])).await;
    fail(&mut http, "q", &leased[2..]).await;
    for span in ["1h", "24h"] {
        let told = http.ok("queues.history", json!({"queues": ["q"], "span": span})).await["queues"].clone();
        let counts = ["produced", "completed", "failed", "retried"].map(|count| sum(&told[0], count));
        assert_eq!(counts, [4, 1, 1, 1], "{told}");
        let buckets = list(&told[0]["buckets"]);
        let waited =
            buckets.iter().find(|bucket| bucket.get("waited_p50").is_some()).expect("items were leased");
        assert!(waited["waited_p50"].is_string() && waited["waited_p99"].is_string(), "{waited}");
    }
}

#[tokio::test]
async fn a_history_without_names_tells_of_the_queues_with_the_most_waiting_items() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    for (queue, count) in [("a", 1), ("b", 0), ("c", 3)] {
        http.ok("queues.create", json!({"queue": queue})).await;
        if count > 0 {
            http.produce(queue, json!(vec![json!({"utf8": "x"}); count])).await;
        }
    }
    let told = http.ok("queues.history", json!({})).await;
    let names: Vec<Value> = list(&told["queues"]).iter().map(|history| history["queue"].clone()).collect();
    assert_eq!(names, ["c", "a", "b"]);
    let queues = Some(QueueNames { names: vec!["b".to_owned(), "c".to_owned()] });
    let told = http.call(PROTOBUF, &QueuesHistoryRequest { queues, span: None }).await.expect("told");
    let counts = told.queues.iter().map(|history| {
        let produced: u64 = history.buckets.iter().map(|bucket| bucket.produced).sum();
        (history.queue.as_str(), produced)
    });
    assert_eq!(counts.collect::<Vec<_>>(), [("b", 0), ("c", 3)]);
}

async fn listed(http: &mut Http, request: Value) -> Vec<Value> {
    let queues = list(&http.ok("queues.list", request).await["queues"]);
    queues.iter().map(|queue| queue["queue"].clone()).collect()
}

#[tokio::test]
async fn queues_are_listed_by_what_waits_failed_or_waits_longest() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    for queue in ["a", "b", "c", "d"] {
        http.ok("queues.create", json!({"queue": queue})).await;
    }
    http.produce("c", json!([{"utf8": "oldest"}])).await;
    http.produce("b", json!([{"utf8": "1"}, {"utf8": "2"}, {"utf8": "3"}])).await;
    http.produce("d", json!([{"utf8": "1"}, {"utf8": "2"}])).await;
    http.produce("a", json!([{"utf8": "1"}])).await;
    let of_a = http.lease("a", 1).await;
    fail(&mut http, "a", &of_a).await;
    assert_eq!(listed(&mut http, json!({"order": "name"})).await, ["a", "b", "c", "d"]);
    assert_eq!(listed(&mut http, json!({"order": "name", "pivot": "b"})).await, ["c", "d"]);
    assert_eq!(listed(&mut http, json!({"order": "waiting"})).await, ["b", "d", "c", "a"]);
    assert_eq!(listed(&mut http, json!({"order": "failed"})).await, ["a", "b", "c", "d"]);
    assert_eq!(listed(&mut http, json!({"order": "oldest"})).await, ["c", "b", "d", "a"]);
    let first = list(&http.ok("queues.list", json!({"order": "waiting", "limit": 1})).await["queues"]);
    let [first] = &first[..] else { panic!("{first:?}") };
    assert_eq!((&first["queue"], &first["counts"]["waiting"]), (&json!("b"), &json!(3)));
    assert!(first["activity"].is_object(), "{first}");
}
