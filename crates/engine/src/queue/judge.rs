//! Calls on leased items: each is judged by itself, in its own partition.

use bytes::Bytes;
use windlass_core::id::{ItemId, Permit};
use windlass_core::limits;
use windlass_core::refusal::{Each, Refusal};
use windlass_core::time::Span;
use windlass_core::verb::Verb;
use windlass_core::verbs;
use windlass_core::verbs::{
    Complete, Completion, Extend, Extended, Held, Release, Retried, Retry, Revoke, Suspend,
};

use super::QueueHandle;
use super::shares::{Asked, Share, judged, shares};
use crate::error::EngineError;
use crate::types::{Judged, RetryItem, SuspendItem};

impl QueueHandle {
    pub(crate) async fn complete(&self, items: Vec<(ItemId, Permit, Option<Bytes>)>) -> Judged<()> {
        let home = |(id, ..): &(ItemId, Permit, Option<Bytes>)| *id;
        let verb = |items: Vec<(ItemId, Permit, Option<Bytes>)>| {
            let completion = |(id, permit, result)| Completion { held: held(id, permit), result };
            Complete(items.into_iter().map(completion).collect())
        };
        self.judge(items, home, verb).await
    }

    pub(crate) async fn release(&self, items: Vec<(ItemId, Permit)>) -> Judged<()> {
        let verb = |items: Vec<(ItemId, Permit)>| Release(all_held(items));
        self.judge(items, |(id, _)| *id, verb).await
    }

    pub(crate) async fn revoke(&self, items: Vec<(ItemId, Permit)>) -> Judged<()> {
        let verb = |items: Vec<(ItemId, Permit)>| Revoke(all_held(items));
        self.judge(items, |(id, _)| *id, verb).await
    }

    pub(crate) async fn extend(
        &self,
        lease_timeout: Option<Span>,
        items: Vec<(ItemId, Permit)>,
    ) -> Result<Judged<Extended>, EngineError> {
        // Wrong for all of them, wherever they are.
        lease_timeout.map_or(Ok(()), limits::check_lease_timeout).map_err(Refusal::Invalid)?;
        let verb = |items: Vec<(ItemId, Permit)>| Extend { lease_timeout, items: all_held(items) };
        Ok(self.judge(items, |(id, _)| *id, verb).await)
    }

    pub(crate) async fn retry(&self, items: Vec<RetryItem>) -> Judged<Retried> {
        let verb = |items: Vec<RetryItem>| {
            let retry = |item: RetryItem| verbs::RetryItem {
                held: held(item.id, item.permit),
                retry_at: item.retry_at,
                delay: item.delay,
                dead: item.dead,
                error: item.error,
            };
            Retry(items.into_iter().map(retry).collect())
        };
        self.judge(items, |item| item.id, verb).await
    }

    pub(crate) async fn suspend(&self, items: Vec<SuspendItem>) -> Judged<()> {
        let verb = |items: Vec<SuspendItem>| {
            let suspend = |item: SuspendItem| verbs::SuspendItem {
                held: held(item.id, item.permit),
                reason: item.reason,
            };
            Suspend(items.into_iter().map(suspend).collect())
        };
        self.judge(items, |item| item.id, verb).await
    }

    pub(super) async fn judge<I, V: Verb<Reply = Each<T>>, T>(
        &self,
        items: Vec<I>,
        home: impl Fn(&I) -> ItemId,
        verb: impl Fn(Vec<I>) -> V,
    ) -> Judged<T> {
        let not_found = || Err(EngineError::Refused(Refusal::NotFound));
        let results = items.iter().map(|_| not_found()).collect();
        let mut asked = Vec::new();
        for (partition, Share { indexes, items }) in
            shares(items.into_iter().enumerate(), |item| home(item).partition)
        {
            if let Ok(handle) = self.find(partition) {
                // All are under way before the first is waited for.
                asked.push(Asked { partition, indexes, answer: handle.submit(verb(items)) });
            }
        }
        let unpack =
            |_, each: Each<T>| each.into_iter().map(|result| result.map_err(EngineError::from)).collect();
        judged(asked, results, unpack).await
    }
}

fn held(id: ItemId, permit: Permit) -> Held {
    Held { number: id.number, permit }
}

fn all_held(items: Vec<(ItemId, Permit)>) -> Vec<Held> {
    items.into_iter().map(|(id, permit)| held(id, permit)).collect()
}
