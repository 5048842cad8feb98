//! What the partition takes in, and what is left once it takes nothing any more.

use crate::footprint::Footprint;
use crate::partition::{Output, Partition};
use crate::refusal::Refusal;
use crate::route::Slot;
use crate::row::{Intake, Row};
use crate::time::Timestamp;
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};
use crate::verbs::{ImportItem, NewItem};

/// Takes over what the partition is to take in, as [`crate::verbs::Configure`] does the settings.
#[derive(Clone, Debug)]
pub struct Route(pub Intake);

/// What still has to be done here before a partition that drains is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    pub items: u64,
    /// Groups that something will still come of.
    pub groups: u64,
}

/// What a new item is known by.
#[derive(Clone, Copy)]
pub(in crate::partition) struct Keys<'a> {
    pub(in crate::partition) group: Option<&'a str>,
    pub(in crate::partition) address: Option<&'a str>,
}

impl<'a> Keys<'a> {
    pub(in crate::partition) fn of_new(item: &'a NewItem) -> Self {
        Self { group: item.group.as_deref(), address: item.address.as_deref() }
    }

    pub(in crate::partition) fn of_import(item: &'a ImportItem) -> Self {
        Self { group: item.group.as_deref(), address: item.address.as_deref() }
    }
}

impl Verb for Route {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Frees;
    const URGENCY: Urgency = Urgency::Settling;

    fn decide(self, partition: &mut Partition, _now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.route(self.0, out);
        Ok(())
    }
}

impl Partition {
    fn route(&mut self, intake: Intake, out: &mut Output) {
        if intake.version != self.intake.version {
            let unknown = self.intake.unknown.clone();
            self.record(Row::Intake(Box::new(Intake { unknown, ..intake })), out);
            self.look_which_crons_leave();
            out.outgoing |= self.has_outgoing();
        }
    }

    /// What it takes in.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Refused as a whole if any of it belongs elsewhere by now: whoever sent it knows only then where.
    pub(in crate::partition) fn check_intake<'a>(
        &self,
        mut items: impl Iterator<Item = Keys<'a>>,
    ) -> Result<(), Refusal> {
        items.try_for_each(|keys| self.check_keys(keys))
    }

    /// A group that is here stays here, and so do its members.
    fn check_keys(&self, Keys { group, address }: Keys<'_>) -> Result<(), Refusal> {
        match group.map(|group| (group, self.groups.find(group))) {
            // It is refused by itself.
            Some((_, Some((_, group)))) if group.state.is_finished() => return Ok(()),
            Some((_, Some(_))) => {}
            Some((group, None)) => {
                self.check_open()?;
                self.check_at_home(group)?;
            }
            None => self.check_open()?,
        }
        address.map_or(Ok(()), |address| self.check_at_home(address))
    }

    pub(in crate::partition) fn check_open(&self) -> Result<(), Refusal> {
        if self.intake.closed { Err(Refusal::Moved) } else { Ok(()) }
    }

    pub(in crate::partition) fn check_at_home(&self, key: &str) -> Result<(), Refusal> {
        let at_home = self.intake.at_home.is_none_or(|slots| slots.contains(Slot::of(key)));
        if at_home { Ok(()) } else { Err(Refusal::Moved) }
    }

    pub fn remaining(&self) -> Remaining {
        Remaining { items: self.counts().live(), groups: self.groups.not_over() }
    }

    /// It takes nothing new, and nobody has anything to do here any more.
    pub fn is_drained(&self) -> bool {
        self.is_left_to_crons() && self.crons.iter().next().is_none()
    }

    /// The same, but for crons that belong elsewhere by now.
    pub fn is_left_to_crons(&self) -> bool {
        self.intake.closed && self.remaining() == Remaining::default() && self.moving() == 0
    }

    /// It is drained, and nothing that it keeps could be asked for.
    pub fn is_bare(&self) -> bool {
        self.is_drained() && self.items.is_empty() && self.calls.is_empty() && self.groups.len() == 0
    }
}
