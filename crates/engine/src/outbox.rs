//! Brings items to the queues they are moved to, and crons to the partitions they belong to, each exactly once.
//!
//! A move is three commits. The source writes down which partition is to take an item or a cron, and a number that only
//! grows; the target takes the move and remembers the last number it took from that source; the source forgets the move. A
//! rerun whose address is taken is turned away instead: the target remembers that too, and the source keeps the item.
//! Whatever fails in between is done again, and a target passes over what it has. Moves to one partition are in the order
//! of their numbers, one batch at a time.
//!
//! Nothing polls: a source tells when something leaves, and every partition that comes to serve is announced to the
//! sources that have something to bring anywhere.

mod addresses;
mod crons;
mod load;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tracing::{error, warn};
use windlass_core::id::{ItemId, PartitionId};
use windlass_core::mutant::{self, Mutant};
use windlass_core::partition::{Partition, Target, Totals};
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::verbs::{
    Arrived, Arriving, Assign, Departing, Departure, FallBack, Move, Moved, Take, Unassign,
};

use crate::env::{self, Env};
use crate::error::EngineError;
use crate::headers::HeaderReader;
use crate::host::{RunningQueues, Whereabouts};
use crate::lock::lock;
use crate::machine::call::Answer;
use crate::partition::handle::{Arrivals, Handle, PartitionState};
use crate::queue::QueueHandle;
use crate::registry::RegistryHandle;
use crate::store::{Store, Term};
use load::{Load, Lost};

/// What one batch holds at most.
const BATCH_MAX: usize = 100;
/// What the row of an item that leaves comes to, if its errors are of ordinary length.
const ROW_BYTES: usize = 512;

/// How long to wait after the source or the registry could not be asked.
const ASK_AGAIN: Duration = Duration::from_millis(500);
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// What leaves one partition.
pub(crate) struct Outbox {
    source: Arc<Handle>,
    arrivals: Arc<Arrivals>,
    carrier: Arc<Carrier>,
}

/// What all outboxes of a host share.
pub(crate) struct Shared {
    pub(crate) registry: Arc<RegistryHandle>,
    pub(crate) running: Arc<Mutex<RunningQueues>>,
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) headers: HeaderReader,
}

/// What everybody needs who carries something from that partition to some queue.
struct Carrier {
    source: Arc<Handle>,
    queue: QueueName,
    registry: Arc<RegistryHandle>,
    running: Arc<Mutex<RunningQueues>>,
    env: Arc<dyn Env>,
    store: Arc<dyn Store>,
    headers: HeaderReader,
    /// Queues that something is being carried to; set if there may be more to do than was seen.
    under_way: watch::Sender<BTreeMap<Arc<str>, bool>>,
    /// The epoch in which the names of the source's crons were compared with those that the registry has.
    names_checked: Mutex<Option<u64>>,
}

/// What came of one look at what is to be carried to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Something was done: look again.
    Some,
    /// There is nothing, or nobody who could take it now.
    None,
}

impl Outbox {
    pub(crate) fn new(source: Arc<Handle>, queue: QueueName, shared: Shared) -> Self {
        let Shared { registry, running, arrivals, env, store, headers } = shared;
        let (under_way, names_checked) = (watch::Sender::default(), Mutex::default());
        let from = Arc::clone(&source);
        let carrier =
            Carrier { source: from, queue, registry, running, env, store, headers, under_way, names_checked };
        Self { source, arrivals, carrier: Arc::new(carrier) }
    }

    /// Until the partition stops, and everybody under way has come back.
    pub(crate) async fn run(self) {
        let mut stopping = self.source.stopping();
        let mut arrivals = self.arrivals.listen();
        loop {
            // Arrivals wake nobody who has nothing to bring: there may be thousands of those.
            let has_outgoing = self.source.published.summary().outgoing;
            tokio::select! {
                biased;
                _stop = stopping.wait_for(|stop| *stop) => break,
                () = self.source.sending() => {}
                _changed = arrivals.changed(), if has_outgoing => {}
            }
            tokio::select! {
                biased;
                _stop = stopping.wait_for(|stop| *stop) => break,
                () = self.set_out() => {}
            }
        }
        let mut under_way = self.carrier.under_way.subscribe();
        let _sender_is_ours = under_way.wait_for(BTreeMap::is_empty).await;
    }

