//! Where the crons of a queue are, and where they belong.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::oneshot;
use windlass_core::cron::CronView;
use windlass_core::partition::Partition;
use windlass_core::time::Timestamp;

use super::QueueHandle;
use crate::error::EngineError;
use crate::partition::handle::Handle;

/// How often a cron that moves meanwhile is looked for.
const LOOKS_MAX: usize = 8;

/// A partition that was asked for crons, and its answer.
type Asked = (Arc<Handle>, Result<oneshot::Receiver<Vec<CronView>>, EngineError>);

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

    /// The cron of a name, with so many of its next times. Does not wait for other partitions than the one that has the cron.
    pub(crate) async fn find_cron(
        &self,
        name: &Arc<str>,
        times: usize,
    ) -> Result<Option<FoundCron>, EngineError> {
        for _ in 0..LOOKS_MAX {
            let carried = *self.carried.borrow();
            let (found, unsure) = first_present(self.ask_for_crons(vec![Arc::clone(name)], times)).await;
            match (found, unsure) {
                (Some(found), _) => return Ok(Some(found)),
                (None, Some(error)) => return Err(error),
                // It may have passed from a partition that was asked late to one that was asked early.
                (None, None) if *self.carried.borrow() != carried => {}
                (None, None) => return Ok(None),
            }
        }
        Err(EngineError::not_applied("the cron is on its way to another partition: send it again"))
    }

    /// All partitions are asked before the first answer is waited for.
    fn ask_for_crons(&self, names: Vec<Arc<str>>, times: usize) -> Vec<Asked> {
        let names = Arc::new(names);
        let ask = |handle: &Arc<Handle>| {
            let names = Arc::clone(&names);
            let look = move |partition: &Partition, now: Timestamp| {
                names.iter().filter_map(|name| partition.cron(name, now, times)).collect::<Vec<_>>()
            };
            (Arc::clone(handle), handle.ask(look))
        };
        self.partitions.iter().map(ask).collect()
    }

    /// The crons of some names, and the error of a partition that could not be asked. A cron on its way may be in two partitions:
    /// then the one that took it has it.
    pub(crate) async fn find_crons(
        &self,
        names: Vec<Arc<str>>,
        times: usize,
    ) -> (BTreeMap<Arc<str>, FoundCron>, Option<EngineError>) {
        let (mut found, mut unsure) = (BTreeMap::new(), None);
        for (handle, answer) in self.ask_for_crons(names, times) {
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

/// The first answer that tells of a cron which no other partition is to take; if there is none, a cron on its way, and the error of
/// a partition that could not be asked.
async fn first_present(asked: Vec<Asked>) -> (Option<FoundCron>, Option<EngineError>) {
    let (mut leaving, mut unsure, mut waiting) = (None, None, Vec::new());
    for (handle, answer) in asked {
        match answer {
            Ok(answer) => waiting.push((handle, answer)),
            Err(error) => unsure = Some(error),
        }
    }
    let present = poll_fn(|context| {
        let mut present = None;
        waiting.retain_mut(|(handle, answer)| match Pin::new(answer).poll(context) {
            Poll::Pending => true,
            Poll::Ready(Err(_dropped)) => {
                unsure = Some(handle.no_answer());
                false
            }
            Poll::Ready(Ok(views)) => {
                for view in views {
                    let is_present = view.cron.leaves.is_none();
                    let found = Some((Arc::clone(handle), view));
                    if is_present { present = found } else { leaving = found }
                }
                false
            }
        });
        if present.is_some() || waiting.is_empty() { Poll::Ready(present) } else { Poll::Pending }
    });
    let present = present.await;
    (present.or(leaving), unsure)
}
