//! [`Rules`]: the rules that stand, and how often they were changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::row::{QueueName, Row};
use crate::rule::{Rule, RuleKey, RulesVersion, Stop};
use crate::time::Timestamp;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Rules {
    rules: BTreeMap<RuleKey, Rule>,
    /// By queue, as in the keys of rules.
    versions: BTreeMap<Option<QueueName>, RulesVersion>,
    /// Those that lift themselves, by when.
    ends: BTreeSet<(Timestamp, RuleKey)>,
}

impl Rules {
    pub(crate) fn get(&self, key: &RuleKey) -> Option<&Rule> {
        self.rules.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.values()
    }

    /// Those of a queue.
    pub(crate) fn of<'a>(&'a self, queue: Option<&'a QueueName>) -> impl Iterator<Item = &'a Rule> {
        let first = RuleKey { queue: queue.cloned(), kind: None, stop: Stop::Pause };
        self.rules
            .range(first..)
            .map(|(_, rule)| rule)
            .take_while(move |rule| rule.key.queue.as_ref() == queue)
    }

    pub(crate) fn version(&self, queue: Option<&QueueName>) -> Option<&RulesVersion> {
        self.versions.get(&queue.cloned())
    }

    /// The row of a new version, with what the row before carries along.
    pub(crate) fn version_row(&self, queue: Option<&QueueName>, version: u64) -> Row {
        let unknown = self.version(queue).map(|before| before.unknown.clone()).unwrap_or_default();
        Row::Rules(RulesVersion { queue: queue.cloned(), version, unknown })
    }

    pub(crate) fn set_version(&mut self, queue: &Option<QueueName>, version: Option<RulesVersion>) {
        match version {
            Some(version) => self.versions.insert(queue.clone(), version),
            None => self.versions.remove(queue),
        };
    }

    /// Gives the one that was there before.
    pub(crate) fn set(&mut self, key: &RuleKey, rule: Option<Rule>) -> Option<Rule> {
        let end = rule.as_ref().and_then(|rule| rule.until);
        let before = match rule {
            Some(rule) => self.rules.insert(key.clone(), rule),
            None => self.rules.remove(key),
        };
        if let Some(until) = before.as_ref().and_then(|rule| rule.until) {
            self.ends.remove(&(until, key.clone()));
        }
        self.ends.extend(end.map(|until| (until, key.clone())));
        before
    }

    /// Whether anything stands on a kind itself, or on the whole queue.
    pub(crate) fn stop(&self, kind: Option<&std::sync::Arc<str>>) -> bool {
        let key = |stop| RuleKey { queue: None, kind: kind.cloned(), stop };
        Stop::ALL.into_iter().any(|stop| self.rules.contains_key(&key(stop)))
    }

    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// The one that lifts itself next, and when.
    pub(crate) fn first_end(&self) -> Option<&(Timestamp, RuleKey)> {
        self.ends.first()
    }

    /// In the order of keys.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        let versions = self.versions.values().cloned().map(Row::Rules);
        versions.chain(self.rules.values().cloned().map(|rule| Row::Rule(Box::new(rule))))
    }
}
