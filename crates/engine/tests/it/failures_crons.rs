//! Crons made, changed, moved and deleted, with everything that can go wrong at every step: in the end there is one of a name,
//! or none, and each of its times makes one item.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::cron::{CatchUp, CronRefusal};
use windlass_core::id::PartitionId;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::verbs::{CreateQueue, CronChange, NewCron, NewItem};
use windlass_engine::{Engine, EngineError, PartitionState};

use crate::behaviour::crons::{cron, named, namespace};
use crate::failures_moves::FAULTS;
use crate::faulty::{Fault, FaultyStore};
use crate::world::{ManualEnv, completion, item, queue_name};

/// More commits than a change takes.
const COMMITS_MAX: usize = 8;

struct Bed {
    env: Arc<ManualEnv>,
    store: Arc<FaultyStore>,
    engine: Engine,
    queue: QueueName,
}

fn tick(address: Option<&str>) -> NewCron {
    NewCron { catch_up: CatchUp::All, item: addressed(address), ..cron("tick", "@every 10s") }
}

fn addressed(address: Option<&str>) -> NewItem {
    NewItem { address: address.map(Arc::from), ..item("the time has come") }
}

impl Bed {
    async fn new() -> Self {
        let env = Arc::new(ManualEnv::new());
        let store = Arc::new(FaultyStore::default());
        let engine = Engine::open(env.clone(), store.clone()).await.expect("the engine opens");
        let queue = queue_name("q");
        let create = CreateQueue::new(queue.clone(), Settings::default(), 4);
        engine.create_queue(create).await.expect("the queue is made");
        Self { env, store, engine, queue }
    }

    /// Carries a call out with a fault at one of its commits; a new process if that was its end.
    async fn with_fault<T>(
        self,
        commits: usize,
        fault: Fault,
        call: impl AsyncFnOnce(&Self) -> T,
    ) -> (Self, bool) {
        self.store.fail_after(commits, fault);
        let mut crashed = self.store.crashed.subscribe();
        tokio::select! {
            biased;
            _crashed = crashed.wait_for(|crashed| *crashed) => {}
            _as_far_as_it_goes = call(&self) => {}
        }
        let struck = !self.store.is_armed();
        self.store.disarm();
        if !*self.store.crashed.borrow() {
            self.serves().await;
            return (self, struck);
        }
        let store = Arc::new(self.store.next_process());
        let engine = Engine::open(self.env.clone(), store.clone()).await.expect("the engine opens again");
        let next = Self { store, engine, ..self };
        next.serves().await;
        (next, struck)
    }

    /// Everything serves, the registry too.
    async fn serves(&self) {
        loop {
            let stats = self.engine.stats(&self.queue).await.expect("stats");
            let all = stats.partitions.iter().all(|partition| partition.state == PartitionState::Available);
            if all && self.engine.crons(&namespace(), None, 10).await.is_ok() {
                return;
            }
            self.env.advance(Duration::from_millis(10));
            tokio::task::yield_now().await;
        }
    }

    /// How many items come of it when time passes.
    async fn made_in(&self, secs: u64) -> u64 {
        let before = self.waiting().await;
        self.env.advance(Duration::from_secs(secs));
        // What went wrong is put right by and by.
        for _ in 0..300 {
            self.env.advance(Duration::from_millis(10));
            let made = self.waiting().await - before;
            if made > 0 {
                return made;
            }
        }
        0
    }

    async fn waiting(&self) -> u64 {
        self.engine.stats(&self.queue).await.expect("stats").counts.waiting
    }

    /// Carries an update out, and returns once the cron is in the partition that items with the address are in.
    async fn moves_to<T>(&self, address: &str, update: impl Future<Output = Result<T, EngineError>>) {
        if update.await.is_err() {
            return;
        }
        let home = self.home_of(address).await;
        for _ in 0..1000 {
            let resumed = self.while_time_passes(self.engine.resume_cron(&named("tick"))).await;
            if resumed.is_ok_and(|resumed| resumed.commits[0].partition == home) {
                return;
            }
            self.env.advance(Duration::from_millis(10));
            tokio::task::yield_now().await;
        }
        panic!("the cron has not come to {home}");
    }

