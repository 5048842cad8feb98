//! Items that nobody will work on any more: their attempts or their time ran out, or a worker gave them up. They always
//! have an error, and go to the queue's dead queue if it has one.

use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;
use super::groups::end::count_end;
use super::verbs::suspend::drop_input;
use super::{Output, Partition};
use crate::attempt::AttemptEnd;
use crate::id::ItemNumber;
use crate::item::{End, ItemError, MoveReason, Outgoing, Phase, State};
use crate::news::{Died, News};
use crate::time::Timestamp;

/// What an item died of.
#[derive(Clone, Copy)]
pub(super) enum Death {
    /// Its last lease ended without an answer.
    LeaseExpired,
    /// Its last lease was taken away.
    Revoked,
    /// Its last attempt failed.
    NoAttemptsLeft,
    GivenUp,
    /// A body that its worker needs is lost.
    Damaged,
    TooOld,
}

impl Death {
    fn end(self) -> End {
        match self {
            Self::LeaseExpired | Self::Revoked | Self::NoAttemptsLeft | Self::GivenUp | Self::Damaged => {
                End::Failed
            }
            Self::TooOld => End::Expired,
        }
    }

    pub(super) fn phase(self) -> Phase {
        match self {
            Self::LeaseExpired | Self::Revoked | Self::NoAttemptsLeft | Self::GivenUp | Self::Damaged => {
                Phase::Failed
            }
            Self::TooOld => Phase::Expired,
        }
    }

    /// How the lease ended that the item died of.
    pub(super) fn end_of_attempt(self) -> AttemptEnd {
        match self {
            Self::NoAttemptsLeft | Self::GivenUp => AttemptEnd::Dead,
            Self::LeaseExpired => AttemptEnd::Expired,
            Self::Revoked => AttemptEnd::Revoked,
            Self::Damaged | Self::TooOld => AttemptEnd::Retried,
        }
    }

    fn reason(self) -> MoveReason {
        match self {
            Self::LeaseExpired | Self::Revoked | Self::NoAttemptsLeft => MoveReason::Attempts,
            Self::GivenUp | Self::Damaged => MoveReason::Dead,
            Self::TooOld => MoveReason::Expired,
        }
    }

    /// What the server says of it if no worker has said anything.
    pub(super) fn error(self, last: &Entry) -> ItemError {
        let attempts = last.attempts;
        let (code, message) = match self {
            Self::LeaseExpired => (
                "lease_expired",
                format!("the lease of attempt {attempts}, the last, ended without an answer"),
            ),
            // Clients have one word for a lease that ended without its worker's doing.
            Self::Revoked => {
                ("lease_expired", format!("the lease of attempt {attempts}, the last, was revoked"))
            }
            Self::NoAttemptsLeft => (
                "max_attempts",
                format!(
                    "the item was tried {attempts} times, which is all it had, and no worker reported an error"
                ),
            ),
            Self::GivenUp => (
                "max_attempts",
                format!("a worker gave the item up for good at attempt {attempts}, without an error"),
            ),
            Self::Damaged => {
                let payload_lost = last.extras.as_ref().is_some_and(|extras| extras.payload_lost);
                let body = if payload_lost { "payload" } else { "input" };
                ("damaged", format!("the stored {body} cannot be read: it is damaged or missing"))
            }
            Self::TooOld => {
                let timeout = last.extras.as_ref().and_then(|extras| extras.dead_timeout).unwrap_or_default();
                let timeout = Duration::from(timeout);
                (
                    "dead_timeout",
                    format!("the item was not done within {timeout:?} of its making, its dead_timeout"),
                )
            }
        };
        ItemError { code: Some(code.into()), message: message.into() }
    }
}

impl Partition {
    /// Ends an item whose time is over and whom nobody holds. One that is gone has ended before.
    pub(super) fn expire(&mut self, number: ItemNumber, out: &mut Output) {
        let entry = self.items.get(&number).expect("items in `expiry` are always in `items`");
        if self.is_gone(entry) {
            self.settle_gone(number, out);
            return;
        }
        self.die(self.expired_at(entry), number, entry.clone(), Death::TooOld, out);
    }

    /// When an overdue item expired. A lease may have run beyond that, and before the sweep came by the item may have become due
    /// or its group been started.
    pub(super) fn expired_at(&self, overdue: &Entry) -> Timestamp {
        let dead_at = overdue.dead_at().expect("overdue items have a dead_timeout");
        dead_at.max(self.changed_at(overdue))
    }

    pub(super) fn is_overdue(&self, number: ItemNumber, now: Timestamp) -> bool {
        self.items.get(&number).is_some_and(|entry| entry.is_overdue(now))
    }

    /// `last` is the item as it was last seen; its state does not matter any more. `at` is when it died: earlier than the verb
    /// if it fell due before.
    pub(super) fn die(
        &mut self,
        at: Timestamp,
        number: ItemNumber,
        mut last: Entry,
        death: Death,
        out: &mut Output,
    ) {
        if !last.has_error() {
            let error = death.error(&last);
            last.extras.get_or_insert_default().error = Some(error);
        }
        match self.settings.dead_queue.clone() {
            Some(to) => {
                match death.end() {
                    End::Expired => out.totals.expired += 1,
                    End::Failed | End::Completed | End::Cancelled => out.totals.failed += 1,
                }
                self.send(at, number, last, death.end(), outgoing(to, death.reason()), out);
            }
            None => self.die_here(at, number, last, death, out),
        }
    }

    /// Ends an item that no dead queue takes.
    pub(super) fn die_here(
        &mut self,
        at: Timestamp,
        number: ItemNumber,
        last: Entry,
        death: Death,
        out: &mut Output,
    ) {
        out.news.push(News::Died(Box::new(Died {
            number,
            kind: self.kinds.name(last.kind).clone(),
            attempts: last.attempts,
            end: death.end(),
            reason: death.reason(),
        })));
        self.finish(at, number, last, death.end(), out);
    }

    /// Ends an item here that goes on in another queue. Its payload stays until it has arrived.
    pub(super) fn send(
        &mut self,
        at: Timestamp,
        number: ItemNumber,
        mut last: Entry,
        end: End,
        outgoing: Outgoing,
        out: &mut Output,
    ) {
        let mut outcome = self.outcome_without_payload(at, number, &last, end, None).noticed_at(out.now);
        outcome.outgoing = Some(Box::new(outgoing));
        self.tell_end(number, &last, outcome.clone(), None, out);
        drop_input(number, &last, out);
        // A group counts what goes to a dead queue as failed, whatever it died of.
        let counted = if end == End::Expired { End::Failed } else { end };
        count_end(last.group, counted, out);
        last.state = State::Final(Box::new(outcome));
        self.write(number, last, out);
        out.outgoing = true;
    }
}

pub(super) fn outgoing(to: Arc<str>, reason: MoveReason) -> Outgoing {
    Outgoing {
        to,
        reason,
        due_at: None,
        left_at: None,
        forgotten: false,
        deleted: false,
        address: None,
        assigned: None,
        unknown: Vec::new(),
    }
}
