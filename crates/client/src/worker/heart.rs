//! The heartbeat: one for all leases of a worker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use windlass_api::Code;
use windlass_api::items::{ExtendReply, Held};

use super::cancellation::Reason;
use super::event::{Event, Observer};
use crate::error::{ClientError, Outcome};
use crate::queue::QueueClient;
use crate::retries::Retries;

/// How long a handler has to end when the server says that its lease is lost: somebody else may have the item already.
const LOST_GRACE: Duration = Duration::from_secs(1);
/// The most that one call can extend.
const BATCH_MAX: usize = 1000;

#[derive(Debug)]
pub(super) struct Heart {
    queue: QueueClient,
    lease_timeout: Duration,
    observer: Observer,
    /// By item and permit.
    kept: Mutex<BTreeMap<(String, u64), watch::Sender<Pulse>>>,
    joined: Notify,
}

/// What is known of a lease.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    /// Counted from when the lease or its last extension was asked for, of those that were answered.
    ends: Instant,
    cancel_requested: bool,
    /// The server says so.
    lost: bool,
}

/// A lease that is extended until this is dropped.
#[derive(Debug)]
pub(super) struct KeptLease {
    heart: Arc<Heart>,
    pub(super) held: Held,
    pulse: watch::Receiver<Pulse>,
}

impl Heart {
    pub(super) fn new(queue: QueueClient, lease_timeout: Duration, observer: Observer) -> Arc<Self> {
        let (kept, joined) = (Mutex::default(), Notify::new());
        Arc::new(Self { queue, lease_timeout, observer, kept, joined })
    }

    /// Of an item that was leased just now.
    pub(super) fn keep(self: &Arc<Self>, held: Held) -> KeptLease {
        let ends = Instant::now() + self.lease_timeout;
        let (sender, pulse) = watch::channel(Pulse { ends, cancel_requested: false, lost: false });
        self.kept().insert((held.id.clone(), held.permit), sender);
        self.joined.notify_one();
        KeptLease { heart: Arc::clone(self), held, pulse }
    }

    /// Goes on for as long as it is polled.
    pub(super) async fn beat(&self) {
        let mut failures = 0;
        loop {
            self.until_anybody_is_kept().await;
            sleep(self.pause(failures)).await;
            failures = if self.extend_all().await { 0 } else { failures + 1 };
        }
    }

    async fn until_anybody_is_kept(&self) {
        while self.kept().is_empty() {
            self.joined.notified().await;
        }
    }

    pub(super) fn lease_timeout(&self) -> Duration {
        self.lease_timeout
    }

    pub(super) fn third(&self) -> Duration {
        self.lease_timeout / 3
    }

    fn pause(&self, failures: u32) -> Duration {
        if failures == 0 {
            return self.third();
        }
        Retries::default().backoff(failures, fastrand::f64()).min(self.third())
    }

    /// Whether all of them are known to be extended or lost.
    async fn extend_all(&self) -> bool {
        let held = |(id, permit): &(String, u64)| Held { id: id.clone(), permit: *permit };
        let held: Vec<Held> = self.kept().keys().map(held).collect();
        let mut all = true;
        for batch in held.chunks(BATCH_MAX) {
            all &= self.extend(batch).await;
        }
        all
    }

    async fn extend(&self, batch: &[Held]) -> bool {
        let sent = Instant::now();
        let extending = self.queue.extend(batch.iter().cloned(), Some(self.lease_timeout));
        let waited = self.third();
        let outcome = Outcome::Unknown;
        let late = || ClientError::Timeout { url: self.queue.client.url(), waited, outcome };
        match timeout(waited, extending).await.unwrap_or_else(|_| Err(late())) {
            Ok(reply) => self.extended(batch, &reply, sent + self.lease_timeout),
            Err(error) => {
                self.observer.tell(Event::ExtendFailed { error: &error });
                false
            }
        }
    }

    fn extended(&self, batch: &[Held], reply: &ExtendReply, ends: Instant) -> bool {
        let permits: BTreeMap<&str, u64> = batch.iter().map(|held| (held.id.as_str(), held.permit)).collect();
        for item in &reply.items {
            let Some(permit) = permits.get(item.id.as_str()) else { continue };
            let cancel_requested = item.cancel_requested;
            self.tell(&item.id, *permit, Pulse { ends, cancel_requested, lost: false });
        }
        let is_void = |code: &str| [Code::LeaseLost, Code::NotFound].iter().any(|void| void.as_str() == code);
        let (void, unclear): (Vec<_>, Vec<_>) = reply.failed.iter().partition(|failed| is_void(&failed.code));
        for failed in void {
            self.tell(&failed.id, failed.permit, Pulse { ends, cancel_requested: false, lost: true });
        }
        unclear.is_empty()
    }

