//! Each deliberate fault is caught: what shows that the checks can fail.

use windlass_core::mutant::{Mutant, activate};
use windlass_sim::run::run_seed;

/// Every mutant must be caught by one of this many seeds.
const SEEDS: u64 = 3_000;

fn fails_with(mutant: Option<Mutant>, seed: u64) -> bool {
    activate(mutant);
    let fails = run_seed(seed, 0).violation.is_some();
    activate(None);
    fails
}

/// Tells also which seed it was, for whoever wants a cheap one to look at.
#[expect(clippy::print_stderr, reason = "a test may tell more than whether it passed")]
pub(crate) fn assert_caught_by(fails_with: fn(Option<Mutant>, u64) -> bool, mutant: Mutant) {
    let caught = (1..=SEEDS).find(|seed| fails_with(Some(mutant), *seed) && !fails_with(None, *seed));
    let seed = caught.unwrap_or_else(|| panic!("{mutant:?} went unnoticed in {SEEDS} seeds"));
    eprintln!("{mutant:?} is caught by seed {seed}");
}

macro_rules! caught {
    ($($test:ident: $mutant:ident,)*) => {
        $(
            #[test]
            fn $test() {
                assert_caught_by(fails_with, Mutant::$mutant);
            }
        )*

        #[test]
        fn no_mutant_is_forgotten_here() {
            let here = [$(Mutant::$mutant),*];
            assert!(Mutant::ALL.iter().all(|mutant| here.contains(mutant)));
        }
    };
}

caught! {
    a_skipped_sync_is_caught: SkipSync,
    an_old_frame_taken_for_good_is_caught: AcceptOldFrame,
    trust_after_a_failed_sync_is_caught: TrustAfterFailedSync,
    an_answer_before_the_commit_is_caught: AnswerBeforeCommit,
    a_forgotten_outcome_is_caught: ForgetOutcome,
    a_waiter_woken_twice_is_caught: WakeTwice,
    a_door_left_open_is_caught: LeaveDoorOpen,
    an_ignored_permit_is_caught: IgnorePermit,
    an_ignored_deadline_is_caught: IgnoreDeadline,
    a_number_used_again_is_caught: ReuseNumber,
    a_count_too_many_is_caught: CountTwice,
    an_early_start_is_caught: StartEarly,
    a_lost_order_is_caught: LoseOrder,
    a_free_attempt_is_caught: FreeAttempts,
    a_shared_address_is_caught: ShareAddress,
    a_forgotten_call_is_caught: ForgetCall,
    a_move_taken_twice_is_caught: TakeTwice,
    a_move_forgotten_too_early_is_caught: ForgetMove,
    a_former_home_that_is_not_asked_is_caught: SkipFormerHomes,
    an_ignored_rule_is_caught: IgnoreRule,
    a_suspended_item_that_is_leased_is_caught: LeaseSuspended,
    a_suspended_attempt_that_is_counted_is_caught: ChargeSuspended,
    a_turn_that_leases_what_it_gave_back_is_caught: LeaseGivenBack,
    a_lost_answer_is_caught: LoseInput,
    an_answer_given_again_is_caught: KeepInput,
    a_hidden_suspend_is_caught: HideSuspended,
    a_snapshot_numbered_too_low_is_caught: NumberSnapshotLow,
    a_graceful_close_at_once_is_caught: CloseAtOnce,
    a_held_member_that_is_leased_is_caught: LeaseHeld,
    an_abort_before_the_last_member_is_gone_is_caught: AbortEarly,
    a_forgotten_end_of_a_group_is_caught: ForgetEnd,
    an_event_numbered_again_is_caught: RepeatEvent,
    a_time_that_runs_again_after_a_move_is_caught: CronTimeAgain,
    an_item_rerun_twice_is_caught: RerunTwice,
    a_rerun_without_its_address_is_caught: RerunWithoutAddress,
    a_lost_payload_of_a_kept_item_is_caught: PayloadLostWithItemKept,
    a_chain_that_leads_nowhere_is_caught: MovedToNowhere,
    a_find_that_skips_an_item_is_caught: FindSkips,
    a_lock_held_while_partitions_are_told_is_caught: LockWhileTold,
    a_move_assigned_for_ever_is_caught: AssignedForEver,
}
