//! Callers who wait for items to end. The core tells the end of what somebody waits for, and once that is durable each
//! of them hears of it here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use windlass_core::id::ItemNumber;
use windlass_core::news::Ended;
use windlass_core::refusal::Refusal;

use crate::error::EngineError;
use crate::lock::lock;

/// At most so many wait for items of one partition.
const WATCHERS_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Watchers {
    crowd: Mutex<Crowd>,
}

#[derive(Debug, Default)]
struct Crowd {
    next: u64,
    count: usize,
    /// Those of one item in the order they came. None is empty.
    by_item: BTreeMap<ItemNumber, BTreeMap<u64, oneshot::Sender<Told>>>,
    /// Items that nobody waits for any more, which the writer has still to hear.
    left: Vec<ItemNumber>,
    closed: Option<Closed>,
}

/// What somebody who waits hears, once.
#[derive(Debug)]
pub(crate) enum Told {
    Ended(Box<Ended>),
    /// It is not known how the item ended, only that it lives no more: there may be something left to look at.
    Look,
    Closed(Closed),
}

/// Why nobody waits any more.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Closed {
    QueueDeleted,
    Stopped,
}

impl Closed {
    pub(crate) fn error(self) -> EngineError {
        match self {
            Self::QueueDeleted => Refusal::NotFound.into(),
            Self::Stopped => EngineError::not_applied("shutting down"),
        }
    }
}

impl Watchers {
    /// Joins those who wait for the item, with `ask` having the writer told of it: nobody else hears of the item
    /// in between.
    pub(crate) fn join(
        self: &Arc<Self>,
        number: ItemNumber,
        ask: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<Watching, EngineError> {
        let mut crowd = lock(&self.crowd);
        if let Some(closed) = crowd.closed {
            return Err(closed.error());
        }
        if crowd.count >= WATCHERS_MAX {
            return Err(EngineError::Overloaded {
                what: "calls that wait for items of one partition",
                max: WATCHERS_MAX,
            });
        }
        ask()?;
        let (sender, told) = oneshot::channel();
        let place = crowd.next;
        crowd.next += 1;
        crowd.count += 1;
        crowd.by_item.entry(number).or_default().insert(place, sender);
        Ok(Watching { watchers: Arc::clone(self), number, place, told })
    }

    /// The item has ended, and that is durable.
    pub(crate) fn ended(&self, ended: &Ended) {
        self.tell(ended.item.number, || Told::Ended(Box::new(ended.clone())));
    }

    /// Those of the items that do not live in a partition that was read back are to look for themselves. The others wait
    /// on.
    pub(crate) fn look_unless(&self, mut lives: impl FnMut(ItemNumber) -> bool) {
        let numbers: Vec<ItemNumber> = {
            let mut crowd = lock(&self.crowd);
            // Of them the partition knows nothing any more.
            crowd.left.clear();
            crowd.by_item.keys().copied().collect()
        };
        for number in numbers {
            if !lives(number) {
                self.tell(number, || Told::Look);
            }
        }
    }

    fn tell(&self, number: ItemNumber, what: impl Fn() -> Told) {
        let mut crowd = lock(&self.crowd);
        let senders = crowd.by_item.remove(&number).unwrap_or_default();
        crowd.count -= senders.len();
        for sender in senders.into_values() {
            let _caller_gone = sender.send(what());
        }
    }

    /// Items that nobody waits for any more.
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

    /// Sends everybody home, and whoever comes later. The first reason counts.
    pub(crate) fn close(&self, why: Closed) {
        let mut crowd = lock(&self.crowd);
        let why = *crowd.closed.get_or_insert(why);
        crowd.count = 0;
        for sender in std::mem::take(&mut crowd.by_item).into_values().flat_map(BTreeMap::into_values) {
            let _caller_gone = sender.send(Told::Closed(why));
        }
    }

    fn leave(&self, number: ItemNumber, place: u64) {
        let mut crowd = lock(&self.crowd);
        let Some(senders) = crowd.by_item.get_mut(&number) else { return };
        if senders.remove(&place).is_none() {
            return;
        }
        if senders.is_empty() {
            crowd.by_item.remove(&number);
            crowd.left.push(number);
        }
        crowd.count -= 1;
    }
}

/// A place among those who wait for an item. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct Watching {
    watchers: Arc<Watchers>,
    number: ItemNumber,
    place: u64,
    told: oneshot::Receiver<Told>,
}

impl Watching {
    /// Until there is something to be told.
    pub(crate) async fn told(&mut self) -> Told {
        (&mut self.told).await.expect("whoever is in the crowd is told before it is let go")
    }

    /// What there is to be told by now.
    pub(crate) fn told_so_far(&mut self) -> Option<Told> {
        self.told.try_recv().ok()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.watchers.leave(self.number, self.place);
    }
}
