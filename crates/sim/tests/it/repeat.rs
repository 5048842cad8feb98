use windlass_sim::run::run_seed;

#[test]
fn the_same_seed_twice_prints_the_same_bytes() {
    for seed in 1..=20 {
        let (first, second) = (run_seed(seed, usize::MAX), run_seed(seed, usize::MAX));
        assert_eq!(first.trace.to_string(), second.trace.to_string(), "seed {seed}");
        assert_eq!(first.violation, second.violation, "seed {seed}");
    }
}

#[test]
fn two_seeds_print_different_bytes() {
    assert_ne!(run_seed(1, 0).trace.hash(), run_seed(2, 0).trace.hash());
}

#[test]
fn a_hundred_seeds_find_nothing() {
    for seed in 1..=100 {
        let report = run_seed(seed, 0);
        assert_eq!(report.violation, None, "replay: windlass-sim --seed {seed}");
    }
}
