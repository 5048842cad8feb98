//! What items tell of themselves, over HTTP: when their state changed, who had them, how their attempts ended, and which
//! cron made them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_api::Time;
use windlass_core::cron::{CatchUp, Overlap};
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{CreateQueue, NewCron, NewItem};
use windlass_engine::Engine;
use windlass_engine::env::{BoxFuture, Env, TokioEnv};
use windlass_engine::store::memory::MemoryStore;
use windlass_server::lifecycle::Server;

use crate::http::Http;
use crate::stores::{configured, directory};
use crate::world::{TestServer, held, held_in, list, with};

const HOUR: Duration = Duration::from_secs(3600);

/// Microseconds since 1970.
fn micros(time: &Value) -> i64 {
    let time: Time = serde_json::from_value(time.clone()).unwrap_or_else(|error| panic!("{time}: {error}"));
    time.as_micros()
}

async fn produce_one(http: &mut Http, item: Value) -> Value {
    http.produce("q", json!([item])).await.remove(0)
}

async fn retry(http: &mut Http, leased: &Value, more: Value) {
    let reply = http.ok("queue.retry", json!({"queue": "q", "items": [with(held(leased), more)]})).await;
    assert_eq!(reply["failed"], json!([]), "{reply}");
}

async fn until_state(http: &mut Http, id: &Value, state: &str) -> Value {
    http.until_some(async |http| Some(http.item(id).await).filter(|item| item["state"] == state)).await
}

async fn ended(http: &mut Http, id: &Value) -> Value {
    http.ok("item.wait", json!({"id": id, "request_timeout": "30s"})).await;
    http.item(id).await
}

/// Number and outcome of each attempt.
fn outcomes(item: &Value) -> Vec<(u64, String)> {
    let told = |attempt: &Value| {
        let outcome = attempt["outcome"].as_str().expect("a word").to_owned();
        (attempt["attempt"].as_u64().expect("a number"), outcome)
    };
    list(&item["attempt_log"]).iter().map(told).collect()
}

/// The item has changed its state since it was seen last, to this one.
async fn changed(http: &mut Http, last: &mut Value, state: &str) {
    let item = http.item(&last["id"]).await;
    assert_eq!(item["state"], state);
    assert!(micros(&item["changed_at"]) > micros(&last["changed_at"]), "{state}: {last} {item}");
    *last = item;
}

/// The state of the item is the same that it was, since the same moment.
async fn unchanged(http: &mut Http, last: &Value, what: &str) {
    let item = http.item(&last["id"]).await;
    assert_eq!((&item["state"], &item["changed_at"]), (&last["state"], &last["changed_at"]), "{what}");
}

#[tokio::test]
async fn changed_at_is_when_the_state_became_another() {
    let (_server, mut http) = TestServer::with_queue(json!({"max_attempts": 0})).await;
    let id = produce_one(&mut http, json!({"utf8": "a", "address": "desk"})).await;
    let mut last = http.item(&id).await;
    assert_eq!(last["changed_at"], last["created_at"]);
    let leased = http.lease("q", 1).await;
    changed(&mut http, &mut last, "leased").await;
    http.ok("queue.extend", with(held_in("q", &leased), json!({"lease_timeout": "5m"}))).await;
    unchanged(&mut http, &last, "an extend").await;
    http.ok("item.emit", with(held(&leased[0]), json!({"events": [{"utf8": "news"}]}))).await;
    unchanged(&mut http, &last, "an emit").await;
    http.ok("queue.release", held_in("q", &leased)).await;
    changed(&mut http, &mut last, "waiting").await;
    let leased = http.lease("q", 1).await;
    changed(&mut http, &mut last, "leased").await;
    retry(&mut http, &leased[0], json!({"delay": "20ms"})).await;
    let scheduled = http.item(&id).await;
    // It may have fallen due by now.
    let again = until_state(&mut http, &id, "waiting").await;
    if scheduled["state"] == "scheduled" {
        assert!(micros(&scheduled["changed_at"]) > micros(&last["changed_at"]), "{scheduled}");
        assert_eq!(again["changed_at"], scheduled["enqueue_at"], "when it was due");
    }
    last = again;
    let leased = http.lease("q", 1).await;
    http.ok("queue.suspend", held_in("q", &leased)).await;
    changed(&mut http, &mut last, "suspended").await;
    http.ok("item.resume", json!({"id": id})).await;
    changed(&mut http, &mut last, "waiting").await;
    let leased = http.lease("q", 1).await;
    changed(&mut http, &mut last, "leased").await;
    http.ok("item.cancel", json!({"id": id})).await;
    unchanged(&mut http, &last, "a cancel request").await;
    http.ok("queue.release", held_in("q", &leased)).await;
    changed(&mut http, &mut last, "cancelled").await;
    assert_eq!(last["changed_at"], last["finished_at"]);
}

