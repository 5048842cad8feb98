//! A queue: its partitions, seen as one. Routes what is produced, fills leases, and sends each item's calls home.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use windlass_core::command::{
    Clear, Command, Completion, Extend, Extended, Held, LeaseItems, NewItem, Produce, Refusal, Reply,
    Retried, Retry,
};
use windlass_core::id::{ItemId, PartitionId, Permit};
use windlass_core::limits;
use windlass_core::partition::Counts;
use windlass_core::route::{self, Load};
use windlass_core::row::{Part, Queue};
use windlass_core::time::{Span, Timestamp};

use crate::env::Env;
use crate::error::{EngineError, Outcome};
use crate::partition::handle::{Answer, Done, GrantPart, Handle, PartitionState, received};
use crate::partition::waiters::{Waited, Waiters};
use crate::store::Store;
use crate::types::{Commit, Grant, Granted, Judged, PartitionStats, ProducedItems, QueueStats, RetryItem};

#[derive(Debug)]
pub(crate) struct QueueHandle {
    pub(crate) queue: Queue,
    pub(crate) partitions: Vec<Arc<Handle>>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    /// Where the router begins, so that equals take turns.
    pub(crate) turn: Arc<AtomicUsize>,
}

impl QueueHandle {
    // Produce.

    /// To one partition, all or none. One that cannot take it is gone around.
    pub(crate) async fn produce(&self, mut items: Vec<NewItem>) -> Result<ProducedItems, EngineError> {
        let scheduled = items.iter().all(|item| item.enqueue_at.is_some());
        let start = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut loads: Vec<Load> = self.partitions.iter().map(|handle| load(handle)).collect();
        let mut last_error = None;
        while let Some(index) = route::pick(&loads, scheduled, start) {
            loads[index].healthy = false;
            // Copied only if there is another one to turn to.
            let elsewhere = loads.iter().any(|load| load.healthy);
            let spare = if elsewhere { items.clone() } else { Vec::new() };
            let sent = std::mem::replace(&mut items, spare);
            match self.partitions[index].command(Command::Produce(Produce { items: sent })).await {
                Err(
                    error @ (EngineError::Unavailable { outcome: Outcome::NotApplied, .. }
                    | EngineError::Overloaded { .. }),
                ) => last_error = Some(error),
                Ok(answer) => return Ok(produced(&self.partitions[index], answer)),
                Err(error) => return Err(error),
            }
        }
        Err(last_error.unwrap_or_else(|| self.unavailable()))
    }

    fn unavailable(&self) -> EngineError {
        let causes: Vec<String> = self.partitions.iter().filter_map(|handle| fault(handle)).collect();
        EngineError::not_applied(format!("no partition of the queue can serve: {}", causes.join("; ")))
    }

    // Lease.

    /// What there is, up to the batch size; waits up to `wait` for the first item.
    pub(crate) async fn lease(&self, lease: LeaseItems, wait: Span) -> Result<Grant, EngineError> {
        limits::check_lease(&lease).map_err(Refusal::Invalid)?;
        if lease.filter.kinds.as_ref().is_some_and(|kinds| kinds.is_empty()) {
            return Ok(Grant::default());
        }
        let deadline = self.env.boot() + Duration::from(wait);
        let mut grant = Vec::new();
        let refused = self.fill(&lease, &mut grant).await;
        if grant.is_empty() && wait > Span::ZERO {
            self.wait_for_work(&lease, deadline, &mut grant).await?;
        }
        if grant.is_empty() && wait == Span::ZERO {
            self.check_serving()?;
            refused?;
        }
        self.with_bodies(grant).await
    }

    fn check_serving(&self) -> Result<(), EngineError> {
        let serving = self.partitions.iter().any(|handle| fault(handle).is_none());
        if serving { Ok(()) } else { Err(self.unavailable()) }
    }

    async fn wait_for_work(
        &self,
        lease: &LeaseItems,
        deadline: Duration,
        grant: &mut Vec<GrantPart>,
    ) -> Result<(), EngineError> {
        let waiting = self.waiters.join(lease.clone())?;
        match waiting.outcome(self.env.sleep_until(deadline)).await {
            Waited::Granted(part) => {
                grant.push(part);
                // More may be had elsewhere, but what is in hand is not held back for it beyond the time asked for.
                tokio::select! {
                    biased;
                    _refused = self.fill(lease, grant) => {}
                    () = self.env.sleep_until(deadline) => {}
                }
                Ok(())
            }
            Waited::TimedOut | Waited::Closed => Ok(()),
        }
    }

