//! A partition as its writer runs it: what comes before and after the messages of a batch.

use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::footprint::Footprint;
use windlass_core::id::ItemNumber;
use windlass_core::item::{End, Item, Phase};
use windlass_core::limits::ERROR_BYTES_MAX;
use windlass_core::partition::Partition;
use windlass_core::row::Change;
use windlass_core::time::{Span, Timestamp};
use windlass_core::urgency::Urgency;
use windlass_core::verbs::{Configure, Filter, Held, Release, Route, TakeRules};

use crate::error::EngineError;
use crate::machine::Served;
use crate::machine::call::{Answer, Answered};
use crate::machine::gathered::Gathered;
use crate::machine::writer::{SWEEP_SLICE, Writer};
use crate::partition::effects::Effects;
use crate::partition::grant::TakenTicket;
use crate::partition::handle::Handle;
use crate::partition::lookout::Lookout;
use crate::partition::orders::NewOrders;
use crate::partition::published::{Rest, Summary};
use crate::partition::streams::Followed;
use crate::partition::watchers::Closed;

/// The row of an item with the longest errors comes to less.
const ITEM_ROW_BYTES: usize = 3 * ERROR_BYTES_MAX;

/// How long crons wait before they look for room again.
const CRONS_WAIT: Span = Span::from_secs(1);

/// Messages that only a partition takes.
#[derive(Debug)]
pub(crate) enum Request {
    /// Somebody waits for the item to end; answered by the item as it is.
    Watch { number: ItemNumber, responder: oneshot::Sender<Option<Item>> },
    /// Somebody wants to hear everything of the item; answered by the item as it is.
    Follow { number: ItemNumber, responder: oneshot::Sender<Option<Followed>> },
    /// Somebody waits until the partition has taken its orders over.
    Heed(oneshot::Sender<Result<Answer<()>, EngineError>>),
}

impl Served for Partition {
    type Handle = Handle;
    type Request = Request;
    type Desk = Lookout;
    type Effects = Effects;
    type Summary = Summary;

    fn empty(handle: &Handle, now: Timestamp) -> Self {
        Self::new(handle.id, now)
    }

    /// Workers could not reach the partition while it was loaded either.
    fn loaded(&mut self, now: Timestamp) {
        self.acquired(now);
    }

    fn catch_up(&mut self, handle: &Handle, now: Timestamp) -> Vec<Change> {
        let NewOrders { settings, intake, rules } = handle.orders.new_to(self);
        let applied = [
            settings.map(|settings| self.apply(now, Configure(settings))),
            intake.map(|intake| self.apply(now, Route(intake))),
            rules.map(|rules| self.apply(now, TakeRules(rules))),
        ];
        let mut changes = Vec::new();
        for applied in applied.into_iter().flatten() {
            assert!(applied.copies.is_empty(), "orders make no items");
            changes.extend(applied.changes);
        }
        changes
    }

    fn summary(&mut self, sequence: u64) -> Summary {
        Summary {
            counts: self.counts(),
            head: self.head(&Filter::ANY),
            next_due: self.next_due(),
            oldest_waiting: self.next_oldest_waiting(),
            retained: self.retained(),
            failed: self.retained_as(End::Failed),
            expired: self.retained_as(End::Expired),
            moving: self.moving(),
            outgoing: self.has_outgoing(),
            has_crons: self.crons().next().is_some(),
            rest: rest(self),
            lingering: self.lingering(),
            sequence,
            stopped: self.stopped(),
        }
    }

    fn publish(handle: &Handle, summary: Summary) {
        handle.publish(summary);
    }

    fn serves(writer: &mut Writer<Self>, summary: Summary) {
        writer.handle.arrivals.tell();
        if summary.outgoing || summary.has_crons {
            writer.handle.sends();
        }
        writer.watch_again();
    }

    fn withdraw(handle: &Handle) {
        handle.published.withdraw();
    }

    fn ended(handle: &Handle) {
        handle.send_home(Closed::Stopped);
    }

    fn begin_round(writer: &mut Writer<Self>, sweeps: bool, gathered: &mut Gathered<Self>) {
        if sweeps {
            writer.sweep_within_room(gathered);
        }
        // A deletion closes the partition in the turn of its `heed`: what is in the inbox before was sent in time.
        writer.take_orders_over(|intake| !intake.is_closing(), gathered);
        writer.take_back(gathered);
        writer.forget_watched();
    }

    fn urgency(request: &Request) -> Urgency {
        match request {
            Request::Watch { .. } | Request::Follow { .. } => Urgency::Ordinary,
            Request::Heed(_) => Urgency::Settling,
        }
    }

    fn take(writer: &mut Writer<Self>, request: Request, gathered: &mut Gathered<Self>) {
        match request {
            // One that is gone by now was forgotten before it came.
            Request::Watch { responder, .. } if responder.is_closed() => {}
            Request::Watch { number, responder } => {
                let item = writer.machine.watch(number);
                gathered.main.in_flight.query(Box::new(move || {
                    let _asker_gone = responder.send(item);
                }));
            }
            Request::Follow { responder, .. } if responder.is_closed() => {}
            Request::Follow { number, responder } => {
                let told = writer.handle.streams.told();
                let followed = writer.machine.follow(number).map(|item| {
                    let member = writer.machine.member(&item);
                    Followed { item, member, told }
                });
                gathered.main.in_flight.query(Box::new(move || {
                    let _asker_gone = responder.send(followed);
                }));
            }
            Request::Heed(responder) => {
                writer.take_orders_over(|_| true, gathered);
                gathered.last().in_flight.waiter(Box::new(Heeding(responder)));
            }
        }
    }

