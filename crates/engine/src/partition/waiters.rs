//! Leases that wait for work. Each is one ticket that stands for all partitions of its queue; a partition takes
//! the ticket before it grants, so that no two do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;
use windlass_core::command::{Filter, LeaseItems};
use windlass_core::mutant::{self, Mutant};

use crate::error::EngineError;
use crate::lock::lock;
use crate::partition::grant::GrantPart;

/// At most so many leases of one queue wait, and so many bytes of kinds that they name.
const WAITERS_MAX: usize = 65_536;
const KINDS_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    next: u64,
    count: usize,
    kinds_bytes: usize,
    closed: bool,
    /// Tickets that ask for the same stand together, oldest first, so that a partition looks once for each kind
    /// of wish, not once for each ticket.
    by_filter: BTreeMap<Filter, BTreeMap<u64, Arc<Ticket>>>,
    /// Those that are still there.
    partitions: Vec<Weak<Notify>>,
}

#[derive(Debug)]
pub(crate) struct Ticket {
    number: u64,
    lease: LeaseItems,
    state: Mutex<TicketState>,
    changed: Notify,
}

#[derive(Debug)]
enum TicketState {
    Waiting,
    /// A partition is about to grant.
    Taken,
    Granted(GrantPart),
    /// Its owner is gone, or has what it wanted.
    Done,
    /// The queue or the server closed.
    Closed,
    /// The partition that has the work cannot lease it now.
    Refused(EngineError),
}

impl Ticket {
    pub(crate) fn lease(&self) -> &LeaseItems {
        &self.lease
    }

    /// Delivers what was granted, once it is durable. If the owner is gone the grant is dropped: given back.
    pub(crate) fn grant(&self, part: GrantPart) {
        let mut state = lock(&self.state);
        let refused = match &*state {
            TicketState::Taken => {
                *state = TicketState::Granted(part);
                None
            }
            TicketState::Waiting
            | TicketState::Granted(_)
            | TicketState::Done
            | TicketState::Closed
            | TicketState::Refused(_) => Some(part),
        };
        drop(state);
        if mutant::active(Mutant::WakeTwice) {
            // The second grant is lost on the way: leased, and nobody knows.
            refused.into_iter().for_each(|mut part| part.accept());
        }
        self.changed.notify_one();
    }

    /// Tells the owner of a ticket that was taken why it is not granted.
    pub(crate) fn refuse(&self, error: EngineError) {
        let mut state = lock(&self.state);
        if matches!(*state, TicketState::Taken) {
            *state = TicketState::Refused(error);
            self.changed.notify_one();
        }
    }
}

impl Waiters {
    pub(crate) fn add_partition(&self, wake: &Arc<Notify>) {
        let partitions = &mut lock(&self.line).partitions;
        partitions.retain(|wake| wake.strong_count() > 0);
        partitions.push(Arc::downgrade(wake));
    }

    /// Joins the line, and has every partition look whether it has something.
    pub(crate) fn join(self: &Arc<Self>, lease: LeaseItems) -> Result<Waiting, EngineError> {
        let mut line = lock(&self.line);
        if line.count >= WAITERS_MAX {
            return Err(EngineError::Overloaded { what: "waiting leases", max: WAITERS_MAX });
        }
        let kinds_bytes = kinds_bytes(&lease.filter);
        if line.kinds_bytes + kinds_bytes > KINDS_BYTES_MAX {
            return Err(EngineError::Overloaded {
                what: "bytes of kinds in waiting leases",
                max: KINDS_BYTES_MAX,
            });
        }
        let state = if line.closed { TicketState::Closed } else { TicketState::Waiting };
        let ticket =
            Arc::new(Ticket { number: line.next, lease, state: Mutex::new(state), changed: Notify::new() });
        line.next += 1;
        if !line.closed {
            line.insert(&ticket);
        }
        line.wake_partitions();
        Ok(Waiting { waiters: Arc::clone(self), ticket })
    }

    /// Takes the oldest ticket that wants something the partition has.
    pub(crate) fn take(&self, has_work: impl Fn(&Filter) -> bool) -> Option<Arc<Ticket>> {
        let mut line = lock(&self.line);
        let oldest = line
            .by_filter
            .iter()
            .filter_map(|(filter, tickets)| Some((tickets.first_key_value()?, filter)))
            .filter(|(_, filter)| has_work(filter))
            .min_by_key(|((number, _), _)| **number)
            .map(|((_, ticket), _)| Arc::clone(ticket))?;
        if !mutant::active(Mutant::WakeTwice) {
            line.remove(&oldest);
        }
        *lock(&oldest.state) = TicketState::Taken;
        Some(oldest)
    }

