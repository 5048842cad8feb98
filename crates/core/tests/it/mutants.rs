//! Each fault that the core can be given is found by the histories: so they can fail.

use proptest::test_runner::{Config, TestError, TestRunner};
use windlass_core::mutant::{self, Mutant};

use crate::history::{History, settings, steps};

#[test]
fn every_fault_of_the_core_is_caught_by_some_history() {
    for mutant in [
        Mutant::IgnorePermit,
        Mutant::IgnoreDeadline,
        Mutant::ReuseNumber,
        Mutant::CountTwice,
        Mutant::StartEarly,
        Mutant::LoseOrder,
        Mutant::FreeAttempts,
        Mutant::ShareAddress,
        Mutant::ForgetCall,
        Mutant::IgnoreRule,
        Mutant::RepeatEvent,
        Mutant::LeaseHeld,
        Mutant::AbortEarly,
        Mutant::ForgetEnd,
        Mutant::RunAgain,
        Mutant::RerunTwice,
        Mutant::PayloadLostWithItemKept,
        Mutant::MovedToNowhere,
        Mutant::FindSkips,
    ] {
        assert!(is_caught(Some(mutant)), "{mutant:?} was not caught");
    }
    assert!(!is_caught(None), "a sound core was called faulty");
}

fn is_caught(mutant: Option<Mutant>) -> bool {
    let config = Config { cases: 1500, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let mut runner = TestRunner::new(config);
    mutant::activate(mutant);
    let outcome = runner.run(&(settings(), steps(150)), |(settings, steps)| {
        let mut history = History::new(settings);
        steps.iter().for_each(|step| history.step(step));
        Ok(())
    });
    mutant::activate(None);
    matches!(outcome, Err(TestError::Fail(..)))
}
