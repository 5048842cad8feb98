//! Partitions on their way out: one that was leased empty is retired, and one that keeps nothing any more is dropped.
//! Their writers tell when they have come that far.

use windlass_core::verbs::{ForgetPartition, Retire};

use super::Registry;
use crate::error::EngineError;
use crate::queue::QueueHandle;

impl Registry {
    /// Retires or drops partitions of the queue that have come that far. Tells whether there was any. Only in the turn of the
    /// queue.
    pub(super) async fn retire_some(&self, queue: &QueueHandle) -> Result<bool, EngineError> {
        let name = &queue.queue.name;
        let mut any = self.forget_former_homes(queue).await?;
        for handle in &queue.partitions[queue.queue.width()..] {
            if self.host.is_drained(handle).await {
                self.home.apply(Retire { queue: name.clone(), partition: handle.id }).await?;
                any = true;
            }
        }
        let mut dropped = Vec::new();
        for handle in &queue.retired {
            if self.host.is_settled(handle).await {
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
}
