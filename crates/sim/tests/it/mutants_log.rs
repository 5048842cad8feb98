//! Each deliberate fault of the log is caught by its runs without an engine.

use windlass_core::mutant::{Mutant, activate};
use windlass_sim::log_run::run_log_seed;

use crate::mutants::assert_caught_by;

fn fails_with(mutant: Option<Mutant>, seed: u64) -> bool {
    activate(mutant);
    let fails = run_log_seed(seed, 0).violation.is_some();
    activate(None);
    fails
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
        fn no_mutant_of_the_log_is_forgotten_here() {
            let here = [$(Mutant::$mutant),*];
            assert!(Mutant::LOG.iter().all(|mutant| here.contains(mutant)));
        }
    };
}

caught! {
    a_skipped_sync_is_caught: SkipSync,
    an_old_frame_taken_for_good_is_caught: AcceptOldFrame,
    trust_after_a_failed_sync_is_caught: TrustAfterFailedSync,
    an_unchecked_body_is_caught: NoBodyChecksum,
    unnoticed_damage_is_caught: NoDamageCheck,
    an_unnoticed_loss_of_a_body_is_caught: NoLostBodyCheck,
    a_registry_answered_before_its_sync_is_caught: LazyRegistry,
    a_rollback_without_fencing_is_caught: RollBackWithoutFencing,
    a_rollback_in_the_old_era_is_caught: RollBackInOldEra,
    a_rollback_with_the_old_cache_is_caught: RollBackWithOldCache,
    a_snapshot_that_ignores_the_era_is_caught: SnapshotIgnoresEra,
    a_log_without_a_reserve_is_caught: NoReserve,
    a_log_that_is_never_full_is_caught: NeverFull,
    a_segment_freed_while_it_is_read_is_caught: FreeWhileRead,
    an_acquire_without_fencing_is_caught: AcquireWithoutFencing,
    a_removed_body_that_is_moved_is_caught: MoveAfterRemoval,
    cut_events_that_are_kept_are_caught: KeepCutEvents,
    a_cache_that_keeps_what_was_removed_is_caught: CacheKeepsRemoved,
    an_open_without_a_sync_of_the_directory_is_caught: NoDirectorySync,
    a_snapshot_that_does_not_tell_what_was_durable_is_caught: SnapshotSyncedZero,
}
