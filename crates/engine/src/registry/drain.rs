//! Partitions on their way out: one that was leased empty is retired, and one that keeps nothing any more is dropped.
//! Their writers tell when they have come that far.

use windlass_core::id::PartitionId;
use windlass_core::partition::Partition;
use windlass_core::verbs::{ForgetPartition, Retire};

use super::{Registry, Whereabouts};
use crate::error::EngineError;
use crate::lock::lock;
use crate::partition::handle::Handle;
use crate::partition::published::Rest;
use crate::queue::QueueHandle;
use crate::store::Term;

impl Registry {
    /// Retires or drops partitions of the queue that have come that far. Tells whether there was any. Only in the turn of the
    /// queue.
    pub(super) async fn retire_some(&self, queue: &QueueHandle) -> Result<bool, EngineError> {
        let name = &queue.queue.name;
        let mut any = self.forget_former_homes(queue).await?;
        for handle in &queue.partitions[queue.queue.width()..] {
            if has_come_to(handle, Rest::Drained, Partition::is_drained).await {
                self.home.apply(Retire { queue: name.clone(), partition: handle.id }).await?;
                any = true;
            }
        }
        let mut dropped = Vec::new();
        for handle in &queue.retired {
            if has_come_to(handle, Rest::Bare, Partition::is_bare).await && self.is_settled(handle).await {
                self.home.apply(ForgetPartition { queue: name.clone(), partition: handle.id }).await?;
                dropped.extend(queue.queue.stored().filter(|stored| stored.partition == handle.id));
            }
        }
        if !dropped.is_empty() {
            // The store drops a partition only once nobody serves it.
            self.align(name).await?;
            self.carry_out_drops_or_later(dropped).await;
            any = true;
        }
        Ok(any)
    }

    /// Every partition that sent it something has heard, durably, that it was taken: else that would be sent to another
    /// partition again.
    async fn is_settled(&self, handle: &Handle) -> bool {
        let Ok(sources) = handle.query(|partition, _| partition.taken_from()).await else { return false };
        for source in sources {
            let heard = Term::now(&*self.store, source);
            if self.sends_to(source, handle.id).await || self.store.sync(heard).await.is_err() {
                return false;
            }
        }
        true
    }

    async fn sends_to(&self, source: PartitionId, target: PartitionId) -> bool {
        let whereabouts = lock(&self.running).whereabouts(source);
        let home = match whereabouts {
            Whereabouts::Served(home) => home,
            // Once it is served, it would send to somebody else what was taken here.
            Whereabouts::NotServed => return true,
            Whereabouts::Gone => return false,
        };
        let sends = move |partition: &Partition, _| !partition.departures(target, 1).is_empty();
        home.partition.query(sends).await.unwrap_or(true)
    }
}

/// What is published is a hint; once it is so, it stays so.
async fn has_come_to(handle: &Handle, rest: Rest, question: fn(&Partition) -> bool) -> bool {
    let told = handle.published.summary().rest >= rest;
    told && handle.query(move |partition, _| question(partition)).await.unwrap_or(false)
}
