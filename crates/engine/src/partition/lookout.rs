//! Which waiting tickets a partition can serve. A ticket that found nothing here finds nothing until the first item of a
//! kind changes, so a partition looks at tickets that arrived and at kinds that changed, and at nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::mutant::{self, Mutant};
use windlass_core::partition::Partition;

use crate::lock::lock;
use crate::partition::line::Line;
use crate::partition::waiters::{Ticket, Waiters};

/// What a writer has still to look at. A new writer has looked at nothing: all kinds of a partition that was just loaded
/// have changed.
#[derive(Debug, Default)]
pub(crate) struct Lookout {
    /// Tickets that arrived up to here were looked at.
    last_arrival: u64,
    /// Tickets that arrived when there was something for them, by number.
    arrived: BTreeMap<u64, Arc<Ticket>>,
    /// Kinds that changed, each with the number of the oldest ticket that takes its first item.
    kinds: BTreeSet<(u64, Arc<str>)>,
}

impl Lookout {
    /// Takes the oldest ticket that wants something the partition has.
    pub(crate) fn take(&mut self, waiters: &Waiters, partition: &mut Partition) -> Option<Arc<Ticket>> {
        let mut line = lock(&waiters.line);
        let moved = partition.take_moved_kinds();
        if line.len() == 0 {
            // A ticket that joins later is looked at as it arrives.
            *self = Self { last_arrival: line.last_arrival(), ..Self::default() };
            return None;
        }
        let oldest = |kind: Arc<str>| Some((oldest_for(&line, partition, &kind)?.number, kind));
        self.kinds.extend(moved.into_iter().filter_map(oldest));
        self.look_at_arrivals(&line, partition);
        let ticket = self.first(&line, partition)?;
        if !mutant::active(Mutant::WakeTwice) {
            line.remove(&ticket);
        }
        ticket.take();
        Some(ticket)
    }

    fn look_at_arrivals(&mut self, line: &Line, partition: &Partition) {
        for ticket in line.arrived_since(self.last_arrival) {
            if partition.head(&ticket.lease().filter).is_some() {
                self.arrived.insert(ticket.number, Arc::clone(ticket));
            }
        }
        self.last_arrival = line.last_arrival();
    }

    fn first(&mut self, line: &Line, partition: &Partition) -> Option<Arc<Ticket>> {
        loop {
            let arrived = self.arrived.first_key_value().map(|(number, _)| *number);
            let by_kind = self.kinds.first().map(|(number, _)| *number);
            let found = match (arrived, by_kind) {
                (None, None) => return None,
                (Some(arrived), by_kind) if by_kind.is_none_or(|by_kind| arrived <= by_kind) => {
                    self.first_arrived(partition)
                }
                (Some(_) | None, _) => self.first_by_kind(line, partition),
            };
            if found.is_some() {
                return found;
            }
        }
    }

    /// The first ticket that arrived, unless it has left or another lease took what there was for it.
    fn first_arrived(&mut self, partition: &Partition) -> Option<Arc<Ticket>> {
        let (_, ticket) = self.arrived.pop_first()?;
        let can_be_served = ticket.is_waiting() && partition.head(&ticket.lease().filter).is_some();
        can_be_served.then_some(ticket)
    }

    /// The ticket of the first kind, unless the line or the kind has changed: then the kind is filed anew.
    fn first_by_kind(&mut self, line: &Line, partition: &Partition) -> Option<Arc<Ticket>> {
        let (number, kind) = self.kinds.pop_first()?;
        let ticket = oldest_for(line, partition, &kind)?;
        // Also when found: the lease may take an item of another kind, and leave this one to the next ticket.
        self.kinds.insert((ticket.number, kind));
        (ticket.number == number).then(|| Arc::clone(ticket))
    }
}

fn oldest_for<'a>(line: &'a Line, partition: &Partition, kind: &Arc<str>) -> Option<&'a Arc<Ticket>> {
    line.oldest_for(kind, partition.head_of_kind(kind)?.priority)
}
