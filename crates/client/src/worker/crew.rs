//! Leases as much as may start, has each item attended to, and ends in order.
//!
//! One lease is under way at a time. It waits at the server, and when something else may be asked for meanwhile (a slot
//! was freed or given up or taken back) its wait is ended and it is asked anew. To end a wait loses nothing
//! (`QueueClient::lease_until`): whatever was granted just before comes back here, is started if it may be, and
//! given back uncharged if not. The price is a connection for each wait that is ended. Two leases side by side would
//! save it, but what one brings can make the other ask for too much.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use windlass_api::items::{Held, LeasedItem};

use super::attend::{Ending, Station};
use super::event::Event;
use super::handler::Handlers;
use super::limits::Wants;
use super::slots::Slots;
use super::{Stop, Until};
use crate::error::ClientError;
use crate::payload::LeasedItemExt;
use crate::queue::Lease;
use crate::retries::{Retries, asked_pause, may_pass_some_day};

/// How long one lease waits at the server for work.
const LEASE_WAIT: Duration = Duration::from_secs(60);
/// Between leases that fail.
const RETRIES: Retries = Retries {
    attempts_max: u32::MAX,
    delay_initial: Duration::from_millis(100),
    delay_max: Duration::from_secs(5),
    // Who works until nothing is left does not try for ever.
    total_max: Duration::from_secs(30),
};

pub(super) struct Crew {
    pub(super) station: Arc<Station>,
    pub(super) handlers: Handlers,
    pub(super) slots: Arc<Slots>,
    /// What all leases have in common.
    pub(super) lease: Lease,
    pub(super) until: Until,
    pub(super) grace: Duration,
    pub(super) stop: watch::Receiver<Stop>,
    pub(super) state: State,
}

pub(super) struct State {
    running: JoinSet<()>,
    leasing: Option<Leasing>,
    /// No more items are taken.
    closed: bool,
    /// Nothing waits, as far as is known.
    drained: bool,
    failing: Option<Failing>,
    /// Nothing is asked before.
    pause_ends: Option<Instant>,
    grace_ends: Option<Instant>,
    ending: watch::Sender<bool>,
    failure: Option<ClientError>,
}

/// What a lease asks for, and how long.
#[derive(Clone, Debug)]
struct Asks {
    wants: Wants,
    wait: Duration,
}

type Answer = Result<Vec<LeasedItem>, ClientError>;

struct Leasing {
    asks: Asks,
    /// Taken when its wait is ended.
    hang_up: Option<oneshot::Sender<()>>,
    answer: Pin<Box<dyn Future<Output = Answer> + Send>>,
}

/// Leases fail, one after the other.
struct Failing {
    since: Instant,
    times: u32,
}

enum News {
    Leased(Answer),
    Ended,
    SlotsChanged,
    Stop(Stop),
    PauseIsOver,
    GraceIsOver,
}

/// Never ready if there is none.
async fn if_any<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            running: JoinSet::new(),
            leasing: None,
            closed: false,
            drained: false,
            failing: None,
            pause_ends: None,
            grace_ends: None,
            ending: watch::Sender::new(false),
            failure: None,
        }
    }
}

impl State {
    fn is_over(&self) -> bool {
        let asks_no_more = self.closed || self.drained || self.pause_ends.is_none();
        asks_no_more && self.leasing.is_none() && self.running.is_empty()
    }
}

impl Crew {
    pub(super) async fn run(mut self) -> Result<(), ClientError> {
        loop {
            self.lease_as_wanted();
            if self.state.is_over() {
                return self.state.failure.map_or(Ok(()), Err);
            }
            match self.news().await {
                News::Leased(answer) => self.leased(answer),
                News::Ended | News::SlotsChanged => self.state.drained = false,
                News::Stop(stop) => self.stop(stop),
                News::PauseIsOver => self.state.pause_ends = None,
                News::GraceIsOver => self.end_grace(),
            }
        }
    }

    async fn news(&mut self) -> News {
        let state = &mut self.state;
        tokio::select! {
            answer = if_any(state.leasing.as_mut().map(|leasing| leasing.answer.as_mut())) => News::Leased(answer),
            Some(ended) = state.running.join_next() => {
                ended.expect("attending does not panic");
                News::Ended
            }
            () = self.slots.changed() => News::SlotsChanged,
            Ok(()) = self.stop.changed() => News::Stop(*self.stop.borrow_and_update()),
            () = if_any(state.pause_ends.map(sleep_until)) => News::PauseIsOver,
            () = if_any(state.grace_ends.map(sleep_until)) => News::GraceIsOver,
        }
    }

