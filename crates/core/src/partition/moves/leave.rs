//! The source's side of moves: who takes which items and crons, and what has arrived.

use std::sync::Arc;

use crate::cron::Cron;
use crate::footprint::Footprint;
use crate::id::{ItemId, ItemNumber, PartitionId};
use crate::item::{Assigned, CronRun, ItemError, MoveNumber, MoveReason, MovedTo, Outcome, Outgoing, State};
use crate::partition::entry::Entry;
use crate::partition::moves::outbox::{Leaver, Which};
use crate::partition::{Output, Partition};
use crate::row::{Change, Part};
use crate::time::{Span, Timestamp};
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};
use crate::verbs::Arrived;

/// Chooses who is to take some of the items that are on their way to a queue.
#[derive(Clone, Debug)]
pub struct Assign {
    /// The queue that the items were to go to.
    pub queue: Arc<str>,
    /// The queue that the items go to. If that is another one, only items that died go there: whoever sends something else
    /// names its target.
    pub to: Arc<str>,
    /// The partition of that queue that is to take the items.
    pub partition: PartitionId,
    /// The partition whose first moves are assigned anew; unset: items that never had a taker. Where it is `partition` itself,
    /// the moves get new numbers, behind the others. Where it is another, items that are to have an address have no taker from
    /// then on.
    pub instead_of: Option<PartitionId>,
    pub limit: usize,
    /// Items that are to have an address which is at home in `partition`: see [`Partition::addressed_departures`]. Empty: any
    /// items without one.
    pub addressed: Vec<ItemNumber>,
}

/// Makes the first moves to a partition wait for another taker to be chosen: the partition is gone, or takes nothing new.
#[derive(Clone, Copy, Debug)]
pub struct Unassign {
    pub partition: PartitionId,
    pub limit: usize,
}

/// Forgets the moves that a partition has taken or turned away.
#[derive(Clone, Debug)]
pub struct Moved {
    /// The partition that has taken the moves.
    pub partition: PartitionId,
    pub arrived: Arrived,
}

/// An item or a cron on its way out, as [`crate::partition::Partition::departures`] tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    pub number: MoveNumber,
    /// The number under which the store has the payload.
    pub body: ItemNumber,
    /// The payload was found lost before: there is none to read.
    pub payload_lost: bool,
    /// How many attempts of an item were logged: see [`crate::attempt`].
    pub attempts_logged: u32,
    pub what: Departing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Departing {
    Item(DepartingItem),
    Cron(Box<Cron>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepartingItem {
    pub number: ItemNumber,
    pub kind: Arc<str>,
    pub priority: u8,
    pub attempts: u32,
    pub address: Option<Arc<str>>,
    pub reason: MoveReason,
    pub error: Option<ItemError>,
    /// The name of the group it was a member of, or whose end it is.
    pub group: Option<Arc<str>>,
    pub cron: Option<Box<CronRun>>,
    /// The address that it is to have where it goes.
    pub address_there: Option<Arc<str>>,
    /// The next three as those of an [`crate::verbs::ArrivingItem`].
    pub enqueue_at: Option<Timestamp>,
    pub max_attempts: Option<u32>,
    pub dead_timeout: Option<Span>,
    pub left_at: Timestamp,
}

/// Where some items or crons are on their way to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub queue: Arc<str>,
    /// Who is to take them; unset as long as nobody was chosen.
    pub partition: Option<PartitionId>,
}

/// Answered by the number of items that were assigned.
impl Verb for Assign {
    type Reply = usize;
    const FOOTPRINT: Footprint = Footprint::Frees;
    const URGENCY: Urgency = Urgency::Settling;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        Ok(partition.assign(now, &self, out))
    }
}

/// Answered by the number of moves that wait again.
impl Verb for Unassign {
    type Reply = usize;
    const FOOTPRINT: Footprint = Footprint::Frees;
    const URGENCY: Urgency = Urgency::Settling;

    fn decide(self, partition: &mut Partition, _now: Timestamp, out: &mut Output) -> Decided<Self> {
        Ok(partition.unassign(self, out))
    }
}

/// Answered by the number of moves that were forgotten.
impl Verb for Moved {
    type Reply = usize;
    const FOOTPRINT: Footprint = Footprint::Frees;
    const URGENCY: Urgency = Urgency::Settling;

    fn decide(self, partition: &mut Partition, _now: Timestamp, out: &mut Output) -> Decided<Self> {
        Ok(partition.moved(&self, out))
    }
}

impl Partition {
    /// Everywhere that items are on their way to, and crons that have a taker.
    pub fn targets(&self) -> Vec<Target> {
        let unassigned =
            self.outbox.unassigned().map(|queue| Target { queue: queue.clone(), partition: None });
        let assigned = self.outbox.assigned().map(|(partition, assignments)| Target {
            queue: assignments.queue.clone(),
            partition: Some(partition),
        });
        unassigned.chain(assigned).collect()
    }

