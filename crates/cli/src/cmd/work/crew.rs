//! Takes as many items as there is room for, has each attended to, and ends in order.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

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
use crate::signals::{Asked, Signals};

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

/// How soon commands are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hurry {
    No,
    /// Now, in the orderly way.
    End,
    Kill,
}

#[derive(Clone, Debug)]
pub(super) struct Hurrying(watch::Receiver<Hurry>);

impl Hurrying {
    /// May be dropped and asked again.
    pub(super) async fn at_least(&mut self, hurry: Hurry) {
        // The crew outlives all who ask.
        let _crew_gone = self.0.wait_for(|now| *now >= hurry).await;
    }
}

enum Event {
    Leased(Result<Vec<LeasedItem>, ClientError>),
    Ended(Fate),
    Asked(Asked),
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
    /// How it was asked to stop.
    stopped_by: Option<Asked>,
    kill_at: Option<Instant>,
    hurry: watch::Sender<Hurry>,
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
            hurry: watch::Sender::new(Hurry::No),
            tally: Tally::default(),
            failure: None,
        }
    }

    pub(super) async fn run(mut self, out: Output) -> Result<Exit, Failure> {
        let mut signals = Signals::hear()?;
        self.lease_more(Duration::ZERO);
        while self.leasing.is_some() || !self.running.is_empty() {
            self.step(&mut signals).await;
        }
        out.reply(&self.tally, |_| self.tally.shown())?;
        match self.failure {
            Some(failure) => Err(failure),
            None if self.stopped_by == Some(Asked::Interrupt) => Ok(Exit::Interrupted),
            None if self.until == Until::Stopped || self.tally.all_completed() => Ok(Exit::Done),
            None => Ok(Exit::Refused),
        }
    }

    async fn step(&mut self, signals: &mut Signals) {
        let event = tokio::select! {
            leased = if_any(self.leasing.as_mut()) => Event::Leased(leased),
            Some(fate) = self.running.join_next() => Event::Ended(fate.expect("attending does not panic")),
            asked = signals.asked() => Event::Asked(asked),
            () = if_any(self.kill_at.map(sleep_until)) => Event::GraceIsOver,
        };
        match event {
            Event::Leased(leased) => self.take(leased),
            Event::Ended(fate) => {
                self.tally.count(fate);
                self.drained = false;
                self.lease_more(Duration::ZERO);
            }
            Event::Asked(asked) => self.stop(asked),
            Event::GraceIsOver => self.hurry(Hurry::End),
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
                    let (worker, hurry) = (Arc::clone(&self.worker), Hurrying(self.hurry.subscribe()));
                    self.running.spawn(async move { worker.attend(item, hurry).await });
                }
                self.lease_more(Duration::ZERO);
            }
            Err(error) => self.lease_failed(error.into()),
        }
    }

    /// A server that is away comes back; one that refuses will refuse again.
    fn lease_failed(&mut self, failure: Failure) {
        if failure.may_pass() && self.until == Until::Stopped {
            let again = length(PAUSE_AFTER_FAILURE);
            self.worker.out.talk(&format!("{failure}\ntrying again in {again}"));
            self.lease_more(PAUSE_AFTER_FAILURE);
        } else {
            self.closed = true;
            self.failure = Some(failure);
        }
    }

    fn stop(&mut self, by: Asked) {
        if self.stopped_by.is_some() {
            return self.hurry(Hurry::Kill);
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

    fn hurry(&mut self, hurry: Hurry) {
        self.kill_at = None;
        self.hurry.send_replace(hurry);
    }
}
