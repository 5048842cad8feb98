//! A caller that does a bit of everything, and goes on in the next life with what it had in its hands.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use tokio::sync::watch;
use windlass_core::id::{ItemId, Permit};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::Filter;
use windlass_sim::history::{Made, QueueIndex, RetryOp};

use super::caller::{Caller, Wish, World};
use super::life::Life;

/// A queue in which much is waiting, in several partitions.
pub(super) const BUSY: QueueIndex = 0;
/// A queue in which it is the workers that wait.
pub(super) const QUIET: QueueIndex = 1;
/// The dead queue of [`BUSY`].
pub(super) const DEAD: QueueIndex = 2;
const KINDS: [&str; 2] = ["mail", "print"];
/// One item in `LARGE_ONE_IN` has up to so many bytes, so that segments are full after some hundred calls.
const LARGE_BYTES: usize = 12_000;
const LARGE_ONE_IN: u8 = 12;
/// A worker completes rather than lease more.
const HELD_MAX: usize = 12;
/// Ends only if nobody restarts the server for so long: a restart gives each lease that time again.
pub(super) const LONG: Span = Span::from_secs(4);
/// Often ends while it is in the hands of somebody.
const SHORT: Span = Span::from_millis(60);

#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    pub(super) queue: QueueIndex,
    pub(super) id: ItemId,
    pub(super) permit: Permit,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) world: Arc<World>,
    pub(super) number: usize,
    pub(super) rng: Rng,
    pub(super) held: Vec<Holding>,
}

impl Worker {
    /// Until there is no life any more. Gives back what it has in its hands then.
    pub(super) async fn work(mut self, mut lives: watch::Receiver<Option<Arc<Life>>>) -> Vec<Holding> {
        loop {
            let Some(life) = lives.borrow_and_update().clone() else { return self.held };
            let caller = Caller::new(&self.world, &life, self.number);
            while !caller.is_cut_off() {
                self.step(&caller).await;
            }
            lives.changed().await.expect("the test tells of the end before it ends");
        }
    }

    async fn step(&mut self, caller: &Caller) {
        let before = self.held.len();
        match self.rng.u8(0..100) {
            0..25 => self.produce(caller).await,
            25..30 => self.look(caller).await,
            30..32 => drop(caller.stats(self.queue()).await),
            32..34 => self.cancel(caller).await,
            34..60 if self.held.len() < HELD_MAX => self.lease(caller).await,
            _ if self.held.is_empty() => self.lease(caller).await,
            60..67 => self.extend(caller).await,
            67..74 => self.retry(caller).await,
            74..80 => self.release(caller).await,
            _ => self.complete(caller).await,
        }
        // `held` only tells when to end the server, and need not be right at every moment.
        self.world.held.fetch_add(self.held.len(), Ordering::Relaxed);
        self.world.held.fetch_sub(before, Ordering::Relaxed);
    }

    fn queue(&mut self) -> QueueIndex {
        if self.rng.u8(0..4) == 0 { QUIET } else { BUSY }
    }

    fn queue_to_lease_from(&mut self) -> QueueIndex {
        if self.rng.u8(0..8) == 0 { DEAD } else { self.queue() }
    }

    async fn produce(&mut self, caller: &Caller) {
        let queue = self.queue();
        let count = if queue == QUIET { 1 } else { self.rng.usize(1..=7) };
        let items = (0..count).map(|_| self.made()).collect();
        caller.produce(queue, items).await;
    }

    fn made(&mut self) -> Made {
        let rng = &mut self.rng;
        let due = rng.u8(0..10) == 0;
        let is_large = rng.u8(0..LARGE_ONE_IN) == 0;
        Made {
            serial: self.world.serial(),
            len: if is_large { rng.usize(0..LARGE_BYTES) } else { rng.usize(0..300) },
            kind: KINDS[rng.usize(0..KINDS.len())].into(),
            priority: if rng.u8(0..4) == 0 { rng.u8(0..3) } else { 1 },
            enqueue_at: due.then(|| from_now(rng.u64(0..50))),
            max_attempts: (rng.u8(0..10) == 0).then(|| rng.u32(1..4)),
            dead_timeout: None,
            address: None,
            group: None,
        }
    }

