//! `windlass-sim --seed N` replays one seed; `windlass-sim --seeds N` looks for one that fails.

mod options;
mod output;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use windlass_sim::coverage::Coverage;
use windlass_sim::history::Violation;
use windlass_sim::log_run::run_log_seed;
use windlass_sim::run::run_seed;

use crate::options::{Options, Runs};

const TRACE_LINES_MAX: usize = 100_000;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)) {
        Ok(options) => match options.runs {
            Runs::One { seed } => replay(seed, &options),
            Runs::Many { from, count, jobs } => search(from, count, jobs, &options),
        },
        Err(problem) => {
            output::error(problem);
            output::error(options::USAGE);
            ExitCode::from(2)
        }
    }
}

fn replay(seed: u64, options: &Options) -> ExitCode {
    options.activate_mutant();
    let outcome = run(seed, TRACE_LINES_MAX, options);
    outcome.traces.iter().for_each(output::line);
    for violation in &outcome.violations {
        output::line(format_args!("seed {seed}: {violation}"));
    }
    if outcome.violations.is_empty() {
        output::line(format_args!("seed {seed}: nothing wrong"));
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What came of the runs of a seed.
#[derive(Default)]
struct Outcome {
    seed: u64,
    traces: Vec<String>,
    coverage: Coverage,
    violations: Vec<Violation>,
}

fn run(seed: u64, trace_lines_max: usize, options: &Options) -> Outcome {
    let mut outcome = Outcome { seed, ..Outcome::default() };
    if options.kinds.engine {
        let report = run_seed(seed, trace_lines_max);
        outcome.traces.push(report.trace.to_string());
        outcome.coverage.add(&report.coverage);
        outcome.violations.extend(report.violation);
    }
    if options.kinds.log {
        let report = run_log_seed(seed, trace_lines_max);
        outcome.traces.push(report.trace.to_string());
        outcome.coverage.add_log_run(&report.stats);
        outcome.violations.extend(report.violation);
    }
    outcome
}

/// Shared by the threads that look.
struct Search {
    next: AtomicU64,
    end: u64,
    done: AtomicU64,
    stop: AtomicBool,
    found: Mutex<(Coverage, Vec<Outcome>)>,
}

fn search(from: u64, count: u64, jobs: usize, options: &Options) -> ExitCode {
    let search = Search {
        next: AtomicU64::new(from),
        end: from + count,
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        found: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| look(&search, count, options));
        }
    });
    output::progress_done();
    let (coverage, mut failures) = search.found.into_inner().expect("no thread panicked");
    output::line(&coverage);
    failures.sort_by_key(|outcome| outcome.seed);
    for outcome in &failures {
        for violation in &outcome.violations {
            output::line(format_args!("seed {}: {violation}", outcome.seed));
        }
        output::line(format_args!("replay: {}", options.replay_command(outcome.seed)));
    }
    if !failures.is_empty() {
        return ExitCode::FAILURE;
    }
    covered(&coverage, options)
}

fn look(search: &Search, count: u64, options: &Options) {
    options.activate_mutant();
    while !search.stop.load(Ordering::Relaxed) {
        let seed = search.next.fetch_add(1, Ordering::Relaxed);
        if seed >= search.end {
            return;
        }
        let outcome = run(seed, 0, options);
        let mut found = search.found.lock().expect("no thread panics with it");
        found.0.add(&outcome.coverage);
        if !outcome.violations.is_empty() {
            search.stop.store(!options.go_on, Ordering::Relaxed);
            found.1.push(outcome);
        }
        drop(found);
        let done = search.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(50) || done == count {
            output::progress(format_args!("{done} of {count} seeds"));
        }
    }
}

fn covered(coverage: &Coverage, options: &Options) -> ExitCode {
    let Some(least) = options.require_coverage else { return ExitCode::SUCCESS };
    let missing = coverage.missing(least);
    for line in &missing {
        output::line(format_args!("too rare: {line}"));
    }
    if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
