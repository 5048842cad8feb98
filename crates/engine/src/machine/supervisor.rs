//! Keeps a state machine served: acquires it, runs a writer, and when that fails throws its memory away and reads the
//! truth back. There is no undo: the last commit sequence tells what became of the batch in flight.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{debug, info, warn};
use windlass_core::mutant::{self, Mutant};
use windlass_core::row::Change;

use super::Served;
use super::in_flight::{InFlight, Undelivered};
use super::mailbox::{Mailbox, PartitionState};
use super::message::Message;
use super::reload::Tried;
use super::writer::{Ended, Writer};
use crate::clock::Clock;
use crate::env::Env;
use crate::error::EngineError;
use crate::meter::Meter;
use crate::store::{Acquired, Batch, CommitError, Store, StoreError};

const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Supervisor<M: Served> {
    handle: Arc<M::Handle>,
    env: Arc<dyn Env>,
    store: Arc<dyn Store>,
    inbox: mpsc::Receiver<Message<M>>,
    clock: Arc<Clock>,
    meter: Arc<Meter>,
    /// The batch whose commit failed: its callers still wait for the outcome.
    in_flight: Option<InFlight<M>>,
    /// One whose callers wait no longer.
    undelivered: Option<Undelivered<M>>,
    /// How many reloads the latest try is for.
    reload: u64,
    /// A commit failed, and none has succeeded since.
    unproven: bool,
}

/// However the supervisor ends, also by a bug that unwinds it, nobody is left waiting for a partition that is gone.
struct ClosesAtTheEnd<M: Served>(Arc<M::Handle>);

impl<M: Served> Drop for ClosesAtTheEnd<M> {
    fn drop(&mut self) {
        let (state, tried) = if std::thread::panicking() {
            let error = "stopped by a bug: restart the server, and report it".to_owned();
            (PartitionState::Faulty { error: error.clone() }, Tried::Failed(error))
        } else {
            (PartitionState::Closed, Tried::Gone)
        };
        M::withdraw(&self.0);
        self.0.reload.ended(tried);
        M::ended(&self.0);
        self.0.set_state(state);
    }
}

impl<M: Served> Supervisor<M> {
    pub(crate) fn new(
        handle: &Arc<M::Handle>,
        env: &Arc<dyn Env>,
        store: &Arc<dyn Store>,
        clock: &Arc<Clock>,
        meter: &Arc<Meter>,
        inbox: mpsc::Receiver<Message<M>>,
    ) -> Self {
        Self {
            handle: Arc::clone(handle),
            env: Arc::clone(env),
            store: Arc::clone(store),
            inbox,
            clock: Arc::clone(clock),
            meter: Arc::clone(meter),
            in_flight: None,
            undelivered: None,
            reload: 0,
            unproven: false,
        }
    }

    pub(crate) async fn run(mut self) {
        let _closes = ClosesAtTheEnd::<M>(Arc::clone(&self.handle));
        // After the first failure the truth is read back at once, because callers wait for it.
        let mut backoff = Duration::ZERO;
        while !self.handle.is_stopping() {
            match self.take_over().await {
                Ok(None) => break,
                Ok(Some(writer)) => match self.serve(writer).await {
                    Ended::Stopped => break,
                    Ended::Reload => {
                        self.reloading();
                        continue;
                    }
                    Ended::TooLarge { in_flight } => {
                        self.in_flight = Some(*in_flight);
                        self.reloading();
                        // Callers are answered before the next summary is published.
                        M::withdraw(&self.handle);
                        continue;
                    }
                    Ended::Failed { error, in_flight, committed } => {
                        self.failed(&error, *in_flight);
                        if committed {
                            backoff = Duration::ZERO;
                        }
                    }
                },
                Err(error) => {
                    self.not_acquired(&error);
                    self.handle.reload.done(self.reload, Tried::Failed(error.to_string()));
                    backoff = backoff.max(BACKOFF_MIN);
                }
            }
            self.rest(backoff).await;
            backoff = (backoff * 2).clamp(BACKOFF_MIN, BACKOFF_MAX);
        }
        if let Some(batch) = self.in_flight.take() {
            batch.unknown(&EngineError::unknown("shutting down"));
        }
        self.refuse_inbox(&EngineError::not_applied("shutting down"));
    }

    /// Reads the truth, tells the callers of the batch in flight, and makes the partition ready to serve. `None` if it is
    /// to stop meanwhile: a store that does not answer must not hold up whoever stops the partition.
    async fn take_over(&mut self) -> Result<Option<Writer<M>>, StoreError> {
        self.reload = self.handle.reload.wanted();
        let (handle, store) = (Arc::clone(&self.handle), Arc::clone(&self.store));
        let Some(acquired) = unless_stopped(&handle, store.acquire(handle.id)).await else {
            return Ok(None);
        };
        let acquired = acquired?;
        self.settle(acquired.sequence).await;
        unless_stopped(&handle, self.prepare(acquired)).await.transpose()
    }

    /// Brings the machine up to date before anybody is served.
    async fn prepare(&mut self, acquired: Acquired) -> Result<Writer<M>, StoreError> {
        let mut writer = self.load(acquired).await?;
        self.catch_up(&mut writer).await?;
        self.prove(&mut writer).await?;
        Ok(writer)
    }

    /// What is known of it stays known: who comes meanwhile is not sent away, but waits in the inbox.
    fn reloading(&self) {
        info!(partition = %self.handle.id, "partition is acquired anew");
        self.handle.set_state(PartitionState::Loading);
    }

