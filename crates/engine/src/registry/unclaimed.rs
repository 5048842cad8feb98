//! Partitions that a store holds and that neither a queue nor a drop record names. A partition becomes
//! unclaimed when the registry is lost, or restored from an older backup. Unclaimed partitions are kept and never loaded until an operator has them adopted or dropped.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::{info, warn};
use windlass_core::command::{Adopt, Command, Refusal};
use windlass_core::id::PartitionId;
use windlass_core::limits::Invalid;
use windlass_core::partition::Partition;
use windlass_core::row::{Change, Queue, QueueName, Stored};

use super::Registry;
use crate::error::EngineError;
use crate::lock::lock;
use crate::partition::message::Answer;
use crate::store::{StoreError, member};
use crate::types::Unclaimed;

/// Numbers that one log line shows.
const SHOWN_MAX: usize = 20;

const SEVERAL_STORES: Invalid =
    Invalid { field: "store", rule: "named: several stores hold an unclaimed partition of that number" };

impl Registry {
    /// Lists the partitions of each store that is open and was not looked at before. Their numbers are skipped before any
    /// other partition can be given one of them.
    pub(super) async fn look_at_stores(&self) -> Result<(), EngineError> {
        for name in self.store.open_stores() {
            if !lock(&self.looked_at).contains(&name) {
                self.look_at(&name).await?;
                lock(&self.looked_at).insert(name);
            }
        }
        let all_searched = {
            let looked_at = lock(&self.looked_at);
            self.store.stores().iter().all(|store| looked_at.contains(&store.name))
        };
        let searched_before = std::mem::replace(&mut lock(&self.running).all_searched, all_searched);
        if all_searched && !searched_before {
            // Moves to partitions that are gone waited for that.
            self.arrivals.tell();
        }
        Ok(())
    }

    async fn look_at(&self, name: &Arc<str>) -> Result<(), EngineError> {
        let store =
            member(&*self.store, name).ok_or_else(|| EngineError::not_applied("a store has closed"))?;
        let held = store.partitions().await.map_err(|error| EngineError::not_applied(error.to_string()))?;
        let (claimed, last) =
            self.home.query(|registry, _| (registry.claimed(), registry.partitions_last())).await?;
        let seen = held.iter().copied().chain(claimed.iter().map(|stored| stored.partition));
        if let Some(highest) = seen.max().filter(|highest| *highest > last) {
            self.home.command(Command::SkipPartitions(highest)).await?;
        }
        let held = held.into_iter().map(|partition| Stored::new(partition, name));
        let found: Vec<Stored> = held.filter(|stored| !claimed.contains(stored)).collect();
        if !found.is_empty() {
            let partitions: Vec<u32> =
                found.iter().take(SHOWN_MAX).map(|stored| stored.partition.0).collect();
            warn!(store = %name, count = found.len(), ?partitions,
                "partitions are unclaimed: no queue names them, and they are kept. List them with `windlass storage \
                 unclaimed`; adopt or drop each by its number");
        }
        lock(&self.running).unclaimed.extend(found);
        Ok(())
    }

    /// Carries drop records out, and removes each record once its store has dropped the partition. A record whose store is
    /// not open stays until it is.
    pub(super) async fn carry_out_drops(
        &self,
        dropped: Vec<Stored>,
        registered: &[Queue],
    ) -> Result<(), EngineError> {
        if dropped.is_empty() {
            return Ok(());
        }
        let named: BTreeSet<Stored> = registered.iter().flat_map(Queue::stored).collect();
        let (mut done, mut failed) = (Vec::new(), Ok(()));
        // A queue and a record that name the same partition contradict each other: nothing is dropped then.
        for stored in dropped.into_iter().filter(|stored| !named.contains(stored)) {
            match self.drop_stored(&stored).await {
                Ok(true) => done.push(stored),
                Ok(false) => {}
                Err(error) => failed = Err(EngineError::not_applied(error.to_string())),
            }
        }
        if !done.is_empty() {
            self.home.command(Command::ForgetDropped(done)).await?;
        }
        failed
    }

    /// Tells whether the store is open.
    async fn drop_stored(&self, stored: &Stored) -> Result<bool, StoreError> {
        let Some(store) = member(&*self.store, stored.store_name()) else { return Ok(false) };
        store.drop_partition(stored.partition).await?;
        info!(partition = %stored.partition, store = stored.store_name(), "partition dropped");
        if *self.store.name_of(stored.partition) == *stored.store_name() {
            self.store.unassign(stored.partition);
        }
        Ok(true)
    }

    /// Partitions that were adopted or are to be dropped are not unclaimed any more: moves that waited for them go on.
    pub(super) fn reclaim(&self, claimed: &BTreeSet<Stored>) {
        let shrunk = {
            let unclaimed = &mut lock(&self.running).unclaimed;
            let before = unclaimed.len();
            unclaimed.retain(|stored| !claimed.contains(stored));
            unclaimed.len() < before
        };
        if shrunk {
            self.arrivals.tell();
        }
    }

    pub(super) fn has_unclaimed(&self) -> bool {
        !lock(&self.running).unclaimed.is_empty()
    }

    /// By number, then by store.
    pub(crate) fn unclaimed(&self) -> Vec<Stored> {
        lock(&self.running).unclaimed.iter().cloned().collect()
    }

