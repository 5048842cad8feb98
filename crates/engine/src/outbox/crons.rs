//! Crons that leave a partition: which partition is to take each, and the names that the registry has lost.

use std::sync::Arc;

use tracing::warn;
use windlass_core::cron::{Cron, CronHome, CronName};
use windlass_core::id::PartitionId;
use windlass_core::partition::{Partition, StrayCron};
use windlass_core::registry::Registry;
use windlass_core::row::QueueName;
use windlass_core::verbs::{AssignCrons, Departing, Departure, NameCron};

use super::{Carrier, Progress, progress};
use crate::error::EngineError;
use crate::lock::lock;
use crate::partition::handle::PartitionState;
use crate::queue::QueueHandle;

impl Carrier {
    /// Chooses takers for crons that belong to other partitions by now. A cron whose home does not serve now waits for that.
    pub(super) async fn assign_crons(&self, queue: &QueueHandle) -> Result<Progress, EngineError> {
        let strays = self.source.query(|partition, _| partition.stray_crons(usize::MAX)).await?;
        let (mut crons, mut unsure) = (Vec::new(), None);
        for StrayCron { name, address } in strays {
            if crons.len() >= self.batch_max() {
                break;
            }
            match queue.cron_home(&name, address.as_ref()).await {
                Ok(home) if home.id == self.source.id => {}
                Ok(home) if home.state() != PartitionState::Available => {}
                Ok(home) => crons.push((name, home.id)),
                Err(error) => unsure = Some(error),
            }
        }
        match (crons.is_empty(), unsure) {
            (true, None) => Ok(Progress::None),
            (true, Some(error)) => Err(error),
            (false, _) => {
                let assign = AssignCrons { queue: Arc::clone(&self.queue.name), crons };
                self.source.apply(assign).await.map(progress)
            }
        }
    }

    /// Has crons whose taker refused them wait for another one, and the items beside them. Tells whether there was any.
    pub(super) async fn unassign_crons(&self, taker: PartitionId) -> Result<bool, EngineError> {
        let is_cron = |departure: &Departure| matches!(departure.what, Departing::Cron(_));
        let limit = self.batch_max();
        let any = move |partition: &Partition, _| partition.departures(taker, limit).iter().any(is_cron);
        if !self.source.query(any).await? {
            return Ok(false);
        }
        Ok(self.unassign(taker).await? == Progress::Some)
    }

    /// Names crons of the source whose names the registry lost, or has as those of the queue that the source was of before it
    /// was adopted. Once for each time that the source is loaded.
    pub(super) async fn name_lost_crons(&self) -> Result<(), EngineError> {
        let epoch = self.store.epoch(self.source.id);
        if *lock(&self.names_checked) == Some(epoch) {
            return Ok(());
        }
        let present = |cron: &&Cron| cron.leaves.is_none();
        let names = self.source.query(move |partition, _| {
            partition.crons().filter(present).map(|cron| Arc::clone(&cron.name)).collect::<Vec<_>>()
        });
        for (name, named_for) in self.misnamed(names.await?).await? {
            // Asked again: the cron may have been deleted, and the name be another's, since it was listed.
            if !self.is_there(&name, named_for.as_ref()).await? && self.has_cron(&name).await? {
                self.name(name, named_for).await?;
            }
        }
        *lock(&self.names_checked) = Some(epoch);
        Ok(())
    }

    async fn has_cron(&self, name: &Arc<str>) -> Result<bool, EngineError> {
        let name = Arc::clone(name);
        self.source.query(move |partition, now| partition.cron(&name, now, 0).is_some()).await
    }

    /// Whether the queue that the name belongs to has a cron of the name, or may have.
    async fn is_there(&self, name: &Arc<str>, named_for: Option<&QueueName>) -> Result<bool, EngineError> {
        let Some(queue) = named_for else { return Ok(false) };
        let running = lock(&self.running).find(queue);
        let Some(queue) = running else { return Ok(true) };
        Ok(queue.find_cron(name, 0).await?.is_some())
    }

    async fn name(&self, name: Arc<str>, instead_of: Option<QueueName>) -> Result<(), EngineError> {
        warn!(cron = %name, queue = %self.queue.name, "naming a cron whose name was lost");
        let home = CronHome { name, queue: self.queue.clone(), unknown: Vec::new() };
        match self.registry.apply(NameCron { home, instead_of }).await {
            // Somebody else has the name by now.
            Ok(_) | Err(EngineError::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Those of `names` that the registry does not have for this queue, and the queue that it has each of them for.
    async fn misnamed(
        &self,
        names: Vec<Arc<str>>,
    ) -> Result<Vec<(Arc<str>, Option<QueueName>)>, EngineError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let queue = self.queue.clone();
        let misnamed = move |registry: &Registry, _| {
            let named_for = |name: Arc<str>| {
                let key = CronName { namespace: Arc::clone(&queue.namespace), name };
                let named_for = registry.cron_home(&key).map(|home| home.queue.clone());
                (key.name, named_for)
            };
            let is_wrong = |named: &(Arc<str>, Option<QueueName>)| named.1.as_ref() != Some(&queue);
            names.into_iter().map(named_for).filter(is_wrong).collect()
        };
        self.registry.query(misnamed).await
    }
}
