//! What the rest of the engine holds of a partition: its mailbox, its published state, and what was given back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, mpsc, oneshot, watch};
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item::Item;
use windlass_core::limits::RegistryLimits;
use windlass_core::news::Died;
use windlass_core::partition::Partition;
use windlass_core::row::{Intake, Queue, QueueName};
use windlass_core::rule::RuleSet;
use windlass_core::settings::Settings;
use windlass_core::time::Timestamp;
use windlass_core::verb::Verb;
use windlass_core::verbs::{Held, LeaseItems};

use crate::deaths::Deaths;
use crate::error::EngineError;
use crate::lock::lock;
use crate::partition::call::{self, Answer, Awaited, received};
use crate::partition::copied::Copied;
use crate::partition::grant::GrantPart;
use crate::partition::inbox::Inbox;
use crate::partition::message::Message;
use crate::partition::places::{Places, Reserved};
use crate::partition::published::{Effects, Published, Rest, Summary};
use crate::partition::reload::Reload;
use crate::partition::streams::{Followed, Reader, Streams};
use crate::partition::waiters::Waiters;
use crate::partition::watchers::{Closed, Watchers, Watching};
use crate::registry::Stale;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionState {
    Loading,
    Available,
    /// It takes nothing until it was acquired anew.
    Faulty {
        error: String,
    },
    Closed,
}

/// What the partitions of a queue have in common.
#[derive(Debug, Default)]
pub(crate) struct InCommon {
    /// Unset for the registry.
    pub(crate) queue: Option<QueueName>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) places: Arc<Places>,
    pub(crate) arrivals: Arc<Arrivals>,
    /// How many queues and partitions there may be: for the registry.
    pub(crate) registry_limits: RegistryLimits,
    /// Told whenever a partition that takes nothing new has nothing more to do, or keeps nothing any more.
    pub(crate) stale: Arc<Stale>,
    /// Counts batches that were carried from some partition of the queue to where they were to go.
    pub(crate) carried: Arc<watch::Sender<u64>>,
    pub(crate) deaths: Arc<Deaths>,
}

/// What the registry says of a partition.
#[derive(Debug)]
pub(crate) struct Orders {
    settings: Copied<Settings>,
    intake: Copied<Intake>,
    /// Whether the partition is asked about keys that are at home elsewhere.
    is_former: AtomicBool,
}

/// Settings, intake and rules that the registry says and a partition has not taken over yet.
#[derive(Default)]
pub(crate) struct NewOrders {
    pub(crate) settings: Option<Settings>,
    pub(crate) intake: Option<Intake>,
    pub(crate) rules: Option<Arc<RuleSet>>,
}

impl Orders {
    /// What the registry says of one partition of a queue.
    pub(crate) fn of(queue: &Queue, partition: PartitionId) -> Self {
        Self {
            settings: Copied::new(queue.settings.clone()),
            intake: Copied::new(queue.intake(partition)),
            is_former: AtomicBool::new(queue.former.contains_key(&partition)),
        }
    }
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
    pub(crate) id: PartitionId,
    queue: Option<QueueName>,
    arrivals: Arc<Arrivals>,
    /// Something is to be brought to another queue, or to another partition.
    outgoing: Notify,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) streams: Arc<Streams>,
    inbox: Inbox,
    state: watch::Sender<PartitionState>,
    stop: watch::Sender<bool>,
    pub(crate) published: Published,
    stale: Arc<Stale>,
    carried: Arc<watch::Sender<u64>>,
    deaths: Arc<Deaths>,
    /// Unset for the registry.
    orders: Option<Orders>,
    pub(crate) registry_limits: RegistryLimits,
    /// As the settings. None for the registry.
    pub(crate) rules: Copied<Arc<RuleSet>>,
    given_back: Mutex<Vec<Held>>,
    /// Something other than the inbox wants the writer's attention.
    wake: Arc<Notify>,
    pub(crate) reload: Reload,
}

