//! Deleting a queue. Without force the partitions are closed first, so that what is found empty stays so until the queue is
//! gone. That a partition is closed is a row of it: a partition that is acquired anew meanwhile stays closed, and after a crash
//! the registry, which still names the queue, has it opened again.

use std::sync::Arc;

use windlass_core::refusal::Refusal;
use windlass_core::row::{Queue, QueueName};
use windlass_core::verbs::DeleteQueue;

use super::Registry;
use crate::error::{EngineError, Outcome};
use crate::machine::call::Answer;
use crate::queue::QueueHandle;

impl Registry {
    /// Without `force` only if every item is final.
    pub(crate) async fn delete(
        self: &Arc<Self>,
        name: QueueName,
        force: bool,
    ) -> Result<Answer<Queue>, EngineError> {
        let registry = Arc::clone(self);
        let deleted = self.in_turn(&self.queue_turns, name.clone(), async move {
            // The queue may be registered and not run yet: then nobody knows what it holds.
            registry.align(&name).await?;
            let queue = registry.host.queue(&name).ok_or_else(|| Refusal::no_such_queue(&name))?;
            if force {
                registry.delete_now(&name).await
            } else {
                registry.delete_if_empty(&name, &queue).await
            }
        });
        deleted.await
    }

    async fn delete_now(&self, name: &QueueName) -> Result<Answer<Queue>, EngineError> {
        let answer = self.carry_out(name, DeleteQueue(name.clone())).await?;
        self.carry_out_drops_or_later(answer.reply.stored().collect()).await;
        Ok(answer)
    }

    async fn delete_if_empty(
        &self,
        name: &QueueName,
        queue: &QueueHandle,
    ) -> Result<Answer<Queue>, EngineError> {
        // First without closing: a queue that is in use is not disturbed.
        queue.check_empty().await?;
        let empty = match self.host.close_intake(queue).await {
            Ok(()) => queue.check_empty().await,
            // Whether or not a partition is closed: the queue is not deleted.
            Err(error) => Err(EngineError::not_applied(error.to_string())),
        };
        let deleted = match empty {
            Ok(()) => self.delete_now(name).await,
            Err(error) => Err(error),
        };
        match &deleted {
            Ok(_) => {}
            // If the queue is still there, the partitions are opened once that is known.
            Err(EngineError::Unavailable { outcome: Outcome::Unknown, .. }) => self.stale.tell(name),
            Err(_nothing_done) => {
                self.host.open_intake(queue).await;
            }
        }
        deleted
    }
}
