//! Partitions that no queue names, for operators.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use windlass_core::id::PartitionId;
use windlass_core::row::{Change, Dropped, Row, Stored};
use windlass_core::time::Timestamp;
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::{Batch, Store};

use crate::world::{Server, run};

/// Does something to a stopped server's store.
fn tamper(data: &Path, tampering: impl AsyncFnOnce(&LogStore)) {
    let opened = async {
        let disk = Arc::new(RealDisk::new(data).unwrap());
        let store = LogStore::open(Arc::new(TokioEnv::new()), disk, LogOptions::default()).await.unwrap();
        tampering(&store).await;
        store.close().await;
    };
    tokio::runtime::Runtime::new().unwrap().block_on(opened);
}

fn lose_registry(data: &Path) {
    tamper(data, async |store| store.drop_partition(PartitionId::REGISTRY).await.unwrap());
}

/// A stopped server's data without its registry: two partitions of `mail` with 3 items in all.
fn data() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let server = Server::start_on(&data);
    server.run(&["queue", "create", "mail", "--partitions", "2"]).ok();
    for payload in ["1", "2", "3"] {
        server.run(&["produce", "mail", payload]).ok();
    }
    assert_eq!(server.stop(), Some(0));
    lose_registry(&data);
    (directory, data)
}

#[test]
fn unclaimed_partitions_are_shown_adopted_and_dropped() {
    let (_directory, data) = data();
    let server = Server::start_on(&data);
    let shown = server.run(&["storage", "unclaimed"]).ok();
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows.len(), rows[1][0], rows[1][1], rows[1][2]), (3, "1", "default", "mail"), "{shown}");
    let refused = server.run(&["storage", "drop", "1"]).failed(1);
    assert!(refused.contains("force"), "{refused}");
    server.run(&["queue", "create", "mail"]).ok();
    for partition in ["1", "2"] {
        let told = server.run(&["storage", "adopt", partition, "--queue", "mail"]).ok();
        assert_eq!(told, format!("partition {partition} now belongs to queue mail\n"));
    }
    let stats = server.stats("mail");
    assert_eq!(stats["counts"]["waiting"], 3);
    let none = server.run(&["storage", "unclaimed"]);
    assert!(none.err.contains("no partition is unclaimed"), "{none:?}");
    assert_eq!(server.run(&["storage", "unclaimed", "--json"]).json(), json!({"partitions": []}));
    let refused = server.run(&["storage", "drop", "1", "--force"]).failed(1);
    assert!(refused.contains("no unclaimed partition"), "{refused}");
}

#[test]
fn a_dropped_partition_is_gone() {
    let (_directory, data) = data();
    let server = Server::start_on(&data);
    let told = server.run(&["storage", "drop", "2", "--store", "default", "--force"]).ok();
    assert_eq!(told, "partition 2 is dropped\n");
    let left = server.run(&["storage", "unclaimed", "--json"]).json();
    assert_eq!(left["partitions"].as_array().unwrap().len(), 1);
    assert_eq!(server.stop(), Some(0));
    let document = run(&["inspect", data.to_str().unwrap(), "--json"]).json();
    let numbers: Vec<_> =
        document["partitions"].as_array().unwrap().iter().map(|one| &one["partition"]).collect();
    assert_eq!(numbers, [0, 1]);
}

#[test]
fn inspect_lists_unclaimed_partitions_where_the_registry_is() {
    let (_directory, data) = data();
    let data = data.to_str().unwrap();
    let shown = run(&["inspect", data]).ok();
    assert!(shown.contains("unclaimed partitions: not known") && shown.contains("no registry"), "{shown}");
    assert!(shown.contains("`[[stores]]`") && shown.contains("windlass storage adopt"), "{shown}");
    assert_eq!(run(&["inspect", data, "--json"]).json().get("unclaimed"), None);
    let server = Server::start_on(Path::new(data));
    server.run(&["queue", "create", "other"]).ok();
    assert_eq!(server.stop(), Some(0));
    let document = run(&["inspect", data, "--json"]).json();
    let found = document["unclaimed"].as_array().unwrap();
    assert_eq!(found.iter().map(|one| one["items"].as_u64().unwrap()).sum::<u64>(), 3);
    assert!(found.iter().map(|one| &one["partition"]).eq([1, 2].iter()), "{found:?}");
    let shown = run(&["inspect", data]).ok();
    assert!(shown.contains("was of queue mail") && shown.contains("windlass storage adopt"), "{shown}");
    assert!(shown.contains("damage: none"), "unclaimed is not damaged: {shown}");
}

