//! What is known of one item while a log is read: one word for each, so that a large log can be counted in memory.

use windlass_core::item::{Item, State};
use windlass_core::row::Part;

/// What was found of an item so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    pub(super) has_row: bool,
    /// A frame or block that cannot be trusted names it.
    pub(super) is_suspected: bool,
    /// Bodies that the row says there are, and bodies that were found.
    pub(super) wants: Parts,
    pub(super) has: Parts,
}

/// A set of the bodies that an item has at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts(u8);

impl Parts {
    fn bit(part: Part) -> u8 {
        match part {
            Part::Payload => 1,
            Part::Result => 2,
            Part::Facts => 4,
            Part::Input => 8,
            Part::Events(_) => 0,
        }
    }

    pub(super) fn insert(&mut self, part: Part, is_in: bool) {
        if is_in {
            self.0 |= Self::bit(part);
        }
    }

    pub(super) fn remove(&mut self, part: Part) {
        self.0 &= !Self::bit(part);
    }

    pub(super) fn contains(self, part: Part) -> bool {
        self.0 & Self::bit(part) != 0
    }

    pub(super) fn wanted_by(item: &Item) -> Self {
        let mut parts = Self::default();
        let outcome = match &item.state {
            State::Final(outcome) => Some(outcome),
            State::Scheduled { .. } | State::Waiting | State::Leased(_) | State::Suspended(_) => None,
        };
        let extras = item.extras.as_deref();
        parts.insert(Part::Payload, outcome.is_none_or(|outcome| outcome.outgoing.is_some()));
        parts.insert(Part::Result, outcome.is_some_and(|outcome| outcome.has_result));
        parts.insert(Part::Facts, extras.is_some_and(|extras| extras.facts_bytes > 0));
        parts.insert(Part::Input, outcome.is_none() && extras.is_some_and(|extras| extras.has_input));
        parts
    }
}

impl Known {
    pub(super) fn lacks(self, part: Part) -> bool {
        self.has_row && self.wants.contains(part) && !self.has.contains(part)
    }

    pub(super) fn is_nothing(self) -> bool {
        !self.has_row && !self.is_suspected && self.has == Parts::default()
    }
}
