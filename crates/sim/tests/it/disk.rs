use std::io;
use std::sync::{Arc, Mutex};

use windlass_engine::env::BoxFuture;
use windlass_engine::store::log::disk::{Disk, write_all};
use windlass_sim::disk::{FaultLog, Hardware, SECTOR, SimDisk};
use windlass_sim::executor::{Executor, Stop};
use windlass_sim::fault::{Fault, Rates};
use windlass_sim::rng::Rng;

const SEEDS: u64 = 200;

fn hardware(seed: u64) -> Hardware {
    Hardware::new(Rng::new(seed), Arc::new(|_fault| ()))
}

/// The faults that were met.
pub(crate) type Faults = Arc<Mutex<Vec<Fault>>>;

pub(crate) fn with_faults() -> (FaultLog, Faults) {
    let faults = Faults::default();
    let met = faults.clone();
    (Arc::new(move |fault| met.lock().expect("not poisoned").push(fault)), faults)
}

/// Runs one process on the disk, to its end or its crash.
pub(crate) fn process<T: Send + 'static>(
    hardware: &Hardware,
    program: impl FnOnce(SimDisk) -> BoxFuture<'static, T>,
) -> (Stop, Option<T>) {
    let mut executor = Executor::new(Rng::new(1));
    let handle = executor.handle();
    let result = Arc::new(Mutex::new(None));
    let (future, slot, finisher) = (program(hardware.disk(handle.clone())), result.clone(), handle.clone());
    handle.spawn(
        "program",
        Box::pin(async move {
            let value = future.await;
            *slot.lock().expect("not poisoned") = Some(value);
            finisher.finish();
        }),
    );
    let stop = executor.run(100_000, u64::MAX / 10_000);
    executor.kill();
    let value = result.lock().expect("not poisoned").take();
    (stop, value)
}

/// A file of two sectors of 1s whose name and contents are durable.
fn with_durable_file(seed: u64) -> Hardware {
    let hardware = hardware(seed);
    let made = process(&hardware, |disk| {
        Box::pin(async move {
            let file = disk.create("a").await?;
            write_all(&*file, 0, &[1; 2 * SECTOR]).await?;
            file.sync().await?;
            disk.sync().await
        })
    });
    made.1.expect("it works").expect("it works");
    hardware
}

/// What file `a` holds in every seed after the program and a crash.
fn after_crash(program: impl Fn(SimDisk) -> BoxFuture<'static, io::Result<()>>) -> Vec<Option<Vec<u8>>> {
    let outcome = |seed| {
        let hardware = with_durable_file(seed);
        process(&hardware, &program).1.expect("it works").expect("it works");
        hardware.crash();
        hardware.contents().remove("a")
    };
    (0..SEEDS).map(outcome).collect()
}

async fn overwrite(disk: &SimDisk, byte: u8, sync: bool) -> io::Result<()> {
    let file = disk.open("a").await?;
    write_all(&*file, 0, &[byte; 2 * SECTOR]).await?;
    if sync { file.sync().await } else { Ok(()) }
}

#[test]
fn a_synced_write_survives_every_crash() {
    let left = after_crash(|disk| Box::pin(async move { overwrite(&disk, 2, true).await }));
    assert!(left.iter().all(|left| left.as_deref() == Some(&[2; 2 * SECTOR])));
}

#[test]
fn an_unsynced_write_is_lost_kept_or_torn_between_sectors() {
    let left = after_crash(|disk| Box::pin(async move { overwrite(&disk, 2, false).await }));
    let sectors = |a: u8, b: u8| Some([[a; SECTOR], [b; SECTOR]].concat());
    let allowed = [sectors(1, 1), sectors(2, 2), sectors(1, 2), sectors(2, 1)];
    assert!(left.iter().all(|left| allowed.contains(left)));
    for outcome in &allowed {
        assert!(left.contains(outcome), "never seen: {:?}", outcome.as_ref().map(|bytes| bytes[0]));
    }
}

#[test]
fn a_later_write_can_survive_an_earlier_one() {
    let left = after_crash(|disk| {
        Box::pin(async move {
            let file = disk.open("a").await?;
            write_all(&*file, 0, &[2; SECTOR]).await?;
            write_all(&*file, SECTOR as u64, &[2; SECTOR]).await
        })
    });
    let later_only = Some([[1; SECTOR], [2; SECTOR]].concat());
    assert!(left.contains(&later_only));
}