    /// The last durable sequence decides what became of the batch that was in flight when the writer failed.
    async fn settle(&mut self, sequence: u64) {
        if let Some(undelivered) = self.undelivered.take() {
            undelivered.settle(sequence);
        }
        let Some(mut batch) = self.in_flight.take() else { return };
        if batch.sequence <= sequence || mutant::active(Mutant::ForgetOutcome) {
            batch.is_durable = true;
            batch.committed(None).await;
        } else {
            batch.not_applied(&EngineError::not_applied("the commit failed, and nothing of it is durable"));
        }
    }

    async fn load(&mut self, mut acquired: Acquired) -> Result<Writer<M>, StoreError> {
        let started = self.env.boot();
        self.clock.carry_on(acquired.now);
        let mut machine = M::empty(&self.handle, self.clock.now());
        let mut rows = 0;
        while let Some(slice) = acquired.rows.next().await? {
            rows += slice.len();
            slice.into_iter().for_each(|change| machine.restore(change));
        }
        machine.loaded(self.clock.now());
        let ms = (self.env.boot() - started).as_millis() as u64;
        debug!(partition = %self.handle.id, epoch = acquired.epoch, sequence = acquired.sequence, rows, ms, "partition loaded");
        Ok(Writer {
            handle: Arc::clone(&self.handle),
            env: Arc::clone(&self.env),
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            meter: Arc::clone(&self.meter),
            machine,
            desk: M::Desk::default(),
            epoch: acquired.epoch,
            sequence: acquired.sequence,
            reloaded: self.reload,
            has_waited: false,
            is_crowded: false,
        })
    }

    async fn catch_up(&mut self, writer: &mut Writer<M>) -> Result<(), StoreError> {
        let now = writer.clock.now();
        let changes = writer.machine.catch_up(&self.handle, now);
        if changes.is_empty() {
            return Ok(());
        }
        let batch = self.next_batch(writer, changes);
        writer.commit(batch).await.map_err(CommitError::into_cause)?;
        writer.sequence += 1;
        Ok(())
    }

    /// A store that can be read and not be written to would be taken for sound until somebody's commit fails: after a
    /// failure it has to show first that it takes one, which is empty and counts for nothing.
    async fn prove(&mut self, writer: &mut Writer<M>) -> Result<(), StoreError> {
        if self.unproven {
            let batch = self.next_batch(writer, Vec::new());
            self.store.commit(batch).await.map_err(CommitError::into_cause)?;
            writer.sequence += 1;
            self.unproven = false;
        }
        Ok(())
    }

    fn next_batch(&self, writer: &Writer<M>, changes: Vec<Change>) -> Batch {
        let (sequence, now) = (writer.sequence + 1, writer.clock.now());
        Batch { partition: self.handle.id, epoch: writer.epoch, sequence, now, changes, may_block: false }
    }

    async fn serve(&mut self, mut writer: Writer<M>) -> Ended<M> {
        if !matches!(self.handle.state(), PartitionState::Loading) {
            info!(partition = %self.handle.id, "partition recovered");
        }
        let summary = writer.summary();
        M::publish(&self.handle, summary);
        self.handle.set_state(PartitionState::Available);
        self.handle.reload.done(self.reload, Tried::Acquired);
        M::serves(&mut writer, summary);
        // Leases may have been waiting all the while.
        self.handle.wake();
        writer.run(&mut self.inbox).await
    }

    /// Tells the callers at once if nothing of the batch can be durable; otherwise the next acquire tells.
    fn failed(&mut self, error: &CommitError, batch: InFlight<M>) {
        self.fault(&error.to_string());
        self.unproven |= matches!(error.cause(), StoreError::Io { .. });
        match error {
            CommitError::NotApplied(cause) if cause.is_full() => {
                batch.not_applied(&EngineError::store_full(self.store.name_of(self.handle.id)));
            }
            CommitError::NotApplied(_) => batch.not_applied(&EngineError::from(error)),
            CommitError::Unknown(_) => self.in_flight = Some(batch),
        }
    }

    fn not_acquired(&mut self, error: &StoreError) {
        if let Some(batch) = self.in_flight.take() {
            self.undelivered = Some(batch.unknown(&EngineError::unknown(error.to_string())));
        }
        self.fault(&error.to_string());
    }

    fn fault(&self, error: &str) {
        warn!(partition = %self.handle.id, error, "partition faulty");
        self.handle.set_state(PartitionState::Faulty { error: error.to_owned() });
        M::withdraw(&self.handle);
    }

    /// Waits before the next try, refusing what was sent before the fault was known.
    async fn rest(&mut self, backoff: Duration) {
        if backoff.is_zero() {
            return;
        }
        self.refuse_inbox(&EngineError::not_applied(format!("partition {} is faulty", self.handle.id)));
        let until = self.env.boot() + backoff;
        let mut stopping = self.handle.stopping();
        tokio::select! {
            biased;
            _stop = stopping.wait_for(|stop| *stop) => {}
            () = self.handle.reload.outstanding() => {}
            () = self.env.sleep_until(until) => {}
        }
        self.refuse_inbox(&EngineError::not_applied(format!("partition {} is faulty", self.handle.id)));
    }

    fn refuse_inbox(&mut self, error: &EngineError) {
        while let Ok(message) = self.inbox.try_recv() {
            self.handle.taken(&message);
            match message {
                Message::Call(call) => drop(call.fail(error.clone())),
                // Dropped unanswered: whoever asked is told that the partition failed.
                Message::Query(_) | Message::Request(_) => {}
            }
        }
    }
}

/// What `work` comes to, or `None` once the partition is to stop.
async fn unless_stopped<M: Served, T>(mailbox: &Mailbox<M>, work: impl Future<Output = T>) -> Option<T> {
    let mut stopping = mailbox.stopping();
    tokio::select! {
        biased;
        _stop = stopping.wait_for(|stop| *stop) => None,
        done = work => Some(done),
    }
}
