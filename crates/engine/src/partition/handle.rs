//! What the rest of the engine holds of a partition: its mailbox, its published state, and what was given back.

use std::ops::Deref;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, mpsc, oneshot, watch};
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item::Item;
use windlass_core::news::Died;
use windlass_core::partition::Partition;
use windlass_core::row::{Intake, Queue, QueueName};
use windlass_core::rule::RuleSet;
use windlass_core::time::Timestamp;
use windlass_core::verb::Verb;
use windlass_core::verbs::{Held, LeaseItems, LeaseOthers, Next};

use crate::deaths::Deaths;
use crate::error::EngineError;
use crate::history::History;
use crate::lock::lock;
use crate::machine::call::{self, Awaited, received};
use crate::machine::mailbox::Mailbox;
pub use crate::machine::mailbox::PartitionState;
use crate::machine::message::Message;
use crate::partition::effects::Effects;
use crate::partition::grant::{GrantPart, NextPart, Worker};
use crate::partition::orders::Orders;
use crate::partition::places::{Places, Reserved};
use crate::partition::published::{Published, Rest, Summary};
use crate::partition::served::Request;
use crate::partition::streams::{Followed, Reader, Streams};
use crate::partition::waiters::Waiters;
use crate::partition::watchers::{Closed, Watchers, Watching};
use crate::registry::Stale;

/// What the partitions of a queue have in common.
#[derive(Debug)]
pub(crate) struct InCommon {
    pub(crate) queue: QueueName,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) places: Arc<Places>,
    pub(crate) arrivals: Arc<Arrivals>,
    /// Told whenever a partition that takes nothing new has nothing more to do, or keeps nothing any more.
    pub(crate) stale: Arc<Stale>,
    /// Counts batches that were carried from some partition of the queue to where they were to go.
    pub(crate) carried: Arc<watch::Sender<u64>>,
    pub(crate) deaths: Arc<Deaths>,
    pub(crate) history: Arc<History>,
}

/// Told whenever a queue or a partition comes to serve, of all queues: for those who wait to bring something there.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(watch::Sender<u64>);

impl Arrivals {
    pub(crate) fn tell(&self) {
        self.0.send_modify(|arrivals| *arrivals += 1);
    }

    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

#[derive(Debug)]
pub(crate) struct Handle {
    mailbox: Mailbox<Partition>,
    queue: QueueName,
    pub(super) arrivals: Arc<Arrivals>,
    /// Something is to be brought to another queue, or to another partition.
    outgoing: Notify,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) published: Published,
    stale: Arc<Stale>,
    carried: Arc<watch::Sender<u64>>,
    deaths: Arc<Deaths>,
    history: Arc<History>,
    pub(crate) orders: Orders,
    given_back: Mutex<Vec<Held>>,
}

impl Deref for Handle {
    type Target = Mailbox<Partition>;

    fn deref(&self) -> &Self::Target {
        &self.mailbox
    }
}

impl Handle {
    pub(crate) fn new(
        id: PartitionId,
        common: &InCommon,
        orders: Orders,
    ) -> (Arc<Self>, mpsc::Receiver<Message<Partition>>) {
        let (mailbox, receiver) = Mailbox::new(id);
        common.waiters.add_partition(mailbox.waker());
        let handle = Self {
            mailbox,
            queue: common.queue.clone(),
            arrivals: Arc::clone(&common.arrivals),
            outgoing: Notify::new(),
            waiters: Arc::clone(&common.waiters),
            watchers: Arc::default(),
            streams: Arc::default(),
            published: Published::new(Arc::clone(&common.places)),
            orders,
            stale: Arc::clone(&common.stale),
            carried: Arc::clone(&common.carried),
            deaths: Arc::clone(&common.deaths),
            history: Arc::clone(&common.history),
            given_back: Mutex::default(),
        };
        (Arc::new(handle), receiver)
    }

    /// As [`Mailbox::submit`], with the places for what the verb produces.
    pub(crate) fn submit_with<V: Verb>(
        &self,
        verb: V,
        places: Option<Reserved>,
    ) -> Result<Awaited<V::Reply>, EngineError> {
        let (call, answer) = call::of(verb, places);
        self.call(call)?;
        Ok(answer)
    }

