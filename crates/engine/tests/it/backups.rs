//! Backups of several stores at one moment, made while items move between them and queues come and go.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, RetryItem};
use windlass_engine::Engine;
use windlass_engine::env::{Env, TokioEnv};
use windlass_engine::store::log::backup::{self, BeginError, Copied};
use windlass_engine::store::log::{Durability, LogOptions, LogStore};
use windlass_engine::store::spread::{Member, Spread};
use windlass_engine::store::{Store, StoreError};

use crate::behaviour::retry_item;
use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, open, put, small};
use crate::world::{ManualEnv, bodies, item, lease, queue_name};

const ITEMS: usize = 1000;
const BATCH: usize = 20;

/// Two logs, and the engine on them.
struct Pair {
    logs: [Arc<LogStore>; 2],
    engine: Engine,
}

impl Pair {
    async fn open(disks: &[Arc<MemDisk>; 2], durability: Durability) -> Self {
        let env: Arc<dyn Env> = Arc::new(TokioEnv::new());
        let options = LogOptions { durability, segment_bytes: 1 << 20, ..LogOptions::default() };
        let open = async |disk: &Arc<MemDisk>| {
            let opened = LogStore::open(Arc::clone(&env), disk.clone(), options.clone()).await;
            Arc::new(opened.expect("the log opens"))
        };
        let logs = [open(&disks[0]).await, open(&disks[1]).await];
        let second = Member::opened("second", logs[1].clone());
        let spread = Spread::open(logs[0].clone(), vec![second]).await;
        let engine = Engine::open(env, Arc::new(spread)).await.expect("the engine opens");
        Self { logs, engine }
    }

    async fn back_up(&self) -> [Arc<MemDisk>; 2] {
        let backups = backup::begin(&[&self.logs[0], &self.logs[1]]).await.expect("the logs hold still");
        let disks: [Arc<MemDisk>; 2] = Default::default();
        for (backup, disk) in backups.into_iter().zip(&disks) {
            backup.copy(disk.clone(), &mut |_, _| {}).await.expect("copied");
        }
        disks.map(|disk| disk.after_power_loss())
    }

    async fn create(&self, name: &str, dead_queue: Option<&str>) -> QueueName {
        let settings = Settings { dead_queue: dead_queue.map(Into::into), ..Settings::default() };
        let create = CreateQueue::new(queue_name(name), settings, 1);
        self.engine.create_queue(create).await.expect("the queue is made").value.name
    }
}

async fn produce(engine: &Engine, queue: &QueueName) {
    for number in 0..ITEMS / BATCH {
        let items = (0..BATCH).map(|index| item(&format!("{} {}", queue.name, number * BATCH + index)));
        engine.produce(queue, items.collect()).await.expect("produced");
    }
}

async fn fail_all(engine: Engine, queue: QueueName) {
    for _ in 0..ITEMS / BATCH {
        let leased = engine.lease(&queue, lease(BATCH), Span::ZERO).await.expect("leased").accept();
        let dead = leased.iter().map(|item| RetryItem { dead: true, ..retry_item(item) });
        engine.retry(&queue, dead.collect()).await.expect("judged");
    }
}

/// How often each payload that can be leased is there, once nothing is on its way any more.
async fn leasable(engine: &Engine, queues: &[&QueueName]) -> BTreeMap<String, usize> {
    // Of all queues first: items that move arrive in another one.
    for queue in queues {
        while engine.stats(queue).await.expect("stats").moving > 0 {
            tokio::task::yield_now().await;
        }
    }
    let mut found = BTreeMap::new();
    for queue in queues {
        while engine.stats(queue).await.expect("stats").counts.waiting > 0 {
            let leased = engine.lease(queue, lease(500), Span::ZERO).await.expect("leased").accept();
            for payload in bodies(&leased) {
                *found.entry(payload).or_default() += 1;
            }
        }
    }
    found
}

async fn leased(engine: &Engine, queues: &[&QueueName]) -> usize {
    let mut leased = 0;
    for queue in queues {
        leased += engine.stats(queue).await.expect("stats").counts.leased as usize;
    }
    leased
}

