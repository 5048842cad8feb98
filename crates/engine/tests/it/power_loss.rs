//! Several logs that are synced once an hour, and a power loss at every step of what goes from one to another. Each log
//! may lose its newest commits or keep them: whatever crosses is done once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use windlass_core::id::PartitionId;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, CronChange, NewItem, RetryItem};
use windlass_engine::Engine;
use windlass_engine::env::BoxFuture;
use windlass_engine::store::double::Double;
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::store::spread::{Member, Spread};
use windlass_engine::store::{Batch, CommitError, Store, StoreError, Term};

use crate::behaviour::addresses::at;
use crate::behaviour::crons::{cron, named};
use crate::behaviour::retry_item;
use crate::log_disk::MemDisk;
use crate::spread::{create, homes};
use crate::world::{ManualEnv, completion, items, lease, queue_name};

/// Which of the three logs lose what they have not synced.
const LOSSES: [[bool; 3]; 5] =
    [[true; 3], [true, false, false], [false, true, false], [false, false, true], [false; 3]];

/// Lets so many commits and syncs begin, in all logs together.
#[derive(Debug)]
struct Steps {
    left: AtomicUsize,
    stopped: watch::Sender<bool>,
}

impl Steps {
    fn allow(&self, steps: usize) {
        self.left.store(steps, Ordering::SeqCst);
    }

    async fn begin(&self) {
        let taken = self.left.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if taken.is_err() {
            self.stopped.send_replace(true);
            std::future::pending().await
        }
    }

    /// Whether the steps ran out before something was done.
    async fn stop(&self, done: impl Future<Output = ()>) -> bool {
        let mut stopped = self.stopped.subscribe();
        tokio::select! {
            biased;
            _stopped = stopped.wait_for(|stopped| *stopped) => true,
            () = done => false,
        }
    }
}

#[derive(Debug)]
struct Stepped {
    log: LogStore,
    steps: Arc<Steps>,
}

impl Double for Stepped {
    fn inner(&self) -> &dyn Store {
        &self.log
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(async move {
            self.steps.begin().await;
            self.log.commit(batch).await
        })
    }

    fn sync(&self, term: Term) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.steps.begin().await;
            self.log.sync(term).await
        })
    }
}

/// An engine on three logs.
struct Machine {
    disks: [Arc<MemDisk>; 3],
    env: Arc<ManualEnv>,
    steps: Arc<Steps>,
    engine: Engine,
}

impl Machine {
    async fn new() -> Self {
        Self::on(Default::default()).await
    }

    async fn on(disks: [Arc<MemDisk>; 3]) -> Self {
        let env = Arc::new(ManualEnv::new());
        let steps =
            Arc::new(Steps { left: AtomicUsize::new(usize::MAX), stopped: watch::Sender::new(false) });
        let durability = Durability::Interval(Span::from_secs(3600));
        let options = LogOptions { durability, segment_bytes: 64 << 10, ..LogOptions::default() };
        let open = async |disk: &Arc<MemDisk>| {
            let log = LogStore::open(env.clone(), disk.clone(), options.clone()).await;
            Arc::new(Stepped { log: log.expect("the log opens"), steps: steps.clone() })
        };
        let others = vec![
            Member::opened("second", open(&disks[1]).await),
            Member::opened("third", open(&disks[2]).await),
        ];
        let spread = Spread::open(open(&disks[0]).await, others).await;
        let engine = Engine::open(env.clone(), Arc::new(spread)).await.expect("the engine opens");
        Self { disks, env, steps, engine }
    }

    /// Everything is durable, and the engine opened again.
    async fn settled(self) -> Self {
        self.engine.close().await;
        Self::on(self.disks).await
    }

    async fn after_power_loss(&self, lost: [bool; 3]) -> Self {
        let disks = [0, 1, 2].map(|index| {
            let disk = &self.disks[index];
            if lost[index] { disk.after_power_loss() } else { disk.after_kill() }
        });
        Self::on(disks).await
    }

    async fn queue(&self, name: &str, dead_queue: Option<&str>, partitions: u32) -> QueueName {
        let name = queue_name(name);
        let settings = Settings { dead_queue: dead_queue.map(Into::into), ..Settings::default() };
        let create = CreateQueue::new(name.clone(), settings, partitions);
        self.engine.create_queue(create).await.expect("the queue is made");
        name
    }

    async fn give_one_up(&self, queue: &QueueName) {
        let leased = self.engine.lease(queue, lease(1), Span::ZERO).await.expect("leased").accept();
        let given_up = RetryItem { dead: true, ..retry_item(&leased[0]) };
        self.engine.retry(queue, vec![given_up]).await.expect("judged");
    }

    async fn all_moved(&self, queue: &QueueName) {
        while self.engine.stats(queue).await.expect("stats").moving > 0 {
            self.env.advance(Duration::from_millis(1));
            tokio::task::yield_now().await;
        }
    }

