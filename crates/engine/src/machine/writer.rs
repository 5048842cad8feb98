//! The one place where core, clock and store meet: drain the inbox, apply each verb at a `now` that is not
//! before it came, commit once, then answer everybody. While a batch is made durable the next one gathers; that is all there is to group commit.

use std::future::poll_fn;
use std::iter::from_fn;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use windlass_core::footprint::Footprint;
use windlass_core::machine::Applied;
use windlass_core::mutant::{self, Mutant};
use windlass_core::refusal::Refusal;
use windlass_core::time::Timestamp;
use windlass_core::verb::Verb;

use super::Served;
use super::call::Call;
use super::copies;
use super::gathered::{Gathered, Part, bytes_of};
use super::in_flight::InFlight;
use super::message::Message;
use crate::clock::{Clock, Times};
use crate::env::Env;
use crate::error::EngineError;
use crate::meter::Meter;
use crate::store::{Batch, CommitError, Room, Store, StoreError};

/// What one batch takes from the inbox: bounded, so that the next one is never far.
const BATCH_MESSAGES_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Items that time brings along, per batch: a million due at once must not hold up a single caller.
const SWEEP_SLICES: usize = 4;
pub(crate) const SWEEP_SLICE: usize = 250;

/// Waiting leases are served until the batch holds so many changes; the rest comes with the next.
const BATCH_CHANGES_MAX: usize = 8192;

pub(crate) struct Writer<M: Served> {
    pub(crate) handle: Arc<M::Handle>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) machine: M,
    pub(crate) desk: M::Desk,
    pub(crate) epoch: u64,
    /// The last commit that is durable.
    pub(crate) sequence: u64,
    /// The reload that it came with.
    pub(crate) reloaded: u64,
    /// Whether the writer waited for the present batch, so that whatever it woke before has had its turn.
    pub(crate) has_waited: bool,
    /// Whether the batch before had several messages.
    pub(crate) is_crowded: bool,
}

/// Why a writer ended.
pub(crate) enum Ended<M: Served> {
    Stopped,
    /// Somebody wants the truth read back.
    Reload,
    /// The commit failed; what was in flight waits for its outcome. `committed` tells whether any had succeeded.
    Failed {
        error: CommitError,
        in_flight: Box<InFlight<M>>,
        committed: bool,
    },
    /// A verb was too large for the store and has been refused, but memory has its changes. Callers of verbs that
    /// were committed before it still wait for their answers.
    TooLarge {
        in_flight: Box<InFlight<M>>,
    },
}

impl<M: Served> Ended<M> {
    fn failed((error, in_flight): Failed<M>, committed: bool) -> Self {
        Self::Failed { error, in_flight: Box::new(in_flight), committed }
    }
}

/// What woke the writer.
enum Event<M: Served> {
    Message(Message<M>),
    /// A ticket, something given back, or a moment that came.
    Attention,
    Stop,
    Reload,
}

/// Outcome of a batch that did not fail.
enum Finished<M: Served> {
    Committed,
    /// A verb was too large for the store: the writer ends with [`Ended::TooLarge`].
    TooLarge(Box<InFlight<M>>),
}

/// Why a commit failed, and the answers that wait for its outcome.
type Failed<M> = (CommitError, InFlight<M>);

impl<M: Served> Writer<M> {
    pub(crate) async fn run(mut self, inbox: &mut mpsc::Receiver<Message<M>>) -> Ended<M> {
        let first = self.sequence;
        loop {
            let waiting = self.next_event(inbox);
            let (event, has_waited) = waited(waiting).await;
            self.has_waited = has_waited;
            if matches!(event, Event::Reload) {
                // Nothing is in flight between two batches; what waits in the inbox waits on.
                return Ended::Reload;
            }
            if self.is_crowded && matches!(event, Event::Message(_)) {
                // Others are likely to ask too: whoever is ready to gets into the same batch, and shares its sync.
                tokio::task::yield_now().await;
            }
            let stop = matches!(event, Event::Stop);
            let mut gathered = self.gather(event, inbox);
            if !stop {
                M::end_batch(&mut self, &mut gathered);
            }
            self.is_crowded = gathered.messages > 1;
            match self.finish(gathered).await {
                Ok(Finished::Committed) => {}
                Ok(Finished::TooLarge(in_flight)) => {
                    return Ended::TooLarge { in_flight };
                }
                Err(failed) => return Ended::failed(failed, self.sequence > first),
            }
            if stop && inbox.is_empty() && !M::has_more(&self.handle) {
                return Ended::Stopped;
            }
        }
    }

