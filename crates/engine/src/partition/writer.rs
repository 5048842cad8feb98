//! The one place where core, clock and store meet: drain the inbox, apply each verb at a `now` that is not
//! before it came, commit once, then answer everybody. While a batch is made durable the next one gathers; that is all there is to group commit.

use std::iter::from_fn;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use windlass_core::footprint::Footprint;
use windlass_core::limits::ERROR_BYTES_MAX;
use windlass_core::mutant::{self, Mutant};
use windlass_core::partition::Partition;
use windlass_core::refusal::Refusal;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verb::{Applied, Verb};
use windlass_core::verbs::{Configure, Filter, Release, Route, TakeRules};

use crate::clock::Clock;
use crate::env::Env;
use crate::error::EngineError;
use crate::meter::Meter;
use crate::partition::call::Call;
use crate::partition::copies;
use crate::partition::gathered::{Gathered, Part, bytes_of};
use crate::partition::handle::{Handle, NewOrders};
use crate::partition::in_flight::InFlight;
use crate::partition::lookout::Lookout;
use crate::partition::message::Message;
use crate::partition::published::{Rest, Summary};
use crate::partition::streams::Followed;
use crate::store::{Batch, CommitError, Room, Store, StoreError};

/// What one batch takes from the inbox: bounded, so that the next one is never far.
const BATCH_MESSAGES_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Items that time brings along, per batch: a million due at once must not hold up a single caller.
const SWEEP_SLICES: usize = 4;
const SWEEP_SLICE: usize = 250;
/// The row of an item with the longest errors comes to less.
const ITEM_ROW_BYTES: usize = 3 * ERROR_BYTES_MAX;

/// How long crons wait before they look for room again.
const CRONS_WAIT: Span = Span::from_secs(1);

/// Waiting leases are served until the batch holds so many changes; the rest comes with the next.
const BATCH_CHANGES_MAX: usize = 8192;

pub(crate) struct Writer {
    pub(crate) handle: Arc<Handle>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) partition: Partition,
    pub(crate) lookout: Lookout,
    pub(crate) epoch: u64,
    /// The last commit that is durable.
    pub(crate) sequence: u64,
    /// The reload that it came with.
    pub(crate) reloaded: u64,
}

/// Why a writer ended.
pub(crate) enum Ended {
    Stopped,
    /// Somebody wants the truth read back.
    Reload,
    /// The commit failed; what was in flight waits for its outcome. `committed` tells whether any had succeeded.
    Failed {
        error: CommitError,
        in_flight: Box<InFlight>,
        committed: bool,
    },
    /// A verb was too large for the store and has been refused, but memory has its changes. Callers of verbs that
    /// were committed before it still wait for their answers.
    TooLarge {
        in_flight: Box<InFlight>,
    },
}

impl Ended {
    fn failed((error, in_flight): Failed, committed: bool) -> Self {
        Self::Failed { error, in_flight: Box::new(in_flight), committed }
    }
}

/// What woke the writer.
enum Event {
    Message(Message),
    /// A ticket, something given back, or a moment that came.
    Attention,
    Stop,
    Reload,
}

/// What ends a writer from outside.
struct Calls {
    stopping: watch::Receiver<bool>,
    reloads: watch::Receiver<u64>,
}

/// Outcome of a batch that did not fail.
enum Finished {
    Committed,
    /// A verb was too large for the store: the writer ends with [`Ended::TooLarge`].
    TooLarge(Box<InFlight>),
}

/// Why a commit failed, and the answers that wait for its outcome.
type Failed = (CommitError, InFlight);

