//! Runs with several stores.

use std::collections::BTreeSet;

use windlass_engine::store::log::disk::Disk;
use windlass_sim::fault::Fault;
use windlass_sim::machine::Machine;
use windlass_sim::plan::{DeadPlan, Plan};
use windlass_sim::rng::Rng;
use windlass_sim::run::run_seed;

use crate::disk::{process, with_faults};

fn plan_of(seed: u64) -> Plan {
    Plan::draw(&mut Rng::new(seed))
}

fn is_spread(seed: u64) -> bool {
    let plan = plan_of(seed);
    plan.stores.count > 1 && plan.dead == DeadPlan::Graveyard && plan.queues.len() > 1
}

#[test]
fn about_a_quarter_of_the_seeds_has_several_stores() {
    let several = (1..=400).filter(|seed| plan_of(*seed).stores.count > 1).count();
    assert!((60..=140).contains(&several), "{several} of 400");
}

#[test]
fn dead_letters_move_between_stores() {
    let moved: u64 = (1..)
        .filter(|seed| is_spread(*seed))
        .take(8)
        .map(|seed| run_seed(seed, 0).coverage.changes("moved to another store"))
        .sum();
    assert!(moved > 0);
}

#[test]
fn a_power_cut_takes_from_each_disk_its_own_unsynced_writes() {
    let after_power_cut = |seed| {
        let (log, _) = with_faults();
        let machine = Machine::new(2, &mut Rng::new(seed), &log);
        for hardware in machine.disks() {
            let made = process(hardware, |disk| Box::pin(async move { disk.create("a").await.is_ok() }));
            assert_eq!(made.1, Some(true));
        }
        machine.crash();
        machine.disks().iter().map(|disk| disk.contents().contains_key("a")).collect::<Vec<bool>>()
    };
    let left: BTreeSet<Vec<bool>> = (1..=40).map(after_power_cut).collect();
    assert_eq!(left.len(), 4, "{left:?}");
}

#[test]
fn an_absent_disk_cannot_be_locked_until_it_comes() {
    let (log, faults) = with_faults();
    let machine = Machine::new(2, &mut Rng::new(3), &log);
    let late = &machine.disks()[1];
    let lock = || process(late, |disk| Box::pin(async move { disk.lock().await.is_ok() })).1;
    late.set_absent(true);
    assert_eq!(lock(), Some(false));
    assert_eq!(*faults.lock().expect("nobody panics"), [Fault::AbsentDisk]);
    machine.mend();
    assert_eq!(lock(), Some(true));
}
