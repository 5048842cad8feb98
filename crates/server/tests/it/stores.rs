//! Several stores behind one server.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::Part;
use windlass_engine::env::BoxFuture;
use windlass_engine::store::double::Double;
use windlass_engine::store::memory::MemoryStore;
use windlass_engine::store::spread::Member;
use windlass_engine::store::{Batch, Body, CommitError, Room, Store, StoreError};
use windlass_server::config::{self, Config, RawConfig};
use windlass_server::lifecycle::Server;

use crate::http::Http;
use crate::world::{held, list, with};

/// A store that fails its commits, does not end them, or has no room, when it is told to. Bodies that say `rotten` are
/// damaged.
#[derive(Debug, Default)]
pub(crate) struct Failing {
    inner: MemoryStore,
    pub(crate) fails: AtomicBool,
    is_full: AtomicBool,
    pub(crate) held: watch::Sender<bool>,
}

impl Double for Failing {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<(), CommitError>> {
        if self.fails.load(Ordering::SeqCst) {
            let source = Arc::new(std::io::Error::other("broken on purpose"));
            let error = StoreError::Io { action: "sync", file: "the log".to_owned(), source };
            return Box::pin(std::future::ready(Err(CommitError::Unknown(error))));
        }
        Box::pin(async {
            let mut held = self.held.subscribe();
            held.wait_for(|held| !held).await.expect("the store is still there");
            self.inner.commit(batch).await
        })
    }

    fn read(&self, partition: PartitionId, bodies: Vec<(ItemNumber, Part)>) -> BoxFuture<'_, Vec<Body>> {
        Box::pin(async move { self.inner.read(partition, bodies).await.into_iter().map(rotten).collect() })
    }

    fn room(&self, partition: PartitionId) -> Room {
        if self.is_full.load(Ordering::SeqCst) { Room::Full } else { self.inner.room(partition) }
    }
}

/// What became of a body: one that says so is damaged.
fn rotten(body: Body) -> Body {
    match body {
        Body::Found(body) if body.windows(6).any(|word| word == b"rotten") => {
            let (file, what) = ("the log".to_owned(), "on purpose".to_owned());
            Body::Damaged(StoreError::Damaged { file, offset: 0, what })
        }
        body @ (Body::Found(_) | Body::Absent | Body::Damaged(_) | Body::Unreadable(_)) => body,
    }
}

pub(crate) fn configured(directory: &Path, stores: &[(&str, &Path)]) -> Config {
    let mut text = format!("data = {:?}\nlisten = \"127.0.0.1:0\"\n", directory.join("data"));
    for (name, data) in stores {
        text.push_str(&format!("[[stores]]\nname = {name:?}\ndata = {data:?}\n"));
    }
    let file = directory.join("windlass.toml");
    fs::write(&file, text).expect("written");
    config::load(RawConfig::default(), Some(file), std::iter::empty()).expect("a valid configuration")
}

pub(crate) fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

async fn partitions(http: &mut Http) -> Vec<Value> {
    list(&http.stats("q").await["partitions"])
}

/// Asks until all partitions of a store are in a state.
pub(crate) async fn until(http: &mut Http, store: &str, state: &str) -> Vec<Value> {
    http.until_some(async |http| {
        let found: Vec<Value> =
            partitions(http).await.into_iter().filter(|partition| partition["store"] == store).collect();
        found.iter().all(|partition| partition["state"] == state).then_some(found)
    })
    .await
}

/// A server with two stores: `default`, which is sound, and this one as `second`.
pub(crate) async fn beside_a_sound_store(second: &Arc<Failing>) -> (Server, Http) {
    let directory = directory();
    let others = vec![Member::opened("second", second.clone())];
    let first = Arc::new(MemoryStore::new());
    let server = Server::start_on(configured(directory.path(), &[]), first, others).await.expect("it starts");
    let http = Http::connect(server.address()).await;
    (server, http)
}

