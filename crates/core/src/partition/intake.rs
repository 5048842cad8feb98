//! What the partition takes in, and what is left once it takes nothing any more.

use super::{Output, Partition};
use crate::command::{Refusal, Reply};
use crate::route::Slot;
use crate::row::{Intake, Row};

/// What still has to be done here before a partition that drains is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    pub items: u64,
    /// Groups that are not finished.
    pub groups: u64,
}

impl Partition {
    pub(super) fn route(&mut self, intake: Intake, out: &mut Output) -> Reply {
        if intake.version > self.intake.version {
            let unknown = self.intake.unknown.clone();
            self.record(Row::Intake(Box::new(Intake { unknown, ..intake })), out);
        }
        Reply::Configured
    }

    /// What it takes in.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Refused as a whole if any of it belongs elsewhere by now: whoever sent it knows only then where.
    pub(super) fn check_intake<'a>(&self, mut keys: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
        let at_home = |key: &str| self.intake.at_home.is_none_or(|slots| slots.contains(Slot::of(key)));
        if self.intake.closed || !keys.all(at_home) { Err(Refusal::Moved) } else { Ok(()) }
    }

    pub fn remaining(&self) -> Remaining {
        Remaining { items: self.counts().live(), groups: 0 }
    }

    /// It takes nothing new, and nobody has anything to do here any more.
    pub fn is_drained(&self) -> bool {
        self.intake.closed && self.remaining() == Remaining::default() && self.moving() == 0
    }

    /// It is drained, and nothing that it keeps could be asked for.
    pub fn is_bare(&self) -> bool {
        self.is_drained() && self.items.is_empty() && self.calls.is_empty()
    }
}
