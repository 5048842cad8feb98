//! Work that failed, for now or for good.

use crate::attempt::{Attempt, AttemptEnd};
use crate::footprint::Footprint;
use crate::id::{ItemId, ItemNumber};
use crate::item::{End, ItemError, LeaseEnd, Phase, State};
use crate::limits::{Invalid, check_batch, check_error, check_retry_time};
use crate::partition::death::Death;
use crate::partition::entry::Entry;
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::retry::delay;
use crate::settings::Requeue;
use crate::time::{Span, Timestamp};
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};
use crate::verbs::Held;

/// Ends the leases of items that failed, for now or for good.
#[derive(Clone, Debug)]
pub struct Retry(pub Vec<RetryItem>);

#[derive(Clone, Debug)]
pub struct RetryItem {
    pub held: Held,
    /// `retry_at` in the past: at once. Without `retry_at` and `delay` the queue's policy decides.
    pub retry_at: Option<Timestamp>,
    /// How long after the verb the item is due again. At most one of `retry_at` and `delay` is set.
    pub delay: Option<Span>,
    /// No further attempt, whatever is left.
    pub dead: bool,
    pub error: Option<ItemError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// The item will be leased again, at this time at the earliest.
    Again { due_at: Timestamp },
    /// The item failed or expired, or was cancelled meanwhile.
    Ended(Phase),
}

impl RetryItem {
    pub(in crate::partition) fn check(&self) -> Result<(), Invalid> {
        check_retry_time(self.retry_at, self.delay)?;
        self.error.as_ref().map_or(Ok(()), check_error)
    }
}

impl Verb for Retry {
    type Reply = Each<Retried>;
    const FOOTPRINT: Footprint = Footprint::Rewrites;
    const URGENCY: Urgency = Urgency::Settling;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("items", self.0.len())?;
        self.0.iter().try_for_each(RetryItem::check)
    }

    fn body_bytes(&self) -> usize {
        self.0.iter().filter_map(|item| item.error.as_ref()).map(|error| error.message.len()).sum()
    }

    fn footprint(&self, partition: &Partition, now: Timestamp) -> Footprint {
        let ends = self.0.iter().all(|retry| partition.ends(now, retry));
        if ends { Footprint::Frees } else { Footprint::Rewrites }
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        Ok(self.0.into_iter().map(|retry| partition.retry_one(now, retry, out)).collect())
    }
}

impl Partition {
    /// Whether a retry is the end of its item. One that will be refused changes nothing.
    pub(in crate::partition) fn ends(&self, now: Timestamp, retry: &RetryItem) -> bool {
        let Ok((entry, lease)) = self.held(retry.held, now) else { return true };
        retry.dead || self.cancel_requested(entry, lease) || self.exhausted(entry) || entry.is_overdue(now)
    }

    pub(in crate::partition) fn retry_one(
        &mut self,
        now: Timestamp,
        retry: RetryItem,
        out: &mut Output,
    ) -> Result<Retried, Refusal> {
        let number = retry.held.id.number;
        let (entry, lease) = self.held(retry.held, now)?;
        let cancelled = self.cancel_requested(entry, lease);
        let mut attempt = Attempt::ending(entry.attempts, lease, now, AttemptEnd::Retried);
        attempt.error = retry.error.clone();
        let mut next = entry.after_lease(now, lease, LeaseEnd::Retried, State::Waiting { since: now });
        if retry.error.is_some() {
            let attempt = next.attempts;
            let extras = next.extras.get_or_insert_default();
            (extras.error, extras.error_attempt) = (retry.error, attempt);
        }
        let death = self.death_after_retry(now, &next, retry.dead);
        attempt.end = match death {
            _ if cancelled => AttemptEnd::Cancelled,
            Some(death) => death.end_of_attempt(),
            None => AttemptEnd::Retried,
        };
        self.log_attempt(number, &mut next, attempt, out);
        if cancelled {
            self.finish(now, number, next, End::Cancelled, out);
            return Ok(Retried::Ended(Phase::Cancelled));
        }
        if let Some(death) = death {
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
            next.turn(now, State::Scheduled { due_at });
        } else {
            next.place = self.place_after_attempt(now, &next, out);
        }
        self.write(number, next, out);
    }

    /// Where an item stands whose lease ended by its deadline or by retry.
    pub(in crate::partition) fn place_after_attempt(
        &self,
        now: Timestamp,
        entry: &Entry,
        out: &mut Output,
    ) -> u64 {
        match self.settings.requeue {
            Requeue::Keep => entry.place,
            Requeue::Tail => self.issue_tail_place(now, entry.place, out),
        }
    }
}