    fn tell(&self, id: &str, permit: u64, pulse: Pulse) {
        if let Some(kept) = self.kept().get(&(id.to_owned(), permit)) {
            kept.send_modify(|known| {
                // What the server says of a lost lease is no extension.
                let ends = if pulse.lost { known.ends } else { pulse.ends };
                *known = Pulse { ends, ..pulse };
            });
        }
    }

    /// The server said so with an answer to something else.
    pub(super) fn is_to_be_cancelled(&self, held: &Held) {
        self.change(held, |pulse| pulse.cancel_requested = true);
    }

    /// The server said so with an answer to something else.
    pub(super) fn is_lost(&self, held: &Held) {
        self.change(held, |pulse| pulse.lost = true);
    }

    fn change(&self, held: &Held, change: impl FnOnce(&mut Pulse)) {
        if let Some(kept) = self.kept().get(&(held.id.clone(), held.permit)) {
            kept.send_modify(change);
        }
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<(String, u64), watch::Sender<Pulse>>> {
        self.kept.lock().expect("nothing panics while it holds this")
    }
}

impl KeptLease {
    /// When there is a reason not to go on. That the lease is about to end is one so long `before` it does.
    pub(super) async fn cut(&mut self, before: Duration) -> Reason {
        self.until(before, |pulse| pulse.lost || pulse.cancel_requested).await;
        let cancel_requested = self.pulse.borrow().cancel_requested;
        match (self.is_lost(), cancel_requested) {
            (true, _) => Reason::LeaseLost,
            (false, true) => Reason::CancelRequested,
            (false, false) => Reason::LeaseEnding,
        }
    }

    /// When nothing of a handler may be left.
    pub(super) async fn over(&mut self) {
        self.until(Duration::ZERO, |pulse| pulse.lost).await;
        let latest = self.pulse.borrow().ends;
        sleep_until(latest.min(Instant::now() + LOST_GRACE)).await;
    }

    /// When the lease is over by the clock, whatever the server says of it.
    pub(super) async fn lapse(&mut self) {
        self.until(Duration::ZERO, |_| false).await;
    }

    pub(super) fn is_lost(&self) -> bool {
        let pulse = *self.pulse.borrow();
        pulse.lost || pulse.ends <= Instant::now()
    }

    /// Until then, or so long `before` the lease is over by the clock. May be dropped and asked again.
    async fn until(&mut self, before: Duration, then: impl Fn(&Pulse) -> bool) {
        loop {
            let pulse = *self.pulse.borrow_and_update();
            let latest = pulse.ends - before;
            if then(&pulse) || latest <= Instant::now() {
                return;
            }
            tokio::select! {
                _heart_has_it = self.pulse.changed() => {}
                () = sleep_until(latest) => {}
            }
        }
    }
}

impl Drop for KeptLease {
    fn drop(&mut self) {
        self.heart.kept().remove(&(std::mem::take(&mut self.held.id), self.held.permit));
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::error::Failed;
    use windlass_api::items::ExtendedItem;

    use super::*;
    use crate::client::Client;

    const LEASE: Duration = Duration::from_secs(30);

    fn kept() -> (Arc<Heart>, KeptLease) {
        let queue = Client::new("http://127.0.0.1:1").unwrap().queue("work");
        let heart = Heart::new(queue, LEASE, Observer::default());
        let lease = heart.keep(Held { id: "item".to_owned(), permit: 7 });
        (heart, lease)
    }

    fn hear(heart: &Heart, lease: &KeptLease, code: Option<Code>) {
        let Held { id, permit } = lease.held.clone();
        let mut reply = ExtendReply::default();
        match code {
            Some(code) => {
                reply.failed.push(Failed { id, permit, code: code.as_str().to_owned(), ..Failed::default() });
            }
            None => reply.items.push(ExtendedItem { id, ..ExtendedItem::default() }),
        }
        heart.extended(std::slice::from_ref(&lease.held), &reply, Instant::now() + LEASE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_the_server_says_is_lost_is_cut_at_once_and_over_shortly_after() {
        let (heart, mut lease) = kept();
        let started = Instant::now();
        hear(&heart, &lease, Some(Code::LeaseLost));
        assert_eq!(lease.cut(LEASE / 3).await, Reason::LeaseLost);
        assert_eq!(started.elapsed(), Duration::ZERO);
        lease.over().await;
        assert!(started.elapsed() < LEASE / 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_extended_late_goes_on() {
        let (heart, mut lease) = kept();
        let started = Instant::now();
        assert_eq!(lease.cut(LEASE / 3).await, Reason::LeaseEnding);
        hear(&heart, &lease, Some(Code::Unavailable));
        assert!(!lease.is_lost());
        hear(&heart, &lease, None);
        lease.over().await;
        assert_eq!(started.elapsed().as_secs(), (LEASE / 3 * 2 + LEASE).as_secs());
    }
}
