//! What is left of items that were taken away all at once, by a clear or with their group. One that is kept has ended as
//! cancelled, and is kept like any other that ended; one row says so at once for all of them, and the sweep writes it down
//! item by item.

use crate::attempt::{Attempt, AttemptEnd};
use crate::id::ItemNumber;
use crate::item::{End, Item, LeaseEnd, Outcome, State};
use crate::partition::attempts::Logged;
use crate::partition::entry::Entry;
use crate::partition::groups::end::count_end;
use crate::partition::groups::index::GroupIndex;
use crate::partition::index::counts::{decrement, increment};
use crate::partition::index::standing::Gone;
use crate::partition::verbs::suspend::drop_input;
use crate::partition::{Output, Partition};
use crate::row::{Change, Clearable, Part};

/// Where a live item counts among those that may be taken away all at once.
#[derive(Clone, Copy, Debug)]
pub(in crate::partition) struct Trace {
    pub(in crate::partition) of: (Clearable, u32),
    pub(in crate::partition) has_something_to_show: bool,
}

impl Trace {
    pub(in crate::partition) fn of(entry: &Entry) -> Option<Self> {
        let of = (Clearable::of(&entry.state)?, entry.era);
        Some(Self { of, has_something_to_show: entry.has_something_to_show() })
    }
}

impl Partition {
    pub(in crate::partition) fn enter_trace(&mut self, group: Option<GroupIndex>, trace: Option<Trace>) {
        let Some(Trace { of, has_something_to_show }) = trace else { return };
        if has_something_to_show {
            increment(&mut self.traces, of);
        }
        if let Some(group) = group {
            if has_something_to_show {
                increment(&mut self.groups.slot_mut(group).members.traces, of);
            }
            if self.goes_with_cancelled(group, of.0)
                && (has_something_to_show || self.groups.slot(group).keeps_all())
            {
                increment(&mut self.kept_of_cancelled, of);
            }
        }
    }

    pub(in crate::partition) fn leave_trace(&mut self, group: Option<GroupIndex>, trace: Option<Trace>) {
        let Some(Trace { of, has_something_to_show }) = trace else { return };
        if has_something_to_show {
            decrement(&mut self.traces, of);
        }
        if let Some(group) = group {
            if has_something_to_show {
                decrement(&mut self.groups.slot_mut(group).members.traces, of);
            }
            if self.goes_with_cancelled(group, of.0)
                && (has_something_to_show || self.groups.slot(group).keeps_all())
            {
                decrement(&mut self.kept_of_cancelled, of);
            }
        }
    }

    /// How many items that are gone are kept, and have still to be written down by the sweep. There are few eras, whatever
    /// the backlog.
    pub(in crate::partition) fn unswept_kept(&self) -> u64 {
        let keeps_all = self.cleared.keeps_all.iter().map(|of| self.in_era(*of)).sum::<u64>();
        let was_cleared = |(which, era): &(Clearable, u32)| *era < self.cleared.before(*which);
        let keeps_some = |of: &(Clearable, u32)| was_cleared(of) && !self.cleared.keeps_all.contains(of);
        let cleared = self.traces.iter().filter(|(of, _)| keeps_some(of));
        let cancelled = self.kept_of_cancelled.iter().filter(|(of, _)| !was_cleared(of));
        keeps_all + cleared.chain(cancelled).map(|(_, count)| count).sum::<u64>()
    }

    /// Whether an item that a clear or group cancel took away is kept as `cancelled`.
    pub(in crate::partition) fn keeps_gone(&self, entry: &Entry) -> bool {
        let Some(Trace { of, has_something_to_show }) = Trace::of(entry) else { return false };
        let with_group = || entry.group.is_some_and(|group| self.groups.slot(group).keeps_all());
        let was_cleared = of.1 < self.cleared.before(of.0);
        let keeps_all = if was_cleared { self.cleared.keeps_all.contains(&of) } else { with_group() };
        has_something_to_show || keeps_all
    }

    /// What is to be seen of an item that is gone and not swept up yet.
    pub(in crate::partition) fn left_of_gone(&self, number: ItemNumber) -> Option<Item> {
        let entry = self.items.get(&number).filter(|entry| self.is_gone(entry))?;
        let (left, _) = self.keeps_gone(entry).then(|| self.taken_away(number, entry))?;
        Some(self.item(number, &left))
    }

    /// The attempt that ended as an item was taken away, and that the sweep has still to log.
    pub fn attempt_to_log(&self, number: ItemNumber) -> Option<Attempt> {
        let entry = self.items.get(&number).filter(|entry| self.is_gone(entry) && self.keeps_gone(entry))?;
        match &entry.state {
            State::Leased(lease) => {
                let at = self.gone(&self.item(number, entry), entry).at;
                Some(Attempt::ending(entry.attempts, lease, at, AttemptEnd::Cancelled))
            }
            State::Scheduled { .. } | State::Waiting { .. } | State::Suspended(_) | State::Final(_) => None,
        }
    }

    /// An item that is gone, as it ended, and the attempt that ended with it.
    fn taken_away(&self, number: ItemNumber, entry: &Entry) -> (Entry, Option<Logged>) {
        let gone = self.gone(&self.item(number, entry), entry);
        let (mut left, outcome, logged) = self.taken_away_by(gone, number, entry);
        left.state = State::Final(Box::new(outcome));
        left.era = 0;
        (left, logged)
    }

    /// An item that is taken away with many others, after its lease if it has one, with its outcome and the attempt that ends
    /// with it.
    pub(in crate::partition) fn taken_away_by(
        &self,
        Gone { at, keeps_payload }: Gone,
        number: ItemNumber,
        entry: &Entry,
    ) -> (Entry, Outcome, Option<Logged>) {
        let (left, logged) = match &entry.state {
            State::Leased(lease) => {
                let mut left =
                    entry.after_lease(at, lease, LeaseEnd::Cancelled, State::Waiting { since: at });
                let attempt = Attempt::ending(entry.attempts, lease, at, AttemptEnd::Cancelled);
                let logged = Logged::of(number, &mut left, &attempt);
                (left, Some(logged))
            }
            State::Scheduled { .. } | State::Waiting { .. } | State::Suspended(_) | State::Final(_) => {
                (entry.clone(), None)
            }
        };
        let outcome = self.outcome_without_payload(at, number, &left, End::Cancelled, None);
        let outcome = if keeps_payload { outcome.with_payload_of(&left) } else { outcome };
        (left, outcome, logged)
    }

    /// Writes down what became of an item that is gone.
    pub(in crate::partition) fn settle_gone(&mut self, number: ItemNumber, out: &mut Output) {
        let entry = self.items.get(&number).expect("items that are gone are in `items` until they are swept");
        count_end(entry.group, End::Cancelled, out);
        drop_input(number, entry, out);
        if !self.keeps_gone(entry) {
            self.erase(number, out);
            return;
        }
        let (left, logged) = self.taken_away(number, entry);
        out.attempt = logged;
        if let State::Final(outcome) = &left.state
            && !outcome.payload_kept
        {
            out.changes.push(Change::RemoveBody { number, part: Part::Payload });
        }
        self.write(number, left, out);
    }
}
