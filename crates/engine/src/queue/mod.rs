//! A queue: its partitions, seen as one. Routes what is produced, fills leases, and sends each item's calls home.

mod bodies;
mod change;
mod crons;
mod errors;
mod find;
mod former;
mod grant;
mod groups;
mod judge;
mod keyed;
mod lease;
mod next;
mod once;
mod permits;
mod produce;
mod redrive;
mod rerun;
mod room;
mod routes;
mod shares;
mod stats;
mod storage;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::sync::watch;
use windlass_core::id::PartitionId;
use windlass_core::partition::Totals;
use windlass_core::refusal::Refusal;
use windlass_core::row::Queue;
use windlass_core::rule::RuleSet;
use windlass_core::verbs::Clear;

use crate::commit::{Commit, Committed};
use crate::env::Env;
use crate::error::EngineError;
use crate::history::History;
use crate::machine::call::{Answer, received};
use crate::partition::handle::{Handle, InCommon, PartitionState};
use crate::partition::places::Places;
use crate::partition::waiters::Waiters;
use crate::partition::watchers::Closed;
use crate::store::Store;
pub use change::{Action, ChangePage};
pub use errors::ErrorShare;
pub use find::{Search, SearchPage, Verify, Walk, WalkPlace};
pub use grant::{Delivery, Grant, Granted};
pub use groups::CreatedGroup;
pub(crate) use lease::Took;
pub use next::Turn;
pub use permits::Holding;
pub(crate) use produce::Arriving;
pub use produce::ProducedItem;
pub use redrive::{Redrive, Redriven};
pub(crate) use rerun::Came;
use routes::Routes;
pub use stats::{PartitionStats, QueueOverview, QueueStats};
pub use storage::Page;

/// A queue as it is registered, and what runs it. New settings and other partitions make a new one, which shares everything else.
#[derive(Clone, Debug)]
pub(crate) struct QueueHandle {
    pub(crate) queue: Queue,
    /// Those that serve: first those that take something new, then those that drain.
    pub(crate) partitions: Vec<Arc<Handle>>,
    /// Those that are empty, and are only asked for what they keep.
    pub(crate) retired: Vec<Arc<Handle>>,
    pub(crate) waiters: Arc<Waiters>,
    /// See [`InCommon::carried`].
    carried: Arc<watch::Sender<u64>>,
    places: Arc<Places>,
    env: Arc<dyn Env>,
    store: Arc<dyn Store>,
    /// Where the router begins, so that equals take turns.
    turn: Arc<AtomicUsize>,
    /// The routes that count now, which whoever holds an earlier handle goes against.
    pub(crate) routes: Arc<Routes>,
    pub(crate) history: Arc<History>,
    /// Of partitions that were dropped: what was done stays done.
    totals_of_gone: Totals,
}

impl QueueHandle {
    pub(crate) fn new(
        queue: Queue,
        partitions: Vec<Arc<Handle>>,
        retired: Vec<Arc<Handle>>,
        common: &InCommon,
        env: Arc<dyn Env>,
        store: Arc<dyn Store>,
    ) -> Self {
        let (turn, carried) = (Arc::default(), Arc::clone(&common.carried));
        let (waiters, places) = (Arc::clone(&common.waiters), Arc::clone(&common.places));
        let routes = Arc::new(Routes::new(queue.name.clone(), queue.route_version));
        let (history, totals_of_gone) = (Arc::clone(&common.history), Totals::default());
        Self {
            queue,
            partitions,
            retired,
            waiters,
            carried,
            places,
            env,
            store,
            turn,
            routes,
            history,
            totals_of_gone,
        }
    }

    /// The same queue with new settings, or with other partitions.
    pub(crate) fn with(&self, queue: Queue, partitions: Vec<Arc<Handle>>, retired: Vec<Arc<Handle>>) -> Self {
        let mut next = Self { queue, partitions, retired, ..self.clone() };
        for handle in self.all() {
            if next.find(handle.id).is_err() {
                next.totals_of_gone += handle.published.totals();
            }
        }
        next
    }

    /// Whether keys are still at home where it says.
    pub(crate) fn is_latest(&self) -> bool {
        self.routes.is_latest(self.queue.route_version)
    }

    /// From the end of the step on this handle counts.
    pub(crate) fn supersede<T>(&self, step: impl FnOnce() -> T) -> T {
        self.routes.supersede(self.queue.route_version, step)
    }

