//! The log on file systems that are mounted for it, each as full as it can be. Where nothing can be mounted, the tests
//! say so and are skipped.

#![expect(clippy::disallowed_types, reason = "what fills a disk comes from outside of the log")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;
use windlass_core::id::PartitionId;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::{Room, Store};

use crate::log_failure::until;
use crate::log_rows::{Owner, open, put, remove};

const IMAGE_BYTES: u64 = 320 << 20;
/// Left for the log before anything else fills the disk.
const LOG_BYTES: u64 = 48 << 20;
const BODY_BYTES: usize = 50 << 10;

fn options() -> LogOptions {
    let (segment_bytes, snapshot_min_bytes) = (4 << 20, 4 << 20);
    LogOptions { segment_bytes, snapshot_min_bytes, body_cache_bytes: 0, ..LogOptions::default() }
}

/// A file system in a file, mounted until it is dropped.
struct Mounted {
    directory: TempDir,
}

impl Mounted {
    /// Copies an image that is in use: what a machine would find that lost its power now.
    fn after_power_loss(&self) -> Option<Self> {
        let copy = tempfile::tempdir().unwrap();
        fs::copy(self.image(), copy.path().join("image")).unwrap();
        Self::mount(copy, "a copy")
    }

    fn new(kind: &str, make: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
        let made = Command::new(make[0]).args(&make[1..]).arg(&image).output();
        if !made.is_ok_and(|made| made.status.success()) {
            println!("SKIPPED: no {kind} can be made here");
            return None;
        }
        Self::mount(directory, kind)
    }

    fn mount(directory: TempDir, kind: &str) -> Option<Self> {
        let mounted = Self { directory };
        fs::create_dir(mounted.path()).unwrap();
        // A copy of an XFS has the identity of its original, which is mounted too.
        let done = mounted.mount_with("loop,nouuid") || mounted.mount_with("loop");
        if !done {
            println!("SKIPPED: {kind} cannot be mounted here");
        }
        done.then_some(mounted)
    }

    fn mount_with(&self, options: &str) -> bool {
        let done = Command::new("mount").args(["-o", options]).arg(self.image()).arg(self.path()).output();
        done.is_ok_and(|done| done.status.success())
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }

    fn disk(&self) -> Arc<RealDisk> {
        Arc::new(RealDisk::new(self.path().join("data")).unwrap())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _not_mounted = Command::new("umount").arg(self.path()).output();
    }
}

/// Fills a disk until so much is left; 0: until nothing more can be written.
fn fill(disk: &dyn Disk, file: &Path, leave: u64) {
    let mut ballast = File::create(file).unwrap();
    for piece in [1 << 20, 4 << 10] {
        let piece = vec![1; piece];
        while disk.free_bytes().unwrap() > leave || leave == 0 {
            if ballast.write_all(&piece).is_err() {
                break;
            }
        }
    }
    let _no_room_is_the_point = ballast.sync_all();
}

async fn full_and_back(kind: &str, make: &[&str]) {
    let Some(mounted) = Mounted::new(kind, make) else { return };
    let disk = mounted.disk();
    let store: LogStore = open(&disk, options()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    fill(&*disk, &mounted.path().join("ballast"), LOG_BYTES);
    let mut number = 0;
    while store.room(PartitionId(1)) == Room::Enough {
        number += 1;
        owner.commit(put(number, BODY_BYTES)).await.unwrap();
        assert!(number < 10_000, "{kind}: the disk is small");
    }
    assert!(number > 10, "{kind}: full after {number} items");
    fill(&*disk, &mounted.path().join("more ballast"), 0);
    // Nothing is left but what the log has in reserve.
    for number in 1..=number {
        let removed = owner.commit([remove(number)]).await;
        assert!(removed.is_ok(), "{kind}: item {number}: {removed:?}");
    }
    owner.commit([remove(number)]).await.unwrap();

    if let Some(copy) = mounted.after_power_loss() {
        let store = open(&copy.disk(), options()).await.unwrap();
        let found = Owner::acquire(&store, 1).await.unwrap();
        assert_eq!((found.sequence, &found.rows), (owner.sequence, &owner.rows), "{kind}");
        store.close().await;
    }
    fs::remove_file(mounted.path().join("ballast")).unwrap();
    fs::remove_file(mounted.path().join("more ballast")).unwrap();
    until(|| store.room(PartitionId(1)) == Room::Enough).await;
    owner.commit(put(number + 1, BODY_BYTES)).await.unwrap();
    owner.check_bodies().await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_ext4_still_ends_items() {
    full_and_back("ext4", &["mkfs.ext4", "-q", "-F"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_xfs_still_ends_items() {
    full_and_back("xfs", &["mkfs.xfs", "-q", "-f"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_btrfs_still_ends_items() {
    full_and_back("btrfs", &["mkfs.btrfs", "-q", "-f"]).await;
}
