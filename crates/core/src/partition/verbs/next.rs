//! One turn of a worker: what it has done, and what it does next.

use bytes::Bytes;

use crate::footprint::Footprint;
use crate::id::ItemNumber;
use crate::item::State;
use crate::limits::{Invalid, check_batch, check_lease, check_lease_timeout, check_named_once};
use crate::mutant::{self, Mutant};
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::time::{Span, Timestamp};
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};
use crate::verbs::{Completion, Extended, Held, LeaseItems, Leased, Retried, RetryItem, SuspendItem};

/// Settles leased items and then leases others, in one commit. The items are settled in the order of [`SettleVerb`], and
/// judged one by one. An item that `Next` gives back is not leased by it.
#[derive(Clone, Debug)]
pub struct Next {
    /// 1 to 1000, each named once.
    pub items: Vec<Settle>,
    pub lease: Option<LeaseItems>,
}

/// What a worker says of an item that it holds.
#[derive(Clone, Debug)]
pub enum Settle {
    Complete(Completion),
    Retry(RetryItem),
    Release(Held),
    Suspend(SuspendItem),
    Extend(ExtendItem),
}

/// The verb that a [`Settle`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettleVerb {
    Complete,
    Retry,
    Release,
    Suspend,
    Extend,
}

#[derive(Clone, Copy, Debug)]
pub struct ExtendItem {
    pub held: Held,
    /// Unset: the timeout that the lease has.
    pub lease_timeout: Option<Span>,
}

/// What became of an item, by the verb that it was named with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Completed,
    Retried(Retried),
    Released,
    Suspended,
    Extended(Extended),
}

/// The reply to [`Next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextDone {
    /// In the order in which the items were named.
    pub settled: Each<Settled>,
    pub leased: Vec<Leased>,
}

/// Leases items for a call that has given some back in a commit before: those are not leased.
#[derive(Clone, Debug)]
pub struct LeaseOthers {
    pub lease: LeaseItems,
    pub given_back: Vec<ItemNumber>,
}

impl Settle {
    pub fn verb(&self) -> SettleVerb {
        match self {
            Self::Complete(_) => SettleVerb::Complete,
            Self::Retry(_) => SettleVerb::Retry,
            Self::Release(_) => SettleVerb::Release,
            Self::Suspend(_) => SettleVerb::Suspend,
            Self::Extend(_) => SettleVerb::Extend,
        }
    }

    pub fn held(&self) -> Held {
        match self {
            Self::Complete(completion) => completion.held,
            Self::Retry(retry) => retry.held,
            Self::Release(held) => *held,
            Self::Suspend(suspend) => suspend.held,
            Self::Extend(extend) => extend.held,
        }
    }

    /// The rules for one item, which do not depend on where the item is.
    pub fn check(&self) -> Result<(), Invalid> {
        match self {
            Self::Complete(_) | Self::Release(_) => Ok(()),
            Self::Retry(retry) => retry.check(),
            Self::Suspend(suspend) => suspend.check(),
            Self::Extend(extend) => extend.lease_timeout.map_or(Ok(()), check_lease_timeout),
        }
    }

    fn body_bytes(&self) -> usize {
        match self {
            Self::Complete(completion) => completion.result.as_ref().map_or(0, Bytes::len),
            Self::Retry(retry) => retry.error.as_ref().map_or(0, |error| error.message.len()),
            Self::Release(_) | Self::Suspend(_) | Self::Extend(_) => 0,
        }
    }
}

impl Settled {
    /// Whether the item may be leased again.
    pub fn is_given_back(self) -> bool {
        match self {
            Self::Retried(Retried::Again { .. }) | Self::Released | Self::Suspended => true,
            Self::Completed | Self::Retried(Retried::Ended(_)) | Self::Extended(_) => false,
        }
    }
}