    fn lease_as_wanted(&mut self) {
        let asks = self.asks();
        match (&mut self.state.leasing, asks) {
            (Some(leasing), Some(asks)) if leasing.asks.still_right(&asks) => {}
            // Asked anew when the answer to this one is here.
            (Some(leasing), _) => drop(leasing.hang_up.take()),
            (None, Some(asks)) => self.state.leasing = Some(self.lease(asks)),
            (None, None) => {}
        }
    }

    fn asks(&self) -> Option<Asks> {
        if self.state.closed || self.state.drained || self.state.pause_ends.is_some() {
            return None;
        }
        let wants = self.slots.wants()?;
        Some(match self.until {
            Until::Stopped => Asks { wants, wait: LEASE_WAIT },
            Until::Once => Asks { wants: Wants { batch_size: 1, ..wants }, wait: LEASE_WAIT },
            // What handlers wait for is still to come.
            Until::Drained if self.slots.anybody_waits() => Asks { wants, wait: LEASE_WAIT },
            Until::Drained => Asks { wants, wait: Duration::ZERO },
        })
    }

    fn lease(&self, asks: Asks) -> Leasing {
        let Asks { wants: Wants { batch_size, kinds, max_priority }, wait } = asks.clone();
        let lease = Lease { batch_size, kinds, max_priority, wait: Some(wait), ..self.lease.clone() };
        let (hang_up, hung_up) = oneshot::channel::<()>();
        let queue = self.station.queue.clone();
        let answer = Box::pin(async move { queue.lease_until(&lease, async { drop(hung_up.await) }).await });
        Leasing { asks, hang_up: Some(hang_up), answer }
    }

    fn leased(&mut self, answer: Answer) {
        let leasing = self.state.leasing.take().expect("it was answered");
        match answer {
            // Nobody knows what there would have been.
            Ok(items) if items.is_empty() && leasing.hang_up.is_none() => {}
            Ok(items) => {
                self.state.failing = None;
                self.state.drained = self.until == Until::Drained && items.is_empty();
                self.start(items);
            }
            Err(error) => self.lease_failed(error),
        }
    }

    fn start(&mut self, items: Vec<LeasedItem>) {
        let mut surplus: Vec<Held> = Vec::new();
        for item in items {
            let handler = self.handlers.of(&item.kind).filter(|_| !self.state.closed);
            let slot = handler.as_ref().and_then(|_| self.slots.take(&item.kind, item.priority));
            match (handler, slot) {
                (Some(handler), Some(slot)) => {
                    self.state.closed |= self.until == Until::Once;
                    let (station, ending) =
                        (Arc::clone(&self.station), Ending(self.state.ending.subscribe()));
                    self.state
                        .running
                        .spawn(async move { station.attend(item, handler, slot, ending).await });
                }
                (Some(_) | None, _) => surplus.push(item.held()),
            }
        }
        if !surplus.is_empty() {
            let station = Arc::clone(&self.station);
            self.state.running.spawn(async move { station.give_back(surplus).await });
        }
    }

    /// A server that is away comes back; one that refuses will refuse again.
    fn lease_failed(&mut self, error: ClientError) {
        let now = Instant::now();
        let failing = self.state.failing.get_or_insert(Failing { since: now, times: 0 });
        failing.times += 1;
        let pause = RETRIES.backoff(failing.times, fastrand::f64()).saturating_add(asked_pause(&error));
        let patient = self.until == Until::Stopped || failing.since.elapsed() + pause <= RETRIES.total_max;
        if may_pass_some_day(&error) && patient {
            self.state.pause_ends = Some(now + pause);
            self.station.observer.tell(Event::LeaseFailed { error: &error, pause });
        } else {
            self.state.closed = true;
            self.state.failure = Some(error);
        }
    }

    fn stop(&mut self, stop: Stop) {
        match stop {
            Stop::No => {}
            Stop::Gracefully => {
                self.state.closed = true;
                self.state.grace_ends = Instant::now().checked_add(self.grace);
                let event = Event::Stopping { running: self.state.running.len(), grace: self.grace };
                self.station.observer.tell(event);
            }
            Stop::Now => {
                self.state.closed = true;
                self.end_grace();
            }
        }
    }

    fn end_grace(&mut self) {
        self.state.grace_ends = None;
        self.state.ending.send_replace(true);
    }
}

impl Asks {
    fn still_right(&self, now: &Self) -> bool {
        self.wait == now.wait && self.wants.still_right(&now.wants)
    }
}
