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

#[tokio::test]
async fn a_history_is_gone_after_a_restart_and_with_its_queue() {
    let (mut server, mut http) = TestServer::with_queue(json!({})).await;
    let produced = async |http: &mut Http| {
        let told = http.ok("queues.history", json!({"queues": ["q"]})).await;
        sum(&told["queues"][0], "produced")
    };
    http.produce("q", json!([{"utf8": "x"}])).await;
    assert_eq!(produced(&mut http).await, 1);
    server.restart().await;
    let mut http = server.connect().await;
    assert_eq!(produced(&mut http).await, 0);
    assert_eq!(http.stats("q").await["counts"]["waiting"], 1, "the item itself is kept");

    http.produce("q", json!([{"utf8": "x"}])).await;
    http.ok("queues.delete", json!({"queue": "q", "force": true})).await;
    let (status, code, _) = http.refused("queues.history", &json!({"queues": ["q"]})).await;
    assert_eq!((status, code.as_str()), (404, "not_found"));
    http.ok("queues.create", json!({"queue": "q"})).await;
    assert_eq!(produced(&mut http).await, 0);
}

#[tokio::test]
async fn a_history_tells_of_a_queue_once_and_of_a_hundred_at_most() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    let names: Vec<String> = (0..102).map(|number| format!("q{number:03}")).collect();
    for name in &names {
        http.ok("queues.create", json!({"queue": name})).await;
    }
    http.produce("q101", json!([{"utf8": "x"}, {"utf8": "y"}])).await;
    http.produce("q050", json!([{"utf8": "x"}])).await;
    let told = async |http: &mut Http, request: Value| -> Vec<Value> {
        let told = list(&http.ok("queues.history", request).await["queues"]);
        told.iter().map(|history| history["queue"].clone()).collect()
    };
    let by_default = told(&mut http, json!({})).await;
    assert_eq!(
        (by_default.len(), &by_default[..3]),
        (100, &[json!("q101"), json!("q050"), json!("q000")][..])
    );
    let twice = json!({"queues": ["q007", "q001", "q007", "q007"]});
    assert_eq!(told(&mut http, twice).await, ["q007", "q001"]);
    assert_eq!(told(&mut http, json!({"queues": names[..100]})).await, names[..100]);
    for queues in [json!(names[..101]), json!([])] {
        let (status, _, message) = http.refused("queues.history", &json!({"queues": queues})).await;
        assert!(status == 400 && message.contains("1 to 100"), "{message}");
    }
}

#[tokio::test]
async fn failed_items_that_are_not_kept_any_more_do_not_count_in_the_order_of_queues() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    for (queue, count) in [("a", 0), ("b", 1), ("c", 3), ("d", 2)] {
        http.ok("queues.create", json!({"queue": queue})).await;
        if count > 0 {
            http.produce(queue, json!(vec![json!({"utf8": "x"}); count])).await;
            let leased = http.lease(queue, count).await;
            fail(&mut http, queue, &leased).await;
        }
    }
    let by_failed = json!({"order": "failed"});
    assert_eq!(listed(&mut http, by_failed.clone()).await, ["c", "d", "b", "a"]);
    let of_c = json!({"queue": "c", "action": "delete", "filter": {"states": ["failed"]}, "limit": 2});
    assert_eq!(http.ok("items.change", of_c).await["changed"], 2);
    assert_eq!(listed(&mut http, by_failed.clone()).await, ["d", "b", "c", "a"]);
    let of_d = json!({"queue": "d", "action": "delete", "filter": {}});
    assert_eq!(http.ok("items.change", of_d).await["changed"], 2);
    assert_eq!(listed(&mut http, by_failed).await, ["b", "c", "a", "d"]);
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
