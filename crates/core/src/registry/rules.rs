//! Rules of all queues: one row each, whatever the backlog. The partitions of a queue have copies of its rules
//! ([`crate::partition::rules`]).

use std::sync::Arc;

use crate::footprint::Footprint;
use crate::limits::{Invalid, RULES_MAX, check_kind, check_rule_reason};
use crate::refusal::{Limit, Refusal};
use crate::registry::queues::next_version;
use crate::registry::{Changes, Registry};
use crate::row::{Key, QueueName, Row};
use crate::rule::{Rule, RuleKey, RuleSet, Stop};
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};

/// Sets a rule, or says anew what there is to say of it.
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

/// Lifts a rule.
#[derive(Clone, Debug)]
pub struct LiftRule {
    pub queue: QueueName,
    /// Unset: the one on the whole queue.
    pub kind: Option<Arc<str>>,
    pub stop: Stop,
}

const PAST: Invalid = Invalid { field: "until", rule: "in the future" };

impl Verb<Registry> for SetRule {
    type Reply = Rule;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn check(&self) -> Result<(), Invalid> {
        self.kind.as_deref().map_or(Ok(()), check_kind)?;
        self.reason.as_deref().map_or(Ok(()), check_rule_reason)
    }

    fn decide(self, registry: &mut Registry, now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.set_rule(now, self, out)
    }
}

/// Answered alike whether or not there was such a rule.
impl Verb<Registry> for LiftRule {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, registry: &mut Registry, now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.lift_rule(now, self, out)
    }
}

impl Registry {
    fn set_rule(&mut self, now: Timestamp, set: SetRule, out: &mut Changes) -> Result<Rule, Refusal> {
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

    /// Counted also if there is no such rule: a partition may know of one that the registry has forgotten,
    /// where neither syncs what it answers.
    fn lift_rule(&mut self, now: Timestamp, lift: LiftRule, out: &mut Changes) -> Result<(), Refusal> {
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
        out: &mut Changes,
    ) -> Result<(), Refusal> {
        let last = self.rules.version(queue).map_or(0, |last| last.version);
        self.record(self.rules.version_row(queue, next_version(last, now)?), out);
        Ok(())
    }

    fn erase_rule(&mut self, key: RuleKey, out: &mut Changes) {
        self.erase_row(Key::Rule(key), out);
    }

    /// The rules of a queue go with the queue.
    pub(super) fn erase_rules_of(&mut self, queue: &QueueName, out: &mut Changes) {
        let keys: Vec<RuleKey> = self.rules.of(Some(queue)).map(|rule| rule.key.clone()).collect();
        keys.into_iter().for_each(|key| self.erase_rule(key, out));
        if self.rules.version(Some(queue)).is_some() {
            self.erase_row(Key::Rules(Some(queue.clone())), out);
        }
    }

    /// Lifts the rule that lifts itself next, if its time has come. Its partitions lift their copies by themselves.
    pub(super) fn lift_next_rule(&mut self, now: Timestamp, out: &mut Changes) -> bool {
        match self.rules.first_end() {
            Some((until, key)) if *until <= now => {
                self.erase_rule(key.clone(), out);
                true
            }
            Some(_) | None => false,
        }
    }

    /// The rules of one queue or of all, in the order of their keys.
    pub fn rules(&self, queue: Option<&QueueName>) -> Vec<Rule> {
        match queue {
            Some(_) => self.rules.of(queue).cloned().collect(),
            None => self.rules.iter().cloned().collect(),
        }
    }

    /// The rules of a queue, for its partitions.
    pub fn rule_set(&self, queue: &QueueName) -> Arc<RuleSet> {
        let version = self.rules.version(Some(queue)).map_or(0, |rules| rules.version);
        let copy = |rule: &Rule| Rule { key: RuleKey { queue: None, ..rule.key.clone() }, ..rule.clone() };
        Arc::new(RuleSet { version, rules: self.rules.of(Some(queue)).map(copy).collect() })
    }
}
