//! Work that failed, for now or for good.

use super::death::Death;
use super::entry::Entry;
use super::{Output, Partition};
use crate::command::{Refusal, Reply, Retried, Retry};
use crate::id::{ItemId, ItemNumber};
use crate::item::{End, LeaseEnd, Phase, State};
use crate::retry::delay;
use crate::settings::Requeue;
use crate::time::{Span, Timestamp};

impl Partition {
    pub(super) fn retry(&mut self, now: Timestamp, retries: Vec<Retry>, out: &mut Output) -> Reply {
        let retried = retries.into_iter().map(|retry| self.retry_one(now, retry, out));
        Reply::Retried(retried.collect())
    }

    fn retry_one(&mut self, now: Timestamp, retry: Retry, out: &mut Output) -> Result<Retried, Refusal> {
        let number = retry.held.number;
        let (entry, lease) = self.held(retry.held, now)?;
        let cancelled = self.cancel_requested(entry, lease);
        let mut next = entry.after_lease(lease, LeaseEnd::Retried, State::Waiting);
        if retry.error.is_some() {
            next.extras.get_or_insert_default().error = retry.error;
        }
        if cancelled {
            self.finish(now, number, next, End::Cancelled, out);
            return Ok(Retried::Ended(Phase::Cancelled));
        }
        if let Some(death) = self.death_after_retry(now, &next, retry.dead) {
            let phase = death.phase();
            self.die(now, number, next, death, out);
            return Ok(Retried::Ended(phase));
        }
        let due_at = match (retry.retry_at, retry.delay) {
            (Some(retry_at), _) => retry_at.max(now),
            (None, delay) => now + delay.unwrap_or_else(|| self.retry_delay(number, &next)),
        };
        self.try_again(now, due_at, number, next, out);
        out.totals.retried += 1;
        Ok(Retried::Again { due_at })
    }

    fn death_after_retry(&self, now: Timestamp, next: &Entry, dead: bool) -> Option<Death> {
        match (dead, self.exhausted(next), next.is_overdue(now)) {
            (true, _, _) => Some(Death::GivenUp),
            (false, true, _) => Some(Death::NoAttemptsLeft),
            (false, false, true) => Some(Death::TooOld),
            (false, false, false) => None,
        }
    }

    fn retry_delay(&self, number: ItemNumber, entry: &Entry) -> Span {
        delay(&self.settings.retry, entry.attempts, ItemId { number, partition: self.id })
    }

    fn try_again(
        &mut self,
        now: Timestamp,
        due_at: Timestamp,
        number: ItemNumber,
        mut next: Entry,
        out: &mut Output,
    ) {
        if due_at > now {
            // It keeps its place until it is due: the sweep then sees to the tail.
            next.state = State::Scheduled { due_at };
        } else {
            next.place = self.place_after_attempt(now, &next, out);
        }
        self.write(number, next, out);
    }

    /// Where an item stands whose lease ended by its deadline or by retry.
    pub(super) fn place_after_attempt(&self, now: Timestamp, entry: &Entry, out: &mut Output) -> u64 {
        match self.settings.requeue {
            Requeue::Keep => entry.place,
            Requeue::Tail => self.issue_tail_place(now, entry.place, out),
        }
    }
}
