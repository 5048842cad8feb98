//! Stopping work and letting it go on: one row, whatever the backlog. The registry holds the truth and its partitions
//! copies of it; what is stopped is derived.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::footprint::Footprint;
use crate::id::PartitionId;
use crate::limits::{Invalid, RULES_MAX, check_kind, check_rule_reason};
use crate::partition::registry::verbs::next_version;
use crate::partition::{Output, Partition};
use crate::refusal::{Limit, Refusal};
use crate::row::{Key, QueueName, Row};
use crate::rule::{Rule, RuleKey, RuleSet, RulesVersion, Stop};
use crate::time::Timestamp;
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};

/// Takes the queue's rules over, as [`crate::verbs::Configure`] does the settings.
#[derive(Clone, Debug)]
pub struct TakeRules(pub Arc<RuleSet>);

/// Registry only: sets a rule, or says anew what there is to say of it.
#[derive(Clone, Debug)]
pub struct SetRule {
    pub queue: QueueName,
    /// Unset: the whole queue.
    pub kind: Option<Arc<str>>,
    pub stop: Stop,
    pub reason: Option<Arc<str>>,
    /// When it lifts itself: in the future.
    pub until: Option<Timestamp>,
}

/// Registry only.
#[derive(Clone, Debug)]
pub struct LiftRule {
    pub queue: QueueName,
    /// Unset: the one on the whole queue.
    pub kind: Option<Arc<str>>,
    pub stop: Stop,
}

const PAST: Invalid = Invalid { field: "until", rule: "in the future" };

impl Verb for SetRule {
    type Reply = Rule;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn check(&self) -> Result<(), Invalid> {
        self.kind.as_deref().map_or(Ok(()), check_kind)?;
        self.reason.as_deref().map_or(Ok(()), check_rule_reason)
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.set_rule(now, self, out)
    }
}

/// Answered alike whether or not there was such a rule.
impl Verb for LiftRule {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.lift_rule(now, self, out)
    }
}

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
    /// Registry only.
    fn set_rule(&mut self, now: Timestamp, set: SetRule, out: &mut Output) -> Result<Rule, Refusal> {
        self.assert_registry();
        if !self.queues.contains_key(&set.queue) {
            return Err(Refusal::no_such_queue(&set.queue));
        }
        if set.until.is_some_and(|until| until <= now) {
            return Err(Refusal::Invalid(PAST));
        }
        let key = RuleKey { queue: Some(set.queue), kind: set.kind, stop: set.stop };
        let before = self.rules.get(&key).filter(|before| before.stands(now));
        if before.is_none() && self.rules.of(key.queue.as_ref()).count() >= RULES_MAX {
            return Err(Refusal::AtLimit { limit: Limit::RulesPerQueue, max: RULES_MAX });
        }
        let rule = Rule {
            reason: set.reason,
            until: set.until,
            created_at: before.map_or(now, |before| before.created_at),
            unknown: before.map(|before| before.unknown.clone()).unwrap_or_default(),
            key,
        };
        if before != Some(&rule) {
            self.count_version(now, rule.key.queue.as_ref(), out)?;
            self.record(Row::Rule(Box::new(rule.clone())), out);
        }
        Ok(rule)
    }

    /// Registry only. Counted also if there is no such rule: a partition may know of one that the registry has forgotten,
    /// where neither syncs what it answers.
    fn lift_rule(&mut self, now: Timestamp, lift: LiftRule, out: &mut Output) -> Result<(), Refusal> {
        self.assert_registry();
        if !self.queues.contains_key(&lift.queue) {
            return Err(Refusal::no_such_queue(&lift.queue));
        }
        let key = RuleKey { queue: Some(lift.queue), kind: lift.kind, stop: lift.stop };
        self.count_version(now, key.queue.as_ref(), out)?;
        if self.rules.get(&key).is_some() {
            self.erase_rule(key, out);
        }
        Ok(())
    }

    fn count_version(
        &mut self,
        now: Timestamp,
        queue: Option<&QueueName>,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let last = self.rules.version(queue).map_or(0, |last| last.version);
        self.set_rules_version(queue, next_version(last, now)?, out);
        Ok(())
    }

    fn set_rules_version(&mut self, queue: Option<&QueueName>, version: u64, out: &mut Output) {
        let before = self.rules.version(queue);
        let unknown = before.map(|before| before.unknown.clone()).unwrap_or_default();
        self.record(Row::Rules(RulesVersion { queue: queue.cloned(), version, unknown }), out);
    }

    fn erase_rule(&mut self, key: RuleKey, out: &mut Output) {
        self.erase_row(Key::Rule(key), out);
    }

    /// Of a queue that is no more.
    pub(in crate::partition) fn erase_rules_of(&mut self, queue: &QueueName, out: &mut Output) {
        let keys: Vec<RuleKey> = self.rules.of(Some(queue)).map(|rule| rule.key.clone()).collect();
        keys.into_iter().for_each(|key| self.erase_rule(key, out));
        if self.rules.version(Some(queue)).is_some() {
            self.erase_row(Key::Rules(Some(queue.clone())), out);
        }
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
        self.set_rules_version(None, set.version, out);
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

    /// Takes a rule's row in, or away.
    pub(in crate::partition) fn put_rule(&mut self, key: &RuleKey, rule: Option<Rule>) {
        let kept = rule.as_ref().and_then(Rule::kind_kept).map(|kind| self.kinds.index(kind));
        if let Some(kind) = kept {
            self.kinds.join(kind);
        }
        let before = self.rules.set(key, rule);
        if key.queue.is_some() {
            return;
        }
        let stops = self.rules.stop(key.kind.as_ref());
        match &key.kind {
            None => self.lanes.set_all_stopped(stops),
            Some(kind) => {
                if let Some(kind) = self.kinds.find(kind) {
                    self.lanes.set_stopped(kind, stops);
                }
            }
        }
        if let Some(kind) = before.as_ref().and_then(Rule::kind_kept) {
            let kind = self.kinds.find(kind).expect("it was joined when the row came");
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

    /// Registry only: the rules of one queue or of all, in the order of their keys.
    pub fn rules(&self, queue: Option<&QueueName>) -> Vec<Rule> {
        assert_eq!(self.id, PartitionId::REGISTRY, "only the registry knows the rules of all queues");
        match queue {
            Some(_) => self.rules.of(queue).cloned().collect(),
            None => self.rules.iter().cloned().collect(),
        }
    }

    /// Registry only: the rules of a queue, for its partitions.
    pub fn rule_set(&self, queue: &QueueName) -> Arc<RuleSet> {
        let version = self.rules.version(Some(queue)).map_or(0, |rules| rules.version);
        let copy = |rule: &Rule| Rule { key: RuleKey { queue: None, ..rule.key.clone() }, ..rule.clone() };
        Arc::new(RuleSet { version, rules: self.rules.of(Some(queue)).map(copy).collect() })
    }
}

impl Rule {
    /// The kind that a partition keeps in mind for as long as the rule stands: it is stopped by its index, also while there
    /// is no item of it.
    pub(in crate::partition) fn kind_kept(&self) -> Option<&Arc<str>> {
        self.key.kind.as_ref().filter(|_| self.key.queue.is_none())
    }
}