    /// The first moves that a partition is to take, in the order it must take them in.
    pub fn departures(&self, to: PartitionId, limit: usize) -> Vec<Departure> {
        let first = self.outbox.first_assigned(to, limit).into_iter();
        let departure = |(number, leaver)| match leaver {
            Leaver::Item(item) => self.item_departure(number, item),
            Leaver::Cron(name) => self.cron_departure(number, &name),
        };
        first.map(departure).collect()
    }

    fn cron_departure(&self, number: MoveNumber, name: &str) -> Departure {
        let cron = self.crons.get(name).expect("crons in the outbox are always in `crons`");
        let what = Departing::Cron(Box::new(cron.clone()));
        Departure { number, body: cron.template.body, payload_lost: false, attempts_logged: 0, what }
    }

    fn item_departure(&self, number: MoveNumber, item: ItemNumber) -> Departure {
        let (entry, outcome, outgoing) = self.leaving(item);
        let extras = entry.extras.as_deref();
        // What was an item before begins anew in its new queue.
        let is_as_made = outgoing.reason.is_of_group() || outgoing.reason == MoveReason::Rerun;
        let as_made = extras.filter(|_| is_as_made);
        let payload_lost = extras.is_some_and(|extras| extras.payload_lost);
        let what = Departing::Item(DepartingItem {
            number: item,
            kind: self.kinds.name(entry.kind).clone(),
            priority: entry.priority,
            attempts: entry.attempts,
            address: entry.address().cloned(),
            reason: outgoing.reason,
            error: extras.and_then(|extras| extras.error.clone()),
            group: entry.group.and_then(|group| self.group_name(group)),
            cron: extras.and_then(|extras| extras.cron.clone()),
            address_there: outgoing.address.clone(),
            enqueue_at: outgoing.due_at,
            max_attempts: as_made.and_then(|extras| extras.max_attempts),
            dead_timeout: self.dead_timeout_there(entry, outgoing.reason),
            left_at: outgoing.left_at.unwrap_or(outcome.finished_at),
        });
        let attempts_logged = extras.map_or(0, |extras| extras.attempts_logged);
        Departure { number, body: item, payload_lost, attempts_logged, what }
    }

    /// `dead_timeout` for the new item. A rerun keeps the old item's own value; without one it never expires.
    fn dead_timeout_there(&self, entry: &Entry, reason: MoveReason) -> Option<Span> {
        let own = entry.extras.as_ref().and_then(|extras| extras.dead_timeout);
        match reason {
            MoveReason::GroupEnd | MoveReason::GroupAbort => own,
            MoveReason::Rerun => Some(own.unwrap_or(Span::ZERO)),
            MoveReason::Attempts | MoveReason::Dead | MoveReason::Expired | MoveReason::Redrive => None,
        }
    }

    pub(in crate::partition) fn leaving(&self, number: ItemNumber) -> (&Entry, &Outcome, &Outgoing) {
        let entry = self.items.get(&number).expect("items in the outbox are always in `items`");
        match &entry.state {
            State::Final(outcome) => match &outcome.outgoing {
                Some(outgoing) => (entry, outcome, outgoing),
                None => unreachable!("only items on their way are in the outbox"),
            },
            State::Scheduled { .. } | State::Waiting { .. } | State::Leased(_) | State::Suspended(_) => {
                unreachable!("only final items are in the outbox")
            }
        }
    }

    /// In the order in which they left, so that they arrive in it.
    fn assign(&mut self, now: Timestamp, assign: &Assign, out: &mut Output) -> usize {
        let which = if assign.to == assign.queue { Which::All } else { Which::Died };
        let items = match assign.instead_of {
            _ if !assign.addressed.is_empty() => self.unassigned_of(&assign.queue, &assign.addressed),
            None => self.outbox.first_unassigned(&assign.queue, which, assign.limit),
            Some(before) => self.first_items(before, assign.limit),
        };
        let mut count = 0;
        for item in items {
            let (_, _, outgoing) = self.leaving(item);
            // Its home alone takes it, whatever the home says of it now.
            let stays = assign.instead_of == Some(assign.partition);
            if outgoing.address.is_some() && assign.addressed.is_empty() && !stays {
                self.update_move(item, out, |outgoing| outgoing.assigned = None);
                out.outgoing = true;
                count += 1;
                continue;
            }
            let Some(number) = self.issue_move(now, out) else { break };
            self.update_move(item, out, |outgoing| {
                outgoing.to = assign.to.clone();
                outgoing.assigned = Some(Assigned { partition: assign.partition, number });
            });
            count += 1;
        }
        count
    }

    /// Those of some items that are on their way to a queue, are to have an address there, and have no taker.
    fn unassigned_of(&self, to: &str, items: &[ItemNumber]) -> Vec<ItemNumber> {
        let key = |number: &ItemNumber| match &self.items.get(number)?.state {
            State::Final(outcome) => Some((outcome.finished_at.0, *number)),
            State::Scheduled { .. } | State::Waiting { .. } | State::Leased(_) | State::Suspended(_) => None,
        };
        self.outbox.unassigned_of(to, items.iter().filter_map(key).collect())
    }

    /// The first items on their way to a queue that are to have an address there, and have no taker.
    pub fn addressed_departures(&self, to: &str, limit: usize) -> Vec<(ItemNumber, Arc<str>)> {
        let addressed = |number: ItemNumber| Some((number, self.leaving(number).2.address.clone()?));
        self.outbox.first_addressed(to, limit).into_iter().filter_map(addressed).collect()
    }