    async fn live(&self, queue: &QueueName) -> u64 {
        self.engine.stats(queue).await.expect("stats").counts.live()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_in_one_queue_after_a_power_loss_at_any_step() {
    let (queue, dead) = (queue_name("q"), queue_name("dead"));
    for steps in 0.. {
        let machine = Machine::new().await;
        machine.queue("q", Some("dead"), 1).await;
        machine.queue("dead", None, 1).await;
        assert_eq!(homes(&machine.engine, &dead).await, ["second"]);
        machine.engine.produce(&queue, items(1)).await.expect("produced");
        let machine = machine.settled().await;
        machine.steps.allow(steps);
        let moved = async {
            machine.give_one_up(&queue).await;
            machine.all_moved(&queue).await;
        };
        let stopped = machine.steps.stop(moved).await;
        for lost in LOSSES {
            let machine = machine.after_power_loss(lost).await;
            machine.all_moved(&queue).await;
            let (here, there) = (machine.live(&queue).await, machine.live(&dead).await);
            assert_eq!(here + there, 1, "{here} and {there} after {steps} steps, {lost:?} lost");
        }
        if !stopped {
            assert!(
                steps >= 7,
                "a lease, an end, a choice, a sync, an arrival, a sync and a last word: {steps}"
            );
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_a_key_is_carried_out_once_over_a_power_loss_at_any_step() {
    const ITEMS: usize = 6;
    let queue = queue_name("q");
    let call = || (0..ITEMS).map(|index| at(&format!("a{index}"))).collect::<Vec<NewItem>>();
    for steps in 0.. {
        let machine = Machine::new().await;
        machine.queue("q", None, 3).await;
        let machine = machine.settled().await;
        machine.steps.allow(steps);
        let produced = async {
            machine.engine.produce_once(&queue, "key".into(), call()).await.expect("produced");
        };
        let stopped = machine.steps.stop(produced).await;
        for lost in LOSSES {
            let machine = machine.after_power_loss(lost).await;
            machine.env.advance(Duration::from_secs(1));
            let again = machine.engine.produce_once(&queue, "key".into(), call()).await.expect("produced");
            let answers = again.results.iter().filter(|result| result.is_ok()).count();
            let live = machine.live(&queue).await as usize;
            assert_eq!((answers, live), (ITEMS, ITEMS), "after {steps} steps, {lost:?} lost");
        }
        if !stopped {
            assert!(steps >= 4, "a claim, a sync and two parts: {steps}");
            return;
        }
    }
}

/// Three logs with a cron, and the partition that has the cron.
async fn with_cron() -> (Machine, PartitionId) {
    let machine = Machine::new().await;
    let queue = machine.queue("q", None, 3).await;
    let made = machine.engine.create_cron(&queue, cron("c", "@every 1h")).await.expect("it is made");
    (machine.settled().await, made.commits.last().expect("the partition committed").partition)
}

/// Returns once another partition has the cron.
async fn move_cron(machine: &Machine, from: PartitionId, address: &str) {
    let update = CronChange { item: Some(at(address)), ..CronChange::default() };
    machine.engine.update_cron(&named("c"), update).await.expect("updated");
    loop {
        let resumed = machine.engine.resume_cron(&named("c")).await.expect("it was not paused");
        if resumed.commits[0].partition != from {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cron_runs_once_after_a_power_loss_at_any_step_of_its_move() {
    let queue = queue_name("q");
    let (machine, home) = with_cron().await;
    let mut addresses = ["a", "b", "c", "d", "e"].into_iter();
    let elsewhere = loop {
        let address = addresses.next().expect("one has its home in another partition than the cron");
        let produced = machine.engine.produce(&queue, vec![at(address)]).await.expect("produced");
        if produced.commits[0].partition != home {
            break address;
        }
    };
    for steps in 0.. {
        let (machine, from) = with_cron().await;
        machine.steps.allow(steps);
        let moved = move_cron(&machine, from, elsewhere);
        let stopped = machine.steps.stop(moved).await;
        for lost in LOSSES {
            let machine = machine.after_power_loss(lost).await;
            machine.env.advance(Duration::from_secs(3600));
            while machine.live(&queue).await == 0 {
                machine.env.advance(Duration::from_millis(1));
                tokio::task::yield_now().await;
            }
            // By now each partition has seen to what is due.
            assert_eq!(machine.live(&queue).await, 1, "after {steps} steps, {lost:?} lost");
        }
        if !stopped {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_done_in_a_partition_that_is_gone_does_not_come_back_after_a_power_loss() {
    let machine = Machine::new().await;
    create(&machine.engine, "first", 1).await;
    let queue = machine.queue("q", Some("dead"), 1).await;
    let dead = machine.queue("dead", None, 2).await;
    assert_eq!(homes(&machine.engine, &queue).await, ["second"]);
    machine.engine.produce(&queue, items(10)).await.expect("produced");
    let machine = machine.settled().await;
    let mut in_second = 0;
    while in_second == 0 {
        machine.give_one_up(&queue).await;
        machine.all_moved(&queue).await;
        in_second = machine.engine.stats(&dead).await.expect("stats").partitions[1].counts.waiting;
    }
    machine.engine.rebalance(&dead, 1).await.expect("the second goes");
    let leased = machine.engine.lease(&dead, lease(100), Span::ZERO).await.expect("leased").accept();
    let done = leased.iter().map(|item| completion(item.held())).collect();
    machine.engine.complete(&dead, done).await.expect("completed");
    while machine.engine.stats(&dead).await.expect("stats").partitions.len() > 1 {
        tokio::task::yield_now().await;
    }
    let before = machine.live(&queue).await;
    let machine = machine.after_power_loss([false, true, false]).await;
    machine.all_moved(&queue).await;
    assert_eq!((machine.live(&queue).await, machine.live(&dead).await), (before, 0));
}
