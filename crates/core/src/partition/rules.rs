//! Stopping work and letting it go on: copies of the queue's rules, which the registry holds ([`crate::registry::rules`]).
//! Which kinds are stopped is derived from the copies, whatever the backlog.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::footprint::Footprint;
use crate::partition::{Output, Partition};
use crate::row::{Key, Row};
use crate::rule::{Rule, RuleKey, RuleSet, Stop};
use crate::time::Timestamp;
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};

/// Takes the queue's rules over, as [`crate::verbs::Configure`] does the settings.
#[derive(Clone, Debug)]
pub struct TakeRules(pub Arc<RuleSet>);

impl Verb for TakeRules {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Frees;
    const URGENCY: Urgency = Urgency::Settling;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.take_rules(now, &self.0, out);
        Ok(())
    }
}

impl Partition {
    fn erase_rule(&mut self, key: RuleKey, out: &mut Output) {
        self.erase_row(Key::Rule(key), out);
    }

    /// What has not changed is not written again. A rule that has lifted itself here does not come back.
    fn take_rules(&mut self, now: Timestamp, set: &RuleSet, out: &mut Output) {
        if set.version == self.rules_version() {
            return;
        }
        let standing = || set.rules.iter().filter(|rule| rule.stands(now));
        let keys: BTreeSet<&RuleKey> = standing().map(|rule| &rule.key).collect();
        let lifted: Vec<RuleKey> =
            self.rules.iter().map(|rule| &rule.key).filter(|key| !keys.contains(key)).cloned().collect();
        let lifts = !lifted.is_empty();
        lifted.into_iter().for_each(|key| self.erase_rule(key, out));
        for rule in standing() {
            if self.rules.get(&rule.key) != Some(rule) {
                self.record(Row::Rule(Box::new(rule.clone())), out);
            }
        }
        self.record(self.rules.version_row(None, set.version), out);
        out.available |= lifts && self.lanes.first().is_some();
    }

    pub(in crate::partition) fn lift_next_rule(&mut self, now: Timestamp, out: &mut Output) -> bool {
        match self.rules.first_end() {
            Some((until, key)) if *until <= now => {
                self.erase_rule(key.clone(), out);
                out.available |= self.lanes.first().is_some();
                true
            }
            Some(_) | None => false,
        }
    }

    /// Takes a rule's row in, or away. The partition keeps the kind in mind for as long as the rule stands: a kind is stopped
    /// by its index, also while there is no item of it.
    pub(in crate::partition) fn put_rule(&mut self, key: &RuleKey, rule: Option<Rule>) {
        if let (Some(kind), true) = (&key.kind, rule.is_some()) {
            let kind = self.kinds.index(kind);
            self.kinds.join(kind);
        }
        let before = self.rules.set(key, rule);
        let stops = self.rules.stop(key.kind.as_ref());
        let Some(kind) = &key.kind else { return self.lanes.set_all_stopped(stops) };
        let Some(kind) = self.kinds.find(kind) else { return };
        self.lanes.set_stopped(kind, stops);
        if before.is_some() {
            self.kinds.part(kind);
        }
    }

    /// How many of those that wait are held back by a rule. Costs as much as there are rules.
    pub fn stopped(&self) -> u64 {
        if self.lanes.all_stopped() {
            return self.counts.waiting;
        }
        self.lanes.stopped().map(|kind| self.lanes.open_count(kind)).sum()
    }

    /// Whether such a rule stands on the whole queue.
    pub fn stops_all(&self, stop: Stop) -> bool {
        self.rules.get(&RuleKey { queue: None, kind: None, stop }).is_some()
    }

    /// Of its copies of the queue's rules.
    pub fn rules_version(&self) -> u64 {
        self.rules.version(None).map_or(0, |rules| rules.version)
    }
}
