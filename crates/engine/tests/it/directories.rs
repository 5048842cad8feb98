//! The directory of a log: whose it is, who has it open, and who may read it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use windlass_engine::env::TokioEnv;
use windlass_engine::store::Store;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, inspect};

use crate::backups::{copied, filled};
use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, open, put, small};

fn named(store: &str, server: Option<u64>) -> LogOptions {
    LogOptions { store: store.into(), server, ..small() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_opens_as_its_own_store_of_its_own_server_and_so_does_its_backup() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, named("second", Some(7))).await.expect("a new one");
    let (copy, _) = copied(&store).await;
    store.close().await;
    for disk in [disk, copy] {
        for (options, mentions) in [
            (named("third", Some(7)), ["`second`", "`third`"]),
            (named("default", None), ["`second`", "`default`"]),
            (named("second", Some(8)), ["`second`", "another server"]),
        ] {
            let refused = open(&disk, options).await.expect_err("another's").to_string();
            assert!(mentions.iter().all(|mention| refused.contains(mention)), "{refused}");
        }
        let store = open(&disk, named("second", Some(7))).await.expect("its own");
        assert_eq!(store.server().await, 7);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_salvaged_is_the_same_store_of_the_same_server() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, small()).await.expect("a new one");
    store.remember_store("second").await.expect("written");
    let server = store.server().await;
    store.close().await;
    let mut files = disk.images();
    let format = files.get_mut("format").expect("there");
    let id = String::from_utf8_lossy(format).find("log = ").expect("a line") + 6;
    for copy in [0, format.len() / 2] {
        format[copy + id] = if format[copy + id] == b'0' { b'1' } else { b'0' };
    }
    for disk in [disk, MemDisk::of(files)] {
        let rescued = Arc::new(MemDisk::default());
        let env = Arc::new(TokioEnv::new());
        inspect::salvage(env, disk, rescued.clone(), small()).await.expect("salvaged");
        let store = open(&rescued, small()).await.expect("it opens");
        assert!(store.server().await == server && store.knows_store("second").await);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_of_the_format_file_costs_nothing() {
    let disk = Arc::new(MemDisk::default());
    filled(&disk).await.close().await;
    let files = disk.images();
    for bit in 0..8 * files["format"].len() {
        let mut files = files.clone();
        files.get_mut("format").expect("there")[bit / 8] ^= 1 << (bit % 8);
        let opened = open(&MemDisk::of(files), small()).await;
        opened.unwrap_or_else(|error| panic!("{bit}: {error}")).close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_format_file_whose_copies_are_both_damaged_is_told_as_damage_of_it() {
    let disk = Arc::new(MemDisk::default());
    filled(&disk).await.close().await;
    let files = disk.images();
    let half = files["format"].len() / 2;
    for bit in 0..8 * half {
        let mut files = files.clone();
        let format = files.get_mut("format").expect("there");
        for copy in [0, half] {
            format[copy + bit / 8] ^= 1 << (bit % 8);
        }
        let refused = open(&MemDisk::of(files), small()).await.expect_err("damaged");
        let text = refused.to_string();
        assert!(
            refused.is_damage() && text.contains("mem/format") && text.contains("backup"),
            "{bit}: {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_another_format_is_refused_by_its_number() {
    for number in [0, 99] {
        let format = format!("windlass log\nformat = {number}\nlog = 01\n").into_bytes();
        let disk = MemDisk::of([("format".to_owned(), format)].into());
        let refused = open(&disk, small()).await.expect_err("another format").to_string();
        assert!(refused.contains(&format!("format {number}")), "{refused}");
    }
}

fn real(directory: &Path) -> Arc<RealDisk> {
    Arc::new(RealDisk::new(directory).expect("the directory can be used"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_in_use_stays_locked_when_files_in_it_are_deleted() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(&real(directory.path()), small()).await.expect("it opens");
    for file in std::fs::read_dir(directory.path()).expect("listed") {
        let name = file.expect("a file").file_name().into_string().expect("our own name");
        if name != "format" && Path::new(&name).extension().is_none() {
            std::fs::remove_file(directory.path().join(name)).expect("removed");
        }
    }
    let refused = open(&real(directory.path()), small()).await.expect_err("in use").to_string();
    assert!(refused.contains("another process"), "{refused}");
    let looked_at = inspect::check(Arc::new(RealDisk::read_only(directory.path()))).await;
    assert!(looked_at.expect_err("in use").to_string().contains("another process"));
    store.close().await;
    open(&real(directory.path()), small()).await.expect("it is free").close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_leaves_no_lock_file_behind_and_can_be_looked_at_where_nothing_may_be_written() {
    let directory = tempfile::tempdir().expect("a directory");
    open(&real(directory.path()), small()).await.expect("it opens").close().await;
    assert!(!directory.path().join("LOCK").exists());
    let disk = RealDisk::read_only(directory.path());
    disk.lock().await.expect("taken");
    let other = RealDisk::read_only(directory.path());
    assert_eq!(other.lock().await.expect_err("taken").kind(), std::io::ErrorKind::WouldBlock);
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("there").permissions().mode() & 0o777
}

fn modes_within(directory: &Path) -> Vec<u32> {
    let files = std::fs::read_dir(directory).expect("listed");
    files.map(|file| mode(&file.expect("a file").path())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_and_files_are_closed_to_other_users() {
    let directory = tempfile::tempdir().expect("a directory");
    let (made, empty) = (directory.path().join("above/made"), directory.path().join("empty"));
    std::fs::create_dir(&empty).expect("made");
    std::fs::set_permissions(&empty, std::fs::Permissions::from_mode(0o755)).expect("opened to others");
    let options = LogOptions { snapshot_min_bytes: 1, ..small() };
    for data in [&made, &empty] {
        let store = open(&real(data), options.clone()).await.expect("it opens");
        let mut owner = Owner::acquire(&store, 1).await.expect("acquired");
        while store.stats().snapshots == 0 {
            owner.commit(put(owner.sequence + 1, 300)).await.expect("committed");
        }
        store.close().await;
        assert_eq!(mode(data), 0o700);
        let modes = modes_within(data);
        assert!(modes.len() >= 3 && modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
    }
    assert_eq!(mode(made.parent().expect("it has one")), 0o700);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_copy_in_the_format_file_is_told_as_harmless_and_written_anew_at_the_next_start() {
    let disk = Arc::new(MemDisk::default());
    filled(&disk).await.close().await;
    let files = disk.images();
    let whole = files["format"].clone();
    let flipped = |bit: usize| {
        let mut format = whole.clone();
        format[bit / 8] ^= 1 << (bit % 8);
        format
    };
    let cut = |length: usize| whole[..length].to_vec();
    let bits = (0..8 * whole.len()).step_by(37).map(flipped);
    let cuts = (whole.len() / 2..whole.len()).map(cut);
    for format in bits.chain(cuts) {
        let mut files = files.clone();
        files.insert("format".to_owned(), format.clone());
        let disk = MemDisk::of(files);
        let which = String::from_utf8_lossy(&format).into_owned();
        let report = inspect::check(disk.clone()).await.expect("checked");
        assert_eq!((report.damage.len(), report.harmless.len()), (0, 1), "{which}: {report:?}");
        assert!(report.harmless[0].to_string().contains("mem/format"), "{report:?}");
        let (env, rescued) = (Arc::new(TokioEnv::new()), Arc::new(MemDisk::default()));
        let salvaged = inspect::salvage(env, disk.clone(), rescued, small()).await.expect("salvaged");
        assert_eq!((salvaged.lost.len(), salvaged.harmless.len()), (0, 1), "{which}: {salvaged:?}");
        let opened = open(&disk, small()).await;
        opened.unwrap_or_else(|error| panic!("{which}: {error}")).close().await;
        assert_eq!(disk.after_power_loss().images()["format"], whole, "{which}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn salvage_takes_each_line_of_two_damaged_copies_from_the_one_that_has_it_right() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, named("second", Some(7))).await.expect("a new one");
    store.remember_store("third").await.expect("written");
    store.close().await;
    let files = disk.images();
    let text = String::from_utf8_lossy(&files["format"]).into_owned();
    let half = text.len() / 2;
    let lines = ["store = second", "server = 0000", "other = third"];
    for first in lines {
        for second in lines.into_iter().filter(|second| *second != first) {
            let mut files = files.clone();
            let format = files.get_mut("format").expect("there");
            for (from, line) in [(0, first), (half, second)] {
                let at = from + text.find(line).expect("the line") + line.len() - 1;
                format[at] ^= 1;
            }
            let (env, rescued) = (Arc::new(TokioEnv::new()), Arc::new(MemDisk::default()));
            inspect::salvage(env, MemDisk::of(files), rescued.clone(), small()).await.expect("salvaged");
            let rescued = String::from_utf8_lossy(&rescued.images()["format"]).into_owned();
            for line in ["store = second\n", "server = 0000000000000007\n", "other = third\n"] {
                assert_eq!(rescued.matches(line).count(), 2, "{first}, {second}: {rescued}");
            }
            assert_eq!(rescued.matches("other = ").count(), 2, "{first}, {second}: {rescued}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_copy_in_the_format_file_that_cannot_be_written_anew_stops_no_start() {
    let disk = Arc::new(MemDisk::default());
    filled(&disk).await.close().await;
    disk.flip("format", 20);
    disk.faults().creates.store(1, std::sync::atomic::Ordering::SeqCst);
    open(&disk, small()).await.expect("one copy is sound").close().await;
}
