//! A queue: its partitions, seen as one. Routes what is produced, fills leases, and sends each item's calls home.

mod door;
mod groups;
mod judge;
mod keyed;
mod lease;
mod once;
mod permits;
mod produce;
mod redrive;
mod shares;
mod stats;
mod storage;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use windlass_core::command::{Clear, Command, Refusal, Reply};
use windlass_core::row::Queue;

use crate::env::Env;
use crate::error::EngineError;
use crate::partition::handle::{Handle, PartitionState};
use crate::partition::message::{Answer, Done, received};
use crate::partition::places::Places;
use crate::partition::waiters::Waiters;
use crate::partition::watchers::Closed;
use crate::store::Store;
use crate::types::{Commit, Committed};
use door::Door;

/// A queue as it is registered, and what runs it. New settings make a new one, which shares everything else.
#[derive(Clone, Debug)]
pub(crate) struct QueueHandle {
    pub(crate) queue: Queue,
    pub(crate) partitions: Vec<Arc<Handle>>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) door: Arc<Door>,
    places: Arc<Places>,
    env: Arc<dyn Env>,
    store: Arc<dyn Store>,
    /// Where the router begins, so that equals take turns.
    turn: Arc<AtomicUsize>,
}

impl QueueHandle {
    pub(crate) fn new(
        queue: Queue,
        partitions: Vec<Arc<Handle>>,
        waiters: Arc<Waiters>,
        places: Arc<Places>,
        env: Arc<dyn Env>,
        store: Arc<dyn Store>,
    ) -> Self {
        let (door, turn) = (Arc::default(), Arc::default());
        Self { queue, partitions, waiters, door, places, env, store, turn }
    }

    /// The same queue with new settings.
    pub(crate) fn with(&self, queue: Queue) -> Self {
        Self { queue, ..self.clone() }
    }

    /// Nobody waits here any more, neither for work nor for an item to end.
    pub(crate) fn send_waiters_home(&self) {
        self.waiters.close();
        self.partitions.iter().for_each(|handle| handle.watchers.close(Closed::Stopped));
    }

    /// Clears every partition that can. If one could not, or nobody knows, the caller is told what that leaves.
    pub(crate) async fn clear(&self, clear: Clear) -> Result<Committed<u64>, EngineError> {
        let asked: Vec<_> =
            self.partitions.iter().map(|handle| handle.submit(Command::Clear(clear))).collect();
        let (mut cleared, mut failed, mut commits) = (None, None, Vec::new());
        for (handle, answer) in self.partitions.iter().zip(asked) {
            let answer = match answer {
                Ok(answer) => received(answer.await),
                Err(error) => Err(error),
            };
            match answer {
                Ok(Answer { reply: Done::Reply(Reply::Cleared { count }), sequence }) => {
                    *cleared.get_or_insert(0) += count;
                    commits.push(Commit { partition: handle.id, sequence });
                }
                Ok(other) => unreachable!("a clear is answered by a count, not {other:?}"),
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

    /// Whether every item is final and where it goes, those included whose produce was sent before. Once the door is
    /// closed, it stays so.
    pub(crate) async fn check_empty(&self) -> Result<(), EngineError> {
        // All are asked before the first is waited for.
        let asked: Vec<_> =
            self.partitions.iter().map(|handle| handle.ask(|partition, _| partition.unfinished())).collect();
        let mut live = 0;
        for (handle, answer) in self.partitions.iter().zip(asked) {
            live += answer?.await.map_err(|_dropped| handle.no_answer())?;
        }
        if live == 0 { Ok(()) } else { Err(Refusal::NotEmpty { live }.into()) }
    }

    fn unavailable(&self) -> EngineError {
        let causes: Vec<String> = self.partitions.iter().filter_map(|handle| fault(handle)).collect();
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