#[test]
fn within_a_sector_a_later_write_brings_the_earlier_ones_along() {
    let left = after_crash(|disk| {
        Box::pin(async move {
            let file = disk.open("a").await?;
            write_all(&*file, 0, &[2; 8]).await?;
            write_all(&*file, 8, &[3; 8]).await
        })
    });
    let kept_later = |left: &&Vec<u8>| left[8] == 3;
    let left: Vec<Vec<u8>> = left.into_iter().flatten().collect();
    assert!(left.iter().any(|left| kept_later(&left)));
    assert!(left.iter().filter(kept_later).all(|left| left[0] == 2));
}

#[test]
fn what_a_failed_sync_dropped_is_shown_but_never_durable() {
    let mut dropped = 0;
    for seed in 0..SEEDS {
        let hardware = with_durable_file(seed);
        hardware.set_rates(Rates { sync_error: 1_000_000, ..Rates::CALM });
        let failed =
            process(&hardware, |disk| Box::pin(async move { overwrite(&disk, 2, true).await.is_err() }));
        assert_eq!(failed.1, Some(true));
        assert_eq!(hardware.contents()["a"], [2; 2 * SECTOR]);
        hardware.set_rates(Rates::CALM);
        let synced = process(&hardware, |disk| Box::pin(async move { disk.open("a").await?.sync().await }));
        synced.1.expect("it works").expect("it works");
        hardware.crash();
        dropped += u64::from(hardware.contents()["a"] != [2; 2 * SECTOR]);
    }
    assert!(dropped > SEEDS / 4, "dropped in {dropped} of {SEEDS}");
}

#[test]
fn names_need_a_sync_of_the_directory() {
    let renamed = |sync: bool| {
        after_crash(move |disk| {
            Box::pin(async move {
                disk.rename("a", "b").await?;
                if sync { disk.sync().await } else { Ok(()) }
            })
        })
    };
    assert!(renamed(true).iter().all(Option::is_none));
    let unsynced = renamed(false);
    assert!(unsynced.iter().any(Option::is_none) && unsynced.iter().any(Option::is_some));
}

#[test]
fn a_removed_file_can_be_back_after_a_crash_until_the_directory_is_synced() {
    let left = after_crash(|disk| Box::pin(async move { disk.remove("a").await }));
    assert!(left.iter().any(Option::is_none) && left.iter().any(Option::is_some));
}

#[test]
fn the_power_can_go_in_the_middle_of_the_nth_change() {
    let hardware = with_durable_file(3);
    hardware.crash_in(Some(2));
    let (stop, ended) = process(&hardware, |disk| {
        Box::pin(async move {
            overwrite(&disk, 2, true).await?;
            overwrite(&disk, 3, true).await
        })
    });
    assert_eq!((stop, ended.is_none()), (Stop::Crashed, true));
    hardware.crash();
    assert!(hardware.contents()["a"].iter().all(|byte| *byte < 3));
}

#[test]
fn a_full_disk_takes_what_fits_then_refuses_and_still_overwrites() {
    let hardware = with_durable_file(4);
    hardware.set_room(Some(10));
    let (_, result) = process(&hardware, |disk| {
        Box::pin(async move {
            overwrite(&disk, 2, true).await?;
            let file = disk.open("a").await?;
            let fitted = file.write_at(2 * SECTOR as u64, &[5; 100]).await?;
            let refused = file.write_at(2 * SECTOR as u64 + 10, &[5; 100]).await;
            io::Result::Ok((fitted, refused.expect_err("it fails").kind(), disk.create("b").await.is_err()))
        })
    });
    assert_eq!(result.expect("it works").expect("it works"), (10, io::ErrorKind::StorageFull, true));
}

#[test]
fn a_crash_frees_the_lock_and_another_living_process_does_not() {
    let hardware = hardware(5);
    let take = |hardware: &Hardware| {
        let mut executor = Executor::new(Rng::new(9));
        executor.kill();
        let handle = executor.handle();
        let (disk, result) = (hardware.disk(handle.clone()), Arc::new(Mutex::new(None)));
        let slot = result.clone();
        handle.spawn(
            "locker",
            Box::pin(async move { *slot.lock().expect("not poisoned") = Some(disk.lock().await.is_ok()) }),
        );
        executor.run(1_000, 1_000_000);
        result.lock().expect("not poisoned").expect("it works")
    };
    let first = process(&hardware, |disk| Box::pin(async move { disk.lock().await.is_ok() }));
    assert_eq!(first.1, Some(true));
    assert!(!take(&hardware));
    hardware.crash();
    assert!(take(&hardware));
}
