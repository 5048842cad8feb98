//! Closes the partitions of a queue to everything new, and opens them again.

use std::sync::Arc;

use windlass_core::mutant::{self, Mutant};
use windlass_core::row::Intake;

use super::Host;
use crate::error::EngineError;
use crate::machine::call::{Awaited, received};
use crate::partition::handle::Handle;
use crate::queue::QueueHandle;

impl Host {
    /// Returns once every partition is closed. From here on whoever brings something new waits.
    pub(crate) async fn close_intake(&self, queue: &QueueHandle) -> Result<(), EngineError> {
        if mutant::active(Mutant::LeaveDoorOpen) {
            return Ok(());
        }
        let told = queue.routes.close(|| tell(queue, Intake::closing));
        all(told).await
    }

    /// A partition that cannot be told takes the order over with its next batch, or when it is acquired.
    pub(crate) async fn open_intake(&self, queue: &QueueHandle) {
        let told = queue.supersede(|| tell(queue, |intake| intake));
        let _told_later = all(told).await;
        // Whoever waits for a cron that could not run looks again.
        queue.all().for_each(|handle| handle.has_carried());
        self.arrivals.tell();
    }
}

fn tell(queue: &QueueHandle, order: impl Fn(Intake) -> Intake) -> Vec<Result<Awaited<()>, EngineError>> {
    let tell = |handle: &Arc<Handle>| {
        handle.order(&queue.queue, order(queue.queue.intake(handle.id)));
        handle.heed()
    };
    queue.all().map(tell).collect()
}

async fn all(told: Vec<Result<Awaited<()>, EngineError>>) -> Result<(), EngineError> {
    let mut failed = Ok(());
    for answer in told {
        let answer = match answer {
            Ok(answer) => received(answer.await),
            Err(error) => Err(error),
        };
        failed = failed.and(answer.map(|_configured| ()));
    }
    failed
}
