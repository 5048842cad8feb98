//! Crons that go to another partition because their queue shrinks, because it grows, or because their address changes, with
//! every fault at every commit on the way: afterwards nothing drains for ever, each cron is there once, and each of its
//! times has made one item.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::cron::CatchUp;
use windlass_core::id::PartitionId;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, CronChange, NewCron, NewItem};
use windlass_engine::env::Env;
use windlass_engine::{Engine, EngineError, PartitionState, QueueStats};

use crate::behaviour::crons::{cron, named, namespace};
use crate::failures_moves::FAULTS;
use crate::faulty::{Fault, FaultyStore};
use crate::world::{ManualEnv, completion, item, lease, queue_name};

/// By name and address. Of four partitions each has at least one of them.
const CRONS: [(&str, Option<&str>); 6] = [
    ("plain-0", None),
    ("plain-1", None),
    ("plain-2", None),
    ("first", Some("address 0")),
    ("second", Some("address 5")),
    ("third", Some("address 9")),
];
/// Commits of one scenario, at most: the loop over them ends when no fault strikes any more.
const COMMITS_MAX: usize = 300;
/// Steps of the clock in which whatever was left half done must be finished.
const PATIENCE: usize = 3_000;
const STEP: Duration = Duration::from_millis(10);
const HOUR: Duration = Duration::from_secs(3600);

/// What takes crons to other partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Shrink,
    Grow,
    Address,
}

impl Cause {
    fn partitions_before(self) -> u32 {
        match self {
            Self::Shrink | Self::Address => 4,
            Self::Grow => 1,
        }
    }
}

struct Bed {
    env: Arc<ManualEnv>,
    store: Arc<FaultyStore>,
    engine: Engine,
    queue: QueueName,
    /// The fault and where it strikes.
    context: String,
    /// How many items each cron has made, by its name.
    made: BTreeMap<String, u64>,
}

fn made_of(name: &str, address: Option<&str>) -> NewItem {
    NewItem { address: address.map(Arc::from), ..item(name) }
}

impl Bed {
    async fn new(cause: Cause, context: String) -> Self {
        let env = Arc::new(ManualEnv::new());
        let store = Arc::new(FaultyStore::default());
        let engine = Engine::open(env.clone(), store.clone()).await.expect("the engine opens");
        let queue = queue_name("q");
        let partitions = cause.partitions_before();
        let create = CreateQueue::new(queue.clone(), Settings::default(), partitions);
        engine.create_queue(create).await.expect("the queue is made");
        for (name, address) in CRONS {
            let item = made_of(name, address);
            let new = NewCron { catch_up: CatchUp::All, item, ..cron(name, "@every 1h") };
            engine.create_cron(&queue, new).await.expect("the cron is made");
        }
        Self { env, store, engine, queue, context, made: BTreeMap::new() }
    }

    async fn bring_about(&self, cause: Cause) -> Result<(), EngineError> {
        match cause {
            Cause::Shrink => self.engine.rebalance(&self.queue, 1).await.map(drop),
            Cause::Grow => self.engine.rebalance(&self.queue, 4).await.map(drop),
            Cause::Address => {
                let item = Some(made_of("first", Some("address 5 too")));
                self.engine
                    .update_cron(&named("first"), CronChange { item, ..CronChange::default() })
                    .await
                    .map(drop)
            }
        }
    }

    /// The scenario up to the first hour, as far as the fault lets it. Tells whether the fault struck.
    async fn with_fault(self, cause: Cause, commits: usize, fault: Fault) -> (Self, bool) {
        self.store.fail_after(commits, fault);
        let mut crashed = self.store.crashed.subscribe();
        tokio::select! {
            biased;
            _crashed = crashed.wait_for(|crashed| *crashed) => {}
            () = self.until_first_hour(cause) => {}
        }
        let struck = !self.store.is_armed();
        self.store.disarm();
        if !*self.store.crashed.borrow() {
            return (self, struck);
        }
        let store = Arc::new(self.store.next_process());
        let engine = Engine::open(self.env.clone(), store.clone()).await.expect("the engine opens again");
        (Self { store, engine, ..self }, struck)
    }

    /// Ends early once the fault has struck.
    async fn until_first_hour(&self, cause: Cause) {
        let _as_far_as_it_goes = self.bring_about(cause).await;
        self.env.advance(HOUR);
        for _ in 0..PATIENCE {
            let is_over = self.is_settled().await && self.waiting().await >= CRONS.len() as u64;
            if is_over || !self.store.is_armed() {
                return;
            }
            self.pass_a_moment().await;
        }
    }

    async fn pass_a_moment(&self) {
        self.env.advance(STEP);
        tokio::task::yield_now().await;
    }

