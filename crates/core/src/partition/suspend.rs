//! Work that cannot go on until somebody answers.

use super::death::Death;
use super::entry::Entry;
use super::{Output, Partition};
use crate::command::{Input, Refusal, Reply, Resume, Suspend};
use crate::id::ItemNumber;
use crate::item::{End, LeaseEnd, State, Suspension};
use crate::mutant::{self, Mutant};
use crate::row::{Change, Part};
use crate::time::Timestamp;

impl Partition {
    pub(super) fn suspend(&mut self, now: Timestamp, items: Vec<Suspend>, out: &mut Output) -> Reply {
        Reply::Done(items.into_iter().map(|suspend| self.suspend_one(now, suspend, out)).collect())
    }

    /// The worker gives it up, and the attempt is not counted.
    fn suspend_one(&mut self, now: Timestamp, suspend: Suspend, out: &mut Output) -> Result<(), Refusal> {
        let Suspend { held, reason } = suspend;
        let (entry, lease) = self.held(held, now)?;
        out.totals.suspended += 1;
        let cancelled = self.cancel_requested(entry, lease);
        let state = if mutant::active(Mutant::LeaseSuspended) { State::Waiting } else { suspended(reason) };
        let mut next = entry.after_lease(lease, LeaseEnd::Suspended, state);
        if !mutant::active(Mutant::ChargeSuspended) {
            next.attempts = next.attempts.saturating_sub(1);
        }
        if cancelled {
            self.finish(now, held.number, next, End::Cancelled, out);
        } else if next.is_overdue(now) {
            self.die(now, held.number, next, Death::TooOld, out);
        } else {
            // An answer to an earlier question is none to this one.
            if !mutant::active(Mutant::KeepInput) {
                drop_input(held.number, &next, out);
                next.extras.get_or_insert_default().has_input = false;
            }
            self.write(held.number, next, out);
        }
        Ok(())
    }

    /// It waits again at its own place. Each lease from now on carries the answer, until it is suspended again.
    pub(super) fn resume(
        &mut self,
        now: Timestamp,
        resume: Resume,
        out: &mut Output,
    ) -> Result<Reply, Refusal> {
        let Resume { number, input } = resume;
        let Some(entry) = self.visible(number) else {
            return Err(self.left_of_gone(number).map_or(Refusal::NotFound, |_final| Refusal::NotSuspended));
        };
        if !matches!(entry.state, State::Suspended(_)) {
            return Err(Refusal::NotSuspended);
        }
        let mut next = entry.with_state(State::Waiting);
        if let Some(Input { event, body }) = input {
            self.append(now, number, &mut next, &[event], out);
            next.extras.get_or_insert_default().has_input = !mutant::active(Mutant::LoseInput);
            out.changes.push(Change::PutBody { number, part: Part::Input, body });
        }
        self.write(number, next, out);
        out.totals.resumed += 1;
        Ok(Reply::Resumed)
    }
}

/// A reason that says nothing is none.
pub(super) fn suspended(reason: Option<std::sync::Arc<str>>) -> State {
    let reason = reason.filter(|reason| !reason.is_empty());
    State::Suspended(Box::new(Suspension { reason }))
}

/// The store does not need the answer any more.
pub(super) fn drop_input(number: ItemNumber, last: &Entry, out: &mut Output) {
    if last.extras.as_ref().is_some_and(|extras| extras.has_input) {
        out.changes.push(Change::RemoveBody { number, part: Part::Input });
    }
}