/// As after a crash between the commit that deletes a queue and the drop of its partition.
async fn record_drop(store: &LogStore, partition: u32) {
    let registry = store.acquire(PartitionId::REGISTRY).await.unwrap();
    let stored = Stored { partition: PartitionId(partition), store: None };
    let dropped = Dropped { stored, unknown: Vec::new() };
    let batch = Batch {
        partition: PartitionId::REGISTRY,
        epoch: registry.epoch,
        sequence: registry.sequence + 1,
        now: Timestamp(registry.now.0 + 1),
        changes: vec![Change::Put(Row::Dropped(dropped))],
        may_block: true,
    };
    store.commit(batch).await.unwrap();
}

#[test]
fn inspect_does_not_call_a_partition_unclaimed_that_the_next_start_drops() {
    let (_directory, data) = data();
    let server = Server::start_on(&data);
    server.run(&["queue", "create", "other"]).ok();
    assert_eq!(server.stop(), Some(0));
    tamper(&data, async |store| record_drop(store, 2).await);
    let data = data.to_str().unwrap();
    let shown = run(&["inspect", data]).ok();
    assert!(shown.contains("unclaimed partitions: 1\n") && shown.contains("\n  1: "), "{shown}");
    assert!(!shown.contains("no queue names"), "{shown}");
    let document = run(&["inspect", data, "--json"]).json();
    assert_eq!(document["items"]["unclaimed"], json!([1]), "{document}");
    assert_eq!(document["unclaimed"].as_array().unwrap().len(), 1);
}

#[test]
fn an_item_of_an_unclaimed_partition_is_imported_under_the_limits_of_its_new_queue() {
    let (_directory, data) = data();
    let exported = run(&["inspect", data.to_str().unwrap(), "--export", "--partition", "1"]).ok();
    assert!(exported.lines().count() > 0 && !exported.contains("max_attempts"), "{exported}");
    let server = Server::with_queue("mail", &["--max-attempts", "5"]);
    server.run_with(&["storage", "import", "mail"], &exported).ok();
    let listed = server.run(&["storage", "list", "mail", "--json"]).json();
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.len(), exported.lines().count());
    assert!(items.iter().all(|item| item["max_attempts"] == 5), "{items:?}");
}

/// A configuration with the stores `default` and `bulk` in directories of these names.
fn two_stores(directory: &Path) -> (PathBuf, PathBuf) {
    let (file, bulk) = (directory.join("windlass.toml"), directory.join("bulk"));
    std::fs::write(&file, format!("[[stores]]\nname = \"bulk\"\ndata = {bulk:?}\n")).unwrap();
    (file, bulk)
}

fn log_of(data: &Path) -> String {
    std::fs::read_to_string(data.with_extension("log")).unwrap()
}

/// How many items there are once every unclaimed partition of `bulk` is adopted into `mail`.
fn adopt_all(server: &Server) -> u64 {
    server.run(&["queue", "create", "mail", "--partitions", "1"]).ok();
    let found = server.run(&["storage", "unclaimed", "--json"]).json();
    for unclaimed in found["partitions"].as_array().unwrap() {
        assert_eq!(unclaimed["store"], "bulk", "{found}");
        let partition = unclaimed["partition"].to_string();
        server.run(&["storage", "adopt", &partition, "--queue", "mail"]).ok();
    }
    server.stats("mail")["counts"]["waiting"].as_u64().unwrap()
}

/// A stopped server of two stores whose first one is lost. Tells how many items the other one holds.
fn without_first_store(directory: &Path) -> u64 {
    let (file, _) = two_stores(directory);
    let data = directory.join("data");
    let server = Server::start_with(&data, &["--config", file.to_str().unwrap()]);
    server.run(&["queue", "create", "mail", "--partitions", "4"]).ok();
    for payload in 0..20 {
        server.run(&["produce", "mail", &payload.to_string()]).ok();
    }
    let stats = server.stats("mail");
    let in_bulk = stats["partitions"].as_array().unwrap().iter().filter(|one| one["store"] == "bulk");
    let items = in_bulk.map(|one| one["counts"]["waiting"].as_u64().unwrap()).sum();
    assert_eq!(server.stop(), Some(0));
    std::fs::remove_dir_all(&data).unwrap();
    items
}

#[test]
fn a_store_whose_first_store_is_lost_is_taken_over_and_its_partitions_adopted() {
    let directory = TempDir::new().unwrap();
    let held = without_first_store(directory.path());
    assert!(held > 0);
    let (file, _) = two_stores(directory.path());
    let data = directory.path().join("data");
    let config = ["--config", file.to_str().unwrap()];
    let server = Server::start_with(&data, &config);
    assert!(log_of(&data).contains("--take-over-store bulk"), "{}", log_of(&data));
    assert_eq!(server.stop(), Some(0));
    let server = Server::start_with(&data, &[&config[..], &["--take-over-store", "bulk"]].concat());
    assert!(log_of(&data).contains("taken over"), "{}", log_of(&data));
    assert_eq!(adopt_all(&server), held);
    assert_eq!(server.stop(), Some(0));
    // For good: the flag was needed once.
    let server = Server::start_with(&data, &config);
    let stats = server.stats("mail");
    assert_eq!(stats["counts"]["waiting"], held);
}

