//! Leases that wait for work. Each is one ticket that stands for all partitions of its queue; a partition takes
//! the ticket before it grants, so that no two do.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use windlass_core::mutant::{self, Mutant};
use windlass_core::verbs::LeaseItems;

use crate::error::EngineError;
use crate::lock::lock;
use crate::partition::grant::GrantPart;
use crate::partition::line::Line;

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    pub(super) line: Mutex<Line>,
}

#[derive(Debug)]
pub(crate) struct Ticket {
    /// Its place in the line: the lowest is served first.
    pub(super) number: u64,
    /// When it last joined the line. Written under the lock of the line.
    pub(super) arrival: AtomicU64,
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

    /// Marks a ticket that a partition is about to grant.
    pub(super) fn take(&self) {
        *lock(&self.state) = TicketState::Taken;
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(*lock(&self.state), TicketState::Waiting)
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
        lock(&self.line).add_partition(wake);
    }

    /// Joins the line, and has every partition look whether it has something.
    pub(crate) fn join(self: &Arc<Self>, lease: LeaseItems) -> Result<Waiting, EngineError> {
        let mut line = lock(&self.line);
        line.check_room(&lease.filter)?;
        let state = if line.closed { TicketState::Closed } else { TicketState::Waiting };
        let ticket = Arc::new(Ticket {
            number: line.next_number(),
            arrival: AtomicU64::default(),
            lease,
            state: Mutex::new(state),
            changed: Notify::new(),
        });
        if !line.closed {
            line.insert(&ticket);
        }
        line.wake_partitions();
        Ok(Waiting { waiters: Arc::clone(self), ticket })
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

    /// Whether a lease waits that would take such an item.
    pub(crate) fn want(&self, kind: &Arc<str>, priority: u8) -> bool {
        lock(&self.line).oldest_for(kind, priority).is_some()
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.line).len()
    }

    /// Sends everybody home, and whoever comes later.
    pub(crate) fn close(&self) {
        let mut line = lock(&self.line);
        line.closed = true;
        for ticket in line.take_all() {
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
