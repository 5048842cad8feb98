//! Snapshots and compaction on a full disk: they give space back where that is possible, and write nothing where it is not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::id::PartitionId;
use windlass_core::row::Change;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::{Room, Store};

use crate::log_damaged_partition::{BODIES, block, snapshot_of};
use crate::log_disk::MemDisk;
use crate::log_failure::{ready, until};
use crate::log_rows::{Owner, SMALL, open, put, remove, small};
use crate::world::ManualEnv;

const P: PartitionId = PartitionId(1);

async fn manual(disk: &Arc<MemDisk>, options: LogOptions) -> (Arc<ManualEnv>, LogStore) {
    opened(ManualEnv::new(), disk, options).await
}

async fn opened(env: ManualEnv, disk: &Arc<MemDisk>, options: LogOptions) -> (Arc<ManualEnv>, LogStore) {
    let env = Arc::new(env);
    let store = LogStore::open(env.clone(), Arc::clone(disk) as Arc<dyn Disk>, options).await.unwrap();
    (env, store)
}

/// Puts small items until the disk has so little room. Returns the number after the last.
async fn fill_until(owner: &mut Owner<'_>, room: Room) -> u64 {
    for number in 1..2000 {
        if owner.store.room(owner.partition) == room {
            return number;
        }
        owner.commit(put(number, 300)).await.unwrap();
        // The keeper is to see what was taken before the next segment is.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    panic!("the disk is small");
}

/// Nine of ten items go.
async fn thin_out(owner: &mut Owner<'_>, before: u64) {
    let dead: Vec<Change> = (1..before).filter(|number| number % 10 != 0).map(remove).collect();
    owner.commit(dead).await.unwrap();
}

/// Lets keeper and upkeep have another try, so often.
async fn retries(env: &ManualEnv, count: usize) {
    for _ in 0..count {
        // Both wait for their next attempt.
        next_attempts(env, 2).await;
    }
}

/// Until so many wait for their next attempt.
async fn next_attempts(env: &ManualEnv, waiting: usize) {
    let slept = env.sleeps.load(Ordering::SeqCst);
    env.advance(Duration::from_secs(60));
    until(|| env.sleeps.load(Ordering::SeqCst) >= slept + waiting).await;
}

/// A log of some segments on a disk with no room for another, of which nothing is ready any more; most in it is dead.
async fn used_up(disk: &Arc<MemDisk>, store: &LogStore, room: u64) {
    ready(disk, store).await;
    let mut owner = Owner::acquire(store, 1).await.unwrap();
    for number in 10_000..10_200 {
        owner.commit(put(number, 300)).await.unwrap();
    }
    until(|| disk.names().iter().all(|name| !name.ends_with(".tmp"))).await;
    disk.faults().room.store(disk.used() + room, Ordering::SeqCst);
    fill_until(&mut owner, Room::Last).await;
    let dead: Vec<Change> = (10_000..10_200).filter(|number| number % 10 != 0).map(remove).collect();
    owner.commit(dead).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_did_not_change_is_not_written_again_and_again() {
    let disk = Arc::new(MemDisk::default());
    let (env, store) = manual(&disk, small()).await;
    used_up(&disk, &store, u64::from(SMALL) * 9 / 8).await;
    until(|| store.stats().snapshots > 0).await;
    retries(&env, 2).await;
    let (snapshots, written) = (store.stats().snapshots, disk.faults().written.load(Ordering::SeqCst));
    retries(&env, 20).await;
    assert_eq!(store.stats().snapshots, snapshots);
    assert_eq!(disk.faults().written.load(Ordering::SeqCst), written);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_found_no_room_is_not_begun_again_before_there_is_some() {
    let disk = Arc::new(MemDisk::default());
    let (env, store) = manual(&disk, small()).await;
    used_up(&disk, &store, 512).await;
    retries(&env, 2).await;
    let created = || disk.faults().created.load(Ordering::SeqCst);
    let before = created();
    retries(&env, 15).await;
    assert_eq!((created(), store.stats().snapshots), (before, 0));
    disk.faults().room.store(disk.used() + u64::from(SMALL) * 9 / 8, Ordering::SeqCst);
    until(|| {
        env.advance(Duration::from_secs(60));
        store.stats().snapshots > 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_kept_for_a_damaged_partition_bring_no_snapshots() {
    let disk = Arc::new(MemDisk::default());
    let options = LogOptions { snapshot_min_bytes: u64::from(SMALL), ..small() };
    let store = open(&disk, options).await.unwrap();
    for partition in [1, 2] {
        let mut owner = Owner::acquire(&store, partition).await.unwrap();
        for number in 1..=150 {
            owner.commit(put(number, 300)).await.unwrap();
        }
    }
    let snapshots = store.stats().snapshots;
    let mut owner = Owner::acquire(&store, 2).await.unwrap();
    let mut number = 1000;
    while store.stats().snapshots < snapshots + 2 {
        owner.commit(put(number, 300)).await.unwrap();
        owner.commit([remove(number)]).await.unwrap();
        number += 1;
    }
    store.close().await;
    let mut files = disk.images();
    files.retain(|name, _| !name.ends_with(".tmp"));
    let name = snapshot_of(&files);
    let (at, end) = block(&files[&name], BODIES, 1);
    files.get_mut(&name).unwrap()[usize::midpoint(at, end)] ^= 0x10;

    let disk = MemDisk::of(files);
    let (env, store) = manual(&disk, small()).await;
    assert_eq!(store.stats().damaged_partitions, 1);
    let mut owner = Owner::acquire(&store, 2).await.unwrap();
    let dead: Vec<Change> = (1..=150).filter(|number| number % 10 != 0).map(remove).collect();
    disk.faults().room.store(disk.used(), Ordering::SeqCst);
    let mut number = 5000;
    while store.room(owner.partition) == Room::Enough {
        if owner.commit(put(number, 3000)).await.is_err() {
            owner.sequence -= 1;
        }
        number += 1;
        tokio::task::yield_now().await;
    }
    disk.faults().room.store(disk.used() + u64::from(SMALL) / 2, Ordering::SeqCst);
    owner.commit(dead).await.unwrap();
    let snapshots = store.stats().snapshots;
    for number in 6000..6020 {
        owner.commit(put(number, 10)).await.unwrap();
        // The keeper, who finds the disk full and tells the upkeep.
        next_attempts(&env, 1).await;
    }
    assert_eq!(store.stats().snapshots, snapshots);
}

/// A disk that is full, of items most of which are gone.
async fn thinned_out(disk: &Arc<MemDisk>, store: &LogStore) {
    ready(disk, store).await;
    let mut owner = Owner::acquire(store, 1).await.unwrap();
    for number in 10_000..10_300 {
        owner.commit(put(number, 300)).await.unwrap();
    }
    until(|| disk.names().iter().all(|name| !name.ends_with(".tmp"))).await;
    disk.faults().room.store(disk.used() + u64::from(SMALL) * 9 / 8, Ordering::SeqCst);
    let next = fill_until(&mut owner, Room::Full).await;
    let dead: Vec<Change> = (10_000..10_300).filter(|number| number % 10 != 0).map(remove).collect();
    owner.commit(dead).await.unwrap();
    thin_out(&mut owner, next).await;
}

/// Without threads: `fill_until` must stop at the first commit into the last segment, when most of that segment is left.
/// Beside a keeper that runs late, commits would leave less than half of it, and compaction may not have the reserve then.
#[tokio::test]
async fn compaction_may_have_the_reserve_on_a_full_disk() {
    let disk = Arc::new(MemDisk::default());
    let (env, store) = opened(ManualEnv::without_threads(), &disk, small()).await;
    thinned_out(&disk, &store).await;
    let owner = Owner::acquire(&store, 1).await.unwrap();
    // Nobody frees space but the store itself.
    until(|| {
        env.advance(Duration::from_secs(60));
        store.room(P) == Room::Enough
    })
    .await;
    let stats = store.stats();
    assert!(stats.compactions > 0 && stats.events.reserves_taken == 0, "{stats:?}");
    owner.check_bodies().await;
    for disk in [disk.after_power_loss(), disk.after_kill()] {
        let copy = open(&disk, small()).await.unwrap();
        let again = Owner::acquire(&copy, 1).await.unwrap();
        assert_eq!(again.rows, owner.rows);
        again.check_bodies().await;
    }
}
