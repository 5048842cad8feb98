//! What the engine promises, from the outside. One behaviour suite runs on every store.

#![expect(clippy::disallowed_methods, reason = "tests run in the real world, on the runtime's own tasks")]

#[cfg(test)]
mod backups;
#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod directories;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod failures_cron_moves;
mod failures_crons;
#[cfg(test)]
mod failures_fall_back;
mod failures_groups;
#[cfg(test)]
mod failures_keys;
#[cfg(test)]
mod failures_lists;
mod failures_moves;
#[cfg(test)]
mod failures_next;
#[cfg(test)]
mod failures_queues;
#[cfg(test)]
mod failures_rebalance;
#[cfg(test)]
mod failures_reruns;
#[cfg(test)]
mod failures_rules;
#[cfg(test)]
mod failures_streams;
#[cfg(test)]
mod failures_unclaimed;
#[cfg(test)]
mod failures_waits;
#[cfg(test)]
mod faulty;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod heard;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod log_basics;
#[cfg(test)]
mod log_damage;
#[cfg(test)]
mod log_damaged_partition;
#[cfg(test)]
mod log_desk;
#[cfg(test)]
mod log_disk;
#[cfg(test)]
mod log_events;
#[cfg(test)]
mod log_facts;
#[cfg(test)]
mod log_failure;
#[cfg(test)]
mod log_flips;
#[cfg(test)]
mod log_full;
#[cfg(test)]
mod log_full_upkeep;
#[cfg(test)]
mod log_handles;
#[cfg(test)]
mod log_inspect;
#[cfg(test)]
mod log_rot;
#[cfg(test)]
mod log_rows;
#[cfg(test)]
mod log_salvage;
#[cfg(test)]
mod log_unreadable;
#[cfg(test)]
mod log_unreadable_snapshot;
#[cfg(test)]
mod log_upkeep;
#[cfg(test)]
mod many_queues;
#[cfg(test)]
mod overload;
#[cfg(test)]
mod power_loss;
#[cfg(test)]
mod real_disks;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod rot;
#[cfg(test)]
mod rot_unreadable;
#[cfg(test)]
mod spread;
#[cfg(test)]
mod stalled;
#[cfg(test)]
mod too_large;
#[cfg(test)]
mod waiting_kinds;
#[cfg(test)]
mod world;
