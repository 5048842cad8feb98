//! Calls and streams that follow an item along `moved_to`, over HTTP.

use serde_json::{Value, json};

use crate::http::Http;
use crate::streams::Events;
use crate::world::{TestServer, held, with};

/// An item of the queue `q` that has failed for good.
async fn failed(http: &mut Http) -> String {
    let id = http.produce("q", json!([{"utf8": "work"}])).await[0].as_str().expect("an id").to_owned();
    let leased = http.lease("q", 1).await;
    let item = with(held(&leased[0]), json!({"dead": true}));
    http.ok("queue.retry", json!({"queue": "q", "items": [item]})).await;
    id
}

async fn until_moved(http: &mut Http, id: &str) -> Value {
    http.until_some(async |http| http.item(id).await.get("moved_to").cloned()).await
}

async fn refused(server: &TestServer, query: &str, headers: &[(&str, &str)]) {
    let mut http = server.connect().await;
    http.send("GET", &format!("/v1/item.events?{query}"), headers, b"").await;
    let got = http.receive().await;
    assert_eq!((got.status, &*got.code()), (400, "invalid_argument"), "{query} {headers:?}");
    assert!(got.message().contains("`after`"), "{}", got.message());
}

#[tokio::test]
async fn after_beside_follow_is_refused_once_the_item_was_moved() {
    let (server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    let live = http.produce("q", json!([{"utf8": "lives", "priority": 9}])).await[0].clone();
    let live = live.as_str().expect("an id");
    Events::open(&server, &format!("id={live}&after=0&follow=true"), &[]).await;
    Events::open(&server, &format!("id={live}&follow=true"), &[("last-event-id", "0")]).await;
    let id = failed(&mut http).await;
    // The item goes on as a dead letter that lives: `follow` leads to the item itself.
    until_moved(&mut http, &id).await;
    let mut stream = Events::open(&server, &format!("id={id}&follow=true"), &[]).await;
    let snapshot = stream.next().await.expect("a frame");
    assert_eq!(snapshot.data["item"]["id"], id);
    refused(&server, &format!("id={id}&after=0&follow=true"), &[]).await;
    refused(&server, &format!("id={id}&follow=true"), &[("last-event-id", "0")]).await;
}

#[tokio::test]
async fn after_beside_follow_is_refused_for_a_dead_letter_that_leads_to_the_item_that_died() {
    let (server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    let id = failed(&mut http).await;
    let letter = until_moved(&mut http, &id).await["id"].as_str().expect("an id").to_owned();
    Events::open(&server, &format!("id={letter}&after=0&follow=true"), &[]).await;
    let leased = http.lease("dead", 1).await;
    let item = with(held(&leased[0]), json!({"result": {"json": "read"}}));
    http.ok("queue.complete", json!({"queue": "dead", "items": [item]})).await;
    let mut stream = Events::open(&server, &format!("id={letter}&follow=true"), &[]).await;
    assert_eq!(stream.next().await.expect("a frame").data["item"]["id"], id);
    refused(&server, &format!("id={letter}&after=0&follow=true"), &[]).await;
    refused(&server, &format!("id={letter}&follow=true"), &[("last-event-id", "0")]).await;
}

#[tokio::test]
async fn a_reader_that_comes_back_to_an_item_that_was_rerun_goes_on_by_the_id_of_the_snapshot() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let id = failed(&mut http).await;
    let new = http.ok("item.rerun", json!({"id": id})).await["item"]["id"].clone();
    let mut stream = Events::open(&server, &format!("id={id}&follow=true"), &[]).await;
    let snapshot = stream.next().await.expect("a frame");
    assert_eq!((snapshot.id, &snapshot.data["item"]["id"]), (Some(0), &new));
    refused(&server, &format!("id={id}&follow=true"), &[("last-event-id", "0")]).await;
    let led_to = new.as_str().expect("an id");
    Events::open(&server, &format!("id={led_to}&follow=true"), &[("last-event-id", "0")]).await;
}

#[tokio::test]
async fn a_wait_for_the_latest_of_a_live_letter_is_told_how_the_letter_ended() {
    let (server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    let id = failed(&mut http).await;
    let letter = until_moved(&mut http, &id).await["id"].clone();
    let wait = json!({"id": letter, "follow": true, "request_timeout": "60s"});
    let mut waiting = server.connect().await;
    let waited = tokio::spawn(async move { waiting.ok("item.wait", wait).await["item"].clone() });
    until_item_waiters(&mut http, 1).await;
    let leased = http.lease("dead", 1).await;
    let done = with(held(&leased[0]), json!({"result": {"utf8": "by hand"}}));
    http.ok("queue.complete", json!({"queue": "dead", "items": [done]})).await;
    let told = waited.await.expect("it ran");
    assert_eq!((&told["id"], &told["state"]), (&letter, &json!("completed")));
    let of_final = json!({"id": letter, "follow": true});
    for call in ["item.get", "item.wait"] {
        assert_eq!(http.ok(call, of_final.clone()).await["item"]["id"], id, "{call}");
    }
}

async fn until_item_waiters(http: &mut Http, count: usize) {
    let in_dead = format!("windlass_item_waiters{{queue=\"dead\"}} {count}");
    http.until(async |http| http.metrics().await.lines().any(|line| line == in_dead)).await;
}

#[tokio::test]
async fn the_end_of_a_live_stream_tells_where_the_item_went() {
    let (server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    let id = http.produce("q", json!([{"utf8": "work"}])).await[0].as_str().expect("an id").to_owned();
    let mut stream = Events::open(&server, &format!("id={id}"), &[]).await;
    let leased = http.lease("q", 1).await;
    let item = with(held(&leased[0]), json!({"dead": true}));
    http.ok("queue.retry", json!({"queue": "q", "items": [item]})).await;
    let letter = until_moved(&mut http, &id).await;
    assert_eq!(end(&mut stream).await, json!({"reason": "final", "state": "failed", "moved_to": letter}));
    let mut stream = Events::open(&server, &format!("id={}", text(&letter["id"])), &[]).await;
    http.ok("queue.redrive", json!({"queue": "dead"})).await;
    let back = until_moved(&mut http, text(&letter["id"])).await;
    assert_eq!(end(&mut stream).await, json!({"reason": "final", "state": "cancelled", "moved_to": back}));
}

fn text(id: &Value) -> &str {
    id.as_str().expect("an id")
}

/// What the last frame of a stream tells.
async fn end(stream: &mut Events) -> Value {
    let mut last = stream.next().await.expect("a frame");
    while let Some(frame) = stream.next().await {
        last = frame;
    }
    assert_eq!(last.event, "end");
    last.data
}

#[tokio::test]
async fn a_stream_of_the_latest_is_that_of_an_item_that_was_rerun_and_stays_with_it() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let first = failed(&mut http).await;
    let second = http.ok("item.rerun", json!({"id": first})).await["item"]["id"].clone();
    let mut stream = Events::open(&server, &format!("id={first}&follow=true"), &[]).await;
    let snapshot = stream.next().await.expect("a frame");
    assert_eq!(snapshot.data["item"]["id"], second);
    let leased = http.lease("q", 1).await;
    let item = with(held(&leased[0]), json!({"dead": true}));
    http.ok("queue.retry", json!({"queue": "q", "items": [item]})).await;
    http.ok("item.rerun", json!({"id": second})).await;
    assert_eq!(end(&mut stream).await, json!({"reason": "final", "state": "failed"}));
}

/// Fails the one item of this queue that waits. Its id.
async fn fail_one(http: &mut Http, queue: &str) -> String {
    let leased = http.lease(queue, 1).await;
    let item = with(held(&leased[0]), json!({"dead": true}));
    http.ok("queue.retry", json!({"queue": queue, "items": [item]})).await;
    text(&leased[0]["id"]).to_owned()
}

/// Which item get, wait and a stream go to that follow this one.
async fn followed(server: &TestServer, http: &mut Http, id: &str) -> [String; 3] {
    let got = http.ok("item.get", json!({"id": id, "follow": true})).await["item"]["id"].clone();
    let wait = json!({"id": id, "follow": true, "request_timeout": "0s"});
    let waited = http.ok("item.wait", wait).await["item"]["id"].clone();
    let mut stream = Events::open(server, &format!("id={id}&follow=true"), &[]).await;
    let snapshot = stream.next().await.expect("a frame");
    [got, waited, snapshot.data["item"]["id"].clone()].map(|id| text(&id).to_owned())
}

fn all(id: &str) -> [String; 3] {
    [(); 3].map(|()| id.to_owned())
}

#[tokio::test]
async fn where_the_next_item_is_gone_the_last_that_is_there_is_the_latest() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let first = failed(&mut http).await;
    http.ok("item.rerun", json!({"id": first})).await;
    let second = fail_one(&mut http, "q").await;
    let third = text(&http.ok("item.rerun", json!({"id": second})).await["item"]["id"]).to_owned();
    assert_eq!(followed(&server, &mut http, &first).await, all(&third));
    for (state, gone, latest) in [("waiting", &third, &second), ("failed", &second, &first)] {
        // Of the failed ones, `first` is the older.
        let newest = http.ok("items.find", json!({"queue": "q", "states": [state], "limit": 1})).await;
        assert_eq!(newest["items"][0]["id"], **gone);
        let created_after = &newest["items"][0]["created_at"];
        let delete = json!({
            "queue": "q", "action": "delete", "filter": {"states": [state], "created_after": created_after},
        });
        assert_eq!(http.ok("items.change", delete).await["changed"], 1);
        assert_eq!(http.refused("item.get", &json!({"id": gone})).await.0, 404);
        assert_eq!(followed(&server, &mut http, &first).await, all(latest));
    }
    assert_eq!(until_moved(&mut http, &first).await["id"], second, "told although it is gone");
}

#[tokio::test]
async fn a_chain_over_two_dead_queues_is_followed_to_its_latest_item() {
    let (server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead", "dead_queue": "grave"})).await;
    http.ok("queues.create", json!({"queue": "grave"})).await;
    let id = failed(&mut http).await;
    let letter = text(&until_moved(&mut http, &id).await["id"]).to_owned();
    assert_eq!(fail_one(&mut http, "dead").await, letter);
    let buried = until_moved(&mut http, &letter).await;
    assert_eq!(buried["queue"], "grave");
    let buried = text(&buried["id"]).to_owned();
    for from in [&id, &letter] {
        assert_eq!(followed(&server, &mut http, from).await, all(&id), "dead letters are passed over");
    }
    assert_eq!(followed(&server, &mut http, &buried).await, all(&buried), "it lives");
    let redriven = http.ok("queue.redrive", json!({"queue": "grave", "to": "q"})).await;
    assert_eq!(redriven["moved"], 1);
    let back = text(&until_moved(&mut http, &buried).await["id"]).to_owned();
    for from in [&id, &letter, &buried] {
        assert_eq!(followed(&server, &mut http, from).await, all(&back));
    }
}

#[tokio::test]
async fn a_live_letter_that_is_followed_is_the_answer_itself() {
    let (server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    let id = failed(&mut http).await;
    let letter = text(&until_moved(&mut http, &id).await["id"]).to_owned();
    for state in ["waiting", "leased"] {
        let got = http.ok("item.get", json!({"id": letter, "follow": true})).await["item"].clone();
        assert_eq!((text(&got["id"]), &got["state"]), (&*letter, &json!(state)));
        assert_eq!(followed(&server, &mut http, &letter).await, all(&letter));
        assert_eq!(
            followed(&server, &mut http, &id).await,
            all(&id),
            "but the item itself is not passed over"
        );
        http.lease("dead", 1).await;
    }
}

#[tokio::test]
async fn the_end_of_a_stream_of_the_latest_tells_where_that_went() {
    let (server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    let id = failed(&mut http).await;
    let letter = until_moved(&mut http, &id).await;
    http.ok("queue.redrive", json!({"queue": "dead"})).await;
    let back = text(&until_moved(&mut http, text(&letter["id"])).await["id"]).to_owned();
    let mut stream = Events::open(&server, &format!("id={id}&follow=true"), &[]).await;
    assert_eq!(stream.next().await.expect("a frame").data["item"]["id"], back);
    assert_eq!(fail_one(&mut http, "q").await, back);
    let next = until_moved(&mut http, &back).await;
    assert_ne!(next, letter);
    assert_eq!(end(&mut stream).await, json!({"reason": "final", "state": "failed", "moved_to": next}));
}