    /// Changes whenever something was carried from a partition of the queue to where it was to go.
    pub(crate) fn carried(&self) -> watch::Receiver<u64> {
        self.carried.subscribe()
    }

    /// Whether everything that runs was told what is registered.
    pub(crate) fn is_in_line_with(&self, queue: &Queue, rules: &RuleSet) -> bool {
        let has_rules = |handle: &Arc<Handle>| handle.orders.rules_version() == rules.version;
        self.queue == *queue && self.has_orders(queue) && self.partitions.iter().all(has_rules)
    }

    /// Whether all partitions were told the routes of the queue: a deletion that failed may have left them closed.
    pub(crate) fn has_orders(&self, queue: &Queue) -> bool {
        self.all().all(|handle| handle.orders.route_version() == queue.route_version)
    }

    /// Those that serve and those that are retired.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Handle>> {
        self.partitions.iter().chain(&self.retired)
    }

    /// Whether all partitions serve, retired ones too.
    pub(crate) fn is_served(&self) -> bool {
        self.all().all(|handle| handle.state() == PartitionState::Available)
    }

    /// Whichever of them it is.
    pub(crate) fn find(&self, id: PartitionId) -> Result<&Arc<Handle>, EngineError> {
        let found = self.all().find(|handle| handle.id == id);
        found.ok_or_else(|| self.no_such_partition(id))
    }

    fn no_such_partition(&self, partition: PartitionId) -> EngineError {
        Refusal::NoSuchPartition { queue: Arc::clone(&self.queue.name.name), partition }.into()
    }

    /// Those that take something new.
    fn takers(&self) -> &[Arc<Handle>] {
        &self.partitions[..self.queue.width()]
    }

    /// Nobody waits here any more, neither for work nor for an item to end or go on.
    pub(crate) fn send_waiters_home(&self) {
        self.waiters.close();
        self.all().for_each(|handle| handle.send_home(Closed::Stopped));
    }

    /// Clears every partition that can. If one could not, or nobody knows, the caller is told what that leaves.
    pub(crate) async fn clear(&self, clear: Clear) -> Result<Committed<u64>, EngineError> {
        let asked: Vec<_> = self.partitions.iter().map(|handle| handle.submit(clear)).collect();
        let (mut cleared, mut failed, mut commits) = (None, None, Vec::new());
        for (handle, answer) in self.partitions.iter().zip(asked) {
            let answer = match answer {
                Ok(answer) => received(answer.await),
                Err(error) => Err(error),
            };
            match answer {
                Ok(Answer { reply: count, sequence }) => {
                    *cleared.get_or_insert(0) += count;
                    commits.push(Commit { partition: handle.id, sequence });
                }
                Err(error) => failed = Some(error),
            }
        }
        match (cleared, failed) {
            (Some(value), None) => Ok(Committed { value, commits }),
            (Some(count), Some(error)) => Err(EngineError::unknown(format!(
                "cleared {count} items, but not in every partition: {error}"
            ))),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(Committed { value: 0, commits }),
        }
    }

    /// Whether every item is final and where it goes, those included whose produce was sent before. Once the partitions are
    /// closed, it stays so.
    pub(crate) async fn check_empty(&self) -> Result<(), EngineError> {
        // All are asked before the first is waited for.
        let asked: Vec<_> =
            self.all().map(|handle| handle.ask(|partition, _| partition.unfinished())).collect();
        let mut live = 0;
        for (handle, answer) in self.all().zip(asked) {
            live += answer?.await.map_err(|_dropped| handle.no_answer())?;
        }
        if live == 0 { Ok(()) } else { Err(Refusal::NotEmpty { live }.into()) }
    }

    fn unavailable(&self) -> EngineError {
        let causes: Vec<String> = self.takers().iter().filter_map(|handle| fault(handle)).collect();
        EngineError::not_applied(format!("no partition of the queue can serve: {}", causes.join("; ")))
    }
}

fn fault(handle: &Handle) -> Option<String> {
    match handle.state() {
        PartitionState::Loading | PartitionState::Available => None,
        PartitionState::Faulty { error } => Some(format!("partition {}: {error}", handle.id)),
        PartitionState::Closed => Some(format!("partition {} is closed", handle.id)),
    }
}
