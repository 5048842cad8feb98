//! Has the host run what is registered: after every change of a queue, at the start, and whenever a change had an unknown
//! outcome.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::registry;
use windlass_core::row::{Queue, QueueName};
use windlass_core::rule::RuleSet;

use super::Registry;
use crate::error::EngineError;
use crate::queue::QueueHandle;

impl Registry {
    /// Brings what runs of a queue in line with what is registered. Only in the turn of the queue.
    pub(super) async fn align(&self, name: &QueueName) -> Result<(), EngineError> {
        let of = name.clone();
        let registered =
            self.home.query(move |registry, _| Some((registry.queue(&of)?.clone(), registry.rule_set(&of))));
        self.host.bring_in_line(name, registered.await?).await;
        Ok(())
    }

    /// The names of queues that run otherwise than they are registered, that run and are not registered, or do not run yet.
    pub(super) async fn differing(&self) -> Result<Vec<QueueName>, EngineError> {
        let registered = self.registered().await?;
        let by_name = |handle: Arc<QueueHandle>| (handle.queue.name.clone(), handle);
        let mut running: BTreeMap<QueueName, _> = self.host.handles().into_iter().map(by_name).collect();
        let mut differing = Vec::new();
        for (queue, rules) in registered {
            let handle = running.remove(&queue.name);
            if !handle.is_some_and(|handle| handle.is_in_line_with(&queue, &rules)) {
                differing.push(queue.name);
            }
        }
        differing.extend(running.into_keys());
        Ok(differing)
    }

    /// Has the host start every queue. Returns once each partition was loaded or found faulty.
    pub(super) async fn start_all(&self) -> Result<(), EngineError> {
        self.host.start_all(self.registered().await?).await;
        Ok(())
    }

    async fn registered(&self) -> Result<Vec<(Queue, Arc<RuleSet>)>, EngineError> {
        let all = |registry: &registry::Registry, _| {
            let queue = |queue: &Queue| (queue.clone(), registry.rule_set(&queue.name));
            registry.queues().map(queue).collect()
        };
        self.home.query(all).await
    }
}
