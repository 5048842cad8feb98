//! What the simulator promises of itself: runs that repeat, a disk that behaves like one, a checker that can fail.

mod checker;
mod checker_closes;
mod checker_crons;
mod checker_damage;
mod checker_groups;
mod checker_losses;
mod checker_many;
mod checker_moves;
mod checker_restores;
mod checker_rules;
mod checker_stalls;
mod checker_streams;
mod checker_suspends;
mod checker_turns;
mod checker_walks;
mod disk;
mod executor;
mod log_runs;
#[cfg(feature = "mutants")]
mod mutants;
#[cfg(feature = "mutants")]
mod mutants_log;
mod repeat;
mod rot;
mod stores;
mod story;
