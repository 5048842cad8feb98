//! Clients that vanish: what they were granted and did not get is given back, and costs nobody an attempt.

use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use windlass_client::api::items::{LeasedItem, NewItem};
use windlass_client::{Client, Lease, LeasedItemExt, QueueClient};

use super::{Connection, item, until};
use crate::server_process::{Metrics, PATIENCE, ServerProcess};

const ROUNDS: u64 = 200;
/// In each round two clients vanish, and one stays.
const CLIENTS: u64 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_that_vanished_was_granted_is_given_back_uncharged() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = ServerProcess::start(directory.path()).await;
    let client = server.client();
    client.queue("work").create().await.expect("created");
    let mut rng = Rng::new();
    let mut charges = 0;
    for round in 0..ROUNDS {
        let scene = Scene::set(&server, &client, rng.bool()).await;
        let items = if round.is_multiple_of(2) {
            scene.vanish_before().await
        } else {
            scene.vanish_around(Duration::from_micros(rng.u64(0..1500))).await
        };
        let charged: u32 = items.iter().map(|item| item.attempts).sum();
        // Only an answer that the kernel had taken already can have cost an attempt.
        let unread = round % 2;
        assert!((CLIENTS..=CLIENTS + unread).contains(&u64::from(charged)), "round {round}: {items:?}");
        charges += u64::from(charged);
        let completed = client.queue("work").complete(items.iter().map(LeasedItemExt::done)).await;
        assert_eq!(completed.expect("answered").completed, CLIENTS, "each is with one that really got it");
    }
    let metrics = Metrics::of(&client).await;
    let expired = metrics.sum("windlass_leases_expired_total");
    let given_back = metrics.sum("windlass_items_leased_total") - charges;
    assert_eq!(metrics.sum("windlass_items_completed_total"), ROUNDS * CLIENTS);
    assert_eq!(
        charges,
        ROUNDS * CLIENTS + expired,
        "what was charged was completed, or ended by its deadline"
    );
    assert!(given_back > 0, "nobody vanished at a moment that matters");
    println!(
        "figures: {ROUNDS} rounds, {given_back} grants given back, {expired} answers taken by the kernel in vain"
    );
    server.kill().await;
}

/// Two clients that will vanish and one that stays, all leasing.
struct Scene {
    queue: QueueClient,
    vanishing: Vec<Connection>,
    staying: JoinHandle<Vec<LeasedItem>>,
}

impl Scene {
    /// With `waiting` it waits until they wait; otherwise the server may not have read what they ask for.
    async fn set(server: &ServerProcess, client: &Client, waiting: bool) -> Self {
        let queue = client.queue("work");
        let lease = r#"{"queue": "work", "client_id": "gone", "batch_size": 1, "request_timeout": "10m",
            "lease_timeout": "100ms"}"#;
        let mut vanishing = Vec::new();
        for _ in 1..CLIENTS {
            vanishing.push(Connection::begin(server, "queue.lease", lease, 0).await.0);
        }
        let staying = tokio::spawn(take_one(queue.clone()));
        if waiting {
            until(client, |metrics| metrics.sum("windlass_lease_waiters") >= CLIENTS).await;
        }
        Self { queue, vanishing, staying }
    }

    /// Nobody but the one who stays is there when the items come.
    async fn vanish_before(mut self) -> Vec<LeasedItem> {
        self.vanishing.drain(..).for_each(Connection::vanish);
        produce_round(&self.queue).await;
        self.rest().await
    }

    /// One vanishes before, and one at some moment while the items come.
    async fn vanish_around(mut self, after: Duration) -> Vec<LeasedItem> {
        let last = self.vanishing.pop().expect("two are to vanish");
        self.vanishing.drain(..).for_each(Connection::vanish);
        let vanishing = async {
            tokio::time::sleep(after).await;
            last.vanish();
        };
        tokio::join!(vanishing, produce_round(&self.queue));
        self.rest().await
    }

    /// All items of the round, in the hands of somebody who is there.
    async fn rest(self) -> Vec<LeasedItem> {
        let mut items = timeout(PATIENCE, self.staying).await.expect("in time").expect("no panic");
        while (items.len() as u64) < CLIENTS {
            items.extend(take_one(self.queue.clone()).await);
        }
        items
    }
}

async fn produce_round(queue: &QueueClient) {
    queue.produce((0..CLIENTS).map(|_| item())).await.expect("produced");
}

async fn take_one(queue: QueueClient) -> Vec<LeasedItem> {
    let leased = queue.lease(&Lease { wait: Some(PATIENCE), ..Lease::new("there") }).await.expect("leased");
    assert_eq!(leased.len(), 1, "it is not sent home empty");
    leased
}

const LARGE_ITEMS: u32 = 20;
const LARGE_BYTES: usize = 900 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_the_kernel_did_not_take_whole_costs_no_attempt() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = ServerProcess::start(directory.path()).await;
    let client = server.client();
    let queue = client.queue("work");
    queue.create().await.expect("created");
    for _ in 0..LARGE_ITEMS {
        let large = NewItem { utf8: Some("x".repeat(LARGE_BYTES)), ..NewItem::default() };
        queue.produce([large]).await.expect("produced");
    }
    let lease = r#"{"queue": "work", "client_id": "gone", "batch_size": 20, "lease_timeout": "10m"}"#;
    let (mut half_read, _) = Connection::begin(&server, "queue.lease", lease, 0).await;
    half_read.taste().await;
    let leased = |metrics: &Metrics| metrics.sum("windlass_items{queue=\"work\",state=\"leased\"");
    assert_eq!(leased(&Metrics::of(&client).await), u64::from(LARGE_ITEMS), "all are on their way");
    half_read.vanish();
    until(&client, |metrics| leased(metrics) == 0).await;
    let lease = Lease { batch_size: LARGE_ITEMS, ..Lease::new("there") };
    let items = queue.lease(&lease).await.expect("leased");
    assert_eq!(items.iter().map(|item| item.attempts).collect::<Vec<_>>(), [1; LARGE_ITEMS as usize]);
    server.kill().await;
}
