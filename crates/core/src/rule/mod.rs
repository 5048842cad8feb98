//! What stops work: rules on a queue, or on one kind of its items. A kind runs only while none stands on either.

pub(crate) mod index;

use std::sync::Arc;

use crate::row::QueueName;
use crate::time::Timestamp;

/// Who stops it. Neither lifts what the other has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// The user.
    Pause,
    /// The administrator.
    Block,
}

impl Stop {
    pub const ALL: [Self; 2] = [Self::Pause, Self::Block];

    /// As clients read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Block => "block",
        }
    }
}

/// Identity of a rule: a queue has at most one per kind and `stop`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleKey {
    /// Set in the registry, which holds the rules of all queues; a partition has copies of those of its own.
    pub queue: Option<QueueName>,
    /// Unset: the whole queue.
    pub kind: Option<Arc<str>>,
    pub stop: Stop,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub key: RuleKey,
    pub reason: Option<Arc<str>>,
    /// When it lifts itself.
    pub until: Option<Timestamp>,
    /// Since when it stands: what is said of it anew does not change this.
    pub created_at: Timestamp,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

impl Rule {
    pub fn stands(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// About what it takes in a store.
    pub(crate) fn bytes(&self) -> usize {
        let kind = self.key.kind.as_ref().map_or(0, |kind| kind.len());
        kind + self.reason.as_ref().map_or(0, |reason| reason.len()) + self.unknown.len()
    }
}

/// How often the rules of a queue were changed, so that a partition knows whether its copies are the latest. Not counted
/// are those that lift themselves: they do so everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesVersion {
    /// As that of a [`RuleKey`].
    pub queue: Option<QueueName>,
    pub version: u64,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// All rules of a queue, as its partitions take them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    pub version: u64,
    /// Without the queue in their keys, in the order of these.
    pub rules: Vec<Rule>,
}

impl RuleSet {
    /// Whether such a rule stands on the whole queue.
    pub fn stops_all(&self, stop: Stop, now: Timestamp) -> bool {
        let on_all = |rule: &&Rule| rule.key.kind.is_none() && rule.key.stop == stop;
        self.rules.iter().filter(on_all).any(|rule| rule.stands(now))
    }
}
