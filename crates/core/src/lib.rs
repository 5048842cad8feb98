//! The rules of Windlass.
//!
//! A [`Partition`](partition::Partition) is a deterministic state machine whose rows are durable. It does no I/O,
//! reads no clock, draws no random number and logs nothing: time comes in with every verb, and everything it
//! decides goes out as rows that a store makes durable before anybody hears of it.
//!
//! What it promises:
//! - `apply` decides, and changes nothing when it refuses;
//! - `put` and `remove` alone touch the indexes, so the rows always rebuild the very same partition;
//! - no operation scans: each costs O(log n) or better, whatever the backlog;
//! - numbers of items and permits only grow, and are never issued again with another meaning;
//! - nothing here depends on the order of a hash map, so the same input gives the same output, byte for byte.
//!
//! Read [`item`], [`group`], [`event`] and [`row`] first, then [`verb`] and [`verbs`], then [`partition`] and one file per verb beneath it.

pub mod codec;
pub mod cron;
pub mod effort;
pub mod event;
pub mod footprint;
pub mod group;
pub mod hash;
pub mod id;
pub mod item;
pub mod json;
pub mod limits;
pub mod mutant;
pub mod news;
pub mod partition;
pub mod refusal;
pub mod retry;
pub mod route;
pub mod row;
pub mod rule;
pub mod series;
pub mod settings;
pub mod sorted;
pub mod time;
pub mod urgency;
pub mod verb;
pub mod verbs;
