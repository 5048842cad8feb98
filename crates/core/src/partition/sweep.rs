//! What time brings: leases end, items expire or fall due, what is finished or gone is forgotten. In slices, so that a
//! partition with much of it still answers.

use super::death::Death;
use super::entry::Entry;
use super::groups::end::ITEM_BYTES;
use super::{Output, Partition};
use crate::attempt::{Attempt, AttemptEnd};
use crate::id::ItemNumber;
use crate::item::{End, LeaseEnd, State};
use crate::machine::Applied;
use crate::mutant::{self, Mutant};
use crate::row::Change;
use crate::time::Timestamp;

/// The most that [`Partition::limit_own_bytes`] allows.
pub(super) const OWN_BYTES_MAX: u64 = 1 << 20;

/// Does one thing that is due, if there is one.
type Duty = fn(&mut Partition, Timestamp, &mut Output) -> bool;

const DUTIES: [Duty; 10] = [
    Partition::end_next_lease,
    Partition::expire_next,
    Partition::start_next_due,
    Partition::forget_next_gone,
    Partition::forget_next,
    Partition::forget_next_group,
    Partition::settle_next_group,
    Partition::forget_next_call,
    Partition::lift_next_rule,
    Partition::run_next_cron,
];

impl Output {
    /// About what a store has to take for the verb so far, with the rows of groups that are written when it ends.
    fn own_bytes(&mut self) -> u64 {
        let new = &self.changes[self.changes_weighed..];
        self.changes_bytes += new.iter().map(Change::bytes).sum::<usize>() as u64;
        self.changes_weighed = self.changes.len();
        self.changes_bytes + self.made_bytes + self.ended.len() as u64 * ITEM_BYTES
    }
}

impl Partition {
    /// A sweep, the ends of groups and the runs of crons stop after the first thing that brings them to `bytes`, and go on
    /// with the next sweep: a store takes only so much in one batch, and nobody could be told that it was too much. An
    /// input like time, and in no row.
    pub fn limit_own_bytes(&mut self, bytes: u64) {
        self.own_bytes_max = bytes.clamp(1, OWN_BYTES_MAX);
    }

    pub fn own_bytes_max(&self) -> u64 {
        self.own_bytes_max
    }

    /// Acts on what time has brought, up to `limit` items: ended leases, due and expired items, retention, items that were
    /// cleared or cancelled with their group. One whose many events go with it counts for several. Answered by the number
    /// of items.
    pub fn sweep(&mut self, now: Timestamp, limit: usize) -> Applied<usize> {
        self.act(now, true, |partition, out| Ok(partition.sweep_some(now, limit, out)))
    }

    /// Every duty has a share of its own, so that none waits for another to have nothing left; the rest goes to
    /// whichever duty can use it.
    fn sweep_some(&mut self, now: Timestamp, limit: usize, out: &mut Output) -> usize {
        let share = limit.div_ceil(DUTIES.len());
        let mut count = 0;
        for slice in [share, limit] {
            for duty in DUTIES {
                let until = out.weight(count).saturating_add(slice).min(limit);
                while out.weight(count) < until
                    && out.own_bytes() < self.own_bytes_max
                    && duty(self, now, out)
                {
                    count += 1;
                }
            }
        }
        count
    }

    fn end_next_lease(&mut self, now: Timestamp, out: &mut Output) -> bool {
        match self.deadlines.first() {
            Some((ends_at, number)) if Timestamp(ends_at) <= now => {
                self.end_lease(now, number, out);
                true
            }
            Some(_) | None => false,
        }
    }

    /// The attempt stays charged.
    fn end_lease(&mut self, now: Timestamp, number: ItemNumber, out: &mut Output) {
        let entry = self.items.get(&number).expect("items with a deadline are always in `items`");
        let State::Leased(lease) = &entry.state else { unreachable!("only leased items have a deadline") };
        let cancelled = self.cancel_requested(entry, lease);
        let ended_at = self.ends_at(lease);
        out.totals.lease_expired += 1;
        let mut attempt = Attempt::ending(entry.attempts, lease, ended_at, AttemptEnd::Expired);
        if cancelled {
            attempt.end = AttemptEnd::Cancelled;
        }
        let waits = State::Waiting { since: ended_at };
        let mut next = entry.after_lease(ended_at, lease, LeaseEnd::Expired, waits);
        self.log_attempt(number, &mut next, attempt, out);
        if mutant::active(Mutant::FreeAttempts) {
            next.attempts -= 1;
        }
        if let Some(mut next) =
            self.after_charged(ended_at, number, next, cancelled, Death::LeaseExpired, out)
        {
            next.place = self.place_after_attempt(now, &next, out);
            self.write(number, next, out);
        }
    }

