//! Why an item is not running: everything that stands in its way.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::id::ItemNumber;
use crate::item::{Phase, State};
use crate::partition::Partition;
use crate::partition::entry::Entry;
use crate::partition::index::kinds::KindIndex;
use crate::partition::index::lanes::Standing;
use crate::partition::queries::head::Head;
use crate::partition::rows::rank;
use crate::rule::Rule;
use crate::time::Timestamp;

/// What one look at those before an item may cost: beyond that their number is a bound.
const CHUNKS_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    pub phase: Phase,
    pub kind: Arc<str>,
    /// Where it stands, or would if it waited.
    pub place: Head,
    pub reasons: Vec<Reason>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Scheduled {
        until: Timestamp,
    },
    Held {
        group: Arc<str>,
    },
    /// Paused or blocked, whatever its state: it would not be leased.
    Stopped(Rule),
    Behind {
        position: u64,
        /// Otherwise there are at least so many.
        exact: bool,
    },
    Leased {
        client_id: Arc<str>,
        deadline: Timestamp,
    },
    /// A worker gave it up until somebody answers.
    Suspended {
        reason: Option<Arc<str>>,
    },
    /// It has ended here, and the queue it goes to has not taken it yet.
    Moving {
        to: Arc<str>,
    },
    Final,
}

impl Partition {
    /// Of an item that can be seen, or that is on its way to another queue.
    pub fn explain(&self, number: ItemNumber) -> Option<Explained> {
        let Some(entry) = self.items.get(&number).filter(|entry| !self.is_gone(entry)) else {
            let left = self.left_of_gone(number)?;
            let place = Head { priority: left.priority, place: left.place };
            let (phase, reasons) = (left.state.phase(), vec![Reason::Final]);
            return Some(Explained { phase, kind: left.kind, place, reasons });
        };
        let phase = if self.is_held(entry) { Phase::Held } else { entry.state.phase() };
        Some(Explained {
            phase,
            kind: self.kinds.name(entry.kind).clone(),
            place: Head { priority: entry.priority, place: entry.place },
            reasons: self.reasons(number, entry),
        })
    }

    fn reasons(&self, number: ItemNumber, entry: &Entry) -> Vec<Reason> {
        let mut reasons = Vec::new();
        match &entry.state {
            State::Scheduled { due_at } => {
                reasons.push(Reason::Scheduled { until: *due_at });
                reasons.extend(self.group_to_start(entry).map(|group| Reason::Held { group }));
                self.add_rules(entry, &mut reasons);
            }
            State::Waiting { .. } => {
                let member = self.member_of(entry).filter(|member| member.held);
                let held = member.is_some();
                reasons.extend(member.map(|member| Reason::Held { group: member.group }));
                self.add_rules(entry, &mut reasons);
                if !held {
                    self.add_those_before(number, entry, &mut reasons);
                }
            }
            State::Leased(lease) => {
                let (client_id, deadline) = (lease.client_id.clone(), self.ends_at(lease));
                reasons.push(Reason::Leased { client_id, deadline });
            }
            State::Suspended(suspension) => {
                reasons.push(Reason::Suspended { reason: suspension.reason.clone() });
                self.add_rules(entry, &mut reasons);
            }
            State::Final(_) => {
                let to = entry.state.outgoing().map(|outgoing| outgoing.to.clone());
                reasons.extend(to.map(|to| Reason::Moving { to }));
                reasons.push(Reason::Final);
            }
        }
        reasons
    }

    /// The group that is not started, if it is a member of one.
    fn group_to_start(&self, entry: &Entry) -> Option<Arc<str>> {
        let group = entry.group.filter(|group| self.lanes.standing_of(*group) == Standing::Held)?;
        self.group_name(group)
    }

    fn add_rules(&self, entry: &Entry, reasons: &mut Vec<Reason>) {
        let kind = self.kinds.name(entry.kind);
        let on_it = |rule: &&Rule| rule.key.kind.as_ref().is_none_or(|stopped| stopped == kind);
        reasons.extend(self.rules.iter().filter(on_it).cloned().map(Reason::Stopped));
    }

    fn add_those_before(&self, number: ItemNumber, entry: &Entry, reasons: &mut Vec<Reason>) {
        let place = Head { priority: entry.priority, place: entry.place };
        let (position, exact) = match self.count_before(place, number, self.kinds.name(entry.kind)) {
            Ok(position) => (position, true),
            Err(at_least) => (at_least, false),
        };
        if position > 0 || !exact {
            reasons.push(Reason::Behind { position, exact });
        }
    }

    /// How many that wait here go before an item of a kind that stands there, in this partition or another: those of its own
    /// kind, and those of others that are not stopped. Costs as much as there are kinds, and lanes and chunks before it; where
    /// that is too much, tells how many there are at least.
    pub fn count_before(&self, place: Head, number: ItemNumber, kind: &str) -> Result<u64, u64> {
        let key = (rank(place.priority, place.place), number);
        let own = self.kinds.find(kind);
        let counts = |kind: &KindIndex| Some(*kind) == own || !self.lanes.is_stopped(*kind);
        let kinds = self.lanes.tallies().map(|(kind, _)| kind).filter(counts);
        let mut chunks_left = CHUNKS_MAX;
        let mut before = 0;
        for keys in
            kinds.collect::<BTreeSet<_>>().into_iter().flat_map(|kind| self.lanes.open_up_to(kind, key))
        {
            before += keys.count_below(&key, &mut chunks_left) as u64;
            if chunks_left == 0 {
                break;
            }
        }
        if chunks_left > 0 { Ok(before) } else { Err(before) }
    }
}
