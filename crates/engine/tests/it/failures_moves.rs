//! Moves from queue to queue, with everything that can go wrong at every step of them.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::PartitionId;
use windlass_core::item::{ItemError, MoveReason, Phase};
use windlass_core::limits::KINDS_MAX;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, NewItem, RetryItem};
use windlass_engine::store::log::LogStore;
use windlass_engine::{Engine, EngineError, Granted, Outcome, PartitionState, QueueStats, Redrive};

use crate::behaviour::retry_item;
use crate::faulty::{Fault, FaultyStore};
use crate::log_disk::MemDisk;
use crate::log_rows::small;
use crate::world::{ManualEnv, bodies, item, items, lease, queue_name};

pub(crate) const FAULTS: [Fault; 5] =
    [Fault::CrashBefore, Fault::CrashAfter, Fault::NotApplied, Fault::UnknownLost, Fault::UnknownDone];

/// And what a relaxed store may do besides.
pub(crate) const RELAXED_FAULTS: [Fault; 6] = {
    let [crash_before, crash_after, not_applied, unknown_lost, unknown_done] = FAULTS;
    [crash_before, crash_after, not_applied, unknown_lost, unknown_done, Fault::TakenBack]
};

/// More commits than a move takes.
pub(crate) const COMMITS_MAX: usize = 12;

pub(crate) struct Moving {
    pub(crate) env: Arc<ManualEnv>,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) engine: Engine,
    pub(crate) queue: QueueName,
    pub(crate) dead: QueueName,
}

impl Moving {
    pub(crate) async fn new() -> Self {
        let env = Arc::new(ManualEnv::new());
        let store = Arc::new(FaultyStore::default());
        let engine = Engine::open(env.clone(), store.clone()).await.expect("the engine opens");
        let moving = Self { env, store, engine, queue: queue_name("q"), dead: queue_name("dead") };
        let settings = Settings { max_attempts: 1, dead_queue: Some("dead".into()), ..Settings::default() };
        moving.create(&moving.queue, settings).await;
        moving
    }

    pub(crate) async fn create(&self, name: &QueueName, settings: Settings) {
        let create = CreateQueue::new(name.clone(), settings, 1);
        self.engine.create_queue(create).await.expect("the queue is made");
    }

    pub(crate) async fn stats(&self, queue: &QueueName) -> QueueStats {
        self.engine.stats(queue).await.expect("stats")
    }

    /// Lets time pass until it is so.
    pub(crate) async fn until(&self, what: impl AsyncFn() -> bool) {
        while !what().await {
            self.env.advance(Duration::from_millis(10));
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn serves(&self, queue: &QueueName) -> bool {
        let stats = self.stats(queue).await;
        stats.partitions.iter().all(|partition| partition.state == PartitionState::Available)
    }

    pub(crate) async fn partition_of(&self, queue: &QueueName) -> PartitionId {
        self.stats(queue).await.partitions[0].partition
    }

    pub(crate) async fn lease(&self, queue: &QueueName) -> Vec<Granted> {
        self.engine.lease(queue, lease(10), Span::ZERO).await.expect("leased").accept()
    }

    /// Ends what waits, as far as the fault lets it.
    pub(crate) async fn fail(&self, leased: &[Granted]) {
        let dead = |item: &Granted| RetryItem { dead: true, ..retry_item(item) };
        let call = self.engine.retry(&self.queue, leased.iter().map(dead).collect());
        self.unless_it_crashes(call).await;
    }

    /// Nothing if the process ended first.
    pub(crate) async fn unless_it_crashes<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        let mut crashed = self.store.crashed.subscribe();
        tokio::select! {
            biased;
            _crashed = crashed.wait_for(|crashed| *crashed) => None,
            answer = call => Some(answer),
        }
    }

    /// The answer of a call that waits for something that is tried again later.
    pub(crate) async fn while_time_passes<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = std::pin::pin!(call);
        loop {
            tokio::select! {
                biased;
                answer = &mut call => return answer,
                () = tokio::task::yield_now() => self.env.advance(Duration::from_millis(10)),
            }
        }
    }