impl Verb for Next {
    type Reply = NextDone;
    const FOOTPRINT: Footprint = Footprint::Rewrites;
    const URGENCY: Urgency = Urgency::Settling;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("items", self.items.len())?;
        self.items.iter().try_for_each(Settle::check)?;
        check_named_once(self.items.iter().map(|item| item.held().id))?;
        self.lease.as_ref().map_or(Ok(()), check_lease)
    }

    fn body_bytes(&self) -> usize {
        self.items.iter().map(Settle::body_bytes).sum()
    }

    /// That of the part which is refused first.
    fn footprint(&self, partition: &Partition, now: Timestamp) -> Footprint {
        let frees = |item: &Settle| match item {
            Settle::Complete(_) => true,
            Settle::Retry(retry) => partition.ends(now, retry),
            Settle::Release(_) | Settle::Suspend(_) | Settle::Extend(_) => false,
        };
        let frees_all = self.lease.is_none() && self.items.iter().all(frees);
        if frees_all { Footprint::Frees } else { Footprint::Rewrites }
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        let Self { items, lease } = self;
        let numbers: Vec<ItemNumber> = items.iter().map(|item| item.held().id.number).collect();
        let settled = partition.settle(now, items, out);
        let leased = lease.map(|lease| {
            let is_given_back = |result: &Result<Settled, Refusal>| {
                result.as_ref().is_ok_and(|settled| settled.is_given_back())
            };
            let given_back = numbers.into_iter().zip(&settled).filter(|(_, result)| is_given_back(result));
            let given_back: Vec<ItemNumber> = given_back.map(|(number, _)| number).collect();
            partition.lease_others(now, lease, &given_back, out)
        });
        Ok(NextDone { settled, leased: leased.unwrap_or_default() })
    }
}

/// Never refused.
impl Verb for LeaseOthers {
    type Reply = Vec<Leased>;
    const FOOTPRINT: Footprint = Footprint::Rewrites;

    fn check(&self) -> Result<(), Invalid> {
        check_lease(&self.lease)
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        Ok(partition.lease_others(now, self.lease, &self.given_back, out))
    }
}

impl Partition {
    /// Settles the items verb by verb. The results are in the order in which the items were named.
    fn settle(&mut self, now: Timestamp, items: Vec<Settle>, out: &mut Output) -> Each<Settled> {
        out.changes.reserve(items.len());
        let mut settled = Vec::with_capacity(items.len());
        let mut by_verb: Vec<(usize, Settle)> = items.into_iter().enumerate().collect();
        by_verb.sort_by_key(|(_, item)| item.verb());
        let mut by_verb = by_verb.into_iter().peekable();
        while let Some(verb) = by_verb.peek().map(|(_, item)| item.verb()) {
            self.carry_out_part(now, out, |partition, out| {
                while let Some((index, item)) = by_verb.next_if(|(_, item)| item.verb() == verb) {
                    settled.push((index, partition.settle_one(now, item, out)));
                }
            });
        }
        settled.sort_by_key(|(index, _)| *index);
        settled.into_iter().map(|(_, result)| result).collect()
    }

    fn settle_one(&mut self, now: Timestamp, item: Settle, out: &mut Output) -> Result<Settled, Refusal> {
        match item {
            Settle::Complete(completion) => {
                self.complete_one(now, completion, out).map(|()| Settled::Completed)
            }
            Settle::Retry(retry) => self.retry_one(now, retry, out).map(Settled::Retried),
            Settle::Release(held) => {
                self.release_one(now, held, State::Waiting { since: now }, out).map(|()| Settled::Released)
            }
            Settle::Suspend(suspend) => self.suspend_one(now, suspend, out).map(|()| Settled::Suspended),
            Settle::Extend(ExtendItem { held, lease_timeout }) => {
                self.extend_one(now, held, lease_timeout, out).map(Settled::Extended)
            }
        }
    }

    /// Leases while the items of `given_back` that wait are out of the line.
    fn lease_others(
        &mut self,
        now: Timestamp,
        lease: LeaseItems,
        given_back: &[ItemNumber],
        out: &mut Output,
    ) -> Vec<Leased> {
        if mutant::active(Mutant::LeaseGivenBack) {
            return self.lease(now, lease, out);
        }
        let aside = self.set_aside(given_back);
        let leased = self.lease(now, lease, out);
        self.put_in_line(aside);
        leased
    }
}
