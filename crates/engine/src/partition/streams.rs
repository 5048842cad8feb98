//! Who follows items of a partition. What the core tells of an item that is followed is shown here once it is durable: the
//! number of its last event, and its latest states. Readers are woken, and read events from the store at their own pace: so
//! nobody waits for them, and what they are behind is in nobody's memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use windlass_core::group::Member;
use windlass_core::id::ItemNumber;
use windlass_core::item::{Item, MovedTo, Phase, State};
use windlass_core::news::{Changed, Ended};
use windlass_core::time::Timestamp;

use crate::error::EngineError;
use crate::lock::lock;
use crate::partition::watchers::Closed;

/// At most so many follow items of one partition.
const READERS_MAX: usize = 65_536;
/// States that are remembered for readers who are behind. They are shown live and are in no log.
const STATES_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Streams {
    crowd: Mutex<Crowd>,
    /// How many changes the core has told of: so that it is known which of them a look at an item has seen.
    told: AtomicU64,
}

#[derive(Debug, Default)]
struct Crowd {
    /// All that read, those included whose stream was closed or whose item is final.
    count: usize,
    by_item: BTreeMap<ItemNumber, Open>,
    /// Items that nobody follows any more, which the writer has still to hear.
    left: Vec<ItemNumber>,
    closed: Option<Closed>,
}

#[derive(Debug)]
struct Open {
    stream: Arc<watch::Sender<Shown>>,
    /// Never 0.
    readers: usize,
}

/// An item as whoever follows it may know it: all of it is durable.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The number of its last event.
    pub(crate) last_seq: u64,
    pub(crate) states: VecDeque<Shift>,
    pub(crate) end: Option<Final>,
    pub(crate) close: Option<Close>,
}

/// A change of state, and its place among the events.
#[derive(Clone, Debug)]
pub(crate) struct Shift {
    /// Grows from one to the next, over all items of the partition.
    pub(crate) number: u64,
    pub(crate) after_seq: u64,
    pub(crate) phase: Phase,
    pub(crate) at: Timestamp,
    pub(crate) reason: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Final {
    pub(crate) phase: Phase,
    pub(crate) at: Timestamp,
    pub(crate) last_seq: u64,
    /// Where the item goes on, if that was known when it was looked at.
    pub(crate) moved_to: Option<Box<MovedTo>>,
    /// The item was on its way when it was looked at.
    pub(crate) is_leaving: bool,
}

/// How a stream is closed whose item lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// Once the events up to this one were read.
    After(u64),
    AtOnce,
}

/// An item as the writer found it when somebody began to follow it.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) item: Item,
    pub(crate) member: Option<Member>,
    /// Changes up to this one are in it.
    pub(crate) told: u64,
}

impl Final {
    pub(crate) fn of(item: &Item) -> Option<Self> {
        let at = match &item.state {
            State::Final(outcome) => outcome.finished_at,
            State::Waiting { .. } | State::Scheduled { .. } | State::Leased(_) | State::Suspended(_) => {
                return None;
            }
        };
        let moved_to = item.extras.as_ref().and_then(|extras| extras.moved_to.clone());
        let is_leaving = item.state.outgoing().is_some();
        Some(Self { phase: item.state.phase(), at, last_seq: event_count(item), moved_to, is_leaving })
    }
}

pub(crate) fn event_count(item: &Item) -> u64 {
    item.extras.as_ref().map_or(0, |extras| extras.event_count)
}

fn reason_of(item: &Item) -> Option<Arc<str>> {
    match &item.state {
        State::Suspended(suspension) => suspension.reason.clone(),
        State::Waiting { .. } | State::Scheduled { .. } | State::Leased(_) | State::Final(_) => None,
    }
}

impl Shown {
    /// Whether more was shown than there is.
    fn is_ahead_of(&self, item: &Item) -> bool {
        self.last_seq > event_count(item) || (self.end.is_some() && !item.state.phase().is_final())
    }

    fn found(&mut self, item: &Item, phase: Phase, number: u64, at: Timestamp) {
        match Final::of(item) {
            Some(end) => self.end(end),
            None => {
                let (after_seq, reason) = (event_count(item), reason_of(item));
                self.shift(Shift { number, after_seq, phase, at, reason });
            }
        }
    }

    fn shift(&mut self, shift: Shift) {
        self.last_seq = self.last_seq.max(shift.after_seq);
        if self.states.len() == STATES_MAX {
            self.states.pop_front();
        }
        self.states.push_back(shift);
    }

    fn end(&mut self, end: Final) {
        self.last_seq = self.last_seq.max(end.last_seq);
        self.end = Some(end);
    }
}