    /// Sends somebody to each queue that something goes to.
    async fn set_out(&self) {
        let own = Arc::clone(&self.carrier.queue.name);
        let queues = self.source.query(move |partition, _| {
            let strays = (!partition.stray_crons(1).is_empty()).then_some(own);
            let targets = partition.targets().into_iter().map(|target| target.queue);
            targets.chain(strays).collect::<BTreeSet<_>>()
        });
        let (queues, named) = (queues.await, self.carrier.name_lost_crons().await);
        // If the source is faulty, it tells anew once it is read back. If it has too much to do, it is asked again.
        if (queues.is_err() || named.is_err()) && self.source.state() == PartitionState::Available {
            self.carrier.rest(ASK_AGAIN).await;
            self.source.sends();
        }
        for to in queues.into_iter().flatten() {
            if self.carrier.starts(&to) {
                let carrier = Arc::clone(&self.carrier);
                // Nobody awaits it: closing waits until nobody is under way.
                let _not_awaited = env::spawn(&*self.carrier.env, "move", carrier.carry(to));
            }
        }
    }
}

impl Carrier {
    /// Whether somebody is to go; who is under way already looks again before coming back.
    fn starts(&self, to: &Arc<str>) -> bool {
        let mut starts = false;
        self.under_way.send_modify(|under_way| match under_way.get_mut(to) {
            Some(look_again) => *look_again = true,
            None => {
                starts = true;
                under_way.insert(Arc::clone(to), false);
            }
        });
        starts
    }

