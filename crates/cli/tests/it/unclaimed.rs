//! Partitions that no queue names, for operators.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use windlass_core::id::PartitionId;
use windlass_engine::env::TokioEnv;
use windlass_engine::store::Store;
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};

use crate::support::{Server, run};

fn lose_registry(data: &Path) {
    let losing = async {
        let disk = Arc::new(RealDisk::new(data).unwrap());
        let store = LogStore::open(Arc::new(TokioEnv::new()), disk, LogOptions::default()).await.unwrap();
        store.drop_partition(PartitionId::REGISTRY).await.unwrap();
        store.close().await;
    };
    tokio::runtime::Runtime::new().unwrap().block_on(losing);
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
        assert_eq!(told, format!("partition {partition} is one of mail\n"));
    }
    let stats = server.run(&["queue", "stats", "mail", "--json"]).json();
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
    assert!(shown.contains("unclaimed partitions: not known") && shown.contains("registry"), "{shown}");
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