    /// The unclaimed partition of a number, in the store that is named, or in the only one that holds it.
    fn find_unclaimed(
        &self,
        partition: PartitionId,
        store: Option<&Arc<str>>,
    ) -> Result<Stored, EngineError> {
        let named = |stored: &Stored| store.is_none_or(|store| *stored.store_name() == **store);
        let of_number = |stored: &Stored| stored.partition == partition;
        let mut found = self.unclaimed().into_iter().filter(|stored| of_number(stored) && named(stored));
        match (found.next(), found.next()) {
            (Some(stored), None) => Ok(stored),
            (Some(_), Some(_)) => Err(Refusal::Invalid(SEVERAL_STORES).into()),
            (None, _) => Err(Refusal::NotUnclaimed.into()),
        }
    }

    /// Makes an unclaimed partition one of a queue's.
    pub(crate) async fn adopt(
        self: &Arc<Self>,
        queue: QueueName,
        partition: PartitionId,
        store: Option<Arc<str>>,
    ) -> Result<Answer, EngineError> {
        let registry = Arc::clone(self);
        self.alone(async move {
            let stored = registry.find_unclaimed(partition, store.as_ref())?;
            registry.check_crons(&stored).await?;
            let answer = registry.carry_out(Command::Adopt(Adopt { queue, stored })).await;
            match registry.mend_crons().await {
                Ok(asked_all) if asked_all => {}
                Ok(_) | Err(_) => registry.stale.notify_one(),
            }
            answer
        })
        .await
    }

    /// A name is one cron's: a cron of the partition whose name another cron has would run beside that one.
    async fn check_crons(&self, stored: &Stored) -> Result<(), EngineError> {
        let peeked = self.peek(stored).await.map_err(unreadable)?;
        let present = peeked.crons().filter(|cron| cron.leaves_to.is_none());
        let names: Vec<Arc<str>> = present.map(|cron| Arc::clone(&cron.name)).collect();
        let at = stored.partition;
        let taken = self.home.query(move |registry, _| {
            let elsewhere = |name: &str| registry.cron_home(name).is_some_and(|home| home.partition != at);
            names.into_iter().find(|name| elsewhere(name))
        });
        taken.await?.map_or(Ok(()), |cron| Err(Refusal::CronNamed { cron }.into()))
    }

    /// Records that an unclaimed partition is to be dropped, and has its store drop it.
    pub(crate) async fn drop_unclaimed(
        self: &Arc<Self>,
        partition: PartitionId,
        store: Option<Arc<str>>,
        force: bool,
    ) -> Result<Answer, EngineError> {
        let registry = Arc::clone(self);
        self.alone(async move {
            let stored = registry.find_unclaimed(partition, store.as_ref())?;
            if !force {
                registry.check_empty(&stored).await?;
            }
            registry.carry_out(Command::DropUnclaimed(stored)).await
        })
        .await
    }

    async fn check_empty(&self, stored: &Stored) -> Result<(), EngineError> {
        let peeked = self.peek(stored).await.map_err(unreadable)?;
        match (peeked.unfinished(), peeked.crons().count() as u64) {
            (0, 0) => Ok(()),
            (live, crons) => Err(Refusal::UnclaimedNotEmpty { live, crons }.into()),
        }
    }

    /// What is known of unclaimed partitions after a number. Never ends between two stores that hold the same number.
    pub(crate) async fn describe_unclaimed(
        &self,
        after: Option<PartitionId>,
        limit: usize,
    ) -> Vec<Unclaimed> {
        let mut described: Vec<Unclaimed> = Vec::new();
        for stored in
            self.unclaimed().into_iter().filter(|stored| after.is_none_or(|after| stored.partition > after))
        {
            let is_new = described.last().is_none_or(|last| last.stored.partition != stored.partition);
            if described.len() >= limit && is_new {
                break;
            }
            described.push(self.describe(stored).await);
        }
        described
    }

    async fn describe(&self, stored: Stored) -> Unclaimed {
        match self.peek(&stored).await {
            Ok(partition) => Unclaimed {
                queue: partition.intake().queue.clone(),
                items: Some(partition.unfinished()),
                crons: Some(partition.crons().count() as u64),
                retained: Some(partition.retained()),
                stored,
            },
            Err(error) => {
                warn!(partition = %stored.partition, store = stored.store_name(), %error, "an unclaimed partition cannot be read");
                Unclaimed { stored, queue: None, items: None, crons: None, retained: None }
            }
        }
    }

    /// The state of a partition that nobody serves.
    async fn peek(&self, stored: &Stored) -> Result<Partition, StoreError> {
        let closed = || StoreError::Unusable(format!("the store `{}` is not open", stored.store_name()));
        let store = member(&*self.store, stored.store_name()).ok_or_else(closed)?;
        let mut rows = store.peek(stored.partition).await?;
        let mut partition = Partition::new(stored.partition, self.now());
        while let Some(slice) = rows.next().await? {
            for change in slice {
                match change {
                    Change::Put(row) => partition.put(row),
                    Change::Remove(key) => partition.remove(&key),
                    Change::PutBody { .. } | Change::RemoveBody { .. } => {}
                }
            }
        }
        Ok(partition)
    }
}

/// Damage stays: whoever asks again hears the same.
fn unreadable(error: StoreError) -> EngineError {
    if error.is_damage() {
        return Refusal::UnclaimedDamaged { damage: error.to_string().into() }.into();
    }
    EngineError::not_applied(error.to_string())
}
