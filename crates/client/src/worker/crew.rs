//! Leases as much as may start, has each item attended to, and ends in order.
//!
//! One lease is under way at a time. It waits at the server, and when something else may be asked for meanwhile (a slot
//! was freed or given up or taken back) its wait is ended and it is asked anew. To end a wait loses nothing
//! (`QueueClient::lease_until`): whatever was granted just before comes back here, is started if it may be, and
//! given back uncharged if not. The price is a connection for each wait that is ended. Two leases side by side would
//! save it, but what one brings can make the other ask for too much.
//!
//! An item that has ended is told at once. If no lease is under way and its slot may be filled again, it is told by the call
//! that asks for the next items (`turn`), which does not wait for work. What ends while such a call is under way is told with
//! the next one. While a lease waits at the server, or if nothing more is wanted, each end is told by a call of its own.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use windlass_api::items::{Held, LeasedItem, NextReply};

use super::attend::{Ending, Station};
use super::event::Event;
use super::handler::Handlers;
use super::limits::Wants;
use super::slots::Slots;
use super::turn::{Telling, Told, WAIT_FOR_TURN_MAX, answer_all, request_of, words_of_turn};
use super::{Stop, Until};
use crate::error::{ClientError, Outcome};
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
    pub(super) tellings: mpsc::Receiver<Telling>,
    pub(super) state: State,
}

