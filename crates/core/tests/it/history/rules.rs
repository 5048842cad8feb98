//! Rules in random histories: what must be true of them after each step, said without the core's indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use windlass_core::item::{Item, Phase};
use windlass_core::partition::Reason;
use windlass_core::row::{Change, Row};
use windlass_core::rule::{Rule, RuleKey, RuleSet, Stop};
use windlass_core::time::Span;
use windlass_core::verbs::TakeRules;

use super::{History, Step, kind_name};

pub(super) fn step() -> impl Strategy<Value = Step> {
    let bits = prop_oneof![2 => Just(0), 1 => (0..8u8).prop_map(|bit| 1 << bit), 1 => any::<u8>()];
    (bits, prop::option::of(1..8u8), prop::bool::weighted(0.1))
        .prop_map(|(bits, until, old)| Step::TakeRules(bits, until, old))
}

/// One of the eight rules there can be: of three kinds and of all, each of them paused or blocked.
fn key(bit: u8) -> RuleKey {
    let kind = if bit < 6 { Some(kind_name(bit / 2)) } else { None };
    RuleKey { queue: None, kind, stop: Stop::ALL[usize::from(bit % 2)] }
}

impl History {
    /// What is new is taken, what is not any more is lifted, and nothing else is written.
    pub(super) fn take_rules(&mut self, bits: u8, until: Option<u8>, old: bool) {
        let (_, last) = &self.rules;
        let version = if old { last.version } else { last.version + 1 };
        let rule = |bit: u8| Rule {
            key: key(bit),
            reason: None,
            until: until.map(|secs| self.now + Span::from_secs(u64::from(secs) - 1)),
            created_at: self.now,
            unknown: Vec::new(),
        };
        let rules = (0..8).filter(|bit| bits >> bit & 1 == 1).map(rule).collect();
        let set = RuleSet { version, rules };
        let (before, written) = (self.standing(), self.changes.len());
        assert_eq!(self.apply(TakeRules(Arc::new(set.clone()))), Ok(()));
        if old {
            assert_eq!((self.standing(), self.changes.len()), (before, written));
            return;
        }
        let expected: BTreeMap<_, _> = set
            .rules
            .iter()
            .filter(|rule| rule.stands(self.now))
            .map(|rule| (rule.key.clone(), rule.clone()))
            .collect();
        assert_eq!(self.standing(), expected);
        let differs = |key: &&RuleKey| before.get(*key) != expected.get(*key);
        let all: std::collections::BTreeSet<_> = before.keys().chain(expected.keys()).collect();
        let rules = self.changes[written..].iter().filter(|change| is_rule(change)).count();
        assert_eq!(rules, all.into_iter().filter(differs).count());
        self.rules = (self.now, set);
    }

    fn standing(&self) -> BTreeMap<RuleKey, Rule> {
        let rules = self.partition.rows().filter_map(|row| match row {
            Row::Rule(rule) => Some((rule.key.clone(), *rule)),
            _ => None,
        });
        rules.collect()
    }

    pub(crate) fn is_stopped(&self, kind: &Arc<str>) -> bool {
        self.standing().keys().any(|key| key.kind.as_ref().is_none_or(|stopped| stopped == kind))
    }

    /// Rules go by themselves at their time and never before, and hold back what they say.
    pub(super) fn check_rules(&self) {
        let (taken_at, set) = &self.rules;
        for rule in set.rules.iter().filter(|rule| rule.stands(*taken_at)) {
            let stands = self.standing().contains_key(&rule.key);
            assert!(stands || !rule.stands(self.now), "{rule:?} was lifted at {:?}", self.now);
        }
        let items = self.items();
        let waiting: Vec<&Item> = items.values().filter(|item| self.is_waiting(item)).collect();
        let stopped = waiting.iter().filter(|item| self.is_stopped(&item.kind)).count();
        assert_eq!(self.partition.stopped(), stopped as u64);
        if let Some(item) = waiting.last() {
            self.check_explained(item, &waiting);
        }
    }

    fn check_explained(&self, item: &Item, waiting: &[&Item]) {
        let explained = self.partition.explain(item.number).expect("it waits");
        assert_eq!(explained.phase, Phase::Waiting);
        let stands = |kind: &Arc<str>| self.standing().keys().any(|key| key.kind.as_ref() == Some(kind));
        let goes_before = |other: &&&Item| {
            let earlier = (other.priority, other.place) < (item.priority, item.place);
            earlier && (other.kind == item.kind || !stands(&other.kind))
        };
        let position = waiting.iter().filter(goes_before).count() as u64;
        let behind = explained.reasons.iter().find_map(|reason| match reason {
            Reason::Behind { position, exact: true } => Some(*position),
            _ => None,
        });
        assert_eq!(behind.unwrap_or(0), position);
        let stopped = explained.reasons.iter().any(|reason| matches!(reason, Reason::Stopped(_)));
        assert_eq!(stopped, self.is_stopped(&item.kind));
    }
}

fn is_rule(change: &Change) -> bool {
    use windlass_core::row::Key;
    matches!(change, Change::Put(Row::Rule(_)) | Change::Remove(Key::Rule(_)))
}
