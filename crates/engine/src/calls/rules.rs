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

    /// Lets go on what such a rule had stopped, as far as no other does. Whoever waits for work is served.
    pub async fn lift_rule(&self, lift: LiftRule) -> Result<Committed<()>, EngineError> {
        let _call = self.host.enter()?;
        let queue = lift.queue.clone();
        let (value, commits) = self.registry.change_rule(queue, lift).await?;
        Ok(Committed { value, commits })
    }

    /// Those of one queue or of all, by queue, those on whole queues before those on kinds.
    pub async fn rules(&self, queue: Option<&QueueName>) -> Result<Vec<Rule>, EngineError> {
        let _call = self.host.enter()?;
        if let Some(queue) = queue {
            self.queue(queue)?;
        }
        self.registry.rules(queue.cloned()).await
    }
}
