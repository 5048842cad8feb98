//! Keeps a partition served: acquires it, runs a writer, and when that fails throws its memory away and reads the
//! truth back. There is no undo: the last commit sequence tells what became of the batch in flight.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{debug, info, warn};
use windlass_core::command::Command;
use windlass_core::mutant::{self, Mutant};
use windlass_core::partition::Partition;
use windlass_core::row::Change;

use crate::clock::Clock;
use crate::env::Env;
use crate::error::EngineError;
use crate::partition::handle::{Handle, Message, PartitionState, Summary};
use crate::partition::in_flight::InFlight;
use crate::partition::writer::{Ended, Writer};
use crate::store::{Acquired, Batch, CommitError, Store, StoreError};

const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Supervisor {
    pub(crate) handle: Arc<Handle>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) inbox: mpsc::Receiver<Message>,
}

/// However the supervisor ends, also by a bug that unwinds it, nobody is left waiting for a partition that is gone.
struct ClosesAtTheEnd(Arc<Handle>);

impl Drop for ClosesAtTheEnd {
    fn drop(&mut self) {
        self.0.set_state(PartitionState::Closed);
    }
}

impl Supervisor {
    pub(crate) async fn run(mut self) {
        let _closes = ClosesAtTheEnd(Arc::clone(&self.handle));
        let mut in_flight: Option<InFlight> = None;
        let mut backoff = BACKOFF_MIN;
        while !self.stopping() {
            match self.take_over(&mut in_flight).await {
                Ok(writer) => {
                    backoff = BACKOFF_MIN;
                    match self.serve(writer).await {
                        Ended::Stopped => break,
                        Ended::Failed { error, in_flight: batch } => in_flight = self.failed(&error, batch),
                    }
                }
                Err(error) => {
                    if let Some(batch) = in_flight.take() {
                        batch.failed(&EngineError::unknown(error.to_string()));
                    }
                    self.fault(&error.to_string());
                    self.rest(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                }
            }
        }
        if let Some(batch) = in_flight.take() {
            batch.failed(&EngineError::unknown("shutting down"));
        }
        self.refuse_inbox(&EngineError::not_applied("shutting down"));
    }

    /// Reads the truth, tells the callers of the batch in flight, and brings the queue's settings up to date before
    /// anybody else is served.
    async fn take_over(&self, in_flight: &mut Option<InFlight>) -> Result<Writer, StoreError> {
        let acquired = self.store.acquire(self.handle.id).await?;
        settle(in_flight.take(), acquired.sequence);
        let mut writer = self.load(acquired).await?;
        self.configure(&mut writer).await?;
        Ok(writer)
    }

    async fn load(&self, mut acquired: Acquired) -> Result<Writer, StoreError> {
        let started = self.env.boot();
        let mut clock = Clock::resume(Arc::clone(&self.env), self.handle.id, acquired.now);
        let mut partition = Partition::new(self.handle.id, clock.now());
        while let Some(slice) = acquired.rows.next().await? {
            for change in slice {
                match change {
                    Change::Put(row) => partition.put(row),
                    Change::Remove(key) => partition.remove(&key),
                    Change::PutBody { .. } | Change::RemoveBody { .. } => {}
                }
            }
        }
        let counts = partition.counts();
        let ms = (self.env.boot() - started).as_millis() as u64;
        debug!(partition = %self.handle.id, epoch = acquired.epoch, sequence = acquired.sequence,
            waiting = counts.waiting, scheduled = counts.scheduled, leased = counts.leased, ms, "partition loaded");
        Ok(Writer {
            handle: Arc::clone(&self.handle),
            env: Arc::clone(&self.env),
            store: Arc::clone(&self.store),
            clock,
            partition,
            epoch: acquired.epoch,
            sequence: acquired.sequence,
        })
    }

    async fn configure(&self, writer: &mut Writer) -> Result<(), StoreError> {
        let Some(settings) = self.handle.settings() else { return Ok(()) };
        let now = writer.clock.now();
        let changes = writer.partition.apply(now, Command::Configure(settings)).changes;
        if changes.is_empty() {
            return Ok(());
        }
        let sequence = writer.sequence + 1;
        let batch = Batch { partition: self.handle.id, epoch: writer.epoch, sequence, now, changes };
        self.store.commit(batch).await.map_err(|error| match error {
            CommitError::NotApplied(cause) | CommitError::Unknown(cause) => cause,
        })?;
        writer.sequence = sequence;
        Ok(())
    }

    async fn serve(&mut self, writer: Writer) -> Ended {
        if !matches!(self.handle.state(), PartitionState::Loading) {
            info!(partition = %self.handle.id, "partition recovered");
        }
        writer.publish();
        self.handle.set_state(PartitionState::Available);
        // Leases may have been waiting all the while.
        self.handle.wake();
        writer.run(&mut self.inbox).await
    }

    /// Tells the callers at once if nothing of the batch can be durable; otherwise the next acquire tells.
    fn failed(&self, error: &CommitError, batch: InFlight) -> Option<InFlight> {
        self.fault(&error.to_string());
        match error {
            CommitError::NotApplied(_) => {
                batch.failed(&EngineError::from(error));
                None
            }
            CommitError::Unknown(_) => Some(batch),
        }
    }

    fn fault(&self, error: &str) {
        warn!(partition = %self.handle.id, error, "partition faulty");
        self.handle.set_state(PartitionState::Faulty { error: error.to_owned() });
        self.handle.publish(Summary::default());
    }

    /// Waits before the next try, refusing what was sent before the fault was known.
    async fn rest(&mut self, backoff: Duration) {
        self.refuse_inbox(&EngineError::not_applied(format!("partition {} is faulty", self.handle.id)));
        let until = self.env.boot() + backoff;
        let mut stopping = self.handle.stopping();
        tokio::select! {
            biased;
            _stop = stopping.wait_for(|stop| *stop) => {}
            () = self.env.sleep_until(until) => {}
        }
        self.refuse_inbox(&EngineError::not_applied(format!("partition {} is faulty", self.handle.id)));
    }

    fn refuse_inbox(&mut self, error: &EngineError) {
        while let Ok(message) = self.inbox.try_recv() {
            self.handle.taken(&message);
            match message {
                Message::Command { responder, .. } => {
                    let _caller_gone = responder.send(Err(error.clone()));
                }
                // Dropped unanswered: whoever asked is told that the partition failed.
                Message::Query(_) => {}
            }
        }
    }

    fn stopping(&self) -> bool {
        *self.handle.stopping().borrow()
    }
}

/// The last durable sequence decides what became of the batch that was in flight when the writer failed.
fn settle(in_flight: Option<InFlight>, sequence: u64) {
    let Some(batch) = in_flight else { return };
    if batch.sequence <= sequence || mutant::active(Mutant::ForgetOutcome) {
        batch.committed();
    } else {
        batch.failed(&EngineError::not_applied("the commit failed, and nothing of it is durable"));
    }
}
