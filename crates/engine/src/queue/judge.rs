//! Calls on leased items: each is judged by itself, in its own partition.

use windlass_core::id::ItemId;
use windlass_core::limits;
use windlass_core::refusal::{Each, Refusal};
use windlass_core::time::Span;
use windlass_core::verb::Verb;
use windlass_core::verbs::{
    Complete, Completion, Extend, Extended, Held, Release, Retried, Retry, RetryItem, Revoke, Suspend,
    SuspendItem,
};

use super::QueueHandle;
use super::shares::{Asked, Share, judged, shares};
use crate::commit::Judged;
use crate::error::EngineError;

impl QueueHandle {
    pub(crate) async fn complete(&self, items: Vec<Completion>) -> Judged<()> {
        self.judge(items, |item| item.held.id, Complete).await
    }

    pub(crate) async fn release(&self, items: Vec<Held>) -> Judged<()> {
        self.judge(items, |held| held.id, Release).await
    }

    pub(crate) async fn revoke(&self, items: Vec<Held>) -> Judged<()> {
        self.judge(items, |held| held.id, Revoke).await
    }

    pub(crate) async fn extend(
        &self,
        lease_timeout: Option<Span>,
        items: Vec<Held>,
    ) -> Result<Judged<Extended>, EngineError> {
        // A wrong timeout is wrong for all items, wherever they are.
        lease_timeout.map_or(Ok(()), limits::check_lease_timeout).map_err(Refusal::Invalid)?;
        Ok(self.judge(items, |held| held.id, |items| Extend { lease_timeout, items }).await)
    }

    pub(crate) async fn retry(&self, items: Vec<RetryItem>) -> Judged<Retried> {
        self.judge(items, |item| item.held.id, Retry).await
    }

    pub(crate) async fn suspend(&self, items: Vec<SuspendItem>) -> Judged<()> {
        self.judge(items, |item| item.held.id, Suspend).await
    }

    /// Sends each partition a verb with the items that are its own, by their ids.
    pub(super) async fn judge<I, V: Verb<Reply = Each<T>>, T>(
        &self,
        items: Vec<I>,
        id: impl Fn(&I) -> ItemId,
        verb: impl Fn(Vec<I>) -> V,
    ) -> Judged<T> {
        let not_found = || Err(EngineError::Refused(Refusal::NotFound));
        let results = items.iter().map(|_| not_found()).collect();
        let mut asked = Vec::new();
        for (partition, Share { indexes, items }) in
            shares(items.into_iter().enumerate(), |item| id(item).partition)
        {
            if let Ok(handle) = self.find(partition) {
                // Every partition is asked before the first answer is waited for.
                asked.push(Asked { partition, indexes, answer: handle.submit(verb(items)) });
            }
        }
        let unpack =
            |_, each: Each<T>| each.into_iter().map(|result| result.map_err(EngineError::from)).collect();
        judged(asked, results, unpack).await
    }
}