#[tokio::test]
async fn a_group_start_and_a_clear_change_all_their_items_at_the_moment_of_the_call() {
    let (_server, mut http) = TestServer::with_queue(json!({"keep": "all", "partitions": 1})).await;
    let create = json!({"queue": "q", "group": "g", "items": [{"utf8": "a"}, {"utf8": "b"}]});
    let made = http.ok("group.create", create).await;
    let ids = [made["items"][0]["id"].clone(), made["items"][1]["id"].clone()];
    let mut last = [http.item(&ids[0]).await, http.item(&ids[1]).await];
    for (call, request, state) in [
        ("group.start", json!({"queue": "q", "group": "g"}), "waiting"),
        ("queue.clear", json!({"queue": "q"}), "cancelled"),
    ] {
        let made_before = produce_one(&mut http, json!({"utf8": "made before the call"})).await;
        let made_before = http.item(&made_before).await;
        http.ok(call, request).await;
        for last in &mut last {
            changed(&mut http, last, state).await;
            assert!(micros(&last["changed_at"]) >= micros(&made_before["created_at"]), "{call}: {last}");
        }
        assert_eq!(last[0]["changed_at"], last[1]["changed_at"], "{call}");
    }
}

#[tokio::test]
async fn what_ended_because_its_time_came_changed_when_it_was_due() {
    let settings = json!({"max_attempts": 1, "lease_timeout": "1ms", "partitions": 1});
    let (_server, mut http) = TestServer::with_queue(settings).await;
    let id = produce_one(&mut http, json!({"utf8": "a", "dead_timeout": "5ms"})).await;
    let expired = ended(&mut http, &id).await;
    assert_eq!(expired["state"], "expired");
    assert_eq!(micros(&expired["changed_at"]), micros(&expired["created_at"]) + 5_000);
    let id = produce_one(&mut http, json!({"utf8": "b"})).await;
    let leased = http.lease_within("q", 1, "30s").await;
    let failed = ended(&mut http, &id).await;
    assert_eq!((&failed["state"], &failed["error"]["code"]), (&json!("failed"), &json!("lease_expired")));
    assert_eq!(failed["changed_at"], leased[0]["lease_deadline"]);
    assert_eq!(failed["changed_at"], failed["attempt_log"][0]["ended_at"]);
    for item in [expired, failed] {
        assert!(micros(&item["finished_at"]) >= micros(&item["changed_at"]), "{item}");
    }
}

/// A clock that is an hour behind.
#[derive(Debug)]
struct AnHourAgo(TokioEnv);

impl Env for AnHourAgo {
    fn boot(&self) -> Duration {
        self.0.boot()
    }

    fn wall(&self) -> Timestamp {
        Timestamp(self.0.wall().0 - Span::from(HOUR).0)
    }

    fn random(&self) -> u64 {
        self.0.random()
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at)
    }

    fn spawn_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.0.spawn_boxed(name, future);
    }

    fn spawn_thread_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.0.spawn_thread_boxed(name, future);
    }
}