    async fn carry(self: Arc<Self>, to: Arc<str>) {
        let mut errand = Errand { carrier: Arc::clone(&self), to: Arc::clone(&to), is_over: false };
        let mut backoff = BACKOFF_MIN;
        let mut stopping = self.source.stopping();
        loop {
            // A source that stops does not wait for a target that may not answer: what was sent is sent again, and passed over.
            let step = tokio::select! {
                biased;
                _stop = stopping.wait_for(|stop| *stop) => return,
                step = self.step(&to) => step,
            };
            match step {
                Ok(Progress::Some) => backoff = BACKOFF_MIN,
                Ok(Progress::None) => {
                    if errand.end() {
                        return;
                    }
                }
                Err(error) => {
                    warn!(partition = %self.source.id, to = &*to, %error, "items could not be moved yet");
                    self.rest(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                }
            }
        }
    }

    async fn rest(&self, backoff: Duration) {
        let mut stopping = self.source.stopping();
        tokio::select! {
            biased;
            _stop = stopping.wait_for(|stop| *stop) => {}
            () = self.env.sleep_until(self.env.boot() + backoff) => {}
        }
    }

    /// One batch to each partition of the queue that has been chosen for some, then chooses takers for more.
    async fn step(&self, to: &Arc<str>) -> Result<Progress, EngineError> {
        let targets = self.targets(to).await?;
        let Some(queue) = self.find(to) else { return self.divert(to, &targets).await };
        let (mut progress, mut refused) = (Progress::None, Ok(Progress::None));
        for taker in targets.iter().filter_map(|target| target.partition) {
            // A taker that will not take anything does not keep the others from it.
            match self.bring(to, &queue, taker).await {
                Ok(Progress::Some) => progress = Progress::Some,
                Ok(Progress::None) => {}
                Err(error) => refused = Err(error),
            }
        }
        if progress == Progress::None && targets.iter().any(|target| target.partition.is_none()) {
            progress = self.assign(to, &queue, None, self.batch_max()).await?;
            if progress == Progress::None {
                progress = self.assign_to_homes(to, &queue).await?;
            }
        }
        // Not at once after a refusal: the cron that was refused would be sent to the same partition again.
        if progress == Progress::None && refused.is_ok() && *to == self.queue.name {
            progress = self.assign_crons(&queue).await?;
        }
        if progress == Progress::Some { Ok(progress) } else { refused }
    }

    async fn targets(&self, to: &Arc<str>) -> Result<Vec<Target>, EngineError> {
        let to = Arc::clone(to);
        let targets = move |partition: &Partition, _| {
            partition.targets().into_iter().filter(|target| target.queue == to).collect()
        };
        self.source.query(targets).await
    }

    async fn bring(
        &self,
        to: &Arc<str>,
        queue: &QueueHandle,
        taker: PartitionId,
    ) -> Result<Progress, EngineError> {
        match self.deliver_some(queue, taker).await {
            // The taker takes nothing new any more, or a cron's address is not at home there any more.
            Err(error @ EngineError::Refused(Refusal::Moved)) => {
                self.settle(taker).await?;
                match self.assign(to, queue, Some(taker), self.batch_max()).await? {
                    Progress::Some => Ok(Progress::Some),
                    Progress::None if self.unassign_crons(taker).await? => Err(error),
                    Progress::None => Ok(Progress::None),
                }
            }
            brought => brought,
        }
    }

    fn find(&self, queue: &Arc<str>) -> Option<Arc<QueueHandle>> {
        let name = QueueName { namespace: Arc::clone(&self.queue.namespace), name: Arc::clone(queue) };
        lock(&self.running).find(&name)
    }

    /// What was to go to a queue that is not there waits for a taker again, and what died goes to where the source's queue
    /// sends its dead by now. If that queue is not there either, its making is announced.
    async fn divert(&self, from: &Arc<str>, targets: &[Target]) -> Result<Progress, EngineError> {
        let mut progress = Progress::None;
        for taker in targets.iter().filter_map(|target| target.partition) {
            if self.let_go(taker).await? == Progress::Some {
                progress = Progress::Some;
            }
        }
        let name = Arc::clone(from);
        let asked = move |partition: &Partition, _| {
            (partition.settings().dead_queue.clone(), partition.overflows(&name))
        };
        let (dead_queue, overflows) = self.source.query(asked).await?;
        let Some(queue) = dead_queue.and_then(|to| self.find(&to)) else {
            return if overflows { self.fall_back(from).await } else { Ok(progress) };
        };
        if self.assign(from, &queue, None, self.batch_max()).await? == Progress::Some {
            // Somebody else carries what goes there.
            self.source.sends();
            progress = Progress::Some;
        }
        Ok(progress)
    }

    /// Has the oldest items stay in their own queue that are on their way to one that does not exist: more waits for it than may.
    async fn fall_back(&self, queue: &Arc<str>) -> Result<Progress, EngineError> {
        // A queue that is there and does not run yet is waited for.
        let name = QueueName { namespace: Arc::clone(&self.queue.namespace), name: Arc::clone(queue) };
        if self.registry.query(move |registry, _| registry.queue(&name).is_some()).await? {
            return Ok(Progress::None);
        }
        let fall_back = FallBack { queue: Arc::clone(queue), limit: self.batch_max() };
        let progress = self.source.apply(fall_back).await.map(progress)?;
        if progress == Progress::Some {
            // Whoever waits for one of them to arrive is told that it does not.
            self.source.has_carried();
        }
        Ok(progress)
    }

    /// Has the moves to a partition that is not of the target queue any more wait for another taker, without those that the
    /// partition took.
    async fn let_go(&self, taker: PartitionId) -> Result<Progress, EngineError> {
        // A taker that is not served may have taken some of them: that is known once it was loaded, adopted or dropped.
        let whereabouts = lock(&self.running).whereabouts(taker);
        if matches!(whereabouts, Whereabouts::NotServed) || mutant::active(Mutant::AssignedForEver) {
            return Ok(Progress::None);
        }
        // A taker of another queue was adopted there. A taker that is gone went with an earlier queue of that name, or was
        // empty, and all that it took was heard of.
        self.settle(taker).await?;
        self.unassign(taker).await
    }

    /// The next batch for one partition. The partition takes a batch whole or not at all: if not, its moves are sent one by
    /// one, and those that are refused by themselves are put aside, until one is taken or all of the batch were refused.
    async fn deliver_some(&self, queue: &QueueHandle, taker: PartitionId) -> Result<Progress, EngineError> {
        let batch_max = self.batch_max();
        let mut delivered = self.deliver(queue, taker, batch_max).await;
        if !is_refused(&delivered) {
            return delivered;
        }
        let batch = move |partition: &Partition, _| partition.departures(taker, batch_max).len();
        for _ in 0..self.source.query(batch).await? {
            if !is_refused(&delivered) {
                break;
            }
            delivered = self.deliver(queue, taker, 1).await;
            if is_refused(&delivered) {
                self.put_aside(queue, taker).await?;
            }
        }
        delivered
    }

    /// Has an item found by the headers that the queue indexes that it comes to.
    fn index(&self, queue: &QueueHandle, moved: &mut Move) {
        match &mut moved.what {
            Arriving::Item(item) => {
                self.headers.index(&queue.queue.settings, moved.facts.as_ref(), &mut item.hashes);
            }
            // The item that it makes was indexed when the cron was made or updated.
            Arriving::Cron(_) => {}
        }
    }

    /// Gives the first move to another taker, or puts it behind the others if there is none: so with an item that is to have an
    /// address, which the home of that address alone takes.
    async fn put_aside(&self, queue: &QueueHandle, taker: PartitionId) -> Result<(), EngineError> {
        self.settle(taker).await?;
        if self.first_has_address(taker).await? {
            return self.put_behind(queue, taker).await;
        }
        match self.assign(&queue.queue.name.name, queue, Some(taker), 1).await? {
            Progress::Some => Ok(()),
            Progress::None => self.put_behind(queue, taker).await,
        }
    }

    /// Whether the first move to a partition is that of an item that is to have an address there.
    async fn first_has_address(&self, taker: PartitionId) -> Result<bool, EngineError> {
        let has_address = |departure: &Departure| match &departure.what {
            Departing::Item(item) => item.address_there.is_some(),
            Departing::Cron(_) => false,
        };
        self.source.query(move |partition, _| partition.departures(taker, 1).iter().any(has_address)).await
    }

    async fn deliver(
        &self,
        queue: &QueueHandle,
        taker: PartitionId,
        limit: usize,
    ) -> Result<Progress, EngineError> {
        let Ok(target) = queue.find(taker) else { return self.let_go(taker).await };
        // A queue that is about to be deleted is announced if that comes to nothing.
        if target.state() != PartitionState::Available || !queue.routes.are_open() {
            return Ok(Progress::None);
        }
        let sent = self.term(self.source.id);
        let departures = self.source.query(move |partition, _| partition.departures(taker, limit)).await?;
        let load = match self.load(departures).await {
            Ok(load) => load,
            Err(error) => {
                self.put_behind(queue, taker).await?;
                return Err(error);
            }
        };
        let Some(Load { last, mut moves, lost, .. }) = load else { return Ok(Progress::None) };
        if mutant::active(Mutant::ForgetMove) {
            self.forget(self.term(taker), Arrived { last, ..Arrived::default() }).await?;
        }
        self.mark_taken_addresses(queue, &mut moves).await?;
        moves.iter_mut().for_each(|moved| self.index(queue, moved));
        self.sync(sent).await?;
        let taken = self.term(taker);
        let arrived = target.apply(Take { source: self.source.id, moves }).await?.reply;
        self.count_lost(&lost);
        self.forget(taken, arrived).await?;
        Ok(Progress::Some)
    }

    /// Puts the first move to a partition behind the others: its payload cannot be read now, or it is refused; and moves are
    /// taken in the order of their numbers.
    async fn put_behind(&self, queue: &QueueHandle, taker: PartitionId) -> Result<(), EngineError> {
        self.settle(taker).await?;
        let to = Arc::clone(&queue.queue.name.name);
        let (queue, instead_of) = (Arc::clone(&to), Some(taker));
        let assign = Assign { queue, to, partition: taker, instead_of, limit: 1, addressed: Vec::new() };
        if self.source.apply(assign).await.map(progress)? == Progress::None {
            // The first move is that of a cron, which gets a new number once a taker is chosen again.
            self.source.apply(Unassign { partition: taker, limit: 1 }).await?;
        }
        Ok(())
    }

    fn term(&self, partition: PartitionId) -> Term {
        Term::now(&*self.store, partition)
    }

    /// Makes one partition's commits durable before another commits what rests on them: a taker must not have what its
    /// source does not know to have sent, nor a source forget what its taker does not know to have. Within one store too:
    /// with relaxed durability a failed write takes back the newest commits, and the next one may come after that.
    async fn sync(&self, term: Term) -> Result<(), EngineError> {
        self.store.sync(term).await.map_err(|error| EngineError::not_applied(error.to_string()))
    }

    fn count_lost(&self, lost: &[Lost]) {
        for Lost { item, damage } in lost {
            let id = ItemId { partition: self.source.id, number: *item };
            error!(queue = &*self.queue.name, item = %id, damage, "item moved without its payload, which is lost");
        }
        self.source.published.count(Totals { damaged: lost.len() as u64, ..Totals::default() });
    }

    /// Forgets what a partition has taken, as far as that was not written down: it must not go to anybody else.
    async fn settle(&self, taker: PartitionId) -> Result<(), EngineError> {
        let whereabouts = lock(&self.running).whereabouts(taker);
        let target = match whereabouts {
            Whereabouts::Served(home) => home.partition,
            Whereabouts::Gone => return Ok(()),
            Whereabouts::NotServed => {
                return Err(EngineError::not_applied(format!("partition {taker} is not served now")));
            }
        };
        let source = self.source.id;
        let taken = self.term(taker);
        let arrived = target.query(move |partition, _| partition.arrived_from(source)).await?;
        self.forget(taken, arrived).await?;
        // If it is to be dropped, it waits for that.
        target.tell_rest();
        Ok(())
    }

    /// However it was learned, within that term, that the partition took it.
    async fn forget(&self, taken: Term, arrived: Arrived) -> Result<(), EngineError> {
        self.sync(taken).await?;
        self.source.apply(Moved { partition: taken.partition, arrived }).await?;
        self.source.has_carried();
        Ok(())
    }

    async fn unassign(&self, taker: PartitionId) -> Result<Progress, EngineError> {
        let unassign = Unassign { partition: taker, limit: self.batch_max() };
        self.source.apply(unassign).await.map(progress)
    }

    /// Chooses who is to take the next batch of what was to go to a queue.
    async fn assign(
        &self,
        from: &Arc<str>,
        queue: &QueueHandle,
        instead_of: Option<PartitionId>,
        limit: usize,
    ) -> Result<Progress, EngineError> {
        let Some(taker) = queue.next_taker(instead_of) else { return Ok(Progress::None) };
        let (from, to) = (Arc::clone(from), Arc::clone(&queue.queue.name.name));
        let assign =
            Assign { queue: from, to, partition: taker.id, instead_of, limit, addressed: Vec::new() };
        self.source.apply(assign).await.map(progress)
    }

    /// Rows that are written at once: fewer where a store takes little.
    fn batch_max(&self) -> usize {
        (self.store.batch_bytes_max() / ROW_BYTES).clamp(1, BATCH_MAX)
    }
}

/// Whether a verb that answers with a number of moves concerned any.
fn progress(answer: Answer<usize>) -> Progress {
    if answer.reply > 0 { Progress::Some } else { Progress::None }
}

/// Whether the taker refused the moves themselves: another taker may take them.
fn is_refused(delivered: &Result<Progress, EngineError>) -> bool {
    match delivered {
        Err(EngineError::Refused(refusal)) => *refusal != Refusal::Moved,
        Ok(_) | Err(_) => false,
    }
}

/// Somebody under way to a queue. However it ends, also by a bug that unwinds it, nobody waits for it in vain.
struct Errand {
    carrier: Arc<Carrier>,
    to: Arc<str>,
    is_over: bool,
}

impl Errand {
    /// Comes back, unless there may be more to do than was seen.
    fn end(&mut self) -> bool {
        let is_over = &mut self.is_over;
        self.carrier.under_way.send_modify(|under_way| match under_way.get_mut(&self.to) {
            Some(look_again) if *look_again => *look_again = false,
            Some(_) | None => {
                under_way.remove(&self.to);
                *is_over = true;
            }
        });
        *is_over
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        // Once it is over, somebody else may be under way.
        if !self.is_over {
            self.carrier.under_way.send_modify(|under_way| {
                under_way.remove(&self.to);
            });
        }
    }
}
