//! The life of items and queues as callers see it, the same on every store.

macro_rules! on_every_store {
    ($($scenario:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let world = crate::world::World::new(crate::world::Medium::memory()).await;
                super::$scenario(&world).await;
            })*
        }
        mod spread {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let world = crate::world::World::new(crate::world::Medium::spread()).await;
                super::$scenario(&world).await;
            })*
        }
        mod log {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let world = crate::world::World::new(crate::world::Medium::log()).await;
                super::$scenario(&world).await;
                world.close().await;
            })*
        }
    };
}

pub(crate) mod addresses;
mod afterwards;
mod clocks;
mod counts;
pub(crate) mod crons;
mod dead_queues;
mod delays;
mod error_policy;
mod exists_ok;
pub(crate) mod expiry;
mod faults;
pub(crate) mod find;
pub(crate) mod find_change;
mod find_filters;
mod find_missing;
mod find_scanned;
mod find_walks;
mod follow;
pub(crate) mod groups;
mod history;
mod idempotency;
mod items;
mod kept;
mod leases;
mod listing;
mod max_items;
mod next;
mod order;
mod permits;
mod queues;
mod rebalance;
mod rebalance_crons;
mod rebalance_groups;
mod rebalance_load;
mod redrive;
pub(crate) mod rules;
mod schedules;
mod storage;
pub(crate) mod streams;
mod suspends;
mod told;
mod told_crons;
mod unclaimed;
mod updates;
mod waits;

use std::time::Duration;

use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::time::Span;
use windlass_core::verbs::{LeaseItems, RetryItem};
use windlass_engine::{Committed, Engine, EngineError, Grant, Granted, ItemView};

use crate::world::World;

pub(crate) type LeaseTask = tokio::task::JoinHandle<Result<Grant, EngineError>>;

/// Starts a lease that waits an hour, and returns once it stands in line.
pub(crate) async fn waiting_lease(world: &World, queue: &QueueName, lease: LeaseItems) -> LeaseTask {
    let before = world.stats(queue).await.lease_waiters;
    let (engine, name) = (world.engine(), queue.clone());
    let task = tokio::spawn(async move { engine.lease(&name, lease, Span::from_secs(3600)).await });
    while world.stats(queue).await.lease_waiters == before {
        tokio::task::yield_now().await;
    }
    task
}

pub(crate) type WaitTask = tokio::task::JoinHandle<Result<ItemView, EngineError>>;

/// Starts a wait of an hour for the item, and returns once the writer will hear of it before anything else.
pub(crate) async fn waiting_for(engine: &Engine, id: ItemId) -> WaitTask {
    let waiter = engine.clone();
    in_line(engine, async move { waiter.wait(id, Span::from_secs(3600)).await }).await
}

/// As [`waiting_for`], for the latest item that this one becomes.
pub(crate) async fn waiting_for_latest(engine: &Engine, id: ItemId) -> WaitTask {
    let waiter = engine.clone();
    in_line(engine, async move { waiter.wait_for_latest(id, Span::from_secs(3600)).await }).await
}

async fn in_line(
    engine: &Engine,
    wait: impl Future<Output = Result<ItemView, EngineError>> + Send + 'static,
) -> WaitTask {
    let waiters = || engine.overview().iter().map(|queue| queue.item_waiters).sum::<usize>();
    let before = waiters();
    let task = tokio::spawn(wait);
    while waiters() == before {
        tokio::task::yield_now().await;
    }
    task
}

/// Lets the engine's own tasks go on until it is so. Stores commit on threads of their own, so the number of turns says nothing: the
/// minute only ends a test that would hang.
pub(crate) async fn until(what: impl AsyncFn() -> bool) {
    let asking = async {
        while !what().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), asking).await.expect("it comes about");
}

pub(crate) fn phase(cancelled: &Committed<ItemView>) -> Phase {
    cancelled.value.item.state.phase()
}

pub(crate) fn retry_item(item: &Granted) -> RetryItem {
    RetryItem { held: item.held(), retry_at: None, delay: None, dead: false, error: None }
}

pub(crate) fn is_refused<T>(result: &Result<T, EngineError>, expected: &Refusal) -> bool {
    matches!(result, Err(EngineError::Refused(refusal)) if refusal == expected)
}