    async fn lease(&mut self, caller: &Caller) {
        let queue = self.queue_to_lease_from();
        let rng = &mut self.rng;
        let kinds = (rng.u8(0..5) == 0).then(|| vec![KINDS[rng.usize(0..KINDS.len())].into()]);
        let max_priority = if rng.u8(0..5) == 0 { 1 } else { u8::MAX };
        let brief = rng.u8(0..8) == 0;
        let wait = if queue == QUIET || rng.bool() { Span::from_millis(rng.u64(1..200)) } else { Span::ZERO };
        let wish = Wish {
            queue,
            batch_size: rng.usize(1..5),
            timeout: if brief { SHORT } else { LONG },
            filter: Filter::new(kinds, max_priority),
            wait,
        };
        // Some workers never come back to what they took.
        let forgets = brief && rng.bool();
        let granted = caller.lease(wish).await;
        let holdings = granted.iter().map(|item| Holding { queue, id: item.id, permit: item.permit });
        self.held.extend(holdings.filter(|_| !forgets));
    }

    /// Some of those in its hands, all of one queue.
    fn pick(&mut self, count_max: usize) -> (QueueIndex, Vec<(ItemId, Permit)>) {
        let at = self.rng.usize(0..self.held.len());
        let queue = self.held[at].queue;
        let same = self.held.iter().skip(at).filter(|held| held.queue == queue);
        let count = self.rng.usize(1..=count_max);
        (queue, same.take(count).map(|held| (held.id, held.permit)).collect())
    }

    fn let_go(&mut self, items: &[(ItemId, Permit)]) {
        self.held.retain(|held| !items.contains(&(held.id, held.permit)));
    }

    async fn complete(&mut self, caller: &Caller) {
        let (queue, items) = self.pick(4);
        self.let_go(&items);
        let completions = items.into_iter().map(|(id, permit)| {
            let result = self.rng.bool().then(|| format!("{}:done", self.world.serial()).into());
            (id, permit, result)
        });
        let completions = completions.collect();
        caller.complete(queue, completions).await;
    }

    async fn release(&mut self, caller: &Caller) {
        let (queue, items) = self.pick(3);
        self.let_go(&items);
        caller.release(queue, items).await;
    }

    async fn extend(&mut self, caller: &Caller) {
        let (queue, items) = self.pick(3);
        caller.extend(queue, LONG, items).await;
    }

    async fn retry(&mut self, caller: &Caller) {
        let (queue, items) = self.pick(1);
        self.let_go(&items);
        let (id, permit) = items[0];
        let retry_at = self.rng.bool().then(|| from_now(self.rng.u64(0..50)));
        caller.retry(queue, RetryOp { id, permit, retry_at, dead: self.rng.u8(0..3) == 0 }).await;
    }

    async fn cancel(&mut self, caller: &Caller) {
        if let Some((id, _)) = self.anyone() {
            caller.cancel(id).await;
        }
    }

    async fn look(&mut self, caller: &Caller) {
        if let Some((id, queue)) = self.anyone() {
            caller.get(id, queue).await;
        }
    }

    /// One of the newer items.
    fn anyone(&mut self) -> Option<(ItemId, QueueIndex)> {
        let known = self.world.known.lock().expect("nothing panics while it holds this lock");
        let back = self.rng.usize(0..100.min(known.len()).max(1));
        known.iter().rev().nth(back).map(|(id, queue)| (*id, *queue))
    }
}

fn from_now(millis: u64) -> Timestamp {
    now() + Span::from_millis(millis)
}

/// The time on the machine's clock.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Timestamp(u64::try_from(since.as_micros()).expect("not that late"))
}