impl Handle {
    pub(crate) fn new(
        id: PartitionId,
        common: &InCommon,
        orders: Option<Orders>,
    ) -> (Arc<Self>, mpsc::Receiver<Message>) {
        let (inbox, receiver) = Inbox::new();
        let wake = Arc::new(Notify::new());
        common.waiters.add_partition(&wake);
        let handle = Self {
            id,
            queue: common.queue.clone(),
            arrivals: Arc::clone(&common.arrivals),
            outgoing: Notify::new(),
            waiters: Arc::clone(&common.waiters),
            watchers: Arc::default(),
            streams: Arc::default(),
            inbox,
            state: watch::Sender::new(PartitionState::Loading),
            stop: watch::Sender::new(false),
            published: Published::new(Arc::clone(&common.places)),
            orders,
            stale: Arc::clone(&common.stale),
            carried: Arc::clone(&common.carried),
            deaths: Arc::clone(&common.deaths),
            registry_limits: common.registry_limits,
            rules: Copied::new(Arc::default()),
            given_back: Mutex::default(),
            wake,
            reload: Reload::default(),
        };
        (Arc::new(handle), receiver)
    }

    /// Hands a verb to the writer. The answer comes when its changes are durable.
    pub(crate) fn submit<V: Verb>(&self, verb: V) -> Result<Awaited<V::Reply>, EngineError> {
        self.submit_with(verb, None)
    }

    /// With the places for what it produces.
    pub(crate) fn submit_with<V: Verb>(
        &self,
        verb: V,
        reserved: Option<Reserved>,
    ) -> Result<Awaited<V::Reply>, EngineError> {
        self.check_serving()?;
        let (call, answer) = call::of(verb, reserved);
        self.inbox.send(Message::Call(call))?;
        Ok(answer)
    }

    /// Has the writer carry a verb out.
    pub(crate) async fn apply<V: Verb>(&self, verb: V) -> Result<Answer<V::Reply>, EngineError> {
        received(self.submit(verb)?.await)
    }

    /// Leases what there is.
    pub(crate) async fn lease(&self, lease: LeaseItems) -> Result<GrantPart, EngineError> {
        self.check_serving()?;
        let (call, granted) = call::of_lease(lease);
        self.inbox.send(Message::Call(call))?;
        received(granted.await)
    }

