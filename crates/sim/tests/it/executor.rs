use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use windlass_sim::executor::{Executor, Stop};
use windlass_sim::rng::Rng;

const STEPS: u64 = 10_000;
const MICROS: u64 = 1_000_000;

/// Ten tasks that sleep and note their turns.
fn turns(seed: u64) -> Vec<(usize, u64)> {
    let mut executor = Executor::new(Rng::new(seed));
    let notes = Arc::new(Mutex::new(Vec::new()));
    for task in 0..10 {
        let (handle, notes) = (executor.handle(), notes.clone());
        let future = async move {
            for turn in 0..5 {
                handle.sleep_micros(turn % 3).await;
                notes.lock().expect("not poisoned").push((task, handle.now_nanos()));
            }
        };
        executor.handle().spawn("turns", Box::pin(future));
    }
    executor.run(STEPS, MICROS);
    notes.lock().expect("not poisoned").clone()
}

#[test]
fn the_same_seed_gives_the_same_turns() {
    assert_eq!(turns(7), turns(7));
}

#[test]
fn another_seed_gives_other_turns() {
    assert_ne!(turns(7), turns(8));
}

#[test]
fn the_clock_jumps_when_nothing_is_ready() {
    let mut executor = Executor::new(Rng::new(1));
    let handle = executor.handle();
    let sleeper = handle.clone();
    handle.spawn(
        "sleeper",
        Box::pin(async move {
            sleeper.sleep_micros(900_000).await;
            sleeper.finish();
        }),
    );
    assert_eq!(executor.run(10, MICROS), Stop::Finished);
    assert!(handle.now_micros() >= 900_000);
}

#[test]
fn a_task_that_waits_for_nothing_is_a_hang() {
    let mut executor = Executor::new(Rng::new(1));
    executor.handle().spawn("stuck", Box::pin(std::future::pending()));
    assert_eq!(executor.run(STEPS, MICROS), Stop::Hung);
    assert_eq!(executor.task_names(), BTreeMap::from([("stuck", 1)]));
}

#[test]
fn tasks_that_never_rest_are_a_livelock() {
    let mut executor = Executor::new(Rng::new(1));
    let handle = executor.handle();
    handle.clone().spawn(
        "restless",
        Box::pin(async move {
            loop {
                handle.sleep_micros(1).await;
            }
        }),
    );
    assert_eq!(executor.run(STEPS, MICROS), Stop::Exhausted);
}

#[test]
fn a_crash_drops_every_task_and_what_they_spawn_on_the_way_out() {
    struct SpawnsWhenDropped(windlass_sim::executor::Handle, Arc<Mutex<Vec<&'static str>>>);
    impl Drop for SpawnsWhenDropped {
        fn drop(&mut self) {
            self.1.lock().expect("not poisoned").push("dropped");
            let notes = self.1.clone();
            self.0.spawn("ghost", Box::pin(async move { notes.lock().expect("not poisoned").push("ran") }));
        }
    }
    let mut executor = Executor::new(Rng::new(1));
    let notes = Arc::new(Mutex::new(Vec::new()));
    let guard = SpawnsWhenDropped(executor.handle(), notes.clone());
    executor.handle().spawn(
        "holder",
        Box::pin(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        }),
    );
    assert_eq!(executor.run(STEPS, MICROS), Stop::Hung);
    executor.kill();
    assert_eq!(executor.run(STEPS, MICROS), Stop::Hung);
    assert_eq!(*notes.lock().expect("not poisoned"), ["dropped"]);
}