    /// Until the fault has struck, or there was nothing for it to strike, and which of these. Then a new process, if it
    /// was a crash.
    pub(crate) async fn after_the_fault(self) -> (Self, bool) {
        let done = async || {
            let over = self.stats(&self.queue).await.moving + self.stats(&self.dead).await.moving == 0;
            over || !self.store.is_armed()
        };
        self.unless_it_crashes(self.until(done)).await;
        let struck = !self.store.is_armed();
        self.store.disarm();
        if !*self.store.crashed.borrow() {
            return (self, struck);
        }
        let store = Arc::new(self.store.next_process());
        let engine = Engine::open(self.env.clone(), store.clone()).await.expect("the engine opens again");
        (Self { store, engine, ..self }, struck)
    }

    /// Everything serves, and nothing is under way any more.
    pub(crate) async fn settled(&self) {
        for queue in [&self.queue, &self.dead] {
            self.until(async || self.serves(queue).await).await;
        }
        self.until(async || self.stats(&self.queue).await.moving + self.stats(&self.dead).await.moving == 0)
            .await;
    }

    pub(crate) async fn live(&self, queue: &QueueName) -> u64 {
        self.stats(queue).await.counts.live()
    }
}

/// In one place at all times; `from` has it, or `to`, or it is on its way.
pub(crate) async fn is_in_one_place(moving: &Moving, from: &QueueName, to: &QueueName) {
    for queue in [from, to] {
        moving.until(async || moving.serves(queue).await).await;
    }
    let (there, here) = (moving.stats(to).await, moving.stats(from).await);
    let live = here.counts.live() + there.counts.live();
    // Asked of one queue after the other: it may have arrived in between.
    assert!(
        live == 1 || live == 0 && here.moving + moving.stats(to).await.counts.live() >= 1,
        "{here:?} {there:?}"
    );
}

#[tokio::test]
async fn a_dead_letter_arrives_once_whatever_fails_at_any_step() {
    let mut struck = 0;
    for commits in 0..COMMITS_MAX {
        for fault in RELAXED_FAULTS {
            let moving = Moving::new().await;
            moving.create(&moving.dead, Settings::default()).await;
            let produced = moving.engine.produce(&moving.queue, items(1)).await.expect("produced");
            let id = produced.results[0].as_ref().expect("produced").id;
            let leased = moving.lease(&moving.queue).await;
            moving.store.fail_after(commits, fault);
            moving.fail(&leased).await;
            let (moving, has_struck) = moving.after_the_fault().await;
            struck += usize::from(has_struck);
            is_in_one_place(&moving, &moving.queue, &moving.dead).await;
            moving.settled().await;
            if moving.live(&moving.queue).await == 1 {
                // Its end was lost: it is still leased, and its worker tries again.
                assert_eq!((commits, moving.live(&moving.dead).await), (0, 0));
                moving.fail(&leased).await;
                moving.settled().await;
            }
            let arrived = moving.lease(&moving.dead).await;
            assert_eq!(bodies(&arrived), ["item 0"], "{fault:?} at commit {commits}");
            let origin = arrived[0].leased.origin.as_deref().expect("moved");
            assert_eq!((origin.id, origin.reason), (Some(id), MoveReason::Dead));
            let original = moving.engine.get(id).await.expect("kept");
            assert_eq!(original.item.state.phase(), Phase::Failed);
            assert_eq!(moving.live(&moving.queue).await, 0);
        }
    }
    // The end, the choice of a taker, the arrival, and the end of the move.
    assert!(struck >= 4 * RELAXED_FAULTS.len(), "{struck}");
}

#[tokio::test]
async fn a_redriven_item_arrives_once_whatever_fails_at_any_step() {
    for commits in 0..COMMITS_MAX {
        for fault in RELAXED_FAULTS {
            let moving = Moving::new().await;
            moving.create(&moving.dead, Settings::default()).await;
            moving.engine.produce(&moving.queue, items(1)).await.expect("produced");
            moving.fail(&moving.lease(&moving.queue).await).await;
            moving.settled().await;
            moving.store.fail_after(commits, fault);
            moving.unless_it_crashes(moving.engine.redrive(&moving.dead, Redrive::default())).await;
            let (moving, _) = moving.after_the_fault().await;
            is_in_one_place(&moving, &moving.dead, &moving.queue).await;
            moving.settled().await;
            if moving.live(&moving.dead).await == 1 {
                assert_eq!((commits, moving.live(&moving.queue).await), (0, 0));
                moving.engine.redrive(&moving.dead, Redrive::default()).await.expect("redriven");
                moving.settled().await;
            }
            assert_eq!(moving.live(&moving.dead).await, 0);
            let back = moving.lease(&moving.queue).await;
            assert_eq!(bodies(&back), ["item 0"], "{fault:?} at commit {commits}");
        }
    }
}