    /// The items among the first moves that a partition is to take.
    fn first_items(&self, taker: PartitionId, limit: usize) -> Vec<ItemNumber> {
        let moves = self.outbox.first_assigned(taker, limit);
        let item = |(_, leaver)| match leaver {
            Leaver::Item(item) => Some(item),
            Leaver::Cron(_) => None,
        };
        moves.into_iter().filter_map(item).collect()
    }

    /// Items wait for a taker as they did before; crons as well, if they still belong elsewhere.
    fn unassign(&mut self, unassign: Unassign, out: &mut Output) -> usize {
        let moves = self.outbox.first_assigned(unassign.partition, unassign.limit);
        for (_, leaver) in &moves {
            match leaver {
                Leaver::Item(item) => self.update_move(*item, out, |outgoing| outgoing.assigned = None),
                Leaver::Cron(name) => self.unassign_cron(name, out),
            }
        }
        out.outgoing |= !moves.is_empty();
        moves.len()
    }

    /// Forgets items and crons that have arrived, and their payloads.
    fn moved(&mut self, moved: &Moved, out: &mut Output) -> usize {
        let arrived = self.outbox.assigned_up_to(moved.partition, moved.arrived.last);
        for (number, leaver) in &arrived {
            match leaver {
                Leaver::Item(item) if moved.arrived.turned_away.contains(number) => {
                    self.turned_away(*item, out)
                }
                Leaver::Item(item) => {
                    out.totals.moved_out += 1;
                    let there = moved.arrived.items.get(number);
                    let there = there.map(|number| ItemId { partition: moved.partition, number: *number });
                    self.arrived(*item, there, out);
                }
                Leaver::Cron(name) => self.erase_cron(name, out),
            }
        }
        arrived.len()
    }

    fn arrived(&mut self, number: ItemNumber, there: Option<ItemId>, out: &mut Output) {
        let (entry, outcome, outgoing) = self.leaving(number);
        if outgoing.forgotten {
            self.erase(number, out);
            return;
        }
        let queue = Arc::clone(&outgoing.to);
        let outcome = outcome.clone().without_payload(entry.payload_size);
        let mut next = entry.with_state(State::Final(Box::new(Outcome { outgoing: None, ..outcome })));
        next.extras.get_or_insert_default().moved_to = there.map(|id| Box::new(MovedTo::new(queue, id)));
        self.write(number, next, out);
        out.changes.push(Change::RemoveBody { number, part: Part::Payload });
    }

    /// The item stays as it ended, as if it had not been sent.
    fn turned_away(&mut self, number: ItemNumber, out: &mut Output) {
        let (entry, outcome, outgoing) = self.leaving(number);
        if outgoing.forgotten {
            self.erase(number, out);
            return;
        }
        let outcome = Outcome { outgoing: None, ..outcome.clone() };
        let next = entry.with_state(State::Final(Box::new(outcome)));
        self.write(number, next, out);
    }

    /// Forgets a final item whose time is over; if it has not arrived yet where it goes, all but that. It is seen again if it
    /// falls back.
    pub(in crate::partition) fn forget(&mut self, number: ItemNumber, out: &mut Output) {
        self.forget_but_its_move(number, false, out);
    }

    /// The same for an item that is deleted: nothing of it is ever seen again here.
    pub(in crate::partition) fn forget_deleted(&mut self, number: ItemNumber, out: &mut Output) {
        self.forget_but_its_move(number, true, out);
    }

    fn forget_but_its_move(&mut self, number: ItemNumber, deleted: bool, out: &mut Output) {
        let moving = self.items.get(&number).is_some_and(|entry| entry.state.outgoing().is_some());
        if !moving {
            self.erase(number, out);
            return;
        }
        let overhead = self.events.overhead(number);
        let (entry, outcome, outgoing) = self.leaving(number);
        let outgoing = Outgoing { forgotten: true, deleted, ..outgoing.clone() };
        let mut outcome = Outcome { outgoing: Some(Box::new(outgoing)), ..outcome.clone() };
        let mut next = entry.clone();
        if let Some(extras) = &mut next.extras {
            // Its events go now. Should it fall back, it is an item that never had any.
            outcome.kept_bytes -= extras.event_bytes + overhead;
            (extras.event_count, extras.event_bytes) = (0, 0);
        }
        next.drop_empty_extras();
        next.state = State::Final(Box::new(outcome));
        if self.events.has_any(number) {
            self.erase_events(number, None, out);
        }
        self.write(number, next, out);
    }

    fn update_move(&mut self, number: ItemNumber, out: &mut Output, update: impl FnOnce(&mut Outgoing)) {
        let (entry, outcome, outgoing) = self.leaving(number);
        let mut outgoing = outgoing.clone();
        update(&mut outgoing);
        let outcome = Outcome { outgoing: Some(Box::new(outgoing)), ..outcome.clone() };
        let next = entry.with_state(State::Final(Box::new(outcome)));
        self.write(number, next, out);
    }
}