    async fn next_event(&mut self, inbox: &mut mpsc::Receiver<Message<M>>) -> Event<M> {
        if let Some(end) = self.end_wanted() {
            // A writer that stops takes what its inbox has, batch after batch: others get their turn in between.
            tokio::task::consume_budget().await;
            return end;
        }
        let due = self.machine.next_due();
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
            // Before the inbox, which may never be empty.
            () = self.handle.woken() => self.end_wanted().unwrap_or(Event::Attention),
            message = inbox.recv() => message.map_or(Event::Stop, Event::Message),
            () = sleep => Event::Attention,
        }
    }

    /// `Stop` or `Reload`, if asked for. `Mailbox::stop` and `Reload::ask` notify `wake` after they set their value, so
    /// `next_event` waits for `wake` alone.
    fn end_wanted(&self) -> Option<Event<M>> {
        match () {
            () if self.handle.is_stopping() => Some(Event::Stop),
            () if self.handle.reload.wanted() > self.reloaded => Some(Event::Reload),
            () => None,
        }
    }

    /// In rounds, each at a time of its own: who comes while one is taken belongs to the same batch, but must not be
    /// judged by a time before they asked.
    fn gather(&mut self, event: Event<M>, inbox: &mut mpsc::Receiver<Message<M>>) -> Gathered<M> {
        // Counted before the clock is read.
        let mut arrived = inbox.len();
        let mut gathered = self.begin(&event);
        let mut first = if let Event::Message(message) = event { Some(message) } else { None };
        loop {
            let ignores_deadlines = mutant::active(Mutant::IgnoreDeadline) && first.is_some();
            M::begin_round(self, !ignores_deadlines, &mut gathered);
            let round = first.take().into_iter().chain(from_fn(|| inbox.try_recv().ok()).take(arrived));
            self.take_round(round, &mut gathered);
            if inbox.is_empty() || self.is_full(&gathered) {
                return gathered;
            }
            arrived = inbox.len();
            gathered.now = self.clock.now();
        }
    }

    fn begin(&self, event: &Event<M>) -> Gathered<M> {
        let Times { now, of_server } = self.clock.read();
        let main = Part::new(&self.handle, self.sequence, of_server);
        Gathered { look_for_waiters: matches!(event, Event::Attention), ..Gathered::new(now, main) }
    }

    fn take_round(&mut self, round: impl Iterator<Item = Message<M>>, gathered: &mut Gathered<M>) {
        for message in round {
            self.handle.taken(&message);
            self.take(message, gathered);
            gathered.messages += 1;
            if self.is_full(gathered) {
                return;
            }
        }
    }

    fn is_full(&self, gathered: &Gathered<M>) -> bool {
        gathered.messages >= BATCH_MESSAGES_MAX || !self.has_room(gathered)
    }

    pub(crate) fn has_room(&self, gathered: &Gathered<M>) -> bool {
        gathered.apart.is_none()
            && gathered.main.bytes < BATCH_BYTES_MAX.min(self.store.batch_bytes_max() / 4)
            && gathered.main.changes.len() < BATCH_CHANGES_MAX
    }

    fn take(&mut self, message: Message<M>, gathered: &mut Gathered<M>) {
        match message {
            Message::Query(question) => {
                gathered.main.in_flight.query(question(&self.machine, gathered.now));
            }
            Message::Request(request) => M::take(self, request, gathered),
            // The server never does the work for a caller it knows to be gone.
            Message::Call(call) if call.is_abandoned() => {}
            Message::Call(call) => self.take_call(call, gathered),
        }
    }

    fn take_call(&mut self, mut call: Box<dyn Call<M>>, gathered: &mut Gathered<M>) {
        match self.check_room(&*call, gathered.now) {
            Ok(()) => {
                let applied = call.apply(&mut self.machine, gathered.now);
                let _kept_by_the_call = self.add(applied, gathered);
            }
            Err(error) => call.refuse(error),
        }
        gathered.last().in_flight.call(call);
    }

    /// Looked at before anything is applied: a store that is full must still take completions in the same batch.
    fn check_room(&self, call: &dyn Call<M>, now: Timestamp) -> Result<(), EngineError> {
        let (bytes, max) = (call.bytes(), self.store.batch_bytes_max());
        if bytes > max {
            return Err(EngineError::TooLarge(StoreError::TooLarge { bytes, max }));
        }
        let least = self.least_footprint();
        if least > Footprint::Grows && call.footprint(&self.machine, now) < least {
            return Err(self.store_full());
        }
        Ok(())
    }

    /// What is refused, with the room that is left: everything before it in the order of [`Footprint`].
    pub(crate) fn least_footprint(&self) -> Footprint {
        match self.store.room(self.handle.id) {
            Room::Enough => Footprint::Grows,
            Room::Full => Footprint::Rewrites,
            Room::Last => Footprint::Frees,
        }
    }

    pub(crate) fn store_full(&self) -> EngineError {
        EngineError::store_full(self.store.name_of(self.handle.id))
    }

    /// A verb that somebody waits for.
    pub(crate) fn apply<V: Verb<M>>(
        &mut self,
        verb: V,
        gathered: &mut Gathered<M>,
    ) -> Result<V::Reply, Refusal> {
        let applied = self.machine.apply(gathered.now, verb);
        self.add(applied, gathered)
    }

    /// What a verb did that somebody waits for. If it might make the batch too large, it is put apart: then it is the last.
    fn add<R>(&self, applied: Applied<R>, gathered: &mut Gathered<M>) -> Result<R, Refusal> {
        if gathered.main.bytes + bytes_of(&applied) > self.store.batch_bytes_max() {
            let at = gathered.main.in_flight.at;
            gathered.apart = Some(Part::new(&self.handle, self.sequence, at));
        }
        gathered.add(applied)
    }

    /// A verb of the writer itself, which is never too large: nobody could be told.
    pub(crate) fn apply_own<V: Verb<M>>(
        &mut self,
        verb: V,
        gathered: &mut Gathered<M>,
    ) -> Result<V::Reply, Refusal> {
        gathered.add(self.machine.apply(gathered.now, verb))
    }

    /// Acts on some of what has come due, until that has made the batch `bytes_max` large.
    pub(crate) fn sweep(&mut self, bytes_max: usize, gathered: &mut Gathered<M>) {
        while gathered.sweeps < SWEEP_SLICES {
            let due = self.machine.next_due().is_some_and(|due| due <= gathered.now);
            if !due || gathered.main.bytes >= bytes_max {
                return;
            }
            gathered.sweeps += 1;
            let _count = gathered.add(self.machine.sweep(gathered.now, SWEEP_SLICE));
        }
    }

    /// Makes the batch durable and answers. Nobody hears anything before.
    async fn finish(&mut self, gathered: Gathered<M>) -> Result<Finished<M>, Failed<M>> {
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
        before: InFlight<M>,
        changed: bool,
        apart: Part<M>,
    ) -> Result<Finished<M>, Failed<M>> {
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
    async fn make_durable(
        &mut self,
        now: Timestamp,
        part: Part<M>,
    ) -> Result<(InFlight<M>, bool), Failed<M>> {
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
            may_block: self.has_waited && in_flight.callers() == 1,
        };
        if mutant::active(Mutant::AnswerBeforeCommit) {
            let empty = InFlight::new(&self.handle, self.sequence + 1, in_flight.at);
            let hasty = std::mem::replace(&mut in_flight, empty);
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

    pub(crate) fn summary(&mut self) -> M::Summary {
        self.machine.summary(self.sequence)
    }
}

fn is_too_large(error: &CommitError) -> bool {
    matches!(error, CommitError::NotApplied(StoreError::TooLarge { .. }))
}

/// Tells whether the future was ever not ready.
async fn waited<T>(future: impl Future<Output = T>) -> (T, bool) {
    let (mut future, mut has_waited) = (pin!(future), false);
    let done = poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        has_waited |= polled.is_pending();
        polled
    });
    (done.await, has_waited)
}