/// Backups are made until the last item has left; every one of them has every item exactly once.
async fn each_backup_has_every_item_once(durability: Durability) {
    let pair = Pair::open(&Default::default(), durability).await;
    let forth = pair.create("forth", Some("forth-dead")).await;
    let forth_dead = pair.create("forth-dead", None).await;
    let back_dead = pair.create("back-dead", None).await;
    let back = pair.create("back", Some("back-dead")).await;
    let queues = [&forth, &forth_dead, &back_dead, &back];
    let stores = async |name| pair.engine.stats(name).await.expect("stats").partitions[0].store.to_string();
    assert_eq!((stores(&forth).await, stores(&forth_dead).await), ("default".into(), "second".into()));
    assert_eq!((stores(&back).await, stores(&back_dead).await), ("second".into(), "default".into()));
    for queue in [&forth, &back] {
        produce(&pair.engine, queue).await;
    }
    let workers = [&forth, &back].map(|queue| fail_all(pair.engine.clone(), queue.clone()));
    let mut workers = tokio::task::JoinSet::from_iter(workers);
    let mut copies = Vec::new();
    while !workers.is_empty() {
        copies.push(pair.back_up().await);
        while workers.try_join_next().is_some() {}
    }
    copies.push(pair.back_up().await);
    for copy in copies {
        let restored = Pair::open(&copy, Durability::Always).await;
        let leased = leased(&restored.engine, &queues).await;
        let found = leasable(&restored.engine, &queues).await;
        assert_eq!(found.values().filter(|count| **count > 1).count(), 0, "items are there twice");
        assert_eq!(found.len() + leased, 2 * ITEMS, "{leased} of them were leased");
        restored.engine.close().await;
    }
    pair.engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_that_move_between_stores_are_in_every_backup_exactly_once() {
    each_backup_has_every_item_once(Durability::Always).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_that_move_between_relaxed_stores_are_in_every_backup_exactly_once() {
    each_backup_has_every_item_once(Durability::None).await;
}

async fn change_queues(engine: Engine) {
    for round in 0..20 {
        let name = queue_name(&format!("q{round}"));
        let create = CreateQueue::new(name.clone(), Settings::default(), 2);
        engine.create_queue(create).await.expect("the queue is made");
        let items = (0..BATCH).map(|index| item(&format!("{round} {index}")));
        engine.produce(&name, items.collect()).await.expect("produced");
        engine.rebalance(&name, 4).await.expect("rebalanced");
        if round % 2 == 0 {
            engine.delete_queue(&name, true).await.expect("deleted");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_that_come_and_go_during_backups_are_whole_or_gone_in_each() {
    let pair = Pair::open(&Default::default(), Durability::Always).await;
    let mut changing = tokio::task::JoinSet::from_iter([change_queues(pair.engine.clone())]);
    let mut copies = Vec::new();
    while !changing.is_empty() {
        copies.push(pair.back_up().await);
        while changing.try_join_next().is_some() {}
    }
    for copy in copies {
        let restored = Pair::open(&copy, Durability::Always).await;
        let queues = restored.engine.queues();
        let named: usize = queues.iter().map(|queue| queue.partitions.len()).sum();
        let mut stored = 0;
        for log in &restored.logs {
            stored += log.partitions().await.expect("listed").iter().filter(|id| id.0 != 0).count();
        }
        assert!(stored <= named, "{stored} partitions for queues that have {named}");
        for queue in &queues {
            let stats = restored.engine.stats(&queue.name).await.expect("stats");
            let live = stats.counts.live();
            // Made, and its items perhaps produced.
            assert!(live == 0 || live == BATCH as u64, "{}: {live}", queue.name.name);
        }
        let last = queues.iter().map(|queue| queue.name.name[1..].parse::<u32>().expect("a number")).max();
        for earlier in (0..last.unwrap_or(0)).filter(|round| round % 2 == 1) {
            let name = queue_name(&format!("q{earlier}"));
            let stats = restored.engine.stats(&name).await.expect("made before the last one");
            assert_eq!((stats.counts.live(), stats.partitions.len()), (BATCH as u64, 4));
        }
        restored.engine.close().await;
    }
    pair.engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_stuck_fails_the_backup_and_holds_up_no_other() {
    let env = Arc::new(ManualEnv::new());
    let disks: [Arc<MemDisk>; 2] = Default::default();
    let options = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let open = async |disk: &Arc<MemDisk>| {
        Arc::new(LogStore::open(env.clone(), disk.clone(), options.clone()).await.expect("it opens"))
    };
    let (first, second) = (open(&disks[0]).await, open(&disks[1]).await);
    let mut owner = Owner::acquire(&first, 1).await.expect("acquired");
    let mut stuck = Owner::acquire(&second, 2).await.expect("acquired");
    disks[1].faults().held.store(true, Ordering::SeqCst);
    let mut stuck = pin!(stuck.commit(put(1, 10)));
    let is_sent = poll_fn(|context| Poll::Ready(stuck.as_mut().poll(context).is_pending())).await;
    assert!(is_sent, "its disk does not write");
    let beginning = {
        let logs = [Arc::clone(&first), Arc::clone(&second)];
        tokio::spawn(async move { backup::begin(&[&logs[0], &logs[1]]).await.map(drop) })
    };
    let begun = loop {
        owner.commit(put(owner.sequence + 1, 10)).await.expect("the other store goes on");
        if beginning.is_finished() {
            break beginning.await.expect("no panic");
        }
        env.advance(Duration::from_secs(1));
    };
    assert!(matches!(begun, Err(BeginError::Stuck { .. })), "{begun:?}");
    disks[1].faults().held.store(false, Ordering::SeqCst);
    stuck.await.expect("committed at last");
    assert_eq!(backup::begin(&[&first, &second]).await.expect("they hold still").len(), 2);
    owner.commit(put(owner.sequence + 1, 10)).await.expect("nothing is held any more");
}

/// Commits to the first log and then to the second, while the first holds still for a backup and the second was not
/// asked to yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_was_answered_before_something_in_a_backup_is_in_the_backup_too() {
    let env = Arc::new(ManualEnv::new());
    let options = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let open = async || {
        let opened = LogStore::open(env.clone(), Arc::new(MemDisk::default()), options.clone()).await;
        Arc::new(opened.expect("it opens"))
    };
    let logs = [open().await, open().await];
    let mut held = env.hold_next_reading();
    let beginning = {
        let logs = logs.clone();
        tokio::spawn(async move { backup::begin(&[&logs[0], &logs[1]]).await })
    };
    // The clock is read before each log is synced, and before each is held.
    for _ in 1..4 {
        held.begun().await;
        let next = env.hold_next_reading();
        held.let_go();
        held = next;
    }
    held.begun().await;
    let committing = {
        let logs = logs.clone();
        tokio::spawn(async move {
            for log in &logs {
                let mut owner = Owner::acquire(log, 1).await.expect("acquired");
                owner.commit(put(1, 10)).await.expect("committed");
            }
        })
    };
    // Without the hold it comes to its end.
    for _ in 0..300_000 {
        if committing.is_finished() {
            break;
        }
        tokio::task::yield_now().await;
    }
    held.let_go();
    let mut found = Vec::new();
    for backup in beginning.await.expect("no panic").expect("begun") {
        let copy = Arc::new(MemDisk::default());
        backup.copy(copy.clone(), &mut |_, _| {}).await.expect("copied");
        let copy = self::open(&copy, small()).await.expect("it opens");
        found.push(Owner::acquire(&copy, 1).await.expect("acquired").rows.len());
    }
    committing.await.expect("committed once nothing is held any more");
    assert!(found[0] >= found[1], "{found:?}");
}

fn places(damage: &[StoreError]) -> Vec<(&str, u64)> {
    let mut places = Vec::new();
    for error in damage {
        if let StoreError::Damaged { file, offset, .. } = error {
            places.push((file.as_str(), *offset));
        }
    }
    places
}

pub(crate) async fn filled(disk: &Arc<MemDisk>) -> LogStore {
    let store = open(disk, small()).await.expect("it opens");
    let mut owner = Owner::acquire(&store, 1).await.expect("acquired");
    for number in 1..=100 {
        owner.commit(put(number, 300)).await.expect("committed");
    }
    store
}

pub(crate) async fn copied(store: &LogStore) -> (Arc<MemDisk>, Copied) {
    let copy = Arc::new(MemDisk::default());
    let backup = backup::begin(&[store]).await.expect("the log holds still").remove(0);
    let copied = backup.copy(copy.clone(), &mut |_, _| {}).await.expect("copied");
    (copy.after_power_loss(), copied)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotten_payload_is_told_by_the_backup_and_costs_nothing_else() {
    let disk = Arc::new(MemDisk::default());
    let store = filled(&disk).await;
    assert_eq!(copied(&store).await.1.damage.len(), 0);
    assert_ne!(disk.spoil(b"body 50 body 50"), 0);
    let (copy, copied) = copied(&store).await;
    assert_eq!(copied.damage.len(), 1, "{:?}", copied.damage);
    assert!(places(&copied.damage)[0].0.ends_with(".seg"));
    let restored = open(&copy, small()).await.expect("the copy opens");
    let owner = Owner::acquire(&restored, 1).await.expect("acquired");
    assert_eq!(owner.rows.len(), 100);
    assert!(owner.read(50).await.is_err());
    assert!(owner.read(51).await.expect("read").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_read_is_told_by_the_backup_and_the_others_are_copied() {
    let disk = Arc::new(MemDisk::default());
    let store = filled(&disk).await;
    let whole = copied(&store).await.1;
    disk.make_unreadable("00000001.seg");
    let (copy, copied) = copied(&store).await;
    assert_eq!(copied.bytes, whole.bytes);
    assert_eq!(places(&copied.damage)[0], ("mem/00000001.seg", 0), "{:?}", copied.damage);
    assert!(copied.damage[0].to_string().contains("fails as asked"), "{:?}", copied.damage);
    let names = copy.names();
    assert!(names.contains("format") && names.contains("00000002.seg"), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_to_the_last_commit_is_told_and_not_taken_for_a_torn_tail() {
    let disk = Arc::new(MemDisk::default());
    let store = filled(&disk).await;
    assert_ne!(disk.spoil(b"body 100 body 100"), 0);
    let (_, copied) = copied(&store).await;
    assert_eq!(copied.damage.len(), 1, "{:?}", copied.damage);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_cut_is_told_by_the_backup() {
    let disk = Arc::new(MemDisk::default());
    let store = filled(&disk).await;
    disk.cut("00000001.seg", 5000);
    let (_, copied) = copied(&store).await;
    assert_eq!(places(&copied.damage)[0], ("mem/00000001.seg", 4096), "{:?}", copied.damage);
}