    /// Leases what there is, but for items that the same call gave back.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        lease: LeaseItems,
        given_back: &[ItemNumber],
    ) -> Result<GrantPart, EngineError> {
        let (worker, granted) = Worker::new(self);
        let call = match given_back {
            [] => call::asked(lease, None, worker),
            numbers => call::asked(LeaseOthers { lease, given_back: numbers.to_vec() }, None, worker),
        };
        self.call(call)?;
        received(granted.await)
    }

    /// Settles items and leases others, in one commit.
    pub(crate) fn next(self: &Arc<Self>, next: Next) -> Result<Awaited<NextPart>, EngineError> {
        let (worker, answer) = Worker::new(self);
        self.call(call::asked(next, None, worker))?;
        Ok(answer)
    }

    /// What the registry says of the queue and of what the partition takes in. Taken over with the writer's next batch, or when
    /// the partition is acquired next.
    pub(crate) fn order(&self, queue: &Queue, intake: Intake) {
        self.orders.set_queue(queue, self.id, intake);
        self.wake();
    }

    /// As [`Handle::order`], for the rules of the queue.
    pub(crate) fn order_rules(&self, rules: Arc<RuleSet>) {
        self.orders.set_rules(rules);
        self.wake();
    }

    /// Answered once the orders that were given before are durable in the partition.
    pub(crate) fn heed(&self) -> Result<Awaited<()>, EngineError> {
        let (responder, heeded) = oneshot::channel();
        self.send(Message::Request(Request::Heed(responder)))?;
        Ok(heeded)
    }

    /// Waits for the item to end. Tells it as it is, too, as it will be durable when that comes.
    pub(crate) fn watch(
        &self,
        number: ItemNumber,
    ) -> Result<(Watching, oneshot::Receiver<Option<Item>>), EngineError> {
        self.check_serving()?;
        let (responder, seen) = oneshot::channel();
        let request = Message::Request(Request::Watch { number, responder });
        let watching = self.watchers.join(number, || self.send(request))?;
        Ok((watching, seen))
    }

    /// Follows the item. Tells it as it is, too, as it will be durable when that comes.
    pub(crate) fn follow(
        &self,
        number: ItemNumber,
    ) -> Result<(Reader, oneshot::Receiver<Option<Followed>>), EngineError> {
        self.check_serving()?;
        let (responder, seen) = oneshot::channel();
        let request = Message::Request(Request::Follow { number, responder });
        let reader = self.streams.join(number, || self.send(request))?;
        Ok((reader, seen))
    }

    /// Sends home who waits for items or follows them, and whoever comes later.
    pub(crate) fn send_home(&self, why: Closed) {
        self.watchers.close(why);
        self.streams.close(why);
    }

    /// Releases leases whose answer reached nobody: uncharged, and without a caller to tell.
    pub(crate) fn give_back(&self, leases: impl IntoIterator<Item = Held>) {
        lock(&self.given_back).extend(leases);
        self.wake();
    }

    pub(crate) fn take_given_back(&self, max: usize) -> Vec<Held> {
        let mut given_back = lock(&self.given_back);
        let rest = given_back.len().saturating_sub(max);
        given_back.split_off(rest)
    }

    pub(crate) fn nothing_given_back(&self) -> bool {
        lock(&self.given_back).is_empty()
    }

    /// Says what is known of it by now.
    pub(crate) fn publish(&self, summary: Summary) {
        let before = self.published.set(summary).rest;
        if self.orders.is_former() && self.published.is_news(summary.lingering) {
            self.stale.tell(&self.queue);
        }
        if summary.rest == before {
            return;
        }
        self.tell_rest();
        if summary.rest == Rest::OnlyCrons {
            // All crons are free to leave.
            self.sends();
        }
    }

    /// Says again how far it has come, for something else has changed that counts for it.
    pub(crate) fn tell_rest(&self) {
        if self.published.summary().rest > Rest::OnlyCrons {
            self.stale.tell(&self.queue);
        }
    }

    /// Takes note of what became durable.
    pub(crate) fn took_effect(&self, effects: &mut Effects, at: Timestamp) {
        self.published.took_effect(effects);
        self.history.count(at, &effects.totals, &effects.waited);
        effects.died.iter().for_each(|died| self.note_death(died));
        if effects.outgoing {
            self.sends();
        }
    }

    /// Tells those who wait for items or follow them.
    pub(crate) fn tell(&self, effects: &Effects) {
        effects.changed.iter().for_each(|(number, changed)| self.streams.changed(*number, changed));
        for ended in &effects.ended {
            self.watchers.ended(ended);
            self.streams.ended(ended);
        }
    }

    fn note_death(&self, died: &Died) {
        self.deaths.add(&self.queue.name, self.id, died);
    }

    /// Called when rows in the outbox wait for a mover to another queue or partition.
    pub(crate) fn sends(&self) {
        self.outgoing.notify_one();
    }

    /// To be told by whoever has carried something from here to where it was to go.
    pub(crate) fn has_carried(&self) {
        self.carried.send_modify(|carried| *carried += 1);
    }

    pub(crate) async fn sending(&self) {
        self.outgoing.notified().await;
    }
}
