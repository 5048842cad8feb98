//! One item: its handler, from its start to the last word about it.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_api::items::{Held, LeasedItem};

use super::cancellation::{Reason, cancellation};
use super::event::{Event, Fate, Observer};
use super::failure::Failure;
use super::handler::{Handler, Outcome};
use super::heart::Heart;
use super::report::{LAST_WORDS, Word};
use super::slots::Slot;
use super::work::Work;
use crate::payload::LeasedItemExt;
use crate::queue::QueueClient;

/// What all items of a worker share.
#[derive(Debug)]
pub(super) struct Station {
    pub(super) queue: QueueClient,
    pub(super) heart: Arc<Heart>,
    pub(super) observer: Observer,
    pub(super) abort_after: Duration,
}

/// Whether the worker's grace is over.
#[derive(Clone, Debug)]
pub(super) struct Ending(pub(super) watch::Receiver<bool>);

impl Ending {
    /// May be dropped and asked again.
    pub(super) async fn begun(&mut self) {
        // The crew outlives all who ask.
        let _crew_gone = self.0.wait_for(|begun| *begun).await;
    }
}

impl Station {
    pub(super) async fn attend(&self, item: LeasedItem, handler: Handler, slot: Slot, ending: Ending) {
        let id = item.id.clone();
        let fate = self.work_on(item, handler, Arc::new(slot), ending).await;
        self.observer.tell(Event::Ended { id: &id, fate });
    }

    /// The slot is kept until the server has been told: what it has not heard is bounded too.
    async fn work_on(&self, item: LeasedItem, handler: Handler, slot: Arc<Slot>, mut ending: Ending) -> Fate {
        let mut lease = self.heart.keep(item.held());
        let (cancel, cancellation) = cancellation();
        let work = Work::new(item, self.queue.clone(), cancellation, Arc::clone(&slot));
        // In a task of its own, so that a panic is its own too.
        let mut handling = JoinSet::new();
        handling.spawn(async move { handler.handle(work).await });
        let reason = tokio::select! {
            outcome = end_of(&mut handling) => return self.tell(&mut lease, outcome.into(), ending).await,
            reason = lease.cut() => reason,
            () = ending.begun() => Reason::Stopping,
        };
        self.observer.tell(Event::Cancelled { id: &lease.held.id, reason });
        cancel.cancel(reason);
        let outcome = timeout(self.abort_after, end_of(&mut handling)).await;
        // Nothing of it may run when somebody else may have the item.
        handling.shutdown().await;
        if reason == Reason::LeaseLost || lease.is_lost() {
            return Fate::Lost;
        }
        let word = match outcome {
            Ok(Ok(result)) => Word::Complete(result),
            Ok(Err(_)) | Err(_) => Word::Release,
        };
        self.tell(&mut lease, word, ending).await
    }

    /// What may not start goes back to where it was, uncharged. If that fails it does so when the lease ends.
    pub(super) async fn give_back(&self, items: Vec<Held>) {
        let ids: Vec<String> = items.iter().map(|held| held.id.clone()).collect();
        let released = timeout(LAST_WORDS, self.queue.release(items)).await;
        let fate = if matches!(released, Ok(Ok(_))) { Fate::Released } else { Fate::Lost };
        ids.iter().for_each(|id| self.observer.tell(Event::Ended { id, fate }));
    }
}

async fn end_of(handling: &mut JoinSet<Outcome>) -> Outcome {
    let ended = handling.join_next().await.expect("it is asked for once, and there is one");
    ended.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => Err(Failure::panicked(words_of(&*panic))),
        // The runtime is shutting down.
        Err(_) => Err(Failure::new("the handler was aborted").code("aborted")),
    })
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}