fn item() -> NewItem {
    NewItem::plain("default", Bytes::new())
}

#[tokio::test]
async fn what_fell_due_while_no_server_ran_changed_when_it_was_due_and_is_kept_from_then_on() {
    let store = Arc::new(MemoryStore::new());
    let engine = Engine::open(Arc::new(AnHourAgo(TokioEnv::new())), store.clone()).await.expect("it opens");
    let queue = QueueName { namespace: "default".into(), name: "q".into() };
    let settings = Settings { retention: Span::from_secs(600), ..Settings::default() };
    engine.create_queue(CreateQueue::new(queue.clone(), settings, 1)).await.expect("made");
    let expires = NewItem { dead_timeout: Some(Span::from_secs(60)), ..item() };
    let due = NewItem { delay: Some(Span::from_secs(60)), ..item() };
    let made = engine.produce(&queue, vec![expires, due]).await.expect("produced").results;
    let ids: Vec<Value> =
        made.into_iter().map(|made| json!(made.expect("produced").id.to_string())).collect();
    let every_seven_minutes = NewCron {
        name: "tick".into(),
        schedule: "@every 7m".into(),
        timezone: "UTC".into(),
        item: item(),
        catch_up: CatchUp::One,
        overlap: Overlap::Allow,
    };
    engine.create_cron(&queue, every_seven_minutes).await.expect("made");
    engine.close().await;

    let directory = directory();
    let config = configured(directory.path(), &[]);
    let server = Server::start_on(config, store, Vec::new()).await.expect("it starts");
    let mut http = Http::connect(server.address()).await;
    let expired = ended(&mut http, &ids[0]).await;
    assert_eq!(expired["state"], "expired");
    assert_eq!(micros(&expired["changed_at"]), micros(&expired["created_at"]) + 60_000_000);
    let late = micros(&expired["finished_at"]) - micros(&expired["changed_at"]);
    assert!(late > 3_000_000_000, "it is kept although its retention was over before anybody could see it");
    let waiting = until_state(&mut http, &ids[1], "waiting").await;
    assert_eq!(micros(&waiting["changed_at"]), micros(&waiting["created_at"]) + 60_000_000);
    let mut caught_up = Vec::new();
    while caught_up.is_empty() {
        let found = http.ok("items.find", json!({"queue": "q", "cron": "tick"})).await;
        caught_up = list(&found["items"]);
    }
    let tick = http.ok("crons.info", json!({"cron": "tick"})).await["cron"].clone();
    assert_eq!(caught_up.len(), 1, "one for all that were missed");
    assert_eq!(caught_up[0]["scheduled_at"], tick["last_at"], "the latest of them");
    assert_eq!(micros(&tick["next_at"]) - micros(&tick["last_at"]), 420_000_000);
    let triggered = http.ok("crons.trigger", json!({"cron": "tick"})).await["item"]["id"].clone();
    let triggered = http.item(&triggered).await;
    assert_eq!((&triggered["cron"], &triggered["scheduled_at"]), (&json!("tick"), &triggered["created_at"]));
    server.stop().await;
}