#[tokio::test]
async fn what_goes_to_a_faulty_queue_is_moving_until_that_is_back() {
    let moving = Moving::new().await;
    moving.create(&moving.dead, Settings::default()).await;
    let broken = moving.partition_of(&moving.dead).await;
    *moving.store.broken_partition.lock().expect("not poisoned") = Some(broken);
    moving.engine.produce(&moving.dead, items(1)).await.expect_err("it fails");
    moving.until(async || !moving.serves(&moving.dead).await).await;
    moving.engine.produce(&moving.queue, items(1)).await.expect("the other one works on");
    moving.fail(&moving.lease(&moving.queue).await).await;
    for _ in 0..20 {
        moving.env.advance(Duration::from_secs(1));
        let stats = moving.stats(&moving.queue).await;
        assert_eq!((stats.counts.live(), stats.moving), (0, 1));
    }
    *moving.store.broken_partition.lock().expect("not poisoned") = None;
    moving.settled().await;
    assert_eq!(bodies(&moving.lease(&moving.dead).await), ["item 0"]);
}

/// Each holds all the kinds it may, but one has one more that it knows.
#[tokio::test]
async fn what_one_partition_will_not_take_another_does() {
    let moving = Moving::new().await;
    let create = CreateQueue::new(moving.dead.clone(), Settings::default(), 2);
    moving.engine.create_queue(create).await.expect("the queue is made");
    let of_kind = |kind: String| NewItem { kind: kind.into(), ..item("dead") };
    for slice in 0..2 * KINDS_MAX / 1000 {
        let kinds = (0..1000).map(|kind| of_kind(format!("{slice} {kind}"))).collect();
        moving.engine.produce(&moving.dead, kinds).await.expect("produced");
    }
    // In one batch, so that each of the two refuses it.
    let mixed = (0..4).map(|slice| of_kind(format!("{slice} 7"))).collect();
    moving.engine.produce(&moving.queue, mixed).await.expect("produced");
    let leased = moving.lease(&moving.queue).await;
    assert_eq!(leased.len(), 4);
    moving.fail(&leased).await;
    moving.settled().await;
    assert_eq!(moving.stats(&moving.dead).await.counts.waiting, 2 * KINDS_MAX as u64 + 4);
}

#[tokio::test]
async fn a_redrive_whose_outcome_is_unknown_in_one_partition_says_so() {
    let moving = Moving::new().await;
    let create = CreateQueue::new(moving.dead.clone(), Settings::default(), 2);
    moving.engine.create_queue(create).await.expect("the queue is made");
    for _ in 0..4 {
        moving.engine.produce(&moving.dead, items(1)).await.expect("produced");
    }
    *moving.store.down.lock().expect("not poisoned") = true;
    moving.store.fail_next(Fault::UnknownDone);
    let redrive = Redrive { to: Some(moving.queue.clone()), ..Redrive::default() };
    let redriven = moving.engine.redrive(&moving.dead, redrive).await;
    let is_unknown = matches!(redriven, Err(EngineError::Unavailable { outcome: Outcome::Unknown, .. }));
    assert!(is_unknown, "the partition that failed may have sent its items: {redriven:?}");
}

