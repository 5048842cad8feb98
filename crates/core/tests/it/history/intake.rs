//! What a partition takes in, in random histories: now everything, now only some keys, now nothing but members of its groups.

use std::sync::Arc;

use proptest::prelude::*;
use windlass_core::partition::Remaining;
use windlass_core::refusal::Refusal;
use windlass_core::route::Slot;
use windlass_core::row::Intake;
use windlass_core::verbs::Route;

use super::{History, Step, address_name, groups};

/// Whether it is closed, and which of the keys are at home, one bit each; none: all.
pub(super) fn step() -> impl Strategy<Value = Step> {
    (prop::bool::weighted(0.3), prop::option::weighted(0.7, 0..512u16))
        .prop_map(|(closed, at_home)| Step::Route(closed, at_home))
}

pub(super) fn call_name(key: u8) -> Arc<str> {
    format!("call {key}").into()
}

impl History {
    pub(super) fn route(&mut self, closed: bool, at_home: Option<u16>) {
        let names =
            (0..3u8).flat_map(|number| [address_name(number), groups::name(number), call_name(number)]);
        let slots = |bits: u16| {
            let chosen = names.clone().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
            chosen.map(|(_, name)| Slot::of(&name)).collect()
        };
        let version = self.intake.version + 1;
        let at_home = at_home.map(slots);
        self.intake = Intake { version, closed, at_home, ..Intake::default() };
        let same = Intake { version, closed: !closed, ..Intake::default() };
        for intake in [self.intake.clone(), same] {
            assert_eq!(self.apply(Route(intake)), Ok(()));
            assert_eq!(self.partition.intake(), &self.intake);
        }
    }

    pub(super) fn is_at_home(&self, key: &str) -> bool {
        self.intake.at_home.is_none_or(|slots| slots.contains(Slot::of(key)))
    }

    /// Whether a name is to be taken that is new here.
    pub(super) fn takes_name(&self, name: &str) -> bool {
        !self.intake.closed && self.is_at_home(name)
    }

    pub(super) fn takes_moves(&self) -> bool {
        !self.intake.closed
    }

    /// Whether a new item belongs here.
    pub(super) fn takes(&self, group: Option<&str>, address: Option<&str>) -> bool {
        let address_fits = address.is_none_or(|address| self.is_at_home(address));
        match (group, self.refused_by_group(group)) {
            // By itself, and not because it belongs elsewhere.
            (Some(_), Some(Refusal::GroupFinished)) => true,
            (Some(_), None) => address_fits,
            (Some(group), Some(_)) => self.takes_name(group) && address_fits,
            (None, _) => !self.intake.closed && address_fits,
        }
    }

    /// Counted one by one.
    pub(super) fn check_remaining(&self) {
        let items = self.items().values().filter(|item| !item.state.phase().is_final()).count() as u64;
        let views = self.partition.list_groups(None, 1000);
        let unfinished = views.iter().filter(|view| view.state.over_since().is_none()).count() as u64;
        assert_eq!(self.partition.remaining(), Remaining { items, groups: unfinished });
        let has_crons = self.partition.crons().next().is_some();
        let rests = items + unfinished + self.partition.moving() == 0 && !has_crons;
        assert_eq!(self.partition.is_drained(), self.intake.closed && rests);
    }
}