    /// Lets time pass until it is so, but not for ever.
    async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        for _ in 0..PATIENCE {
            if is_so().await {
                return;
            }
            self.pass_a_moment().await;
        }
        panic!("{}: never {what}; {}", self.context, self.as_it_stands().await);
    }

    /// For the message of a failure: what each partition still has, and when each cron runs next.
    async fn as_it_stands(&self) -> String {
        let stats = self.stats().await;
        let partitions = stats.partitions.iter();
        let remaining: Vec<_> = partitions.map(|at| (at.partition, at.remaining, at.counts.live())).collect();
        let crons = self.engine.crons(&namespace(), None, 100).await.expect("listed");
        let next = crons.iter().map(|info| (&info.view.cron.name, info.view.cron.next_at));
        format!("remaining {remaining:?}, next {:?}", next.collect::<Vec<_>>())
    }

    async fn until_it_does(&self, cause: Cause) {
        for _ in 0..PATIENCE {
            match self.bring_about(cause).await {
                Ok(()) => return,
                Err(_) => self.pass_a_moment().await,
            }
        }
        let told = self.bring_about(cause).await;
        panic!("{}: never done: {told:?}; {}", self.context, self.as_it_stands().await);
    }

    async fn stats(&self) -> QueueStats {
        self.engine.stats(&self.queue).await.expect("stats")
    }

    async fn waiting(&self) -> u64 {
        self.stats().await.counts.waiting
    }

    async fn serves(&self) -> bool {
        let stats = self.stats().await;
        let all = stats.partitions.iter().all(|partition| partition.state == PartitionState::Available);
        all && self.engine.crons(&namespace(), None, 10).await.is_ok()
    }

    async fn is_settled(&self) -> bool {
        self.serves().await && self.stats().await.partitions.iter().all(|at| at.remaining.is_none())
    }

    async fn names(&self) -> Vec<String> {
        let crons = self.engine.crons(&namespace(), None, 100).await.expect("listed");
        crons.iter().map(|cron| cron.view.cron.name.to_string()).collect()
    }

    /// Works on what is there, and counts what each cron has made.
    async fn take_all(&mut self) {
        loop {
            let leased =
                self.engine.lease(&self.queue, lease(100), Span::ZERO).await.expect("leased").accept();
            if leased.is_empty() {
                return;
            }
            for item in &leased {
                *self.made.entry(String::from_utf8_lossy(&item.body).into_owned()).or_default() += 1;
            }
            let done = leased.into_iter().map(|item| completion(item.held())).collect();
            self.engine.complete(&self.queue, done).await.expect("judged");
        }
    }

    async fn pass_moments(&mut self, count: usize) {
        for _ in 0..count {
            self.pass_a_moment().await;
        }
        self.take_all().await;
    }

    /// Every cron has made one item of each hour that has passed, and makes no second one when more time passes.
    async fn assert_each_time_ran_once(&mut self) {
        let hours = self.env.boot().as_secs() / HOUR.as_secs();
        let all = || CRONS.iter().filter(|_| hours > 0).map(|(name, _)| ((*name).to_owned(), hours));
        let all: BTreeMap<String, u64> = all().collect();
        for _ in 0..PATIENCE {
            self.pass_moments(1).await;
            if self.made == all {
                break;
            }
        }
        self.pass_moments(50).await;
        assert_eq!(self.made, all, "{}: after {hours} hours", self.context);
    }

    async fn assert_there_once(&self) {
        let mut names = CRONS.map(|(name, _)| name.to_owned());
        names.sort();
        assert_eq!(self.names().await, names, "{}", self.context);
    }
}

/// Tells how often a fault struck.
async fn every_fault_at_every_commit(cause: Cause) -> usize {
    let mut strikes = 0;
    for fault in FAULTS {
        for commits in 0..COMMITS_MAX {
            let context = format!("{cause:?}, {fault:?} at commit {commits}");
            let (bed, struck) = Bed::new(cause, context).await.with_fault(cause, commits, fault).await;
            if !struck {
                break;
            }
            strikes += 1;
            is_sound_afterwards(bed, cause).await;
        }
    }
    strikes
}

async fn is_sound_afterwards(mut bed: Bed, cause: Cause) {
    bed.until("serves", async || bed.serves().await).await;
    bed.assert_each_time_ran_once().await;
    bed.until_it_does(cause).await;
    for _ in 0..2 {
        bed.env.advance(HOUR);
        bed.assert_each_time_ran_once().await;
        bed.assert_there_once().await;
    }
    bed.until("is at the end of its draining", async || bed.is_settled().await).await;
    for (name, _) in CRONS {
        bed.engine.delete_cron(&named(name)).await.expect("the cron is deleted");
    }
    let before = bed.made.clone();
    bed.env.advance(HOUR);
    bed.pass_moments(50).await;
    assert_eq!(bed.made, before, "{}: a deleted cron makes items", bed.context);
}

/// A partition, or the registry, fails all that it is asked while crons are to go, and for a while after their next time.
#[tokio::test]
async fn crons_go_on_after_a_partition_on_their_way_was_broken() {
    for cause in [Cause::Shrink, Cause::Grow, Cause::Address] {
        for broken in 0..=4 {
            let bed = Bed::new(cause, format!("{cause:?}, partition {broken} broken")).await;
            *bed.store.broken_partition.lock().expect("not poisoned") = Some(PartitionId(broken));
            bed.until_first_hour(cause).await;
            for _ in 0..300 {
                bed.pass_a_moment().await;
            }
            *bed.store.broken_partition.lock().expect("not poisoned") = None;
            is_sound_afterwards(bed, cause).await;
        }
    }
}

#[tokio::test]
async fn crons_of_a_queue_that_shrinks_go_on_whatever_fails_on_the_way() {
    let strikes = every_fault_at_every_commit(Cause::Shrink).await;
    assert!(strikes >= 20 * FAULTS.len(), "{strikes}");
}

#[tokio::test]
async fn crons_of_a_queue_that_grows_go_on_whatever_fails_on_the_way() {
    let strikes = every_fault_at_every_commit(Cause::Grow).await;
    assert!(strikes >= 10 * FAULTS.len(), "{strikes}");
}

#[tokio::test]
async fn a_cron_whose_address_changes_goes_on_whatever_fails_on_the_way() {
    let strikes = every_fault_at_every_commit(Cause::Address).await;
    assert!(strikes >= 5 * FAULTS.len(), "{strikes}");
}
