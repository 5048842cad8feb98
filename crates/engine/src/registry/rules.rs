//! Rules: the registry holds the truth, and every partition of the queue is told before a change is answered.

use std::sync::Arc;

use windlass_core::refusal::Refusal;
use windlass_core::registry;
use windlass_core::row::QueueName;
use windlass_core::rule::Rule;
use windlass_core::verb::Verb;

use super::Registry;
use crate::commit::Commit;
use crate::error::EngineError;

impl Registry {
    /// Of one queue or of all.
    pub(crate) async fn rules(&self, queue: Option<QueueName>) -> Result<Vec<Rule>, EngineError> {
        self.home.query(move |registry, _| registry.rules(queue.as_ref())).await
    }

    /// Carries a change of a queue's rules out. Answered when every partition that serves has taken it over; the others do so
    /// when they are acquired, before they grant a lease.
    pub(crate) async fn change_rule<V: Verb<registry::Registry>>(
        self: &Arc<Self>,
        queue: QueueName,
        verb: V,
    ) -> Result<(V::Reply, Vec<Commit>), EngineError> {
        let (registry, name) = (Arc::clone(self), queue.clone());
        self.in_turn(&self.queue_turns, queue, async move {
            let answer = registry.home.apply(verb).await;
            let told = match &answer {
                Err(EngineError::Refused(_)) => Ok(Vec::new()),
                Ok(_) | Err(_) => registry.spread_rules(&name).await,
            };
            if told.is_err() {
                registry.stale.tell(&name);
            }
            let of_registry = Commit {
                partition: registry.home.id,
                sequence: answer.as_ref().map_or(0, |answer| answer.sequence),
            };
            let not_told =
                |error| EngineError::unknown(format!("done, but not every partition was told: {error}"));
            answer.and_then(|answer| {
                let mut commits = told.map_err(not_told)?;
                commits.insert(0, of_registry);
                Ok((answer.reply, commits))
            })
        })
        .await
    }

    async fn spread_rules(&self, queue: &QueueName) -> Result<Vec<Commit>, EngineError> {
        if self.host.queue(queue).is_none() {
            // It may be registered and not run yet.
            self.align(queue).await?;
        }
        let running = self.host.queue(queue).ok_or_else(|| Refusal::no_such_queue(queue))?;
        let name = queue.clone();
        let rules = self.home.query(move |registry, _| registry.rule_set(&name)).await?;
        Ok(self.host.tell_rules(&running, &rules).await)
    }
}
