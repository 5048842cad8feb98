//! A piece of the last snapshot, or of the log since, that the disk reports `EIO` for: it may pass, and if it does not, it
//! costs its partition alone.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::row::{Key, Row};
use windlass_engine::store::Store;
use windlass_engine::store::log::LogStore;
use windlass_engine::store::log::disk::Disk;

use crate::log_damage::Files;
use crate::log_damaged_partition::{
    DAMAGED, ROWS, SOUND, assert_sound, block, commits, kept, refused, snapshot_of, tidy,
};
use crate::log_disk::MemDisk;
use crate::log_failure::until;
use crate::log_rows::{Owner, SMALL, open, put, remove};
use crate::world::ManualEnv;

struct World {
    env: Arc<ManualEnv>,
    disk: Arc<MemDisk>,
    store: LogStore,
    rows: BTreeMap<Key, Row>,
}

impl World {
    /// A store whose disk is bad in one place before a snapshot reads it.
    async fn with_bad(place: impl Fn(&Files) -> (String, Range<u64>)) -> Self {
        loop {
            let (files, rows) = kept().await;
            let (name, bytes) = place(&files);
            let (env, disk) = (Arc::new(ManualEnv::new()), MemDisk::of(files));
            let on_disk = Arc::clone(&disk) as Arc<dyn Disk>;
            let store = LogStore::open(env.clone(), on_disk, tidy()).await.unwrap();
            disk.set_bad(&name, bytes);
            // A snapshot that was due at once may have read the place before.
            let begun = disk.names().iter().any(|name| name.ends_with(".snap.tmp"));
            if !begun && store.stats().snapshots == 0 {
                return Self { env, disk, store, rows };
            }
            store.close().await;
        }
    }

    /// Commits of the sound partition that come and go, until the upkeep wants a snapshot and fails.
    async fn until_a_snapshot_fails(&self, owner: &mut Owner<'_>) {
        let mut number = 2000;
        // Nothing sleeps before: and a snapshot may fail as soon as the disk is bad.
        while self.env.sleeps.load(Ordering::SeqCst) == 0 {
            owner.commit(put(number, 300)).await.unwrap();
            owner.commit([remove(number)]).await.unwrap();
            number += 1;
        }
    }

    /// Lets time pass until one more attempt at a snapshot has failed.
    async fn until_another_attempt(&self) {
        let slept = self.env.sleeps.load(Ordering::SeqCst);
        // Once, and by more than the upkeep rests: so there is exactly one attempt, however late it is seen.
        self.env.advance(Duration::from_secs(3600));
        until(|| self.env.sleeps.load(Ordering::SeqCst) > slept).await;
    }

    /// Lets time pass until there is another snapshot.
    async fn until_a_snapshot(&self) {
        let before = self.store.stats().snapshots;
        until(|| {
            self.env.advance(Duration::from_secs(1));
            self.store.stats().snapshots > before
        })
        .await;
    }

    async fn assert_costs_its_partition_alone(self) {
        assert_eq!(self.store.stats().damaged_partitions, 1);
        let mut sound = Owner::acquire(&self.store, SOUND).await.unwrap();
        let stored = self.store.stats().bytes_stored;
        for number in 9000..9200 {
            sound.commit(put(number, 300)).await.unwrap();
            sound.commit([remove(number)]).await.unwrap();
        }
        until(|| self.store.stats().bytes_stored <= stored + 5 * u64::from(SMALL)).await;
        self.store.close().await;
        let again = open(&self.disk.after_kill(), tidy()).await.unwrap();
        assert!(refused(&again).await.is_damage());
        assert_sound(&again, &self.rows).await;
    }
}

/// A byte of the damaged partition's rows in the snapshot.
fn rows_of_damaged(files: &Files) -> (String, Range<u64>) {
    let name = snapshot_of(files);
    let at = block(&files[&name], ROWS, DAMAGED).0 as u64;
    (name, at + 20..at + 21)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_of_the_snapshot_that_cannot_be_read_for_a_while_costs_nothing() {
    let world = World::with_bad(rows_of_damaged).await;
    let mut sound = Owner::acquire(&world.store, SOUND).await.unwrap();
    world.until_a_snapshot_fails(&mut sound).await;
    for _ in 0..3 {
        world.until_another_attempt().await;
    }
    assert_eq!((world.store.stats().snapshots, world.store.stats().damaged_partitions), (0, 0));
    world.disk.set_bad(&snapshot_of(&world.disk.images()), 0..0);
    world.until_a_snapshot().await;
    assert_eq!(world.store.stats().damaged_partitions, 0);
    assert_eq!(Owner::acquire(&world.store, DAMAGED).await.unwrap().rows, world.rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_of_the_snapshot_that_stays_unreadable_costs_its_partition_alone() {
    let world = World::with_bad(rows_of_damaged).await;
    let mut sound = Owner::acquire(&world.store, SOUND).await.unwrap();
    world.until_a_snapshot_fails(&mut sound).await;
    world.until_a_snapshot().await;
    world.assert_costs_its_partition_alone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_since_the_snapshot_that_stays_unreadable_costs_its_partition_alone() {
    let last_commit = |files: &Files| {
        let (name, at) = commits(files).pop().expect("a commit");
        (name, at as u64 + 90..at as u64 + 91)
    };
    let world = World::with_bad(last_commit).await;
    let mut sound = Owner::acquire(&world.store, SOUND).await.unwrap();
    world.until_a_snapshot_fails(&mut sound).await;
    world.until_a_snapshot().await;
    world.assert_costs_its_partition_alone().await;
}

/// A partition is given up for what could not be read of it again and again, and not for an error that comes up while
/// another one is.
#[tokio::test(flavor = "multi_thread")]
async fn patience_is_lost_with_each_partition_by_itself() {
    let world = World::with_bad(rows_of_damaged).await;
    let mut sound = Owner::acquire(&world.store, SOUND).await.unwrap();
    let images = world.disk.images();
    let name = snapshot_of(&images);
    let rows = |partition| block(&images[&name], ROWS, partition).0 as u64;
    let (damaged, other) = (rows(DAMAGED), rows(SOUND));
    let both = damaged.min(other) + 20..damaged.max(other) + 21;
    world.until_a_snapshot_fails(&mut sound).await;
    for _ in 0..7 {
        world.until_another_attempt().await;
    }
    assert_eq!(world.store.stats().damaged_partitions, 0);
    world.disk.set_bad(&name, both);
    for _ in 0..2 {
        world.until_another_attempt().await;
    }
    world.disk.set_bad(&name, damaged + 20..damaged + 21);
    world.until_a_snapshot().await;
    world.assert_costs_its_partition_alone().await;
}
