//! The calls of the [`Engine`], one file for each thing that they speak of. A call finds the queue or the partition and
//! hands over; what is done there is decided in [`crate::queue`], [`crate::registry`] and the core.

mod change;
mod crons;
mod events;
mod explain;
mod find;
mod groups;
mod item;
mod leases;
mod next;
mod produce;
mod queues;
mod rules;
mod storage;
mod wait;

use std::sync::Arc;

use windlass_core::id::ItemId;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;

use crate::Engine;
use crate::error::{EngineError, Outcome};
use crate::host::Home;
use crate::queue::QueueHandle;

pub use change::Rewrite;
pub use explain::{Explanation, WhyNot};
pub use leases::{LeaseBegun, LeaseLine};
pub use queues::HISTORY_QUEUES_MAX;

/// How often a call is sent by the routes that count by then. Each time is for a change of partitions that came while the
/// call was under way; more come only if the registry is from a backup older than such a change.
const REROUTES_MAX: usize = 32;

impl Engine {
    fn queue(&self, name: &QueueName) -> Result<Arc<QueueHandle>, EngineError> {
        self.host.queue(name).ok_or_else(|| Refusal::no_such_queue(name).into())
    }

    fn home_of(&self, id: ItemId) -> Result<Home, EngineError> {
        self.host.home_of(id.partition).ok_or(EngineError::Refused(Refusal::NotFound))
    }

    /// Sends `call` by the queue's routes, and again by the routes that count by then if others count meanwhile and the call
    /// has changed nothing.
    async fn by_routes<T, F: Future<Output = Result<T, EngineError>>>(
        &self,
        queue: &QueueName,
        call: impl Fn(Arc<QueueHandle>) -> F,
    ) -> Result<T, EngineError> {
        for _ in 0..REROUTES_MAX {
            let handle = self.queue(queue)?;
            match call(Arc::clone(&handle)).await {
                // The partition that could not be asked is not to be asked any more.
                Err(EngineError::Unavailable { outcome: Outcome::NotApplied, .. }) if !handle.is_latest() => {
                }
                Err(EngineError::Refused(Refusal::Moved)) => {}
                done => return done,
            }
        }
        Err(unsettled())
    }
}

/// The error of a call that met a change of partitions [`REROUTES_MAX`] times.
fn unsettled() -> EngineError {
    EngineError::not_applied("the partitions of the queue are changing")
}
