//! Calls on leased items: each is judged by itself, in its own partition.

use bytes::Bytes;
use windlass_core::command::{
    Command, Completion, Extend, Extended, Held, Refusal, Reply, Retried, Retry, Suspend,
};
use windlass_core::id::{ItemId, Permit};
use windlass_core::limits;
use windlass_core::time::Span;

use super::QueueHandle;
use super::shares::{Asked, Share, judged, shares};
use crate::error::EngineError;
use crate::types::{Judged, RetryItem, SuspendItem};

impl QueueHandle {
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

    pub(crate) async fn revoke(&self, items: Vec<(ItemId, Permit)>) -> Judged<()> {
        let command = |items: Vec<(ItemId, Permit)>| Command::Revoke(all_held(items));
        self.judge(items, |(id, _)| *id, command, done).await
    }

    pub(crate) async fn extend(
        &self,
        lease_timeout: Option<Span>,
        items: Vec<(ItemId, Permit)>,
    ) -> Result<Judged<Extended>, EngineError> {
        // Wrong for all of them, wherever they are.
        lease_timeout.map_or(Ok(()), limits::check_lease_timeout).map_err(Refusal::Invalid)?;
        let command =
            |items: Vec<(ItemId, Permit)>| Command::Extend(Extend { lease_timeout, items: all_held(items) });
        let unpack = |reply| {
            let Reply::Extended(results) = reply else {
                unreachable!("an extension is answered by extensions")
            };
            results
        };
        Ok(self.judge(items, |(id, _)| *id, command, unpack).await)
    }

    pub(crate) async fn retry(&self, items: Vec<RetryItem>) -> Judged<Retried> {
        let command = |items: Vec<RetryItem>| {
            let retry = |item: RetryItem| Retry {
                held: held(item.id, item.permit),
                retry_at: item.retry_at,
                delay: item.delay,
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

    pub(crate) async fn suspend(&self, items: Vec<SuspendItem>) -> Judged<()> {
        let command = |items: Vec<SuspendItem>| {
            let suspend =
                |item: SuspendItem| Suspend { held: held(item.id, item.permit), reason: item.reason };
            Command::Suspend(items.into_iter().map(suspend).collect())
        };
        self.judge(items, |item| item.id, command, done).await
    }

    pub(super) async fn judge<I, T>(
        &self,
        items: Vec<I>,
        home: impl Fn(&I) -> ItemId,
        command: impl Fn(Vec<I>) -> Command,
        unpack: impl Fn(Reply) -> Vec<Result<T, Refusal>>,
    ) -> Judged<T> {
        let not_found = || Err(EngineError::Refused(Refusal::NotFound));
        let results = items.iter().map(|_| not_found()).collect();
        let mut asked = Vec::new();
        for (partition, Share { indexes, items }) in
            shares(items.into_iter().enumerate(), |item| home(item).partition)
        {
            if let Ok(handle) = self.find(partition) {
                // All are under way before the first is waited for.
                asked.push(Asked { partition, indexes, answer: handle.submit(command(items)) });
            }
        }
        let unpack =
            |_, reply| unpack(reply).into_iter().map(|result| result.map_err(EngineError::from)).collect();
        judged(asked, results, unpack).await
    }
}

fn held(id: ItemId, permit: Permit) -> Held {
    Held { number: id.number, permit }
}

fn all_held(items: Vec<(ItemId, Permit)>) -> Vec<Held> {
    items.into_iter().map(|(id, permit)| held(id, permit)).collect()
}

fn done(reply: Reply) -> Vec<Result<(), Refusal>> {
    let Reply::Done(results) = reply else { unreachable!("each of them is answered for itself") };
    results
}
