//! Where the crons of a queue are, and where they belong.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::cron::CronView;
use windlass_core::partition::Partition;
use windlass_core::time::Timestamp;

use super::QueueHandle;
use crate::error::EngineError;
use crate::partition::handle::Handle;

/// A cron, and the partition that has it.
pub(crate) type FoundCron = (Arc<Handle>, CronView);

impl QueueHandle {
    /// Where a cron belongs: with its address, if it has one, for there alone is known whether that is free. As long as an item
    /// bears the address where that was at home before, there.
    pub(crate) async fn cron_home(
        &self,
        name: &str,
        address: Option<&Arc<str>>,
    ) -> Result<&Arc<Handle>, EngineError> {
        let Some(address) = address else { return self.home(name) };
        match self.former_home_holding(address).await? {
            Some(holder) => Ok(holder),
            None => self.home(address),
        }
    }

    /// The cron of a name, with so many of its next times.
    pub(crate) async fn find_cron(
        &self,
        name: &Arc<str>,
        times: usize,
    ) -> Result<Option<FoundCron>, EngineError> {
        let (mut found, unsure) = self.find_crons(vec![Arc::clone(name)], times).await;
        match (found.remove(name), unsure) {
            (Some(found), _) => Ok(Some(found)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    /// The crons of some names, and the error of a partition that could not be asked. All partitions are asked before the first
    /// answer is waited for. A cron on its way may be in two: then the one that took it has it.
    pub(crate) async fn find_crons(
        &self,
        names: Vec<Arc<str>>,
        times: usize,
    ) -> (BTreeMap<Arc<str>, FoundCron>, Option<EngineError>) {
        let names = Arc::new(names);
        let ask = |handle: &Arc<Handle>| {
            let names = Arc::clone(&names);
            let look = move |partition: &Partition, now: Timestamp| {
                names.iter().filter_map(|name| partition.cron(name, now, times)).collect::<Vec<_>>()
            };
            (Arc::clone(handle), handle.ask(look))
        };
        let asked: Vec<_> = self.partitions.iter().map(ask).collect();
        let (mut found, mut unsure) = (BTreeMap::new(), None);
        for (handle, answer) in asked {
            let views = match answer {
                Ok(answer) => answer.await.map_err(|_dropped| handle.no_answer()),
                Err(error) => Err(error),
            };
            match views {
                Ok(views) => views.into_iter().for_each(|view| keep_present(&mut found, &handle, view)),
                Err(error) => unsure = Some(error),
            }
        }
        (found, unsure)
    }
}

fn keep_present(found: &mut BTreeMap<Arc<str>, FoundCron>, at: &Arc<Handle>, view: CronView) {
    let name = Arc::clone(&view.cron.name);
    if view.cron.leaves.is_none() || !found.contains_key(&name) {
        found.insert(name, (Arc::clone(at), view));
    }
}