    /// Puts a ticket back in its old place, because the commit that should have granted failed.
    pub(crate) fn put_back(&self, ticket: &Arc<Ticket>) {
        let mut line = lock(&self.line);
        let mut state = lock(&ticket.state);
        if matches!(*state, TicketState::Taken) {
            *state = if line.closed { TicketState::Closed } else { TicketState::Waiting };
            ticket.changed.notify_one();
            if !line.closed {
                line.insert(ticket);
                // Others may have had work meanwhile, and seen nobody waiting.
                line.wake_partitions();
            }
        }
    }

    /// Whether somebody waits who would take such an item. Costs as much as there are different wishes.
    pub(crate) fn want(&self, kind: &Arc<str>, priority: u8) -> bool {
        let line = lock(&self.line);
        let wants = |filter: &Filter| {
            let of_kind = filter.kinds.as_ref().is_none_or(|kinds| kinds.binary_search(kind).is_ok());
            of_kind && priority <= filter.max_priority
        };
        line.by_filter.keys().any(wants)
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.line).count
    }

    /// Sends everybody home, and whoever comes later.
    pub(crate) fn close(&self) {
        let mut line = lock(&self.line);
        line.closed = true;
        (line.count, line.kinds_bytes) = (0, 0);
        for ticket in std::mem::take(&mut line.by_filter).into_values().flat_map(BTreeMap::into_values) {
            *lock(&ticket.state) = TicketState::Closed;
            ticket.changed.notify_one();
        }
    }

    /// Takes a ticket out of the line; a grant on its way will be given back.
    fn leave(&self, ticket: &Ticket) {
        let mut line = lock(&self.line);
        line.remove(ticket);
        let state = std::mem::replace(&mut *lock(&ticket.state), TicketState::Done);
        drop(line);
        // May hold a grant that nobody collected: dropping it gives the items back.
        drop(state);
    }
}

impl Line {
    fn insert(&mut self, ticket: &Arc<Ticket>) {
        let tickets = self.by_filter.entry(ticket.lease.filter.clone()).or_default();
        if tickets.insert(ticket.number, Arc::clone(ticket)).is_none() {
            self.count += 1;
            self.kinds_bytes += kinds_bytes(&ticket.lease.filter);
        }
    }

    fn remove(&mut self, ticket: &Ticket) {
        let Some(tickets) = self.by_filter.get_mut(&ticket.lease.filter) else { return };
        if tickets.remove(&ticket.number).is_some() {
            self.count -= 1;
            self.kinds_bytes -= kinds_bytes(&ticket.lease.filter);
        }
        if tickets.is_empty() {
            self.by_filter.remove(&ticket.lease.filter);
        }
    }

    fn wake_partitions(&self) {
        self.partitions.iter().filter_map(Weak::upgrade).for_each(|wake| wake.notify_one());
    }
}

/// About what the kinds of a lease take in memory.
fn kinds_bytes(filter: &Filter) -> usize {
    /// Of a shared text: where it is and how long, and its two counters.
    const FIXED: usize = 4 * size_of::<usize>();
    let kinds = filter.kinds.as_deref().unwrap_or_default();
    kinds.iter().map(|kind| FIXED + kind.len()).sum()
}

/// A place in the line. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct Waiting {
    waiters: Arc<Waiters>,
    ticket: Arc<Ticket>,
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Waited {
    Granted(GrantPart),
    TimedOut,
    Closed,
    Refused(EngineError),
}

impl Waiting {
    /// Until something is granted, or `timeout` ends and no grant is under way.
    pub(crate) async fn outcome(&self, timeout: impl Future<Output = ()>) -> Waited {
        let mut timeout = std::pin::pin!(timeout);
        let mut timed_out = false;
        loop {
            if let Some(waited) = self.look(timed_out) {
                return waited;
            }
            tokio::select! {
                biased;
                () = self.ticket.changed.notified() => {}
                () = &mut timeout, if !timed_out => timed_out = true,
            }
        }
    }

    fn look(&self, timed_out: bool) -> Option<Waited> {
        let mut line = lock(&self.waiters.line);
        let mut state = lock(&self.ticket.state);
        match &*state {
            TicketState::Waiting if timed_out => {
                line.remove(&self.ticket);
                *state = TicketState::Done;
                Some(Waited::TimedOut)
            }
            TicketState::Waiting | TicketState::Taken => None,
            TicketState::Closed => Some(Waited::Closed),
            TicketState::Refused(error) => Some(Waited::Refused(error.clone())),
            TicketState::Done => Some(Waited::TimedOut),
            TicketState::Granted(_) => match std::mem::replace(&mut *state, TicketState::Done) {
                TicketState::Granted(part) => Some(Waited::Granted(part)),
                TicketState::Waiting
                | TicketState::Taken
                | TicketState::Done
                | TicketState::Closed
                | TicketState::Refused(_) => unreachable!("it was granted a line above"),
            },
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waiters.leave(&self.ticket);
    }
}