    /// Ends an item for good whose lease ended at `at` and whose attempt stays charged; hands back one that is to be tried
    /// again.
    pub(super) fn after_charged(
        &mut self,
        at: Timestamp,
        number: ItemNumber,
        next: Entry,
        cancelled: bool,
        last_attempt: Death,
        out: &mut Output,
    ) -> Option<Entry> {
        if cancelled {
            self.finish(at, number, next, End::Cancelled, out);
        } else if self.exhausted(&next) {
            self.die(at, number, next, last_attempt, out);
        } else if next.is_overdue(out.now) {
            self.die(self.expired_at(&next), number, next, Death::TooOld, out);
        } else {
            return Some(next);
        }
        None
    }

    fn expire_next(&mut self, now: Timestamp, out: &mut Output) -> bool {
        match self.expiry.first() {
            Some(((dead_at, number), ())) if Timestamp(dead_at) <= now => {
                self.expire(number, out);
                true
            }
            Some(_) | None => false,
        }
    }

    fn start_next_due(&mut self, now: Timestamp, out: &mut Output) -> bool {
        match self.schedule.first() {
            Some((due_at, number)) if Timestamp(due_at) <= now => {
                self.start(now, number, out);
                true
            }
            Some(_) | None => false,
        }
    }

    /// A new item joins at the tail; one that has been leased before goes where the queue sends those.
    fn start(&mut self, now: Timestamp, number: ItemNumber, out: &mut Output) {
        let entry = self.items.get(&number).expect("items in the schedule are always in `items`");
        let State::Scheduled { due_at } = entry.state else { unreachable!("only scheduled items fall due") };
        let mut next = entry.clone();
        next.place = self.place_when_due(now, entry, out);
        // An imported item may have been due before it was made.
        let since = due_at.max(self.changed_at(entry));
        next.turn(since, State::Waiting { since });
        self.write(number, next, out);
    }

    /// Where a scheduled item stands once it waits.
    pub(super) fn place_when_due(&self, now: Timestamp, entry: &Entry, out: &mut Output) -> u64 {
        let last_lease = entry.extras.as_ref().and_then(|extras| extras.last_lease.as_ref());
        // A retry keeps its attempt. An item that was put off was released: it has its place again, as any released one.
        match last_lease.map(|last| last.end) {
            Some(LeaseEnd::Released) => entry.place,
            _ if entry.attempts == 0 => self.issue_tail_place(now, entry.place, out),
            _ => self.place_after_attempt(now, entry, out),
        }
    }

    fn forget_next_gone(&mut self, _now: Timestamp, out: &mut Output) -> bool {
        let Some(number) = self.first_gone() else { return false };
        self.settle_gone(number, out);
        true
    }

    /// An item that was cleared or cancelled with its group, and not swept up yet.
    pub(super) fn first_gone(&self) -> Option<ItemNumber> {
        let indexes = [&self.lanes, &self.schedule, &self.deadlines, &self.suspended];
        indexes.into_iter().find_map(|index| index.first_gone()).map(|(_, number)| number)
    }

    /// The oldest final item, once its time is over or there are too many.
    fn forget_next(&mut self, now: Timestamp, out: &mut Output) -> bool {
        // One that is gone may be older than all that stand in the order of their ends.
        if self.unswept_kept() > 0 {
            return false;
        }
        match self.finished.first() {
            Some(((finished_at, number), ()))
                if self.forgotten_at(Timestamp(finished_at)) <= now || self.keeps_too_much() =>
            {
                self.forget(number, out);
                true
            }
            Some(_) | None => false,
        }
    }

    /// The group that has been over for longest, once its time is over.
    fn forget_next_group(&mut self, now: Timestamp, out: &mut Output) -> bool {
        match self.groups.first_over() {
            Some((since, group)) if self.forgotten_at(since) <= now => {
                self.forget_group(group, out);
                true
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn forgotten_at(&self, finished_at: Timestamp) -> Timestamp {
        finished_at + self.settings.retention
    }

    /// Partitions of a queue share what it may keep.
    pub(super) fn keeps_too_much(&self) -> bool {
        self.retained() > self.share_of(self.settings.retention_max_items)
            || self.kept_bytes > self.share_of(self.settings.retention_max_bytes)
    }

    /// The whole divided by the number of partitions, at least 1 unless the whole is nothing.
    pub(super) fn share_of(&self, whole: u64) -> u64 {
        let shares = u64::from(self.intake.shares.max(1));
        (whole / shares).max(whole.min(1))
    }
}
