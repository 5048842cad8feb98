//! The knowledge of one item while a log is read: one word for each, so that a large log can be counted in memory.

use windlass_core::attempt;
use windlass_core::item::{Item, State};
use windlass_core::row::Part;

/// The parts of an item that were found so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    pub(crate) has_row: bool,
    /// A frame or block that cannot be trusted names it.
    pub(crate) is_suspected: bool,
    /// Bodies that the row says there are, and bodies that were found.
    pub(crate) wants: Parts,
    pub(crate) has: Parts,
}

/// A set of the bodies of an item, but for events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(u16);

impl Parts {
    fn bit(part: Part) -> u16 {
        match part {
            Part::Payload => 1,
            Part::Result => 2,
            Part::Facts => 4,
            Part::Input => 8,
            Part::Attempt(slot) => 16_u16.checked_shl(slot.into()).unwrap_or(0),
            Part::Events(_) => 0,
        }
    }

    pub(crate) fn insert(&mut self, part: Part, is_in: bool) {
        if is_in {
            self.0 |= Self::bit(part);
        }
    }

    pub(crate) fn remove(&mut self, part: Part) {
        self.0 &= !Self::bit(part);
    }

    pub(crate) fn contains(self, part: Part) -> bool {
        self.0 & Self::bit(part) != 0
    }

    pub(crate) fn wanted_by(item: &Item) -> Self {
        let mut parts = Self::default();
        let outcome = match &item.state {
            State::Final(outcome) => Some(outcome),
            State::Scheduled { .. } | State::Waiting { .. } | State::Leased(_) | State::Suspended(_) => None,
        };
        let extras = item.extras.as_deref();
        parts.insert(
            Part::Payload,
            outcome.is_none_or(|outcome| outcome.payload_kept || outcome.outgoing.is_some()),
        );
        parts.insert(Part::Result, outcome.is_some_and(|outcome| outcome.has_result));
        parts.insert(Part::Facts, extras.is_some_and(|extras| extras.facts_bytes > 0));
        parts.insert(Part::Input, outcome.is_none() && extras.is_some_and(|extras| extras.has_input));
        let logged = extras.map_or(0, |extras| extras.attempts_logged);
        attempt::parts(logged).for_each(|part| parts.insert(part, true));
        parts
    }
}

impl Known {
    pub(crate) fn lacks(self, part: Part) -> bool {
        self.has_row && self.wants.contains(part) && !self.has.contains(part)
    }

    /// Bodies that are lost, but for events.
    pub(crate) fn lacking(self) -> impl Iterator<Item = Part> {
        let all = Part::ALL.into_iter().chain(attempt::parts(attempt::LOGGED_MAX));
        all.filter(move |part| self.lacks(*part))
    }

    pub(crate) fn is_nothing(self) -> bool {
        !self.has_row && !self.is_suspected && self.has == Parts::default()
    }
}