    async fn while_time_passes<T>(&self, call: impl Future<Output = T>) -> T {
        let passing = async {
            loop {
                self.env.advance(Duration::from_millis(10));
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            done = call => done,
            never = passing => never,
        }
    }

    /// Of a queue of as many partitions, which has not been rebalanced either.
    async fn home_of(&self, address: &str) -> PartitionId {
        let other = Self::new().await;
        let made =
            other.engine.produce(&other.queue, vec![addressed(Some(address))]).await.expect("produced");
        made.commits[0].partition
    }

    async fn names(&self) -> Vec<String> {
        let crons = self.engine.crons(&namespace(), None, 10).await.expect("listed");
        crons.iter().map(|cron| cron.view.cron.name.to_string()).collect()
    }
}

fn every_fault() -> impl Iterator<Item = (usize, Fault)> {
    (0..COMMITS_MAX).flat_map(|commits| FAULTS.map(|fault| (commits, fault)))
}

fn is_refused<T>(result: &Result<T, EngineError>, expected: &CronRefusal) -> bool {
    matches!(result, Err(EngineError::Refused(Refusal::Cron(refusal))) if refusal == expected)
}

#[tokio::test]
async fn a_cron_whose_making_failed_can_be_made_again_anywhere_and_is_there_once() {
    let mut struck = 0;
    for (commits, fault) in every_fault() {
        let create = async |bed: &Bed| bed.engine.create_cron(&bed.queue, tick(None)).await;
        let (bed, has_struck) = Bed::new().await.with_fault(commits, fault, create).await;
        struck += usize::from(has_struck);
        // By another address, hence in another place.
        let again = bed.engine.create_cron(&bed.queue, tick(Some("elsewhere"))).await;
        let at = format!("{fault:?} at commit {commits}: {again:?}");
        assert!(again.is_ok() || is_refused(&again, &CronRefusal::Exists), "{at}");
        assert_eq!(bed.names().await, ["tick"], "{at}");
        assert_eq!(bed.made_in(10).await, 1, "{at}");
    }
    assert!(struck >= 2 * FAULTS.len(), "{struck}");
}

#[tokio::test]
async fn a_cron_whose_deletion_failed_can_be_deleted_again_and_is_gone() {
    let mut struck = 0;
    for (commits, fault) in every_fault() {
        let bed = Bed::new().await;
        bed.engine.create_cron(&bed.queue, tick(None)).await.expect("made");
        let delete = async |bed: &Bed| bed.engine.delete_cron(&named("tick")).await;
        let (bed, has_struck) = bed.with_fault(commits, fault, delete).await;
        struck += usize::from(has_struck);
        let again = bed.engine.delete_cron(&named("tick")).await;
        let at = format!("{fault:?} at commit {commits}: {again:?}");
        assert!(again.is_ok() || is_refused(&again, &CronRefusal::NotFound), "{at}");
        assert!(bed.names().await.is_empty(), "{at}");
        assert_eq!(bed.made_in(10).await, 0, "{at}");
        bed.engine.create_cron(&bed.queue, tick(Some("elsewhere"))).await.expect("the name is free");
        assert_eq!(bed.made_in(10).await, 1, "{at}");
    }
    assert!(struck >= 2 * FAULTS.len(), "{struck}");
}

#[tokio::test]
async fn a_cron_that_changes_its_home_runs_at_each_time_once_whatever_fails_on_the_way() {
    let mut struck = 0;
    for (commits, fault) in every_fault() {
        let bed = Bed::new().await;
        let new = NewCron { schedule: "@every 1h".into(), ..tick(Some("address 0")) };
        bed.engine.create_cron(&bed.queue, new).await.expect("made");
        let elsewhere = || CronChange { item: Some(addressed(Some("address 5"))), ..CronChange::default() };
        let update = async |bed: &Bed| {
            bed.moves_to("address 5", bed.engine.update_cron(&named("tick"), elsewhere())).await
        };
        let (bed, has_struck) = bed.with_fault(commits, fault, update).await;
        struck += usize::from(has_struck);
        let at = format!("{fault:?} at commit {commits}");
        // Whoever comes by finishes what was begun.
        assert_eq!(bed.made_in(3600).await, 1, "{at}");
        let again = bed.engine.update_cron(&named("tick"), elsewhere()).await;
        assert!(again.is_ok(), "{at}: {again:?}");
        assert_eq!(bed.names().await, ["tick"], "{at}");
        let leased =
            bed.engine.lease(&bed.queue, crate::world::lease(10), windlass_core::time::Span::ZERO).await;
        for item in leased.expect("leased").accept() {
            bed.engine.complete(&bed.queue, vec![completion(item.held())]).await.expect("judged");
        }
        assert_eq!(bed.made_in(3600).await, 1, "{at}");
        bed.engine.delete_cron(&named("tick")).await.expect("deleted");
        assert_eq!(bed.made_in(7200).await, 0, "{at}");
    }
    // Changed, assigned, taken, forgotten.
    assert!(struck >= 4 * FAULTS.len(), "{struck}");
}

#[tokio::test]
async fn a_store_without_room_holds_crons_back_until_there_is_some() {
    let bed = Bed::new().await;
    bed.engine.create_cron(&bed.queue, tick(None)).await.expect("made");
    *bed.store.full.lock().expect("not poisoned") = true;
    assert_eq!(bed.made_in(12).await, 0);
    let refused = bed.engine.trigger_cron(&named("tick")).await;
    assert!(matches!(refused, Err(EngineError::Unavailable { .. })), "{refused:?}");
    *bed.store.full.lock().expect("not poisoned") = false;
    let lease = tokio::spawn({
        let (engine, queue) = (bed.engine.clone(), bed.queue.clone());
        async move {
            engine.lease(&queue, crate::world::lease(1), windlass_core::time::Span::from_secs(3600)).await
        }
    });
    while !lease.is_finished() {
        bed.env.advance(Duration::from_millis(100));
        tokio::task::yield_now().await;
    }
    assert_eq!(lease.await.expect("ends").expect("leased").accept().len(), 1);
}