#[tokio::test]
async fn a_redrive_goes_around_a_partition_that_cannot() {
    let moving = Moving::new().await;
    let create = CreateQueue::new(moving.dead.clone(), Settings::default(), 2);
    moving.engine.create_queue(create).await.expect("the queue is made");
    for _ in 0..2 {
        moving.engine.produce(&moving.dead, items(3)).await.expect("produced");
    }
    let broken = moving.partition_of(&moving.dead).await;
    *moving.store.broken_partition.lock().expect("not poisoned") = Some(broken);
    let redrive = Redrive { to: Some(moving.queue.clone()), ..Redrive::default() };
    let redriven = moving.engine.redrive(&moving.dead, redrive.clone()).await.expect("the other could").value;
    assert_eq!(redriven.moved, 3);
    *moving.store.broken_partition.lock().expect("not poisoned") = None;
    moving.settled().await;
    assert_eq!(moving.engine.redrive(&moving.dead, redrive).await.expect("both can").value.moved, 3);
    moving.settled().await;
    assert_eq!(moving.stats(&moving.queue).await.counts.waiting, 6);
}

#[tokio::test]
async fn what_was_on_its_way_to_a_queue_that_is_deleted_goes_to_the_next_of_that_name() {
    let moving = Moving::new().await;
    moving.create(&moving.dead, Settings::default()).await;
    moving.engine.produce(&moving.queue, items(1)).await.expect("produced");
    let leased = moving.lease(&moving.queue).await;
    let broken = moving.partition_of(&moving.dead).await;
    // It breaks as it is about to take what is sent.
    *moving.store.broken_partition.lock().expect("not poisoned") = Some(broken);
    moving.fail(&leased).await;
    moving.until(async || !moving.serves(&moving.dead).await).await;
    moving.engine.delete_queue(&moving.dead, true).await.expect("by force");
    assert_eq!(moving.stats(&moving.queue).await.moving, 1);
    moving.create(&moving.dead, Settings::default()).await;
    assert_ne!(moving.partition_of(&moving.dead).await, broken);
    moving.settled().await;
    assert_eq!(bodies(&moving.lease(&moving.dead).await), ["item 0"]);
}

#[tokio::test]
async fn a_full_store_takes_nothing_over_and_loses_nothing() {
    let moving = Moving::new().await;
    moving.create(&moving.dead, Settings::default()).await;
    moving.engine.produce(&moving.queue, items(1)).await.expect("produced");
    let leased = moving.lease(&moving.queue).await;
    *moving.store.full.lock().expect("not poisoned") = true;
    moving.fail(&leased).await;
    for _ in 0..20 {
        moving.env.advance(Duration::from_secs(1));
        assert_eq!((moving.stats(&moving.queue).await.moving, moving.live(&moving.dead).await), (1, 0));
    }
    *moving.store.full.lock().expect("not poisoned") = false;
    moving.settled().await;
    assert_eq!(bodies(&moving.lease(&moving.dead).await), ["item 0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_go_through_a_store_that_takes_little_at_once() {
    const COUNT: usize = 90;
    const TRIES_MAX: usize = 100_000;
    let env = Arc::new(ManualEnv::new());
    let store = LogStore::open(env.clone(), Arc::<MemDisk>::default(), small()).await.expect("the log opens");
    let engine = Engine::open(env.clone(), Arc::new(store)).await.expect("the engine opens");
    let (queue, dead) = (queue_name("q"), queue_name("dead"));
    let settings = Settings { dead_queue: Some("dead".into()), ..Settings::default() };
    engine.create_queue(CreateQueue::new(queue.clone(), settings, 1)).await.expect("made");
    // They cannot leave yet, so that all leave at once.
    for _ in 0..COUNT / 10 {
        engine.produce(&queue, items(10)).await.expect("produced");
        let leased = engine.lease(&queue, lease(10), Span::ZERO).await.expect("leased").accept();
        let error = Some(ItemError { code: None, message: "x".repeat(200).into() });
        let dead = |item: &Granted| RetryItem { dead: true, error: error.clone(), ..retry_item(item) };
        engine.retry(&queue, leased.iter().map(dead).collect()).await.expect("judged");
    }
    let create = CreateQueue::new(dead.clone(), Settings::default(), 1);
    engine.create_queue(create).await.expect("made");
    let mut arrived = 0;
    for _ in 0..TRIES_MAX {
        arrived += engine.lease(&dead, lease(10), Span::ZERO).await.expect("leased").accept().len();
        if arrived == COUNT {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(arrived, COUNT);
    engine.close().await;
}