    /// Asks about the state as it will be durable when the answer comes.
    pub(crate) async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Partition, Timestamp) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let answer = self.ask(question)?;
        answer.await.map_err(|_dropped| self.no_answer())
    }

    /// As [`Handle::query`], for whoever asks several before the first is waited for.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Partition, Timestamp) -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, EngineError> {
        self.check_serving()?;
        let (sender, receiver) = oneshot::channel();
        self.inbox.send(Message::Query(Box::new(move |partition, now| {
            let answer = question(partition, now);
            Box::new(move || {
                let _asker_gone = sender.send(answer);
            })
        })))?;
        Ok(receiver)
    }

    /// Waits for the item to end. Tells it as it is, too, as it will be durable when that comes.
    pub(crate) fn watch(
        &self,
        number: ItemNumber,
    ) -> Result<(Watching, oneshot::Receiver<Option<Item>>), EngineError> {
        self.check_serving()?;
        let (responder, seen) = oneshot::channel();
        let watching =
            self.watchers.join(number, || self.inbox.send(Message::Watch { number, responder }))?;
        Ok((watching, seen))
    }

    /// Follows the item. Tells it as it is, too, as it will be durable when that comes.
    pub(crate) fn follow(
        &self,
        number: ItemNumber,
    ) -> Result<(Reader, oneshot::Receiver<Option<Followed>>), EngineError> {
        self.check_serving()?;
        let (responder, seen) = oneshot::channel();
        let reader = self.streams.join(number, || self.inbox.send(Message::Follow { number, responder }))?;
        Ok((reader, seen))
    }

    /// Sends home who waits for items or follows them, and whoever comes later.
    pub(crate) fn send_home(&self, why: Closed) {
        self.watchers.close(why);
        self.streams.close(why);
    }

    /// What it means that a question was dropped.
    pub(crate) fn no_answer(&self) -> EngineError {
        EngineError::not_applied(format!("partition {} failed", self.id))
    }

    fn check_serving(&self) -> Result<(), EngineError> {
        match &*self.state.borrow() {
            PartitionState::Loading | PartitionState::Available => Ok(()),
            PartitionState::Faulty { error } => Err(EngineError::faulty(self.id, error)),
            PartitionState::Closed => Err(EngineError::not_applied("shutting down")),
        }
    }

    /// To be told by whoever takes a message out of the inbox.
    pub(crate) fn taken(&self, message: &Message) {
        self.inbox.taken(message);
    }

    /// Releases leases whose answer reached nobody: uncharged, and without a caller to tell.
    pub(crate) fn give_back(&self, leases: impl IntoIterator<Item = Held>) {
        lock(&self.given_back).extend(leases);
        self.wake.notify_one();
    }

    pub(crate) fn take_given_back(&self, max: usize) -> Vec<Held> {
        let mut given_back = lock(&self.given_back);
        let rest = given_back.len().saturating_sub(max);
        given_back.split_off(rest)
    }

    pub(crate) fn nothing_given_back(&self) -> bool {
        lock(&self.given_back).is_empty()
    }

    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(crate) fn state(&self) -> PartitionState {
        self.state.borrow().clone()
    }

    pub(crate) fn set_state(&self, state: PartitionState) {
        let serves = state == PartitionState::Available;
        self.state.send_replace(state);
        if serves {
            self.arrivals.tell();
        }
    }

    /// Says what is known of it by now.
    pub(crate) fn publish(&self, summary: Summary) {
        let before = self.published.set(summary).rest;
        if let Some(queue) = &self.queue
            && self.is_former()
            && self.published.is_news(summary.lingering)
        {
            self.stale.tell(queue);
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
        if let Some(queue) = &self.queue
            && self.published.summary().rest > Rest::OnlyCrons
        {
            self.stale.tell(queue);
        }
    }

    /// Takes note of what became durable.
    pub(crate) fn took_effect(&self, effects: &mut Effects) {
        self.published.took_effect(effects);
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

    /// The registry has no items, so a partition without a queue has no deaths.
    fn note_death(&self, died: &Died) {
        if let Some(queue) = &self.queue {
            self.deaths.add(&queue.name, self.id, died);
        }
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

    /// Waits until the partition was loaded or found faulty, and tells which.
    pub(crate) async fn settled(&self) -> PartitionState {
        let mut states = self.state.subscribe();
        let settled = states.wait_for(|state| *state != PartitionState::Loading).await;
        settled.map_or(PartitionState::Closed, |state| state.clone())
    }

    pub(crate) fn states(&self) -> watch::Receiver<PartitionState> {
        self.state.subscribe()
    }

    /// What the registry says of it, for the writer and for whoever acquires the partition next.
    pub(crate) fn set_orders(&self, queue: &Queue, intake: Intake) {
        if let Some(orders) = &self.orders {
            orders.settings.set(queue.settings.clone());
            orders.is_former.store(queue.former.contains_key(&self.id), Ordering::SeqCst);
            orders.intake.set(intake);
        }
        self.wake.notify_one();
    }

    fn is_former(&self) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.is_former.load(Ordering::SeqCst))
    }

    /// The version of the routes that it was told to take over.
    pub(crate) fn routes_ordered(&self) -> Option<u64> {
        self.orders.as_ref().map(|orders| orders.intake.version())
    }

    /// The settings, the intake and the rules of the registry that are not of these versions.
    pub(crate) fn orders_unless(&self, settings: u64, intake: u64, rules: u64) -> NewOrders {
        let Some(orders) = &self.orders else { return NewOrders::default() };
        NewOrders {
            settings: orders.settings.unless(settings),
            intake: orders.intake.unless(intake),
            rules: self.rules.unless(rules),
        }
    }

    /// For the writer, and for whoever acquires the partition next.
    pub(crate) fn set_rules(&self, rules: Arc<RuleSet>) {
        self.rules.set(rules);
        self.wake.notify_one();
    }
}
