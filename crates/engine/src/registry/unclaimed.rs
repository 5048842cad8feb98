//! Partitions that a store holds and that neither a queue nor a drop record names. A partition becomes
//! unclaimed when the registry is lost, or restored from an older backup. Unclaimed partitions are kept and never loaded until an operator has them adopted or dropped.

use std::sync::Arc;

use tracing::warn;
use windlass_core::cron::{Cron, CronName, CronRefusal};
use windlass_core::id::PartitionId;
use windlass_core::limits::Invalid;
use windlass_core::machine::Machine;
use windlass_core::partition::Partition;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Queue, QueueName, Stored};
use windlass_core::verbs::{Adopt, DropUnclaimed, SkipPartitions};

use super::Registry;
use crate::error::EngineError;
use crate::lock::lock;
use crate::machine::call::Answer;
use crate::store::{StoreError, member};

/// A partition that a store holds and no queue names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclaimed {
    pub stored: Stored,
    /// The queue that the partition was of when it was last served.
    pub queue: Option<QueueName>,
    /// Items that have not ended, or not yet arrived where they go. Unset if the partition cannot be read.
    pub items: Option<u64>,
    /// Crons that the partition runs once it is served. Unset if the partition cannot be read.
    pub crons: Option<u64>,
    /// Items that have ended and are kept. Unset if the partition cannot be read.
    pub retained: Option<u64>,
}

/// Numbers that one log line shows.
const SHOWN_MAX: usize = 20;

const SEVERAL_STORES: Invalid =
    Invalid { field: "store", rule: "named: several stores hold an unclaimed partition of that number" };

impl Registry {
    /// Lists the partitions of each store that is open and was not looked at before. Their numbers are skipped before any
    /// other partition can be given one of them.
    pub(super) async fn look_at_stores(&self) -> Result<(), EngineError> {
        for name in self.store.open_stores() {
            if lock(&self.looked_at).contains(&name) {
                continue;
            }
            // Nothing is dropped between the listing and the comparison.
            let _turn = self.store_turns.take(&name).await;
            if !lock(&self.looked_at).contains(&name) {
                self.look_at(&name).await?;
                lock(&self.looked_at).insert(name);
            }
        }
        let stores = self.store.stores();
        let all_searched = {
            let looked_at = lock(&self.looked_at);
            stores.iter().all(|store| looked_at.contains(&store.name))
        };
        self.host.set_all_searched(all_searched);
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
            self.home.apply(SkipPartitions(highest)).await?;
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
        self.host.add_unclaimed(found);
        Ok(())
    }

    /// The unclaimed partition of a number, in the store that is named, or in the only one that holds it.
    fn find_unclaimed(
        &self,
        partition: PartitionId,
        store: Option<&Arc<str>>,
    ) -> Result<Stored, EngineError> {
        let named = |stored: &Stored| store.is_none_or(|store| *stored.store_name() == **store);
        let of_number = |stored: &Stored| stored.partition == partition;
        let mut found = self.host.unclaimed().into_iter().filter(|stored| of_number(stored) && named(stored));
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
    ) -> Result<Answer<Queue>, EngineError> {
        let registry = Arc::clone(self);
        self.in_turn(&self.queue_turns, queue.clone(), async move {
            let stored = registry.find_unclaimed(partition, store.as_ref())?;
            let names = registry.check_crons(&queue, &stored).await?;
            let adopt = Adopt { queue: queue.clone(), stored };
            let answer = registry.carry_out(&queue, adopt).await?;
            for name in names {
                // A name that cannot be written now is written when the partition is loaded next.
                let _later = registry.name_adopted(name, &queue).await;
            }
            Ok(answer)
        })
        .await
    }

    /// The names of the partition's crons. A name belongs to one cron: a cron whose name another cron has would run beside that
    /// one.
    async fn check_crons(&self, queue: &QueueName, stored: &Stored) -> Result<Vec<CronName>, EngineError> {
        let peeked = self.peek(stored).await.map_err(unreadable)?;
        let present = peeked.crons().filter(|cron| cron.leaves.is_none());
        let name =
            |cron: &Cron| CronName { namespace: Arc::clone(&queue.namespace), name: Arc::clone(&cron.name) };
        let names: Vec<CronName> = present.map(name).collect();
        for name in &names {
            match self.find_cron(name, 0).await {
                Ok(_) => return Err(Refusal::CronNamed { cron: Arc::clone(&name.name) }.into()),
                Err(EngineError::Refused(Refusal::Cron(CronRefusal::NotFound))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(names)
    }

    /// Records that an unclaimed partition is to be dropped, and has its store drop it.
    pub(crate) async fn drop_unclaimed(
        self: &Arc<Self>,
        partition: PartitionId,
        store: Option<Arc<str>>,
        force: bool,
    ) -> Result<Answer<()>, EngineError> {
        let registry = Arc::clone(self);
        self.in_turn(&self.unclaimed_turns, partition, async move {
            let stored = registry.find_unclaimed(partition, store.as_ref())?;
            if !force {
                registry.check_empty(&stored).await?;
            }
            let answer = registry.home.apply(DropUnclaimed(stored.clone())).await;
            match &answer {
                Ok(_) => registry.carry_out_drops_or_later(vec![stored]).await,
                Err(error) if error.is_unknown() => registry.stale.tell_drops(),
                Err(_) => {}
            }
            answer
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
        for stored in self
            .host
            .unclaimed()
            .into_iter()
            .filter(|stored| after.is_none_or(|after| stored.partition > after))
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
        let mut partition = Partition::new(stored.partition, self.host.now());
        while let Some(slice) = rows.next().await? {
            slice.into_iter().for_each(|change| partition.restore(change));
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
