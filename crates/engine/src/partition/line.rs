//! The line of waiting tickets, by what they take: a partition finds the oldest one that takes an item of a kind without
//! looking at the others.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::sync::Notify;
use windlass_core::effort::{self, Looked};
use windlass_core::verbs::Filter;

use crate::error::EngineError;
use crate::partition::waiters::Ticket;

/// At most so many leases of one queue wait, and so many bytes of kinds that they name.
const WAITERS_MAX: usize = 65_536;
const KINDS_BYTES_MAX: usize = 32 << 20;

#[derive(Debug, Default)]
pub(super) struct Line {
    last_number: u64,
    last_arrival: u64,
    kinds_bytes: usize,
    pub(super) closed: bool,
    /// Every ticket once for each kind that its filter names, or once if the filter names none.
    by_wish: BTreeMap<Wish, Arc<Ticket>>,
    /// Every ticket once. A ticket that is put back arrives anew.
    by_arrival: BTreeMap<u64, Arc<Ticket>>,
    /// The wake-ups of the queue's partitions, those included that are gone.
    partitions: Vec<Weak<Notify>>,
}

/// What a ticket takes. The number comes last, so that the first of a kind and priority is the oldest.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wish {
    /// Unset: every kind.
    kind: Option<Arc<str>>,
    max_priority: u8,
    number: u64,
}

impl Line {
    pub(super) fn add_partition(&mut self, wake: &Arc<Notify>) {
        self.partitions.retain(|wake| wake.strong_count() > 0);
        self.partitions.push(Arc::downgrade(wake));
    }

    pub(super) fn wake_partitions(&self) {
        self.partitions.iter().filter_map(Weak::upgrade).for_each(|wake| wake.notify_one());
    }

    pub(super) fn len(&self) -> usize {
        self.by_arrival.len()
    }

    pub(super) fn check_room(&self, filter: &Filter) -> Result<(), EngineError> {
        if self.len() >= WAITERS_MAX {
            return Err(EngineError::Overloaded { what: "waiting leases", max: WAITERS_MAX });
        }
        if self.kinds_bytes + kinds_bytes(filter) > KINDS_BYTES_MAX {
            return Err(EngineError::Overloaded {
                what: "bytes of kinds in waiting leases",
                max: KINDS_BYTES_MAX,
            });
        }
        Ok(())
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn insert(&mut self, ticket: &Arc<Ticket>) {
        self.remove(ticket);
        self.last_arrival += 1;
        ticket.arrival.store(self.last_arrival, Ordering::Relaxed);
        self.by_arrival.insert(self.last_arrival, Arc::clone(ticket));
        self.kinds_bytes += kinds_bytes(&ticket.lease().filter);
        self.by_wish.extend(wishes(ticket).map(|wish| (wish, Arc::clone(ticket))));
    }

    /// Takes a ticket out, if it is in the line.
    pub(super) fn remove(&mut self, ticket: &Ticket) {
        if self.by_arrival.remove(&ticket.arrival.load(Ordering::Relaxed)).is_none() {
            return;
        }
        self.kinds_bytes -= kinds_bytes(&ticket.lease().filter);
        for wish in wishes(ticket) {
            self.by_wish.remove(&wish);
        }
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Arc<Ticket>> + use<> {
        self.by_wish.clear();
        self.kinds_bytes = 0;
        std::mem::take(&mut self.by_arrival).into_values()
    }

    pub(super) fn last_arrival(&self) -> u64 {
        self.last_arrival
    }

    /// The tickets that joined after `arrival`.
    pub(super) fn arrived_since(&self, arrival: u64) -> impl Iterator<Item = &Arc<Ticket>> {
        self.by_arrival
            .range(arrival + 1..)
            .map(|(_, ticket)| ticket)
            .inspect(|_| effort::look(Looked::Tickets))
    }

    /// The oldest ticket that takes an item of that kind and priority.
    pub(super) fn oldest_for(&self, kind: &Arc<str>, priority: u8) -> Option<&Arc<Ticket>> {
        let by_kind = self.oldest_of(Some(kind), priority);
        let by_any = self.oldest_of(None, priority);
        by_kind.into_iter().chain(by_any).min_by_key(|ticket| ticket.number)
    }

    /// Jumps from one priority to the next: there are few, whatever the number of tickets.
    fn oldest_of(&self, kind: Option<&Arc<str>>, priority: u8) -> Option<&Arc<Ticket>> {
        let mut oldest: Option<&Arc<Ticket>> = None;
        let mut from = Some(priority);
        while let Some(max_priority) = from {
            effort::look(Looked::Tickets);
            let wish = Wish { kind: kind.cloned(), max_priority, number: 0 };
            let found = self.by_wish.range(wish..).next();
            let Some((wish, ticket)) = found.filter(|(wish, _)| wish.kind.as_ref() == kind) else { break };
            oldest = oldest.into_iter().chain([ticket]).min_by_key(|ticket| ticket.number);
            from = wish.max_priority.checked_add(1);
        }
        oldest
    }
}

fn wishes(ticket: &Ticket) -> impl Iterator<Item = Wish> {
    let Filter { kinds, max_priority } = &ticket.lease().filter;
    let wish = |kind| Wish { kind, max_priority: *max_priority, number: ticket.number };
    let any = kinds.is_none().then_some(None);
    let named = kinds.iter().flat_map(|kinds| kinds.iter().cloned().map(Some));
    any.into_iter().chain(named).map(wish)
}

/// About what the kinds of a lease take in memory.
fn kinds_bytes(filter: &Filter) -> usize {
    /// A shared text (its address and length, and its two counters) and an entry of `by_wish`.
    const FIXED: usize = 4 * size_of::<usize>() + size_of::<(Wish, Arc<Ticket>)>();
    let kinds = filter.kinds.as_deref().unwrap_or_default();
    kinds.iter().map(|kind| FIXED + kind.len()).sum()
}
