//! Items that are rerun by several callers while their server is killed: asked for again, each rerun was done once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_api::error::Code;
use windlass_api::items::{LeasedItem, NewItem};
use windlass_client::{Client, ClientError, Encoding, Lease, LeasedItemExt};

use crate::server_process::{PATIENCE, ServerProcess, client};

const KILLS: usize = 6;
/// So many items are rerun in each life, half of them in another partition than they failed in.
const ITEMS_EACH: usize = 160;
const CALLERS: usize = 8;
/// A life ends once so many reruns of it were answered.
const ANSWERED: std::ops::Range<usize> = 5..80;

/// By the id of an item: that of the item which it was rerun as.
type Told = BTreeMap<String, String>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_is_rerun_once_although_the_server_is_killed_meanwhile() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut server = ServerProcess::start(directory.path()).await;
    let failed = failed(&server.client()).await;
    let (mut reruns, mut unanswered) = (Told::new(), 0);
    for ids in failed.chunks(ITEMS_EACH) {
        let told = rerun_until_killed(server, ids).await;
        unanswered += ids.len() - told.len();
        server = ServerProcess::start(directory.path()).await;
        for id in ids {
            let anew = rerun_again(&server.client(), id, told.get(id)).await;
            reruns.insert(id.clone(), anew);
        }
    }
    assert!(unanswered > 0, "the servers were killed while nobody called");
    let client = server.client();
    for (id, anew) in &reruns {
        let moved_to = client.item(id).await.expect("it failed, and is kept").moved_to;
        assert_eq!(moved_to.as_ref().map(|moved_to| &moved_to.id), Some(anew));
    }
    let mut expected: Vec<&String> = reruns.values().collect();
    expected.sort();
    let leased = lease_all(&client).await;
    let mut leased: Vec<&String> = leased.iter().map(|item| &item.id).collect();
    leased.sort();
    assert_eq!(leased, expected, "one item for each");
    server.kill().await;
}

fn address(number: usize) -> Option<String> {
    number.is_multiple_of(2).then(|| format!("desk {number}"))
}

/// The ids of items that failed in a queue which has more partitions since: most addresses are at home elsewhere by now.
async fn failed(client: &Client) -> Vec<String> {
    let queue = client.queue("q");
    queue.create().await.expect("the queue is made");
    let item = |number: usize| NewItem {
        utf8: Some(number.to_string()),
        address: address(number),
        ..NewItem::default()
    };
    let produced = queue.produce((0..KILLS * ITEMS_EACH).map(item)).await.expect("produced");
    let leased = lease_all(client).await;
    let dead = leased.iter().map(|item| item.dead("no hope"));
    assert_eq!(queue.retry(dead).await.expect("judged").dead, (KILLS * ITEMS_EACH) as u64);
    queue.rebalance(4).await.expect("more partitions");
    produced.into_iter().map(|item| item.id.expect("produced")).collect()
}

async fn lease_all(client: &Client) -> Vec<LeasedItem> {
    let lease = Lease { batch_size: 1000, wait: Some(Duration::ZERO), ..Lease::new("worker") };
    let mut all = Vec::new();
    loop {
        let leased = client.queue("q").lease(&lease).await.expect("leased");
        if leased.is_empty() {
            return all;
        }
        all.extend(leased);
    }
}

/// Callers rerun the items until the server is killed; returned are the answers that they had by then.
async fn rerun_until_killed(server: ServerProcess, ids: &[String]) -> Told {
    let enough = fastrand::usize(ANSWERED);
    let (answered, is_enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let mut callers = JoinSet::new();
    for (number, ids) in ids.chunks(ids.len().div_ceil(CALLERS)).enumerate() {
        let encoding = if number.is_multiple_of(2) { Encoding::Json } else { Encoding::Protobuf };
        let (client, ids) = (client(server.url(), encoding), ids.to_vec());
        let (answered, is_enough) = (Arc::clone(&answered), Arc::clone(&is_enough));
        callers.spawn(async move {
            let mut told = Told::new();
            for id in ids {
                match client.rerun(&id, None).await {
                    Ok(made) => told.insert(id, made.id.expect("the new item")),
                    Err(ClientError::Interrupted { .. } | ClientError::Unreachable { .. }) => return told,
                    Err(error) => panic!("{id}: {error}"),
                };
                if answered.fetch_add(1, Ordering::Relaxed) + 1 == enough {
                    is_enough.notify_one();
                }
            }
            told
        });
    }
    timeout(PATIENCE, is_enough.notified()).await.expect("reruns are answered");
    server.kill().await;
    callers.join_all().await.into_iter().flatten().collect()
}

/// The item that this one goes on as: made now, unless a rerun was answered with it before.
async fn rerun_again(client: &Client, id: &str, told: Option<&String>) -> String {
    let anew = match client.rerun(id, None).await {
        Ok(made) => {
            assert_eq!(told, None, "{id}: a second item");
            made.id.expect("the new item")
        }
        Err(ClientError::Refused { code, details, .. }) => {
            assert_eq!(code.known(), Some(Code::WrongState), "{id}");
            details.id.expect("it tells what the item goes on as")
        }
        Err(error) => panic!("{id}: {error}"),
    };
    assert_eq!(told.unwrap_or(&anew), &anew, "{id}");
    anew
}