pub(super) struct State {
    running: JoinSet<()>,
    leasing: Option<Leasing>,
    /// Ends of items that no call has told yet.
    words: Vec<Telling>,
    /// When `words` are told one by one, if a turn is under way until then.
    words_late_at: Option<Instant>,
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

type Answer = Result<NextReply, ClientError>;

/// A lease, which waits at the server, or a turn, which does not.
struct Leasing {
    asks: Asks,
    /// What the turn tells. Empty: a lease.
    words: Vec<Telling>,
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
    Telling(Telling),
    WordsAreLate,
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
            words: Vec::new(),
            words_late_at: None,
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
                News::Telling(telling) => self.add_word(telling),
                News::WordsAreLate => self.tell_singly(),
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
            Some(telling) = self.tellings.recv() => News::Telling(telling),
            () = if_any(state.words_late_at.map(sleep_until)) => News::WordsAreLate,
            () = self.slots.changed() => News::SlotsChanged,
            Ok(()) = self.stop.changed() => News::Stop(*self.stop.borrow_and_update()),
            () = if_any(state.pause_ends.map(sleep_until)) => News::PauseIsOver,
            () = if_any(state.grace_ends.map(sleep_until)) => News::GraceIsOver,
        }
    }

    fn lease_as_wanted(&mut self) {
        self.state.words.retain(|telling| !telling.is_gone());
        if self.state.leasing.as_ref().is_some_and(Leasing::is_turn) {
            let late_at = || Instant::now() + WAIT_FOR_TURN_MAX;
            self.state.words_late_at =
                (!self.state.words.is_empty()).then(|| self.state.words_late_at.unwrap_or_else(late_at));
            return;
        }
        self.state.words_late_at = None;
        if self.state.leasing.is_none() && !self.state.words.is_empty() {
            return self.begin_turn();
        }
        self.tell_singly();
        let asks = self.asks(&[]);
        match (&mut self.state.leasing, asks) {
            (Some(leasing), Some(asks)) if leasing.asks.still_right(&asks) => {}
            // Asked anew when the answer to this one is here.
            (Some(leasing), _) => drop(leasing.hang_up.take()),
            (None, Some(asks)) => self.state.leasing = Some(self.lease(asks)),
            (None, None) => {}
        }
    }

    /// Tells the words with the call that fills their slots again. If those are not to be filled, the words are told one by one.
    fn begin_turn(&mut self) {
        let mut words = words_of_turn(&mut self.state.words);
        let slots: Vec<u64> = words.iter().map(|telling| telling.slot).collect();
        match self.asks(&slots) {
            Some(asks) => self.state.leasing = Some(self.turn(asks, words)),
            None => self.state.words.append(&mut words),
        }
        // Words that the turn does not take are not kept waiting for it.
        self.tell_singly();
    }

    fn add_word(&mut self, telling: Telling) {
        self.state.words.push(telling);
        // What ended at the same time goes along.
        while let Ok(telling) = self.tellings.try_recv() {
            self.state.words.push(telling);
        }
    }

    fn tell_singly(&mut self) {
        self.state.words_late_at = None;
        self.state.words.drain(..).for_each(|telling| telling.answer(Told::ByItself));
    }

    /// `ended`: the slots that the call frees.
    fn asks(&self, ended: &[u64]) -> Option<Asks> {
        // An item that has ended may have made others.
        let drained = self.state.drained && ended.is_empty();
        if self.state.closed || drained || self.state.pause_ends.is_some() {
            return None;
        }
        let wants = self.slots.wants_without(ended)?;
        Some(match self.until {
            Until::Stopped => Asks { wants, wait: LEASE_WAIT },
            Until::Once => Asks { wants: Wants { batch_size: 1, ..wants }, wait: LEASE_WAIT },
            // What handlers wait for is still to come.
            Until::Drained if self.slots.anybody_waits() => Asks { wants, wait: LEASE_WAIT },
            Until::Drained => Asks { wants, wait: Duration::ZERO },
        })
    }

    fn lease(&self, asks: Asks) -> Leasing {
        let lease = self.lease_for(&asks);
        let (hang_up, hung_up) = oneshot::channel::<()>();
        let queue = self.station.queue.clone();
        let answer = Box::pin(async move {
            let items = queue.lease_until(&lease, async { drop(hung_up.await) }).await?;
            Ok(NextReply { items, ..NextReply::default() })
        });
        Leasing { asks, words: Vec::new(), hang_up: Some(hang_up), answer }
    }

    fn turn(&self, asks: Asks, words: Vec<Telling>) -> Leasing {
        // A call that names items does not wait for work.
        let lease = Lease { wait: None, ..self.lease_for(&asks) };
        let settles = request_of(&words);
        let queue = self.station.queue.clone();
        let answer = Box::pin(async move { queue.turn(settles, &lease).await });
        Leasing { asks, words, hang_up: None, answer }
    }

    fn lease_for(&self, asks: &Asks) -> Lease {
        let Asks { wants: Wants { batch_size, kinds, max_priority }, wait } = asks.clone();
        Lease { batch_size, kinds, max_priority, wait: Some(wait), ..self.lease.clone() }
    }

    fn leased(&mut self, answer: Answer) {
        let Leasing { words, hang_up, .. } = self.state.leasing.take().expect("it was answered");
        let hung_up = words.is_empty() && hang_up.is_none();
        match answer {
            // Nobody knows what there would have been.
            Ok(reply) if reply.items.is_empty() && hung_up => {}
            Ok(reply) => {
                self.state.failing = None;
                answer_all(words, &reply, |slot| self.slots.end(slot));
                self.state.drained = self.until == Until::Drained && reply.items.is_empty();
                self.start(reply.items);
            }
            Err(error) if words.is_empty() => self.lease_failed(error),
            Err(error) => self.turn_failed(words, error),
        }
    }

    /// A turn that is refused may be refused because of any word, or because of the lease: each is tried by itself.
    fn turn_failed(&mut self, words: Vec<Telling>, error: ClientError) {
        if !may_pass_some_day(&error) {
            return words.into_iter().for_each(|telling| telling.answer(Told::ByItself));
        }
        let may_be_heard = error.outcome() == Outcome::Unknown;
        for telling in words {
            self.station.observer.tell(Event::TellFailed { id: telling.id(), error: &error });
            telling.answer(Told::Failed { may_be_heard });
        }
        self.lease_failed(error);
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

impl Leasing {
    fn is_turn(&self) -> bool {
        !self.words.is_empty()
    }
}

impl Asks {
    fn still_right(&self, now: &Self) -> bool {
        self.wait == now.wait && self.wants.still_right(&now.wants)
    }
}
