//! What items.find, items.errors and their like answer while a partition does not serve.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::stores::{Failing, beside_a_sound_store, until};
use crate::world::{held, list, with};

#[tokio::test]
async fn what_a_faulty_partition_has_is_missing_and_told_to_be() {
    let second = Arc::new(Failing::default());
    let (server, mut http) = beside_a_sound_store(&second).await;
    http.ok("queues.create", json!({"queue": "q", "partitions": 2})).await;
    for _ in 0..2 {
        http.produce("q", json!([{"json": 1}, {"json": 2}])).await;
    }
    let leased = http.lease("q", 4).await;
    let error = json!({"dead": true, "error": {"code": "broken", "message": "no"}});
    let dead: Vec<Value> = leased.iter().map(|item| with(held(item), error.clone())).collect();
    http.ok("queue.retry", json!({"queue": "q", "items": dead})).await;
    let failed = json!({"states": ["failed"]});
    let whole = http.ok("items.find", failed.clone()).await;
    assert_eq!((list(&whole["items"]).len(), whole.get("missing")), (4, None));

    second.fails.store(true, Ordering::SeqCst);
    for number in 0..2 {
        http.produce("q", json!([{"json": number}])).await;
    }
    let broken = until(&mut http, "second", "faulty").await[0]["partition"].clone();
    let of_sound = list(&whole["items"]).into_iter().filter(|item| item["partition"] != broken);
    let of_sound: Vec<Value> = of_sound.collect();
    assert_eq!(of_sound.len(), 2);
    let partial = with(failed.clone(), json!({"partial": true}));
    for request in [partial.clone(), with(partial, json!({"queue": "q"}))] {
        let page = http.ok("items.find", request).await;
        assert_eq!((&page["items"], &page["missing"]), (&json!(of_sound), &json!([broken])));
    }
    let delete = json!({"queue": "q", "action": "delete", "filter": failed});
    let refused = [
        ("items.find", failed.clone()),
        ("items.errors", json!({"queue": "q"})),
        ("items.change", with(delete, json!({"dry_run": true}))),
    ];
    for (call, request) in refused {
        let got = http.post(call, &request.to_string()).await;
        assert_eq!((got.status, got.code().as_str()), (503, "unavailable"), "{call}");
        assert_eq!(got.json()["error"]["details"]["outcome"], "not_applied", "{call}");
    }

    // Where nothing can match no partition is asked.
    let nothing =
        [json!({"states": []}), json!({"states": [], "queue": "q"}), json!({"kinds": [], "queue": "q"})];
    for request in nothing {
        assert_eq!(http.ok("items.find", request).await, json!({"items": [], "scanned": 0}));
    }
    let unknown = http.refused("items.find", &json!({"queue": "nowhere", "states": []})).await;
    assert_eq!((unknown.0, unknown.1.as_str()), (404, "not_found"));

    second.fails.store(false, Ordering::SeqCst);
    until(&mut http, "second", "available").await;
    assert_eq!(http.ok("items.find", failed).await["items"], whole["items"]);
    assert_eq!(http.ok("items.errors", json!({"queue": "q"})).await["errors"][0]["count"], 4);
    server.stop().await;
}
