//! How many files the log keeps open on a real disk.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;
use windlass_engine::store::Store;
use windlass_engine::store::log::LogOptions;
use windlass_engine::store::log::disk::{Disk, File};
use windlass_engine::store::log::real::RealDisk;

use crate::log_rows::{Owner, open, put, small};

const SEGMENT_BYTES: u32 = 4 << 10;
/// 64 that may be open, those in use at the moment, and the lock.
const OPEN_MAX: usize = 64 + 8;

fn options() -> LogOptions {
    LogOptions { segment_bytes: SEGMENT_BYTES, snapshot_min_bytes: 256 << 10, ..small() }
}

/// How many files below a directory this process has open.
fn open_files(directory: &Path) -> usize {
    let handles = std::fs::read_dir("/proc/self/fd").unwrap();
    let target = |handle: std::io::Result<std::fs::DirEntry>| std::fs::read_link(handle.ok()?.path()).ok();
    handles.filter_map(target).filter(|file| file.starts_with(directory)).count()
}

/// Writes and reads back many segments, and has somebody look in between.
async fn write_and_read_much(look: impl Fn(&Path)) {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::new(directory.path()).unwrap());
    let store = open(&disk, options()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=300 {
        owner.commit(put(number, 2500)).await.unwrap();
    }
    assert!(store.stats().bytes_stored > 300 * u64::from(SEGMENT_BYTES));
    look(directory.path());
    owner.check_bodies().await;
    look(directory.path());
    let rows = owner.rows.clone();
    store.close().await;

    let store = open(&disk, options()).await.unwrap();
    look(directory.path());
    let owner = Owner::acquire(&store, 1).await.unwrap();
    assert_eq!(owner.rows, rows);
    owner.check_bodies().await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_segments_are_not_as_many_open_files() {
    let look = |directory: &Path| {
        let count = open_files(directory);
        assert!((1..=OPEN_MAX).contains(&count), "{count} files are open");
    };
    write_and_read_much(look).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_segments_are_written_and_read() {
    write_and_read_much(|_| {}).await;
}

/// A process may have fewer files open than the log would: the test above, in a process of its own.
#[test]
fn a_low_limit_of_open_files_is_lived_with() {
    let itself = std::env::current_exe().unwrap();
    let script = "ulimit -n 48 && exec \"$0\" --exact log_handles::many_segments_are_written_and_read";
    let run = Command::new("sh").args(["-c", script]).arg(itself).output().unwrap();
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && told.contains("1 passed"), "{told}");
}

fn disk() -> (TempDir, RealDisk) {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(directory.path()).unwrap();
    (directory, disk)
}

async fn written(disk: &RealDisk, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(name).await.unwrap();
    assert_eq!(file.write_at(0, bytes).await.unwrap(), bytes.len());
    file.sync().await.unwrap();
    file
}

async fn content(file: &dyn File) -> Vec<u8> {
    let mut buffer = vec![0; 100];
    let read = file.read_at(0, &mut buffer).await.unwrap();
    buffer.truncate(read);
    buffer
}

/// Uses so many files that all others are closed which may be.
async fn push_out(disk: &RealDisk) -> Vec<Arc<dyn File>> {
    let mut files = Vec::new();
    for number in 0..80 {
        files.push(written(disk, &format!("other {number}"), b"").await);
    }
    files
}

fn is_open(directory: &TempDir, name: &str) -> bool {
    open_files(&directory.path().join(name)) > 0
}

#[tokio::test]
async fn a_file_is_opened_again_under_the_name_it_has_now() {
    let (directory, disk) = disk();
    let file = written(&disk, "before", b"content").await;
    let _others = push_out(&disk).await;
    assert!(!is_open(&directory, "before"));
    disk.rename("before", "after").await.unwrap();
    written(&disk, "before", b"another file").await;
    assert_eq!(content(&*file).await, b"content");
    assert!(is_open(&directory, "after"));
}

#[tokio::test]
async fn a_file_that_was_removed_or_replaced_is_read_on_by_its_holder() {
    let (_directory, disk) = disk();
    let removed = written(&disk, "removed", b"old").await;
    let replaced = written(&disk, "replaced", b"old").await;
    let _others = push_out(&disk).await;
    disk.remove("removed").await.unwrap();
    written(&disk, "removed", b"new").await;
    let new = written(&disk, "new", b"new").await;
    disk.rename("new", "replaced").await.unwrap();
    let _more = disk.list().await.unwrap();
    assert_eq!(content(&*removed).await, b"old");
    assert_eq!(content(&*replaced).await, b"old");
    assert_eq!(content(&*new).await, b"new");
}

#[tokio::test]
async fn a_file_with_unsynced_writes_stays_open() {
    let (directory, disk) = disk();
    let file = written(&disk, "unsynced", b"content").await;
    assert_eq!(file.write_at(0, b"changed").await.unwrap(), 7);
    let others = push_out(&disk).await;
    assert!(is_open(&directory, "unsynced"));
    file.sync().await.unwrap();
    for other in &others {
        content(&**other).await;
    }
    assert!(!is_open(&directory, "unsynced"));
    assert_eq!(content(&*file).await, b"changed");
}
