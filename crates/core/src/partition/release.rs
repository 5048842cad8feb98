//! Work given back untouched.

use super::death::Death;
use super::{Output, Partition};
use crate::command::{Held, PutOff, Refusal, Reply};
use crate::item::{End, LeaseEnd, State};
use crate::mutant::{self, Mutant};
use crate::time::Timestamp;

impl Partition {
    pub(super) fn release(&mut self, now: Timestamp, items: &[Held], out: &mut Output) -> Reply {
        out.changes.reserve(items.len());
        Reply::Done(items.iter().map(|&held| self.release_one(now, held, State::Waiting, out)).collect())
    }

    /// As a release, but nobody is given the items before the delay is over.
    pub(super) fn put_off(&mut self, now: Timestamp, put_off: &PutOff, out: &mut Output) -> Reply {
        out.changes.reserve(put_off.items.len());
        let until = || State::Scheduled { due_at: now + put_off.delay };
        Reply::Done(put_off.items.iter().map(|&held| self.release_one(now, held, until(), out)).collect())
    }

    /// Back to its own place, and the attempt is not counted.
    fn release_one(
        &mut self,
        now: Timestamp,
        held: Held,
        state: State,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let (entry, lease) = self.held(held, now)?;
        out.totals.released += 1;
        let cancelled = self.cancel_requested(entry, lease);
        let mut next = entry.after_lease(lease, LeaseEnd::Released, state);
        next.attempts = next.attempts.saturating_sub(1);
        if cancelled {
            self.finish(now, held.number, next, End::Cancelled, out);
            return Ok(());
        }
        if next.is_overdue(now) {
            self.die(now, held.number, next, Death::TooOld, out);
            return Ok(());
        }
        if mutant::active(Mutant::LoseOrder) {
            next.place = self.issue_tail_place(now, next.place, out);
        }
        self.write(held.number, next, out);
        Ok(())
    }
}
