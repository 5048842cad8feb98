//! Repairs in the background what a change with an unknown outcome may have left, or a registry that was read back and is not
//! what it was before, and lets go of partitions that are empty: each queue in a task of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::warn;
use windlass_core::row::QueueName;

use super::Registry;
use super::stale::Told;
use crate::env;
use crate::error::EngineError;
use crate::partition::handle::PartitionState;

/// How long to wait after a queue could not be brought in line.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Waits for a further store to open. A single store never does.
async fn next_opening(openings: &mut Option<watch::Receiver<usize>>) {
    let opened = match openings {
        Some(openings) => openings.changed().await.is_ok(),
        None => false,
    };
    if !opened {
        std::future::pending().await
    }
}

impl Registry {
    /// Until the engine closes.
    pub(crate) async fn keep_aligned(self: Arc<Self>) {
        let mut stopping = self.home.stopping();
        let mut states = self.home.states();
        let mut openings = self.store.openings();
        loop {
            tokio::select! {
                biased;
                _stop = stopping.wait_for(|stop| *stop) => return,
                () = self.stale.notified() => {}
                _changed = states.changed() => self.stale.tell_all(),
                () = next_opening(&mut openings) => self.stale.tell_all(),
            }
            if self.host.is_closing() {
                return;
            }
            if self.home.state() != PartitionState::Available {
                continue;
            }
            let told = self.stale.take();
            if let Err(error) = self.look_through(told).await {
                warn!(%error, "what runs could not be compared with the registry yet");
                self.stale.tell_all();
                self.wait_a_while().await;
            }
        }
    }

    async fn look_through(self: &Arc<Self>, told: Told) -> Result<(), EngineError> {
        let Told { mut queues, all, drops } = told;
        if all {
            self.look_at_stores().await?;
            queues.extend(self.differing().await?);
        }
        for queue in queues {
            if self.stale.repairs.begins(&queue) {
                let _not_awaited = env::spawn(&*self.env, "repair", Arc::clone(self).repair(queue));
            }
        }
        if all || drops {
            self.begin_drops().await?;
        }
        Ok(())
    }

    async fn repair(self: Arc<Self>, queue: QueueName) {
        loop {
            let (registry, name) = (Arc::clone(&self), queue.clone());
            let repaired = self.in_turn(&self.queue_turns, queue.clone(), async move {
                registry.align_and_retire(&name).await
            });
            let repaired = repaired.await;
            if self.host.is_closing() {
                return;
            }
            if let Err(error) = repaired {
                warn!(queue = %queue.name, %error, "what runs could not be brought in line with the registry yet");
                self.wait_a_while().await;
            } else if self.stale.repairs.is_over(&queue) {
                return;
            }
        }
    }

    /// And lets go of partitions that are empty, which may leave others to be dropped.
    async fn align_and_retire(&self, name: &QueueName) -> Result<(), EngineError> {
        self.align(name).await?;
        while let Some(queue) = self.host.queue(name) {
            if !self.retire_some(&queue).await? {
                break;
            }
            self.align(name).await?;
        }
        // A change whose outcome was unknown may have left a record.
        self.stale.tell_drops();
        Ok(())
    }

    /// Has each store drop what it is to, apart from the others: one may not answer.
    async fn begin_drops(self: &Arc<Self>) -> Result<(), EngineError> {
        let stores: BTreeSet<Arc<str>> =
            self.dropped().await?.iter().map(|stored| stored.store_name().into()).collect();
        for store in stores {
            if self.stale.drops.begins(&store) {
                let _not_awaited = env::spawn(&*self.env, "drops", Arc::clone(self).drop_in(store));
            }
        }
        Ok(())
    }

    async fn drop_in(self: Arc<Self>, store: Arc<str>) {
        while let Ok(call) = self.host.enter() {
            let is_done = match self.dropped().await {
                Ok(mut dropped) => {
                    dropped.retain(|stored| *stored.store_name() == *store);
                    self.carry_out_drops(dropped).await
                }
                Err(_) => false,
            };
            drop(call);
            if !is_done {
                self.wait_a_while().await;
            } else if self.stale.drops.is_over(&store) {
                return;
            }
        }
    }

    async fn wait_a_while(&self) {
        let sleep = self.env.sleep_until(self.env.boot() + AGAIN_AFTER);
        let _closing = self.host.unless_closing(sleep).await;
    }
}
