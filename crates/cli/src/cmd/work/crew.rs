//! Takes as many items as there is room for, has each attended to, and ends in order.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_api::Span;
use windlass_api::items::LeasedItem;
use windlass_client::ClientError;

use super::attend::Worker;
use super::tally::{Fate, Tally};
use crate::exit::{Exit, Failure};
use crate::human::{counted, length};
use crate::output::Output;

/// How long one lease call waits at the server for work.
const LEASE_WAIT: Span = Span::from_secs(60);
/// Between leases that fail: the client has been patient already.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    Stopped,
    Drained,
    Once,
}

enum Event {
    Leased(Result<Vec<LeasedItem>, ClientError>),
    Ended(Fate),
    Asked(SignalKind),
    GraceIsOver,
}

/// Never ready if there is none.
async fn if_any<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

type Leasing = Pin<Box<dyn Future<Output = Result<Vec<LeasedItem>, ClientError>> + Send>>;

pub(super) struct Crew {
    worker: Arc<Worker>,
    concurrency: usize,
    until: Until,
    grace: Duration,
    running: JoinSet<Fate>,
    /// At most one at a time. It is never dropped to begin anew: what it was just granted would be lost.
    leasing: Option<Leasing>,
    /// No more items are taken.
    closed: bool,
    /// Nothing waits, as far as is known.
    drained: bool,
    /// The signal that ended it.
    stopped_by: Option<SignalKind>,
    kill_at: Option<Instant>,
    kill: watch::Sender<bool>,
    tally: Tally,
    failure: Option<Failure>,
}

impl Crew {
    pub(super) fn new(worker: Worker, concurrency: usize, until: Until, grace: Duration) -> Self {
        Self {
            worker: Arc::new(worker),
            concurrency,
            until,
            grace,
            running: JoinSet::new(),
            leasing: None,
            closed: false,
            drained: false,
            stopped_by: None,
            kill_at: None,
            kill: watch::Sender::new(false),
            tally: Tally::default(),
            failure: None,
        }
    }

    pub(super) async fn run(mut self, out: Output) -> Result<Exit, Failure> {
        let hear =
            |kind| signal(kind).map_err(|error| Failure::local(format!("cannot hear signals: {error}")));
        let mut terminate = hear(SignalKind::terminate())?;
        let mut interrupt = hear(SignalKind::interrupt())?;
        self.lease_more(Duration::ZERO);
        while self.leasing.is_some() || !self.running.is_empty() {
            self.step(&mut terminate, &mut interrupt).await;
        }
        out.reply(&self.tally, |_| self.tally.shown())?;
        match self.failure {
            Some(failure) => Err(failure),
            None if self.stopped_by == Some(SignalKind::interrupt()) => Ok(Exit::Interrupted),
            None if self.until == Until::Stopped || self.tally.all_completed() => Ok(Exit::Done),
            None => Ok(Exit::Refused),
        }
    }

    async fn step(&mut self, terminate: &mut Signal, interrupt: &mut Signal) {
        let event = tokio::select! {
            leased = if_any(self.leasing.as_mut()) => Event::Leased(leased),
            Some(fate) = self.running.join_next() => Event::Ended(fate.expect("attending does not panic")),
            _ = terminate.recv() => Event::Asked(SignalKind::terminate()),
            _ = interrupt.recv() => Event::Asked(SignalKind::interrupt()),
            () = if_any(self.kill_at.map(sleep_until)) => Event::GraceIsOver,
        };
        match event {
            Event::Leased(leased) => self.take(leased),
            Event::Ended(fate) => {
                self.tally.count(fate);
                self.drained = false;
                self.lease_more(Duration::ZERO);
            }
            Event::Asked(signal) => self.stop(signal),
            Event::GraceIsOver => self.kill_all(),
        }
    }

    fn lease_more(&mut self, pause: Duration) {
        let room = self.concurrency - self.running.len();
        if self.closed || self.drained || self.leasing.is_some() || room == 0 {
            return;
        }
        let (batch_size, wait) = match self.until {
            Until::Stopped => (room, LEASE_WAIT),
            Until::Drained => (room, Span::ZERO),
            Until::Once => (1, LEASE_WAIT),
        };
        let batch_size = u32::try_from(batch_size).expect("at most a thousand");
        let worker = Arc::clone(&self.worker);
        self.leasing = Some(Box::pin(async move {
            sleep(pause).await;
            let request = worker.wanted.request(&worker.queue, batch_size, wait);
            Ok(worker.client.call(&request).await?.items)
        }));
    }

    fn take(&mut self, leased: Result<Vec<LeasedItem>, ClientError>) {
        self.leasing = None;
        match leased {
            Ok(items) => {
                self.drained = self.until == Until::Drained && items.is_empty();
                self.closed |= self.until == Until::Once && !items.is_empty();
                for item in items {
                    let (worker, kill) = (Arc::clone(&self.worker), self.kill.subscribe());
                    self.running.spawn(async move { worker.attend(item, kill).await });
                }
                self.lease_more(Duration::ZERO);
            }
            Err(error) => self.lease_failed(error.into()),
        }
    }

    /// A server that is away comes back; one that refuses will refuse again.
    fn lease_failed(&mut self, failure: Failure) {
        let passing = matches!(failure.exit, Exit::Unreachable | Exit::Unknown);
        if passing && self.until == Until::Stopped {
            let again = length(PAUSE_AFTER_FAILURE);
            self.worker.out.talk(&format!("{failure}\ntrying again in {again}"));
            self.lease_more(PAUSE_AFTER_FAILURE);
        } else {
            self.closed = true;
            self.failure = Some(failure);
        }
    }

    fn stop(&mut self, by: SignalKind) {
        if self.stopped_by.is_some() {
            return self.kill_all();
        }
        self.stopped_by = Some(by);
        self.closed = true;
        // What is granted in this very moment comes back when its lease ends.
        self.leasing = None;
        self.kill_at = Some(Instant::now() + self.grace);
        if !self.running.is_empty() {
            let (running, grace) = (counted(self.running.len() as u64, "command"), length(self.grace));
            let talk = format!("stopping: {running} may go on for {grace}; signal again to end now");
            self.worker.out.talk(&talk);
        }
    }

    fn kill_all(&mut self) {
        self.kill_at = None;
        self.kill.send_replace(true);
    }
}