#[tokio::test]
async fn a_full_disk_is_told_to_clients_and_operators() {
    let directory = directory();
    let first = Arc::new(Failing::default());
    let server = Server::start_on(configured(directory.path(), &[]), first.clone(), Vec::new());
    let server = server.await.expect("it starts");
    let mut http = Http::connect(server.address()).await;
    http.ok("queues.create", json!({"queue": "q", "partitions": 1})).await;
    http.produce("q", json!([{"json": 1}])).await;
    assert_eq!(partitions(&mut http).await[0]["disk_full"], false);

    first.is_full.store(true, Ordering::SeqCst);
    let produce = json!({"queue": "q", "items": [{"json": 2}]}).to_string();
    let refused = http.post("queue.produce", &produce).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "unavailable"));
    assert_eq!(refused.json()["error"]["details"]["outcome"], "not_applied");
    let message = refused.message();
    assert!(message.contains("the disk of the store `default` is full"), "{message}");
    assert!(message.contains("free space") && message.contains("workers complete"), "{message}");
    assert_eq!(partitions(&mut http).await[0]["disk_full"], true);
    let ready = http.get("/ready").await;
    assert_eq!((ready.status, &ready.json()["disks_full"]), (200, &json!(["default"])));
    let metrics = http.metrics().await;
    assert!(metrics.contains("windlass_store_full{store=\"default\"} 1"), "{metrics}");

    // What is there can be worked on.
    assert_eq!(http.lease("q", 1).await.len(), 1);
    first.is_full.store(false, Ordering::SeqCst);
    http.produce("q", json!([{"json": 2}])).await;
    assert_eq!(http.get("/ready").await.json()["disks_full"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn one_store_fails_its_commits_and_the_other_goes_on_until_it_is_back() {
    let second = Arc::new(Failing::default());
    let (server, mut http) = beside_a_sound_store(&second).await;
    http.ok("queues.create", json!({"queue": "q", "partitions": 4})).await;
    let stores: Vec<Value> = partitions(&mut http).await.iter().map(|one| one["store"].clone()).collect();
    assert_eq!(stores, ["default", "second", "default", "second"]);

    second.fails.store(true, Ordering::SeqCst);
    for number in 0..30 {
        http.produce("q", json!([{"json": number}, {"json": number}])).await;
        assert_eq!(http.lease("q", 1).await.len(), 1);
    }
    for partition in until(&mut http, "second", "faulty").await {
        assert!(partition["error"].as_str().is_some_and(|error| error.contains("broken on purpose")));
    }
    assert!(until(&mut http, "default", "available").await.iter().all(|one| one.get("error").is_none()));
    let page = http.metrics().await;
    assert!(page.contains("windlass_store_partitions_faulty{store=\"second\"} 2"), "{page}");
    let got = http.post("queue.reload", &json!({"queue": "q"}).to_string()).await;
    assert_eq!((got.status, got.code().as_str()), (503, "unavailable"));
    assert_eq!(got.json()["error"]["details"]["outcome"], "not_applied", "a reload changes nothing");

    second.fails.store(false, Ordering::SeqCst);
    until(&mut http, "second", "available").await;
    let stats = http.stats("q").await;
    assert_eq!((&stats["counts"]["waiting"], &stats["counts"]["leased"]), (&json!(30), &json!(30)));
    http.ok("queue.reload", json!({"queue": "q"})).await;
    server.stop().await;
}

#[tokio::test]
async fn a_find_is_unavailable_or_names_the_partitions_that_are_missing() {
    let second = Arc::new(Failing::default());
    let (server, mut http) = beside_a_sound_store(&second).await;
    http.ok("queues.create", json!({"queue": "q", "partitions": 2})).await;
    for _ in 0..2 {
        http.produce("q", json!([{"json": 1}, {"json": 2}])).await;
    }
    let whole = http.ok("items.find", json!({"queue": "q"})).await;
    assert_eq!((list(&whole["items"]).len(), whole.get("missing")), (4, None));
    second.fails.store(true, Ordering::SeqCst);
    for number in 0..2 {
        http.produce("q", json!([{"json": number}])).await;
    }
    let broken = until(&mut http, "second", "faulty").await[0]["partition"].clone();
    let in_all = json!({"states": ["failed"]});
    for request in [json!({"queue": "q"}), in_all.clone()] {
        let got = http.post("items.find", &request.to_string()).await;
        assert_eq!((got.status, got.code().as_str()), (503, "unavailable"), "{request}");
    }
    let partial = json!({"queue": "q", "partial": true});
    let page = http.ok("items.find", partial.clone()).await;
    assert_eq!(page["missing"], json!([broken]), "{page}");
    assert!(list(&page["items"]).len() >= 2, "{page}");
    let of_all = http.ok("items.find", crate::world::with(in_all, json!({"partial": true}))).await;
    assert_eq!((&of_all["items"], &of_all["missing"]), (&json!([]), &json!([broken])));

    second.fails.store(false, Ordering::SeqCst);
    until(&mut http, "second", "available").await;
    let pivot = json!({"pivot": page["pivot"]});
    let rest = http.ok("items.find", crate::world::with(partial, pivot)).await;
    assert_eq!(
        (list(&rest["items"]).len(), rest.get("missing"), rest.get("pivot")),
        (2, None, None),
        "{rest}"
    );
    server.stop().await;
}

#[tokio::test]
async fn items_whose_home_is_faulty_fail_by_themselves_and_the_call_only_if_all_do() {
    let second = Arc::new(Failing::default());
    let (server, mut http) = beside_a_sound_store(&second).await;
    http.ok("queues.create", json!({"queue": "q", "partitions": 2})).await;
    second.fails.store(true, Ordering::SeqCst);
    let items: Vec<Value> =
        (0..40).map(|number| json!({"json": number, "address": format!("order {number}")})).collect();
    let made = http.ok("queue.produce", json!({"queue": "q", "items": items})).await["items"].clone();
    let made = made.as_array().expect("a list");
    let failed: Vec<usize> = (0..40).filter(|number| made[*number].get("error").is_some()).collect();
    assert!(!failed.is_empty() && failed.len() < 40, "{failed:?}");
    for number in &failed {
        let error = &made[*number]["error"];
        assert_eq!(error["code"], "unavailable");
        assert!(error["details"]["outcome"].is_string(), "{error}");
        // There is no such header for a single item.
        assert!(!error["message"].as_str().expect("a text").contains("Retry-After"), "{error}");
    }
    let homeless = json!({"queue": "q", "items": [items[failed[0]]]});
    let got = http.post("queue.produce", &homeless.to_string()).await;
    assert_eq!((got.status, got.code().as_str()), (503, "unavailable"));
    assert!(got.json()["error"]["details"]["outcome"].is_string());
    second.fails.store(false, Ordering::SeqCst);
    server.stop().await;
}

#[tokio::test]
async fn a_wait_by_address_takes_no_longer_than_it_was_told_to_also_to_find_the_item() {
    let directory = directory();
    let store = Arc::new(Failing::default());
    let config = configured(directory.path(), &[]);
    let server = Server::start_on(config, store.clone(), Vec::new()).await.expect("it starts");
    let mut http = Http::connect(server.address()).await;
    http.ok("queues.create", json!({"queue": "q"})).await;
    let item = json!({"queue": "q", "items": [{"json": 1, "address": "a"}]});
    http.ok("queue.produce", item).await;
    store.held.send_replace(true);
    let mut producer = Http::connect(server.address()).await;
    let other = json!({"queue": "q", "items": [{"json": 2}]}).to_string();
    let headers = [("content-type", windlass_api::JSON)];
    producer.send("POST", "/v1/queue.produce", &headers, other.as_bytes()).await;
    // Nothing is told of the partition until that is durable.
    let wait = json!({"queue": "q", "address": "a", "request_timeout": "10ms"});
    let told = loop {
        let got = http.post("item.wait", &wait.to_string()).await;
        // As long as the other one has not come that far.
        if got.status != 200 {
            break got;
        }
    };
    assert_eq!((told.status, told.code().as_str()), (504, "timeout"));
    assert_eq!(told.message(), "not done within 10ms");
    store.held.send_replace(false);
    assert_eq!(producer.receive().await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn directories_are_stores_and_are_backed_up_together() {
    let directory = directory();
    let second = directory.path().join("second");
    let config = || configured(directory.path(), &[("second", &second)]);
    let server = Server::start(config()).await.expect("it starts");
    let mut http = Http::connect(server.address()).await;
    http.ok("queues.create", json!({"queue": "q", "partitions": 2})).await;
    for number in 0..10 {
        http.produce("q", json!([{"json": number}])).await;
    }
    let backup = http.ok("server.backup", json!({"backup": "copy"})).await;
    let copy = Path::new(backup["path"].as_str().expect("a path")).to_owned();
    server.stop().await;

    let mut text = format!("data = {copy:?}\nlisten = \"127.0.0.1:0\"\n");
    text.push_str(&format!("[[stores]]\nname = \"second\"\ndata = {:?}\n", copy.join("stores/second")));
    let file = directory.path().join("copy.toml");
    fs::write(&file, text).expect("written");
    let restored = config::load(RawConfig::default(), Some(file), std::iter::empty()).expect("valid");
    for config in [config(), restored] {
        let server = Server::start(config).await.expect("it starts again");
        let mut http = Http::connect(server.address()).await;
        assert!(until(&mut http, "second", "available").await.len() == 1);
        let stats = http.stats("q").await;
        assert_eq!(stats["counts"]["waiting"], 10);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_directory_of_another_server_or_one_that_lost_its_files_is_refused_and_left_alone() {
    let directory = directory();
    let second = directory.path().join("second");
    let server =
        Server::start(configured(directory.path(), &[("second", &second)])).await.expect("it starts");
    let mut http = Http::connect(server.address()).await;
    http.ok("queues.create", json!({"queue": "q", "partitions": 2})).await;
    http.produce("q", json!([{"json": 1}])).await;
    server.stop().await;

    // Another server is given the same directory by mistake: it must not take what it finds there for leftovers.
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    let stranger = configured(elsewhere.path(), &[("second", &second)]);
    let server = Server::start(stranger).await.expect("it starts without it");
    let mut http = Http::connect(server.address()).await;
    let page = http.metrics().await;
    assert!(page.contains("windlass_store_open{store=\"second\"} 0"), "{page}");
    server.stop().await;

    let away = directory.path().join("away");
    fs::rename(&second, &away).expect("moved");
    let server =
        Server::start(configured(directory.path(), &[("second", &second)])).await.expect("it starts");
    let mut http = Http::connect(server.address()).await;
    let faulty = until(&mut http, "second", "faulty").await;
    assert!(faulty[0]["error"].as_str().is_some_and(|error| error.contains("mounted")), "{faulty:?}");
    fs::rename(&away, &second).expect("moved back");
    http.ok("queue.reload", json!({"queue": "q"})).await;
    assert_eq!(until(&mut http, "second", "available").await.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn an_item_with_a_damaged_payload_is_shown_without_it_and_failed_by_its_lease() {
    let directory = directory();
    let config = configured(directory.path(), &[]);
    let store = Arc::new(Failing::default());
    let server = Server::start_on(config, store, Vec::new()).await.expect("it starts");
    let mut http = Http::connect(server.address()).await;
    http.ok("queues.create", json!({"queue": "q"})).await;
    let item = |payload: &str| json!({"utf8": payload, "headers": {"trace": "1"}});
    let items = json!([item("one"), item("rotten"), item("three")]);
    let made = http.ok("queue.produce", json!({"queue": "q", "items": items})).await;
    let id = made["items"][1]["id"].clone();
    let shown = http.item(&id).await;
    assert_eq!((&shown["state"], &shown["utf8"]), (&json!("waiting"), &Value::Null));
    assert_eq!(shown["headers"]["trace"], "1", "its headers are stored by themselves");
    let listed = http.ok("storage/items.list", json!({"queue": "q", "partition": 1})).await;
    let payloads: Vec<&Value> = (0..3).map(|index| &listed["items"][index]["utf8"]).collect();
    assert_eq!(payloads, [&json!("one"), &Value::Null, &json!("three")]);
    assert_eq!(http.lease("q", 3).await.len(), 2);
    let failed = http.item(&id).await;
    assert_eq!((&failed["state"], &failed["attempts"]), (&json!("failed"), &json!(0)));
    assert_eq!(failed["error"]["code"], "damaged");
    let metrics = http.metrics().await;
    assert!(metrics.contains("windlass_bodies_damaged_total{queue=\"q\"} 1\n"), "{metrics}");
    server.stop().await;
}

/// Fails items of `q` for good.
async fn fail(http: &mut Http, count: usize) {
    let leased = http.lease("q", count).await;
    assert_eq!(leased.len(), count);
    let dead = |item: &Value| with(held(item), json!({"dead": true}));
    let items: Vec<Value> = leased.iter().map(dead).collect();
    assert_eq!(http.ok("queue.retry", json!({"queue": "q", "items": items})).await["dead"], count);
}

#[tokio::test]
async fn a_damaged_item_moves_without_its_payload_is_not_rerun_and_is_deleted() {
    let directory = directory();
    let config = configured(directory.path(), &[]);
    let server = Server::start_on(config, Arc::new(Failing::default()), Vec::new()).await;
    let server = server.expect("it starts");
    let mut http = Http::connect(server.address()).await;
    http.ok("queues.create", json!({"queue": "q", "dead_queue": "dead", "partitions": 1})).await;
    http.ok("queues.create", json!({"queue": "dead", "partitions": 1})).await;
    let item = json!({"utf8": "rotten", "headers": {"trace": "1"}});
    let id = http.produce("q", json!([item])).await.remove(0);
    assert!(http.lease("q", 1).await.is_empty(), "the lease ends it");
    http.until(async |http| http.item(&id).await.get("moved_to").is_some()).await;
    let original = http.item(&id).await;
    assert_eq!((&original["state"], &original["error"]["code"]), (&json!("failed"), &json!("damaged")));
    let letter = original["moved_to"]["id"].clone();
    let home = http.stats("dead").await["partitions"][0]["partition"].clone();
    let listed = http.ok("storage/items.list", json!({"queue": "dead", "partition": home})).await;
    let listed = listed["items"][0].clone();
    assert_eq!((&listed["id"], listed.get("utf8")), (&letter, None));
    assert_eq!(listed["headers"]["trace"], "1");
    assert_eq!(listed["origin"]["error"]["code"], "damaged");
    assert!(http.lease("dead", 1).await.is_empty(), "there is nothing to work on");
    let ended = http.item(&letter).await;
    assert_eq!((&ended["state"], &ended["error"]["code"]), (&json!("failed"), &json!("damaged")));
    let (status, code, message) = http.refused("item.rerun", &json!({"id": letter})).await;
    assert_eq!((status, &*code), (409, "wrong_state"), "{message}");
    let filter = json!({"queue": "dead", "filter": {"error_code": "damaged"}, "action": "delete"});
    assert_eq!(http.ok("items.change", filter).await["changed"], 1);
    assert_eq!(http.refused("item.get", &json!({"id": letter})).await.0, 404);
    let waits = http.produce("q", json!([item])).await.remove(0);
    let deleted = http.ok("storage/items.delete", json!({"queue": "q", "ids": [waits]})).await;
    assert_eq!(deleted, json!({"deleted": 1, "failed": []}));
    server.stop().await;
}

#[tokio::test]
async fn a_dead_queue_whose_store_is_full_or_faulty_is_no_reason_to_fall_back() {
    let second = Arc::new(Failing::default());
    let (server, mut http) = beside_a_sound_store(&second).await;
    let create = json!({"queue": "q", "partitions": 1, "dead_queue": "dead", "retention_max_bytes": 1});
    http.ok("queues.create", create).await;
    http.ok("queues.create", json!({"queue": "dead", "partitions": 1})).await;
    assert_eq!(partitions(&mut http).await[0]["store"], "default");
    assert_eq!(http.stats("dead").await["partitions"][0]["store"], "second");
    let trouble: [(&AtomicBool, u64); 2] = [(&second.is_full, 3), (&second.fails, 6)];
    for (trouble, letters) in trouble {
        trouble.store(true, Ordering::SeqCst);
        http.produce("q", json!([{"utf8": "a"}, {"utf8": "b"}, {"utf8": "c"}])).await;
        fail(&mut http, 3).await;
        if std::ptr::eq(trouble, &second.fails) {
            http.until(async |http| http.stats("dead").await["partitions"][0]["state"] == "faulty").await;
        }
        let stats = http.stats("q").await;
        assert_eq!((&stats["moving"], &stats["retained"]), (&json!(3), &json!(0)));
        trouble.store(false, Ordering::SeqCst);
        http.until(async |http| http.stats("q").await["moving"] == 0).await;
        assert_eq!(http.stats("dead").await["counts"]["waiting"], letters, "all of them arrived");
    }
    server.stop().await;
}

#[tokio::test]
async fn swapped_directories_are_refused_by_both_names_and_left_alone() {
    let directory = directory();
    let (second, third) = (directory.path().join("second"), directory.path().join("third"));
    let config =
        |second: &Path, third: &Path| configured(directory.path(), &[("second", second), ("third", third)]);
    let server = Server::start(config(&second, &third)).await.expect("it starts");
    let mut http = Http::connect(server.address()).await;
    http.ok("queues.create", json!({"queue": "q", "partitions": 3})).await;
    for number in 0..30 {
        http.produce("q", json!([{"json": number}])).await;
    }
    server.stop().await;

    let server = Server::start(config(&third, &second)).await.expect("it starts without them");
    let mut http = Http::connect(server.address()).await;
    for store in ["second", "third"] {
        let faulty = until(&mut http, store, "faulty").await;
        let error = faulty[0]["error"].as_str().expect("a text");
        assert!(error.contains("`second`") && error.contains("`third`"), "{error}");
    }
    server.stop().await;

    // The directory of another store as `data`, which holds the registry.
    let (data, away) = (directory.path().join("data"), directory.path().join("away"));
    fs::rename(&data, &away).expect("moved");
    fs::rename(&second, &data).expect("moved");
    let refused = Server::start(configured(directory.path(), &[])).await.expect_err("another store");
    let text = refused.to_string();
    assert!(text.contains("`second`") && text.contains("`default`"), "{text}");
    // And that one as a further store.
    fs::rename(&data, &second).expect("moved back");
    let stranger = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(configured(stranger.path(), &[("second", &away)])).await.expect("it starts");
    let mut http = Http::connect(server.address()).await;
    let page = http.metrics().await;
    assert!(page.contains("windlass_store_open{store=\"second\"} 0"), "{page}");
    server.stop().await;
    fs::rename(&away, &data).expect("moved back");

    let server = Server::start(config(&second, &third)).await.expect("it starts");
    let mut http = Http::connect(server.address()).await;
    for store in ["second", "third"] {
        assert_eq!(until(&mut http, store, "available").await.len(), 1);
    }
    assert_eq!(http.stats("q").await["counts"]["waiting"], 30);
    server.stop().await;
}
