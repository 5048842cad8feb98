//! The engine's calls for rules.

use windlass_core::row::QueueName;
use windlass_core::rule::Rule;
use windlass_core::verbs::{LiftRule, SetRule};

use crate::Engine;
use crate::commit::Committed;
use crate::error::EngineError;

impl Engine {
    /// Stops a queue, or one kind of its items, for the very next lease; what runs goes on. Costs the same at any backlog.
    pub async fn set_rule(&self, set: SetRule) -> Result<Committed<Rule>, EngineError> {
        let _call = self.host.enter()?;
        let queue = set.queue.clone();
        let (value, commits) = self.registry.change_rule(queue, set).await?;
        Ok(Committed { value, commits })
    }

    /// Lifts a rule: kinds that no other rule stops are leased again, and waiting leases are served.
    pub async fn lift_rule(&self, lift: LiftRule) -> Result<Committed<()>, EngineError> {
        let _call = self.host.enter()?;
        let queue = lift.queue.clone();
        let (value, commits) = self.registry.change_rule(queue, lift).await?;
        Ok(Committed { value, commits })
    }

    /// The rules of one queue or of all, by queue; rules on whole queues come before rules on kinds.
    pub async fn rules(&self, queue: Option<&QueueName>) -> Result<Vec<Rule>, EngineError> {
        let _call = self.host.enter()?;
        if let Some(queue) = queue {
            self.queue(queue)?;
        }
        self.registry.rules(queue.cloned()).await
    }
}