impl Streams {
    /// Joins those who follow the item, with `ask` having the writer told of it.
    pub(crate) fn join(
        self: &Arc<Self>,
        number: ItemNumber,
        ask: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<Reader, EngineError> {
        let mut crowd = lock(&self.crowd);
        if let Some(closed) = crowd.closed {
            return Err(closed.error());
        }
        if crowd.count >= READERS_MAX {
            return Err(EngineError::Overloaded {
                what: "streams of items of one partition",
                max: READERS_MAX,
            });
        }
        ask()?;
        crowd.count += 1;
        let open = crowd.by_item.entry(number).or_insert_with(|| Open { stream: Arc::default(), readers: 0 });
        open.readers += 1;
        let (stream, shown) = (Arc::clone(&open.stream), open.stream.subscribe());
        Ok(Reader { streams: Arc::clone(self), number, stream, shown })
    }

    /// The number of the next change that the core tells of.
    pub(crate) fn next_told(&self) -> u64 {
        self.told.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    /// The item has new events or another state, and that is durable.
    pub(crate) fn changed(&self, number: u64, changed: &Changed) {
        self.show(changed.number, |shown| {
            shown.last_seq = shown.last_seq.max(changed.event_count);
            if changed.shifted {
                shown.shift(Shift {
                    number,
                    after_seq: changed.event_count,
                    phase: changed.phase,
                    at: changed.at,
                    reason: changed.reason.clone(),
                });
            }
        });
    }

    /// The item has ended, and that is durable.
    pub(crate) fn ended(&self, ended: &Ended) {
        if let Some(end) = Final::of(&ended.item) {
            self.show(ended.item.number, |shown| shown.end(end));
        }
    }

    fn show(&self, number: ItemNumber, show: impl FnOnce(&mut Shown)) {
        if let Some(open) = lock(&self.crowd).by_item.get(&number) {
            open.stream.send_modify(show);
        }
    }

    /// The partition was read back: what is shown is brought in line with how `look` finds the items. Streams are closed of
    /// one that is not to be seen any more, for nobody knows how it ended, and of one that has gone back, as it can where
    /// not every commit is made durable: others must not be shown what is not there.
    pub(crate) fn look_again(
        &self,
        mut look: impl FnMut(ItemNumber) -> Option<(Item, Phase)>,
        at: Timestamp,
    ) {
        let mut crowd = lock(&self.crowd);
        // Of them the partition knows nothing any more.
        crowd.left.clear();
        crowd.by_item.retain(|number, open| {
            let seen = look(*number);
            open.stream.send_modify(|shown| match &seen {
                None => shown.close = Some(Close::After(shown.last_seq)),
                Some((item, _)) if shown.is_ahead_of(item) => shown.close = Some(Close::AtOnce),
                // Told to all, though it may be what they know: each of them sees whether it is.
                Some((item, phase)) => shown.found(item, *phase, self.next_told(), at),
            });
            open.stream.borrow().close.is_none()
        });
    }

    /// Items that nobody follows any more.
    pub(crate) fn take_left(&self) -> Vec<ItemNumber> {
        let mut crowd = lock(&self.crowd);
        let mut left = std::mem::take(&mut crowd.left);
        // Somebody new may have come for the same.
        left.retain(|number| !crowd.by_item.contains_key(number));
        left
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.crowd).count
    }

    /// Has those who follow the item now end, and tells how many. Whoever comes later follows a stream of its own.
    pub(crate) fn close_item(&self, number: ItemNumber, close: Close) -> usize {
        let mut crowd = lock(&self.crowd);
        let Some(open) = crowd.by_item.remove(&number) else { return 0 };
        crowd.left.push(number);
        open.stream.send_modify(|shown| shown.close = Some(close));
        open.readers
    }

    /// Sends everybody home, and whoever comes later. The first reason counts.
    pub(crate) fn close(&self, why: Closed) {
        let mut crowd = lock(&self.crowd);
        crowd.closed.get_or_insert(why);
        for open in std::mem::take(&mut crowd.by_item).into_values() {
            open.stream.send_modify(|shown| shown.close = Some(Close::AtOnce));
        }
    }

    fn leave(&self, number: ItemNumber, stream: &Arc<watch::Sender<Shown>>) {
        let mut crowd = lock(&self.crowd);
        crowd.count -= 1;
        let Some(open) = crowd.by_item.get_mut(&number) else {
            // Its stream was closed, maybe before the writer heard of this reader.
            crowd.left.push(number);
            return;
        };
        if !Arc::ptr_eq(&open.stream, stream) {
            return;
        }
        open.readers -= 1;
        if open.readers == 0 {
            crowd.by_item.remove(&number);
            crowd.left.push(number);
        }
    }
}

/// A place among those who follow an item. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct Reader {
    streams: Arc<Streams>,
    number: ItemNumber,
    stream: Arc<watch::Sender<Shown>>,
    shown: watch::Receiver<Shown>,
}

impl Reader {
    /// What was seen of the item when this reader came: the others know it already.
    pub(crate) fn saw(&self, item: &Item) {
        let (last_seq, end) = (event_count(item), Final::of(item));
        self.stream.send_if_modified(|shown| {
            let news = shown.last_seq < last_seq || (shown.end.is_none() && end.is_some());
            shown.last_seq = shown.last_seq.max(last_seq);
            if shown.end.is_none() {
                shown.end = end;
            }
            news
        });
    }

    pub(crate) fn look<T>(&mut self, look: impl FnOnce(&Shown) -> T) -> T {
        look(&self.shown.borrow_and_update())
    }

    /// Until there is something that was not looked at yet.
    pub(crate) async fn changed(&mut self) {
        self.shown.changed().await.expect("the sender is ours too");
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.streams.leave(self.number, &self.stream);
    }
}
