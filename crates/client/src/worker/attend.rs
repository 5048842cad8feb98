//! One item: its handler, from its start to the last word about it.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use windlass_api::items::{Held, LeasedItem};

use super::cancellation::{Reason, cancellation};
use super::emit::Emitter;
use super::event::{Event, Fate, Observer};
use super::failure::Failure;
use super::handler::{Handler, Outcome};
use super::heart::Heart;
use super::report::{LAST_WORDS, Word};
use super::slots::Slot;
use super::turn::Desk;
use super::work::Work;
use crate::payload::LeasedItemExt;
use crate::queue::QueueClient;

/// What all items of a worker share.
#[derive(Debug)]
pub(super) struct Station {
    pub(super) queue: QueueClient,
    /// Where the ends of items are told.
    pub(super) desk: Desk,
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
        let (events, emitter) = Emitter::start(self.queue.client.clone(), &self.heart, &item, &self.observer);
        let work = Work::new(item, self.queue.clone(), cancellation, Arc::clone(&slot), events);
        // In a task of its own, so that a panic is its own too.
        let mut handling = JoinSet::new();
        handling.spawn(async move { handler.handle(work).await });
        let reason = tokio::select! {
            // What has come out counts, whatever else has happened since.
            biased;
            outcome = end_of(&mut handling) => {
                return self.tell(&mut lease, outcome.into(), slot.number(), ending, emitter).await;
            }
            reason = lease.cut(self.abort_after.min(self.heart.third())) => reason,
            () = ending.begun() => Reason::Stopping,
        };
        self.observer.tell(Event::Cancelled { id: &lease.held.id, reason });
        cancel.cancel(reason);
        let outcome = tokio::select! {
            biased;
            outcome = end_of(&mut handling) => Some(outcome),
            () = lease.over() => None,
            () = sleep(self.abort_after) => None,
        };
        // Nothing of it may run when somebody else may have the item.
        handling.shutdown().await;
        if reason == Reason::LeaseLost || lease.is_lost() {
            return Fate::Lost;
        }
        let word = match outcome {
            Some(Ok(result)) => Word::Complete(result),
            Some(Err(failure)) if failure.suspend => Err(failure).into(),
            Some(Err(_)) | None => Word::Release,
        };
        self.tell(&mut lease, word, slot.number(), ending, emitter).await
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

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::super::limits::Limits;
    use super::super::slots::Slots;
    use super::*;
    use crate::client::Client;

    const LEASE: Duration = Duration::from_secs(30);

    /// Tells when it is dropped.
    struct Gone(mpsc::UnboundedSender<Duration>, Instant);

    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.send(self.1.elapsed()).unwrap();
        }
    }

    /// How long after its start a handler that does not heed it is cancelled, why, and when it is gone. Nothing is heard of
    /// the server meanwhile.
    async fn cut_off(abort_after: Duration) -> (Duration, Reason, Duration) {
        let (queue, observer) =
            (Client::new("http://127.0.0.1:1").unwrap().queue("work"), Observer::default());
        let heart = Heart::new(queue.clone(), LEASE, observer.clone());
        let (desk, _tellings) = Desk::new();
        let station = Station { queue, desk, heart, observer, abort_after };
        let slots = Slots::new(Limits::new(&[(0, 1)].into(), None, None, Default::default()));
        let ending = watch::Sender::new(false);
        let (tell_cut, mut cut) = mpsc::unbounded_channel();
        let (tell_gone, mut gone) = mpsc::unbounded_channel();
        let started = Instant::now();
        let handler = Handler::raw(move |work| {
            let (tell_cut, gone) = (tell_cut.clone(), Gone(tell_gone.clone(), started));
            async move {
                let _told_when_dropped = gone;
                let reason = work.cancellation().cancelled().await;
                tell_cut.send((started.elapsed(), reason)).unwrap();
                std::future::pending::<Outcome>().await
            }
        });
        let slot = slots.take("k", 0).unwrap();
        let fate =
            station.work_on(LeasedItem::default(), handler, Arc::new(slot), Ending(ending.subscribe())).await;
        assert_eq!(fate, Fate::Lost);
        let (cut_at, reason) = cut.try_recv().unwrap();
        (cut_at, reason, gone.try_recv().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_is_cancelled_before_a_lease_that_is_not_extended_ends_and_is_gone_when_it_does() {
        let (cut_at, reason, gone_at) = cut_off(Duration::from_secs(5)).await;
        assert_eq!((cut_at.as_secs(), reason, gone_at.as_secs()), (25, Reason::LeaseEnding, 30));
    }

    #[tokio::test(start_paused = true)]
    async fn however_long_a_handler_may_take_to_end_it_has_two_thirds_of_its_lease_before() {
        let (cut_at, reason, gone_at) = cut_off(Duration::MAX).await;
        assert_eq!((cut_at.as_secs(), reason, gone_at.as_secs()), (20, Reason::LeaseEnding, 30));
    }
}
