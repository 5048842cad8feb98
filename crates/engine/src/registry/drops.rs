//! Carries drop records out: a store drops the partition that a record names, and the record is removed once that is done.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::{info, warn};
use windlass_core::registry;
use windlass_core::row::{Queue, Stored};
use windlass_core::verbs::ForgetDropped;

use super::Registry;
use crate::error::EngineError;
use crate::host::Home;
use crate::store::{StoreError, member};

impl Registry {
    /// All records that there are. A queue and a record that name the same partition contradict each other: nothing is dropped
    /// then.
    pub(super) async fn dropped(&self) -> Result<Vec<Stored>, EngineError> {
        let dropped = |registry: &registry::Registry, _| {
            let mut dropped: BTreeSet<Stored> = registry.dropped().cloned().collect();
            if !dropped.is_empty() {
                registry.queues().flat_map(Queue::stored).for_each(|named| {
                    dropped.remove(&named);
                });
            }
            dropped.into_iter().collect()
        };
        self.home.query(dropped).await
    }

    /// As [`Registry::carry_out_drops`]; what cannot be done now is done in the background.
    pub(super) async fn carry_out_drops_or_later(&self, dropped: Vec<Stored>) {
        if !self.carry_out_drops(dropped).await {
            self.stale.tell_drops();
        }
    }

    /// Whether nothing went wrong. A record whose store is not open stays until it is.
    pub(super) async fn carry_out_drops(&self, dropped: Vec<Stored>) -> bool {
        // Moves that waited for an unclaimed partition go on.
        self.host.reclaim(&dropped);
        let (mut done, mut sound) = (Vec::new(), true);
        for stored in dropped {
            match self.drop_stored(&stored).await {
                Ok(true) => done.push(stored),
                Ok(false) => {}
                Err(error) => {
                    warn!(partition = %stored.partition, store = stored.store_name(), %error, "partition not dropped yet");
                    sound = false;
                }
            }
        }
        if let Err(error) = self.forget_drops(done).await {
            warn!(%error, "drop records are not removed yet");
            sound = false;
        }
        sound
    }

    async fn forget_drops(&self, done: Vec<Stored>) -> Result<(), EngineError> {
        if !done.is_empty() {
            self.home.apply(ForgetDropped(done)).await?;
        }
        Ok(())
    }

    /// Tells whether it was dropped: not while the store is not open, nor while the partition is served still.
    async fn drop_stored(&self, stored: &Stored) -> Result<bool, StoreError> {
        let name: Arc<str> = stored.store_name().into();
        let _turn = self.store_turns.take(&name).await;
        let is_it = |home: Home| home.queue.queue.stored().any(|served| served == *stored);
        if self.host.home_of(stored.partition).is_some_and(is_it) {
            // Whoever stops the queue tells that there is something to drop.
            return Ok(false);
        }
        let Some(store) = member(&*self.store, &name) else { return Ok(false) };
        store.drop_partition(stored.partition).await?;
        info!(partition = %stored.partition, store = stored.store_name(), "partition dropped");
        if *self.store.name_of(stored.partition) == *stored.store_name() {
            self.store.unassign(stored.partition);
        }
        Ok(true)
    }
}
