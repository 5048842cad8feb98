//! One call per turn of a worker: what it has done, and what it does next.

use windlass_core::row::QueueName;
use windlass_core::verbs::{LeaseItems, Settle};

use crate::Engine;
use crate::error::EngineError;
use crate::queue::Turn;

impl Engine {
    /// Settles leased items, 1 to 1000 and each named once, and leases others without waiting. In each partition that has
    /// some of the items, what is settled and what is leased there is one commit. Refused as a whole, before anything is
    /// settled, if a value is malformed.
    pub async fn next(
        &self,
        queue: &QueueName,
        items: Vec<Settle>,
        lease: Option<LeaseItems>,
    ) -> Result<Turn, EngineError> {
        let _call = self.host.enter()?;
        self.queue(queue)?.next(items, lease).await
    }
}