    /// Takes what can be had at once, from the partition with the best head first. One that cannot give anything just
    /// now does not keep the others from it; the last such refusal is told.
    async fn fill(&self, lease: &LeaseItems, grant: &mut Vec<GrantPart>) -> Result<(), EngineError> {
        let mut with_work: Vec<_> =
            self.partitions.iter().filter_map(|handle| Some((handle.summary().head?, handle))).collect();
        with_work.sort_by_key(|(head, _)| *head);
        let mut refused = Ok(());
        for (_, handle) in with_work {
            let missing = lease.batch_size.saturating_sub(granted_count(grant));
            if missing == 0 {
                break;
            }
            let command = Command::Lease(LeaseItems { batch_size: missing, ..lease.clone() });
            match handle.command(command).await {
                Ok(Answer { reply: Done::Granted(part), .. }) if part.items().is_empty() => {}
                Ok(Answer { reply: Done::Granted(part), .. }) => grant.push(part),
                Ok(Answer { reply: Done::Reply(_), .. }) => unreachable!("a lease is answered by a grant"),
                Err(error) => refused = Err(error),
            }
        }
        refused
    }

    async fn with_bodies(&self, parts: Vec<GrantPart>) -> Result<Grant, EngineError> {
        let mut items = Vec::with_capacity(granted_count(&parts));
        for part in &parts {
            let partition = part.commit().partition;
            let wanted = part.items().iter().map(|item| (item.number, Part::Payload)).collect();
            let bodies = self.store.read(partition, wanted).await;
            // The leases are given back as they are dropped.
            let given_back = |error| EngineError::not_applied(format!("the items were given back: {error}"));
            let bodies = bodies.map_err(given_back)?;
            for (item, body) in part.items().iter().zip(bodies) {
                // Gone already: cleared, or expired and done by another. The permit is void then.
                let Some(body) = body else { continue };
                items.push(Granted {
                    id: ItemId { partition, number: item.number },
                    permit: item.permit,
                    kind: Arc::clone(&item.kind),
                    priority: item.priority,
                    attempts: item.attempts,
                    deadline: item.deadline,
                    created_at: item.created_at,
                    body,
                });
            }
        }
        Ok(Grant { items, parts })
    }

    // Calls on leased items: each is judged by itself, in its own partition.

    pub(crate) async fn complete(&self, items: Vec<(ItemId, Permit, Option<Bytes>)>) -> Judged<()> {
        let home = |(id, ..): &(ItemId, Permit, Option<Bytes>)| *id;
        let command = |items: Vec<(ItemId, Permit, Option<Bytes>)>| {
            let completion = |(id, permit, result)| Completion { held: held(id, permit), result };
            Command::Complete(items.into_iter().map(completion).collect())
        };
        self.judge(items, home, command, done).await
    }

    pub(crate) async fn release(&self, items: Vec<(ItemId, Permit)>) -> Judged<()> {
        let command = |items: Vec<(ItemId, Permit)>| Command::Release(all_held(items));
        self.judge(items, |(id, _)| *id, command, done).await
    }

    pub(crate) async fn extend(
        &self,
        lease_timeout: Option<Span>,
        items: Vec<(ItemId, Permit)>,
    ) -> Judged<Extended> {
        let command =
            |items: Vec<(ItemId, Permit)>| Command::Extend(Extend { lease_timeout, items: all_held(items) });
        let unpack = |reply| {
            let Reply::Extended(results) = reply else {
                unreachable!("an extension is answered by extensions")
            };
            results
        };
        self.judge(items, |(id, _)| *id, command, unpack).await
    }

    pub(crate) async fn retry(&self, items: Vec<RetryItem>) -> Judged<Retried> {
        let command = |items: Vec<RetryItem>| {
            let retry = |item: RetryItem| Retry {
                held: held(item.id, item.permit),
                retry_at: item.retry_at,
                dead: item.dead,
                error: item.error,
            };
            Command::Retry(items.into_iter().map(retry).collect())
        };
        let unpack = |reply| {
            let Reply::Retried(results) = reply else { unreachable!("a retry is answered by retries") };
            results
        };
        self.judge(items, |item| item.id, command, unpack).await
    }

    async fn judge<I, T>(
        &self,
        items: Vec<I>,
        home: impl Fn(&I) -> ItemId,
        command: impl Fn(Vec<I>) -> Command,
        unpack: impl Fn(Reply) -> Vec<Result<T, Refusal>>,
    ) -> Judged<T> {
        let not_found = || Err(EngineError::Refused(Refusal::NotFound));
        let mut results: Vec<Result<T, EngineError>> = items.iter().map(|_| not_found()).collect();
        let mut by_partition: BTreeMap<PartitionId, (Vec<usize>, Vec<I>)> = BTreeMap::new();
        for (index, item) in items.into_iter().enumerate() {
            let (indexes, items) = by_partition.entry(home(&item).partition).or_default();
            indexes.push(index);
            items.push(item);
        }
        let mut asked = Vec::new();
        for (partition, (indexes, items)) in by_partition {
            if let Some(handle) = self.partitions.iter().find(|handle| handle.id == partition) {
                // All are under way before the first is waited for.
                asked.push((partition, indexes, handle.submit(command(items))));
            }
        }
        let mut commits = Vec::new();
        for (partition, indexes, answer) in asked {
            let answer = match answer {
                Ok(answer) => received(answer.await),
                Err(error) => Err(error),
            };
            match answer {
                Ok(Answer { reply: Done::Reply(reply), sequence }) => {
                    commits.push(Commit { partition, sequence });
                    let unpacked = unpack(reply).into_iter().map(|result| result.map_err(EngineError::from));
                    indexes.into_iter().zip(unpacked).for_each(|(index, result)| results[index] = result);
                }
                Ok(Answer { reply: Done::Granted(_), .. }) => {
                    unreachable!("only a lease is answered by a grant")
                }
                Err(error) => indexes.into_iter().for_each(|index| results[index] = Err(error.clone())),
            }
        }
        Judged { results, commits }
    }