#[test]
fn a_store_that_was_salvaged_without_its_format_file_is_taken_over() {
    let directory = TempDir::new().unwrap();
    let held = without_first_store(directory.path());
    let (file, bulk) = two_stores(directory.path());
    std::fs::remove_file(bulk.join("format")).unwrap();
    let rescued = directory.path().join("rescued");
    run(&["inspect", bulk.to_str().unwrap(), "--salvage", rescued.to_str().unwrap()]);
    std::fs::remove_dir_all(&bulk).unwrap();
    std::fs::rename(&rescued, &bulk).unwrap();
    let data = directory.path().join("data");
    let flags = ["--config", file.to_str().unwrap(), "--take-over-store", "bulk"];
    let server = Server::start_with(&data, &flags);
    assert_eq!(adopt_all(&server), held);
}

#[test]
fn a_directory_that_is_open_or_empty_or_holds_a_registry_is_not_taken_over() {
    let directory = TempDir::new().unwrap();
    let (file, bulk) = two_stores(directory.path());
    let data = directory.path().join("data");
    let other = Server::start_on(&bulk);
    other.run(&["queue", "create", "mail"]).ok();
    let before = std::fs::read(bulk.join("format")).unwrap();
    let flags = ["--config", file.to_str().unwrap(), "--take-over-store", "bulk"];
    let server = Server::start_with(&data, &flags);
    assert!(log_of(&data).contains("another process has this log open"), "{}", log_of(&data));
    drop(server);
    assert_eq!(other.stop(), Some(0));
    let server = Server::start_with(&data, &flags);
    assert!(log_of(&data).contains("holds the registry"), "{}", log_of(&data));
    drop(server);
    assert_eq!(std::fs::read(bulk.join("format")).unwrap(), before);
    std::fs::rename(&bulk, directory.path().join("unmounted")).unwrap();
    let server = Server::start_with(&data, &flags);
    assert!(log_of(&data).contains("nothing to take over"), "{}", log_of(&data));
    assert!(!bulk.join("format").exists());
    drop(server);
    let wrong = ["--config", file.to_str().unwrap(), "--take-over-store", "blk"];
    let serve =
        [&["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()], &wrong[..]].concat();
    let err = run(&serve).failed(2);
    assert!(err.contains("`blk`") && err.contains("--take-over-store"), "{err}");
}

/// The first store is lost, and the other one becomes the first.
#[test]
fn a_store_is_taken_over_as_the_first() {
    let directory = TempDir::new().unwrap();
    let held = without_first_store(directory.path());
    let bulk = directory.path().join("bulk");
    let path = bulk.to_str().unwrap();
    let err = run(&["serve", "--listen", "127.0.0.1:0", "--data", path]).failed(1);
    assert!(err.contains("--take-over-store default"), "{err}");
    let server = Server::start_with(&bulk, &["--take-over-store", "default"]);
    let found = server.run(&["storage", "unclaimed", "--json"]).json();
    let items = found["partitions"].as_array().unwrap().iter().map(|one| one["items"].as_u64().unwrap());
    assert_eq!(items.sum::<u64>(), held);
}

#[test]
fn swapped_directories_are_not_taken_over() {
    let directory = TempDir::new().unwrap();
    let (file, bulk) = two_stores(directory.path());
    let data = directory.path().join("data");
    let config = ["--config", file.to_str().unwrap()];
    let server = Server::start_with(&data, &config);
    server.run(&["queue", "create", "mail", "--partitions", "2"]).ok();
    assert_eq!(server.stop(), Some(0));
    let aside = directory.path().join("aside");
    for (from, to) in [(&data, &aside), (&bulk, &data), (&aside, &bulk)] {
        std::fs::rename(from, to).unwrap();
    }
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
    let swapped = [&serve[..], &config[..], &["--take-over-store", "default"]].concat();
    let err = run(&swapped).failed(1);
    assert!(err.contains("swapped"), "{err}");
    for (from, to) in [(&data, &aside), (&bulk, &data), (&aside, &bulk)] {
        std::fs::rename(from, to).unwrap();
    }
    let server = Server::start_with(&data, &config);
    let found = server.run(&["storage", "unclaimed", "--json"]).json();
    assert_eq!(found["partitions"], json!([]));
    assert_eq!(server.run(&["queue", "list", "--json"]).json()["queues"].as_array().unwrap().len(), 1);
}