#[tokio::test]
async fn the_latest_lease_is_told_in_every_state_and_its_deadline_only_while_it_runs() {
    let (_server, mut http) = TestServer::with_queue(json!({"max_attempts": 0})).await;
    let id = produce_one(&mut http, json!({"utf8": "a"})).await;
    for (client, state) in
        [("first", "waiting"), ("second", "scheduled"), ("third", "suspended"), ("fourth", "failed")]
    {
        let lease = json!({"queue": "q", "client_id": client, "batch_size": 1, "request_timeout": "0s"});
        let leased = list(&http.ok("queue.lease", lease).await["items"]);
        let running = http.item(&id).await;
        assert_eq!((&running["client_id"], &running["started_at"]), (&json!(client), &running["leased_at"]));
        assert_eq!(running["lease_deadline"], leased[0]["lease_deadline"]);
        match state {
            "waiting" => drop(http.ok("queue.release", held_in("q", &leased)).await),
            "scheduled" => retry(&mut http, &leased[0], json!({"delay": "1h"})).await,
            "suspended" => drop(http.ok("queue.suspend", held_in("q", &leased)).await),
            _ => retry(&mut http, &leased[0], json!({"dead": true})).await,
        }
        let item = http.item(&id).await;
        assert_eq!((&item["state"], &item["client_id"]), (&json!(state), &json!(client)));
        assert_eq!(item["started_at"], running["started_at"], "{state}");
        for field in ["leased_at", "permit", "lease_deadline", "cancel_requested"] {
            assert_eq!(item.get(field), None, "{field} while {state}");
        }
        match state {
            "scheduled" => drop(http.ok("item.update", json!({"id": id, "delay": "0s"})).await),
            "suspended" => drop(http.ok("item.resume", json!({"id": id})).await),
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_last_attempt_tells_how_its_lease_ended() {
    let (_server, mut http) = TestServer::with_queue(json!({"max_attempts": 1, "partitions": 1})).await;
    for outcome in ["dead", "revoked", "expired"] {
        let id = produce_one(&mut http, json!({"utf8": outcome})).await;
        let leased = if outcome == "expired" {
            let lease = json!({"queue": "q", "client_id": "c", "batch_size": 1, "lease_timeout": "1ms"});
            list(&http.ok("queue.lease", lease).await["items"])
        } else {
            http.lease("q", 1).await
        };
        match outcome {
            "dead" => retry(&mut http, &leased[0], json!({"error": {"message": "no luck"}})).await,
            "revoked" => drop(http.ok("queue.revoke", held_in("q", &leased)).await),
            _ => {}
        }
        let failed = ended(&mut http, &id).await;
        assert_eq!((&failed["state"], outcomes(&failed)), (&json!("failed"), vec![(1, outcome.to_owned())]));
        let said = failed["attempt_log"][0].get("error").is_some();
        assert_eq!(said, outcome == "dead", "only the worker's own word is told");
    }
}

#[tokio::test]
async fn a_release_and_a_suspension_are_no_attempts() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let id = produce_one(&mut http, json!({"utf8": "a"})).await;
    let leased = http.lease("q", 1).await;
    http.ok("queue.release", held_in("q", &leased)).await;
    let leased = http.lease("q", 1).await;
    http.ok("queue.suspend", held_in("q", &leased)).await;
    let item = http.item(&id).await;
    assert_eq!((&item["attempts"], &item["attempt_log"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn an_attempt_that_ends_after_a_cancel_request_was_cancelled_however_it_ends() {
    let (_server, mut http) = TestServer::with_queue(json!({"keep": "all", "partitions": 1})).await;
    for way in ["retry", "suspend", "revoke", "deadline"] {
        let id = produce_one(&mut http, json!({"utf8": way})).await;
        let leased = http.lease("q", 1).await;
        http.ok("item.cancel", json!({"id": id})).await;
        match way {
            "retry" => retry(&mut http, &leased[0], json!({"dead": true})).await,
            "suspend" => drop(http.ok("queue.suspend", held_in("q", &leased)).await),
            "revoke" => drop(http.ok("queue.revoke", held_in("q", &leased)).await),
            _ => drop(
                http.ok("queue.extend", with(held_in("q", &leased), json!({"lease_timeout": "1ms"}))).await,
            ),
        }
        let cancelled = ended(&mut http, &id).await;
        assert_eq!(cancelled["state"], "cancelled", "{way}");
        assert_eq!(outcomes(&cancelled), [(1, "cancelled".to_owned())], "{way}");
        assert_eq!(cancelled["changed_at"], cancelled["attempt_log"][0]["ended_at"], "{way}");
    }
}

#[tokio::test]
async fn the_cron_of_an_item_is_told_through_a_dead_queue_and_back() {
    let (_server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    let create = json!({"cron": "nightly", "queue": "q", "schedule": "@yearly", "item": {"utf8": "report"}});
    http.ok("crons.create", create).await;
    let made = http.ok("crons.trigger", json!({"cron": "nightly"})).await["item"]["id"].clone();
    let made = http.item(&made).await;
    let leased = http.lease("q", 1).await;
    retry(&mut http, &leased[0], json!({"dead": true, "error": {"message": "no luck"}})).await;
    http.until(async |http| http.stats("dead").await["counts"]["waiting"] == 1).await;
    http.ok("crons.delete", json!({"cron": "nightly"})).await;
    let redriven = http.ok("queue.redrive", json!({"queue": "dead"})).await;
    assert_eq!(redriven, json!({"moved": 1, "skipped": 0}));
    let turn = json!({
        "queue": "q", "client_id": "c",
        "lease": {"batch_size": 1, "request_timeout": "30s"},
    });
    let back = http.ok("queue.next", turn.clone()).await["items"][0].clone();
    for field in ["cron", "scheduled_at"] {
        assert_eq!(back[field], made[field], "{field}");
    }
    assert_eq!((&back["origin"]["reason"], &back["max_attempts"]), (&json!("redrive"), &json!(3)));
    assert_eq!(back.get("error"), None, "there was no attempt before");
    let again = with(held(&back), json!({"delay": "0s", "error": {"code": "busy", "message": "later"}}));
    http.ok("queue.next", json!({"queue": "q", "client_id": "c", "retry": [again]})).await;
    let again = http.ok("queue.next", turn).await["items"][0].clone();
    assert_eq!(again["error"], json!({"code": "busy", "message": "later"}));
    assert_eq!((&again["cron"], &again["origin"]), (&made["cron"], &back["origin"]));
}

#[tokio::test]
async fn a_cron_that_skips_overlaps_runs_again_while_the_letter_of_its_last_item_lives() {
    let (_server, mut http) = TestServer::with_queue(json!({"partitions": 1, "dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    let create = json!({
        "cron": "tick", "queue": "q", "schedule": "@every 1s", "overlap": "skip", "item": {"utf8": "report"},
    });
    http.ok("crons.create", create).await;
    let first = http.lease_within("q", 1, "30s").await;
    retry(&mut http, &first[0], json!({"dead": true})).await;
    http.until(async |http| http.stats("dead").await["counts"]["waiting"] == 1).await;
    let second = http.lease_within("q", 1, "30s").await;
    assert_eq!(second.len(), 1, "the item that the cron made itself is final");
    assert_ne!(second[0]["id"], first[0]["id"]);
    assert_eq!(http.stats("dead").await["counts"]["waiting"], 1, "the letter lives");
}

#[tokio::test]
async fn whoever_waits_for_a_letter_that_is_redriven_hears_that_it_was_cancelled() {
    let (server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    let id = produce_one(&mut http, json!({"utf8": "a"})).await;
    let leased = http.lease("q", 1).await;
    retry(&mut http, &leased[0], json!({"dead": true})).await;
    let mut letter = Value::Null;
    while !letter.is_string() {
        letter = http.item(&id).await["moved_to"]["id"].clone();
    }
    let mut waiter = server.connect().await;
    let wait = json!({"id": letter, "request_timeout": "30s"}).to_string();
    waiter.send("POST", "/v1/item.wait", &[("content-type", windlass_api::JSON)], wait.as_bytes()).await;
    http.ok("queue.redrive", json!({"queue": "dead"})).await;
    let told = waiter.receive().await;
    assert_eq!((told.status, &told.json()["item"]["state"]), (200, &json!("cancelled")));
    assert_eq!(told.json()["item"].get("utf8"), None, "the payload goes on");
    http.until(async |http| http.item(&letter).await.get("moved_to").is_some()).await;
    let letter = http.item(&letter).await;
    assert_eq!((&letter["state"], letter.get("utf8")), (&json!("cancelled"), None));
    assert_eq!(letter["moved_to"]["queue"], "q");
}