impl Writer {
    pub(crate) async fn run(mut self, inbox: &mut mpsc::Receiver<Message>) -> Ended {
        let mut calls = Calls { stopping: self.handle.stopping(), reloads: self.handle.reload.wishes() };
        let first = self.sequence;
        loop {
            let event = self.next_event(inbox, &mut calls).await;
            if matches!(event, Event::Reload) {
                // Nothing is in flight between two batches; what waits in the inbox waits on.
                return Ended::Reload;
            }
            let stop = matches!(event, Event::Stop);
            let mut gathered = self.gather(event, inbox);
            if !stop && gathered.look_for_waiters {
                self.serve_waiters(&mut gathered);
            }
            match self.finish(gathered).await {
                Ok(Finished::Committed) => {}
                Ok(Finished::TooLarge(in_flight)) => {
                    return Ended::TooLarge { in_flight };
                }
                Err(failed) => return Ended::failed(failed, self.sequence > first),
            }
            if stop && inbox.is_empty() && self.handle.nothing_given_back() {
                return Ended::Stopped;
            }
        }
    }

    async fn next_event(&mut self, inbox: &mut mpsc::Receiver<Message>, calls: &mut Calls) -> Event {
        let due = self.partition.next_due();
        let due_now = due.is_some_and(|due| due <= self.clock.now());
        let sleep = async {
            match due {
                Some(_) if due_now => {}
                Some(due) => self.env.sleep_until(self.clock.wake_at(due)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _stop = calls.stopping.wait_for(|stop| *stop) => Event::Stop,
            _reload = calls.reloads.wait_for(|wanted| *wanted > self.reloaded) => Event::Reload,
            // Before the inbox, which may never be empty.
            () = self.handle.woken() => Event::Attention,
            message = inbox.recv() => message.map_or(Event::Stop, Event::Message),
            () = sleep => Event::Attention,
        }
    }

    /// In rounds, each at a time of its own: who comes while one is taken belongs to the same batch, but must not be
    /// judged by a time before they asked.
    fn gather(&mut self, event: Event, inbox: &mut mpsc::Receiver<Message>) -> Gathered {
        // Counted before the clock is read.
        let mut arrived = inbox.len();
        let mut gathered = self.begin(&event);
        let mut first = if let Event::Message(message) = event { Some(message) } else { None };
        loop {
            // A sweep comes first, so that whoever asks sees what time has brought.
            if !(mutant::active(Mutant::IgnoreDeadline) && first.is_some()) {
                self.sweep(&mut gathered);
            }
            self.configure(&mut gathered);
            self.take_back(&mut gathered);
            self.forget_watched();
            let round = first.take().into_iter().chain(from_fn(|| inbox.try_recv().ok()).take(arrived));
            self.take_round(round, &mut gathered);
            if inbox.is_empty() || self.is_full(&gathered) {
                return gathered;
            }
            arrived = inbox.len();
            gathered.now = self.clock.now();
        }
    }

    fn begin(&self, event: &Event) -> Gathered {
        let main = Part::new(&self.handle, self.sequence);
        Gathered {
            look_for_waiters: matches!(event, Event::Attention),
            ..Gathered::new(self.clock.now(), main)
        }
    }

    fn take_round(&mut self, round: impl Iterator<Item = Message>, gathered: &mut Gathered) {
        for message in round {
            self.handle.taken(&message);
            self.take(message, gathered);
            gathered.messages += 1;
            if self.is_full(gathered) {
                return;
            }
        }
    }

    fn is_full(&self, gathered: &Gathered) -> bool {
        gathered.messages >= BATCH_MESSAGES_MAX || !self.has_room(gathered)
    }

    fn has_room(&self, gathered: &Gathered) -> bool {
        gathered.apart.is_none()
            && gathered.main.bytes < BATCH_BYTES_MAX.min(self.store.batch_bytes_max() / 4)
            && gathered.main.changes.len() < BATCH_CHANGES_MAX
    }

    /// Releases grants that reached nobody: not more at once than a store takes beside a sweep.
    fn take_back(&mut self, gathered: &mut Gathered) {
        let bytes_max = gathered.main.bytes + self.own_bytes_max();
        let slice = (self.own_bytes_max() / ITEM_ROW_BYTES).clamp(1, SWEEP_SLICE);
        let mut left = SWEEP_SLICE;
        while gathered.main.bytes < bytes_max && left > 0 {
            let given_back = self.handle.take_given_back(slice.min(left));
            if given_back.is_empty() {
                return;
            }
            left -= given_back.len();
            gathered.main.in_flight.released(&given_back);
            // Nobody is told: what has been lost meanwhile is refused, and that is just as well.
            let _refused_singly = self.apply_own(Release(given_back), gathered);
        }
        self.handle.wake();
    }

    /// Nobody waits for them to end, or follows them, any more.
    fn forget_watched(&mut self) {
        self.handle.watchers.take_left().into_iter().for_each(|number| self.partition.unwatch(number));
        self.handle.streams.take_left().into_iter().for_each(|number| self.partition.unfollow(number));
    }

    /// Takes over what the registry says, where that is another version than the partition's copy: before anything is leased.
    fn configure(&mut self, gathered: &mut Gathered) {
        let NewOrders { settings, intake, rules } = self.orders();
        if let Some(settings) = settings {
            let _never_refused = self.apply_own(Configure(settings), gathered);
        }
        // A deletion closes the partition in its turn: what is in the inbox before it was sent in time.
        if let Some(intake) = intake.filter(|intake| !intake.is_closing()) {
            let _never_refused = self.apply_own(Route(intake), gathered);
        }
        if let Some(rules) = rules {
            let _never_refused = self.apply_own(TakeRules(rules), gathered);
        }
    }

    pub(crate) fn orders(&self) -> NewOrders {
        let partition = &self.partition;
        let (settings, intake) = (partition.settings().version, partition.intake().version);
        self.handle.orders_unless(settings, intake, partition.rules_version())
    }

    fn take(&mut self, message: Message, gathered: &mut Gathered) {
        match message {
            Message::Query(question) => {
                gathered.main.in_flight.query(question(&self.partition, gathered.now))
            }
            // One that is gone by now was forgotten before it came.
            Message::Watch { responder, .. } if responder.is_closed() => {}
            Message::Watch { number, responder } => {
                let item = self.partition.watch(number);
                gathered.main.in_flight.query(Box::new(move || {
                    let _asker_gone = responder.send(item);
                }));
            }
            Message::Follow { responder, .. } if responder.is_closed() => {}
            Message::Follow { number, responder } => {
                let told = self.handle.streams.told();
                let followed = self.partition.follow(number).map(|item| {
                    let member = self.partition.member(&item);
                    Followed { item, member, told }
                });
                gathered.main.in_flight.query(Box::new(move || {
                    let _asker_gone = responder.send(followed);
                }));
            }
            // The server never does the work for a caller it knows to be gone.
            Message::Call(call) if call.is_abandoned() => {}
            Message::Call(call) => self.take_call(call, gathered),
        }
    }

    fn take_call(&mut self, mut call: Box<dyn Call>, gathered: &mut Gathered) {
        match self.check_room(&*call, gathered.now) {
            Ok(()) => {
                let applied = call.apply(&mut self.partition, gathered.now);
                let _kept_by_the_call = self.add(applied, gathered);
            }
            Err(error) => call.refuse(error),
        }
        gathered.last().in_flight.call(call);
    }

    /// Looked at before anything is applied: a store that is full must still take completions in the same batch.
    fn check_room(&self, call: &dyn Call, now: Timestamp) -> Result<(), EngineError> {
        let (bytes, max) = (call.bytes(), self.store.batch_bytes_max());
        if bytes > max {
            return Err(EngineError::TooLarge(StoreError::TooLarge { bytes, max }));
        }
        let least = self.least_footprint();
        if least > Footprint::Grows && call.footprint(&self.partition, now) < least {
            return Err(self.store_full());
        }
        Ok(())
    }

    /// What is refused, with the room that is left: everything before it in the order of [`Footprint`].
    fn least_footprint(&self) -> Footprint {
        match self.store.room(self.handle.id) {
            Room::Enough => Footprint::Grows,
            Room::Full => Footprint::Rewrites,
            Room::Last => Footprint::Frees,
        }
    }

    fn store_full(&self) -> EngineError {
        EngineError::store_full(self.store.name_of(self.handle.id))
    }

    /// A verb that somebody waits for.
    fn apply<V: Verb>(&mut self, verb: V, gathered: &mut Gathered) -> Result<V::Reply, Refusal> {
        let applied = self.partition.apply(gathered.now, verb);
        self.add(applied, gathered)
    }

    /// What a verb did that somebody waits for. If it might make the batch too large, it is put apart: then it is the last.
    fn add<R>(&self, applied: Applied<R>, gathered: &mut Gathered) -> Result<R, Refusal> {
        if gathered.main.bytes + bytes_of(&applied) > self.store.batch_bytes_max() {
            gathered.apart = Some(Part::new(&self.handle, self.sequence));
        }
        gathered.add(applied)
    }

    /// A verb of the writer itself, which is never too large: nobody could be told.
    fn apply_own<V: Verb>(&mut self, verb: V, gathered: &mut Gathered) -> Result<V::Reply, Refusal> {
        gathered.add(self.partition.apply(gathered.now, verb))
    }

    /// Acts on some of what has come due.
    fn sweep(&mut self, gathered: &mut Gathered) {
        let full = self.least_footprint() > Footprint::Grows;
        self.partition.hold_crons_until(if full { gathered.now + CRONS_WAIT } else { Timestamp(0) });
        // All sweeps of a batch come to at most three times this and one body, and what is given back to once more: less than
        // the store takes, which is twice `batch_bytes_max`.
        self.partition.limit_own_bytes(self.store.batch_bytes_max() as u64 / 4);
        while gathered.sweeps < SWEEP_SLICES {
            let due = self.partition.next_due().is_some_and(|due| due <= gathered.now);
            if !due || gathered.main.bytes >= self.own_bytes_max() {
                return;
            }
            gathered.sweeps += 1;
            let _count = gathered.add(self.partition.sweep(gathered.now, SWEEP_SLICE));
        }
    }

    fn own_bytes_max(&self) -> usize {
        self.partition.own_bytes_max() as usize
    }

    /// Grants to whoever waits, in the same commit that made the work available.
    fn serve_waiters(&mut self, gathered: &mut Gathered) {
        if self.least_footprint() > Footprint::Rewrites {
            return self.refuse_waiters();
        }
        while self.has_room(gathered) {
            let waiters = Arc::clone(&self.handle.waiters);
            let Some(ticket) = self.lookout.take(&waiters, &mut self.partition) else { return };
            // It may have come since the last round.
            gathered.now = self.clock.now();
            let items = self.apply(ticket.lease().clone(), gathered).expect("a lease is never refused");
            if items.is_empty() {
                // What it saw was overdue, and more of it than one lease clears away: the sweep goes on with that.
                waiters.put_back(&ticket);
                return;
            }
            gathered.last().in_flight.ticket(ticket, items);
        }
        // There may be more than fits this batch: come again.
        self.handle.wake();
    }

    /// Tells those who could be served, if there were room for their leases: nobody would wake them once there is.
    fn refuse_waiters(&mut self) {
        let error = self.store_full();
        while let Some(ticket) = self.lookout.take(&self.handle.waiters, &mut self.partition) {
            ticket.refuse(error.clone());
        }
    }

    /// Makes the batch durable and answers. Nobody hears anything before.
    async fn finish(&mut self, gathered: Gathered) -> Result<Finished, Failed> {
        let Gathered { now, main, apart, .. } = gathered;
        let Some(apart) = apart else {
            let (in_flight, changed) = self.make_durable(now, main).await?;
            let summary = changed.then(|| self.summary());
            in_flight.committed(summary).await;
            return Ok(Finished::Committed);
        };
        match self.make_durable(now, main).await {
            Ok((before, changed)) => self.finish_apart(now, before, changed, apart).await,
            Err(failed) => {
                apart.in_flight.not_applied(&EngineError::not_applied("the commit before it failed"));
                Err(failed)
            }
        }
    }

    /// `before` waits for its answers until what is apart is durable too, because memory, from which the counts come, has
    /// both. If that fails, memory is thrown away, and `before` is answered as the truth is read back.
    async fn finish_apart(
        &mut self,
        now: Timestamp,
        before: InFlight,
        changed: bool,
        apart: Part,
    ) -> Result<Finished, Failed> {
        match self.make_durable(now, apart).await {
            Ok((in_flight, _)) => {
                let summary = self.summary();
                before.committed(changed.then_some(summary)).await;
                in_flight.committed(Some(summary)).await;
                Ok(Finished::Committed)
            }
            Err((error, in_flight)) if is_too_large(&error) => {
                in_flight.too_large(&EngineError::from(&error));
                Ok(Finished::TooLarge(Box::new(before)))
            }
            Err(failed) => {
                before.committed(None).await;
                Err(failed)
            }
        }
    }

    /// Tells whether there was anything to be made durable.
    async fn make_durable(&mut self, now: Timestamp, part: Part) -> Result<(InFlight, bool), Failed> {
        let Part { changes, copies, mut in_flight, .. } = part;
        if changes.is_empty() {
            if self.store.epoch(self.handle.id) != self.epoch {
                return Err((CommitError::NotApplied(StoreError::Fenced), in_flight));
            }
            return Ok((in_flight, false));
        }
        in_flight.sequence = self.sequence + 1;
        let changes = match copies::made(&*self.store, self.handle.id, copies, changes).await {
            Ok(changes) => changes,
            Err(error) => return Err((CommitError::NotApplied(error), in_flight)),
        };
        let batch = Batch {
            partition: self.handle.id,
            epoch: self.epoch,
            sequence: in_flight.sequence,
            now,
            changes,
        };
        if mutant::active(Mutant::AnswerBeforeCommit) {
            let hasty = std::mem::replace(&mut in_flight, InFlight::new(&self.handle, self.sequence + 1));
            hasty.committed(None).await;
        }
        if let Err(error) = self.commit(batch).await {
            return Err((error, in_flight));
        }
        in_flight.is_durable = true;
        self.sequence += 1;
        Ok((in_flight, true))
    }

    pub(crate) async fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        let (began, changes) = (self.env.boot(), batch.changes.len());
        self.store.commit(batch).await?;
        self.meter.committed(self.env.boot().saturating_sub(began), changes);
        Ok(())
    }

    fn rest(&self) -> Rest {
        if self.partition.is_bare() {
            Rest::Bare
        } else if self.partition.is_drained() {
            Rest::Drained
        } else if self.partition.is_left_to_crons() {
            Rest::OnlyCrons
        } else {
            Rest::Serving
        }
    }

    pub(crate) fn summary(&mut self) -> Summary {
        Summary {
            counts: self.partition.counts(),
            head: self.partition.head(&Filter::ANY),
            next_due: self.partition.next_due(),
            oldest_waiting: self.partition.next_oldest_waiting(),
            retained: self.partition.retained(),
            moving: self.partition.moving(),
            outgoing: self.partition.has_outgoing(),
            has_crons: self.partition.crons().next().is_some(),
            rest: self.rest(),
            lingering: self.partition.lingering(),
            sequence: self.sequence,
            stopped: self.partition.stopped(),
        }
    }
}

fn is_too_large(error: &CommitError) -> bool {
    matches!(error, CommitError::NotApplied(StoreError::TooLarge { .. }))
}