    fn end_batch(writer: &mut Writer<Self>, gathered: &mut Gathered<Self>) {
        if gathered.look_for_waiters {
            writer.serve_waiters(gathered);
        }
    }

    fn has_more(handle: &Handle) -> bool {
        !handle.nothing_given_back()
    }
}

/// Somebody who waits until the partition has taken its orders over.
#[derive(Debug)]
struct Heeding(oneshot::Sender<Result<Answer<()>, EngineError>>);

impl Answered for Heeding {
    fn answer(self: Box<Self>, sequence: u64) {
        let _caller_gone = self.0.send(Ok(Answer { reply: (), sequence }));
    }

    fn fail(self: Box<Self>, error: EngineError) -> Vec<Held> {
        let _caller_gone = self.0.send(Err(error));
        Vec::new()
    }

    fn too_large(self: Box<Self>, error: EngineError) {
        self.fail(error);
    }
}

impl Writer<Partition> {
    fn sweep_within_room(&mut self, gathered: &mut Gathered<Partition>) {
        let full = self.least_footprint() > Footprint::Grows;
        self.machine.hold_crons_until(if full { gathered.now + CRONS_WAIT } else { Timestamp(0) });
        // All sweeps of a batch come to at most three times this and one body, and what is given back to once more: less than
        // the store takes, which is twice `batch_bytes_max`.
        self.machine.limit_own_bytes(self.store.batch_bytes_max() as u64 / 4);
        self.sweep(self.own_bytes_max(), gathered);
    }

    fn own_bytes_max(&self) -> usize {
        self.machine.own_bytes_max() as usize
    }

    /// Takes over what the registry says, where that is another version than the partition's copy: before anything is leased.
    fn take_orders_over(
        &mut self,
        is_due: impl Fn(&windlass_core::row::Intake) -> bool,
        gathered: &mut Gathered<Partition>,
    ) {
        let NewOrders { settings, intake, rules } = self.handle.orders.new_to(&self.machine);
        if let Some(settings) = settings {
            let _never_refused = self.apply_own(Configure(settings), gathered);
        }
        if let Some(intake) = intake.filter(is_due) {
            let _never_refused = self.apply_own(Route(intake), gathered);
        }
        if let Some(rules) = rules {
            let _never_refused = self.apply_own(TakeRules(rules), gathered);
        }
    }

    /// Releases grants that reached nobody: not more at once than a store takes beside a sweep.
    fn take_back(&mut self, gathered: &mut Gathered<Partition>) {
        let bytes_max = gathered.main.bytes + self.own_bytes_max();
        let slice = (self.own_bytes_max() / ITEM_ROW_BYTES).clamp(1, SWEEP_SLICE);
        let mut left = SWEEP_SLICE;
        while gathered.main.bytes < bytes_max && left > 0 {
            let given_back = self.handle.take_given_back(slice.min(left));
            if given_back.is_empty() {
                return;
            }
            left -= given_back.len();
            gathered.main.in_flight.effects.release(&given_back);
            // Nobody is told: what has been lost meanwhile is refused, and that is just as well.
            let _refused_singly = self.apply_own(Release(given_back), gathered);
        }
        self.handle.wake();
    }

    /// Nobody waits for them to end, or follows them, any more.
    fn forget_watched(&mut self) {
        self.handle.watchers.take_left().into_iter().for_each(|number| self.machine.unwatch(number));
        self.handle.streams.take_left().into_iter().for_each(|number| self.machine.unfollow(number));
    }

    /// Whoever waits for an item or follows it goes on, though what the partition knew of it was thrown away. Ends of the batch in
    /// flight were told when it was settled; only others, brought about elsewhere, are left to be looked at.
    fn watch_again(&mut self) {
        let partition = &mut self.machine;
        let lives = |number| partition.watch(number).is_some_and(|item| !item.state.phase().is_final());
        self.handle.watchers.look_unless(lives);
        let look = |number| {
            let item = partition.follow(number)?;
            let held = partition.member(&item).is_some_and(|member| member.held);
            let phase = if held { Phase::Held } else { item.state.phase() };
            Some((item, phase))
        };
        self.handle.streams.look_again(look, self.clock.now());
    }

    /// Grants to whoever waits, in the same commit that made the work available.
    fn serve_waiters(&mut self, gathered: &mut Gathered<Partition>) {
        if self.least_footprint() > Footprint::Rewrites {
            return self.refuse_waiters();
        }
        while self.has_room(gathered) {
            let waiters = Arc::clone(&self.handle.waiters);
            let Some(ticket) = self.desk.take(&waiters, &mut self.machine) else { return };
            // It may have come since the last round.
            gathered.go_on_at(self.clock.read());
            let items = self.apply(ticket.lease().clone(), gathered).expect("a lease is never refused");
            if items.is_empty() {
                // What it saw was overdue, and more of it than one lease clears away: the sweep goes on with that.
                waiters.put_back(&ticket);
                return;
            }
            let taken = TakenTicket::new(&self.handle, ticket, items);
            gathered.last().in_flight.waiter(Box::new(taken));
        }
        // There may be more than fits this batch: come again.
        self.handle.wake();
    }

    /// Tells those who could be served, if there were room for their leases: nobody would wake them once there is.
    fn refuse_waiters(&mut self) {
        let error = self.store_full();
        while let Some(ticket) = self.desk.take(&self.handle.waiters, &mut self.machine) {
            ticket.refuse(error.clone());
        }
    }
}

fn rest(partition: &Partition) -> Rest {
    if partition.is_bare() {
        Rest::Bare
    } else if partition.is_drained() {
        Rest::Drained
    } else if partition.is_left_to_crons() {
        Rest::OnlyCrons
    } else {
        Rest::Serving
    }
}
