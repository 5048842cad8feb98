//! Gives the partitions of a queue its rules.

use std::sync::Arc;

use tracing::warn;
use windlass_core::rule::RuleSet;

use super::Host;
use crate::commit::Commit;
use crate::machine::call::{Answer, received};
use crate::machine::mailbox::PartitionState;
use crate::queue::QueueHandle;

impl Host {
    /// Kept for whoever acquires a partition next, and told to those that serve now: all of them before the first is waited
    /// for. One that fails meanwhile takes them over when it is acquired.
    pub(crate) async fn tell_rules(&self, running: &QueueHandle, rules: &Arc<RuleSet>) -> Vec<Commit> {
        let behind =
            running.partitions.iter().filter(|handle| handle.orders.rules_version() != rules.version);
        let mut asked = Vec::new();
        for handle in behind {
            handle.order_rules(Arc::clone(rules));
            // Looked at afterwards: one that comes to serve only now has seen them.
            if handle.state() == PartitionState::Available {
                asked.push((handle.id, handle.heed()));
            }
        }
        let mut commits = Vec::new();
        for (partition, asked) in asked {
            let answer = match asked {
                Ok(answer) => received(answer.await),
                Err(error) => Err(error),
            };
            match answer {
                Ok(Answer { sequence, .. }) => commits.push(Commit { partition, sequence }),
                // Its writer sees them with its next batch, or the next one when it is acquired.
                Err(error) => warn!(%partition, %error, "rules not taken over yet"),
            }
        }
        commits
    }
}
