//! The core's tests: scripts for each verb, and properties over random histories.

#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what a test does not expect is a failure, whatever it is"
)]

mod address;
mod after_the_fact;
mod bodies;
mod cancel;
mod clear;
mod codec;
mod complete;
mod cron_moves;
mod cron_schedule;
mod crons;
mod damaged;
mod delay;
mod errors;
mod events;
mod exists_ok;
mod expiry;
mod extend;
mod fall_back;
mod fell_due;
mod find;
mod groups;
mod headers;
mod history;
mod id;
mod json;
mod lease;
mod limits;
mod many_groups;
mod moves;
#[cfg(feature = "mutants")]
mod mutants;
mod next;
mod once;
mod produce;
mod properties;
mod rebalance;
mod registry;
mod registry_script;
mod release;
mod retention;
mod retry;
mod revoke;
mod route;
mod rules;
mod schedule;
mod script;
mod series;
mod sorted;
mod storage;
mod suspend;
mod totals;
mod unclaimed;
mod update;
mod watch;