    // The queue as a whole.

    /// Clears every partition that can. If one could not, or nobody knows, the caller is told what that leaves.
    pub(crate) async fn clear(&self, clear: Clear) -> Result<u64, EngineError> {
        let asked: Vec<_> =
            self.partitions.iter().map(|handle| handle.submit(Command::Clear(clear))).collect();
        let (mut cleared, mut failed) = (None, None);
        for answer in asked {
            let answer = match answer {
                Ok(answer) => received(answer.await),
                Err(error) => Err(error),
            };
            match answer {
                Ok(Answer { reply: Done::Reply(Reply::Cleared { count }), .. }) => {
                    *cleared.get_or_insert(0) += count;
                }
                Ok(other) => unreachable!("a clear is answered by a count, not {other:?}"),
                Err(error) => failed = Some(error),
            }
        }
        match (cleared, failed) {
            (Some(count), None) => Ok(count),
            (Some(count), Some(error)) => Err(EngineError::unknown(format!(
                "cleared {count} items, but not in every partition: {error}"
            ))),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(0),
        }
    }

    pub(crate) async fn stats(&self) -> Result<QueueStats, EngineError> {
        let mut stats = QueueStats { lease_waiters: self.waiters.count(), ..QueueStats::default() };
        for handle in &self.partitions {
            let asked = handle
                .query(|partition, _| PartitionCounts {
                    counts: partition.counts(),
                    kinds: partition.kind_counts(),
                    priorities: partition.waiting_by_priority(),
                    retained: partition.retained(),
                    oldest_waiting: partition.oldest_waiting(),
                })
                .await;
            let counted = match asked {
                Ok(counted) => counted,
                // What cannot be read now is shown with its state, and counts nothing.
                Err(EngineError::Unavailable { .. }) => PartitionCounts::default(),
                Err(error) => return Err(error),
            };
            let state = handle.state();
            stats.partitions.push(PartitionStats { partition: handle.id, state, counts: counted.counts });
            add(&mut stats, counted);
        }
        Ok(stats)
    }
}

fn granted_count(grant: &[GrantPart]) -> usize {
    grant.iter().map(|part| part.items().len()).sum()
}

#[derive(Debug, Default)]
struct PartitionCounts {
    counts: Counts,
    kinds: BTreeMap<Arc<str>, Counts>,
    priorities: BTreeMap<u8, u64>,
    retained: u64,
    oldest_waiting: Option<Timestamp>,
}

fn add(stats: &mut QueueStats, counted: PartitionCounts) {
    stats.counts += counted.counts;
    for (kind, counts) in counted.kinds {
        *stats.kinds.entry(kind).or_default() += counts;
    }
    for (priority, waiting) in counted.priorities {
        *stats.priorities.entry(priority).or_default() += waiting;
    }
    stats.retained += counted.retained;
    stats.oldest_waiting = [stats.oldest_waiting, counted.oldest_waiting].into_iter().flatten().min();
}

fn load(handle: &Handle) -> Load {
    let counts = handle.summary().counts;
    Load { healthy: fault(handle).is_none(), waiting: counts.waiting, scheduled: counts.scheduled }
}

fn fault(handle: &Handle) -> Option<String> {
    match handle.state() {
        PartitionState::Loading | PartitionState::Available => None,
        PartitionState::Faulty { error } => Some(format!("partition {}: {error}", handle.id)),
        PartitionState::Closed => Some(format!("partition {} is closed", handle.id)),
    }
}

fn produced(handle: &Handle, answer: Answer) -> ProducedItems {
    let Done::Reply(Reply::Produced(items)) = answer.reply else {
        unreachable!("a produce is answered by what was produced")
    };
    let id = |number| ItemId { partition: handle.id, number };
    ProducedItems {
        items: items.into_iter().map(|item| (id(item.number), item.phase)).collect(),
        commit: Commit { partition: handle.id, sequence: answer.sequence },
    }
}

fn held(id: ItemId, permit: Permit) -> Held {
    Held { number: id.number, permit }
}

fn all_held(items: Vec<(ItemId, Permit)>) -> Vec<Held> {
    items.into_iter().map(|(id, permit)| held(id, permit)).collect()
}

fn done(reply: Reply) -> Vec<Result<(), Refusal>> {
    let Reply::Done(results) = reply else { unreachable!("complete and release are answered item by item") };
    results
}
