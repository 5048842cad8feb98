//! The rules of Windlass.
//!
//! A [`Machine`](machine::Machine) is a deterministic state machine whose rows are durable: a
//! [`Partition`](partition::Partition), which has items, or the [`Registry`](registry::Registry), which knows the queues. A
//! machine does no I/O, reads no clock, draws no random number and logs nothing: time comes in with every verb, and
//! everything that a machine decides goes out as rows that a store makes durable before anybody hears of it.
//!
//! What both promise:
//! - `apply` decides, and changes nothing when it refuses;
//! - `put` and `remove` alone touch the indexes, so the rows always rebuild the very same machine;
//! - no operation scans: each costs O(log n) or better, whatever the backlog, but for a find without an index, which looks at
//!   a bounded number of items in each slice;
//! - numbers of items and permits only grow, and are never issued again with another meaning;
//! - nothing here depends on the order of a hash map, so the same input gives the same output, byte for byte.
//!
//! Read [`item`], [`group`], [`event`] and [`row`] first, then [`verb`] and [`verbs`], then [`partition`] and
//! [`registry`] and the files of verbs beneath them.

pub mod attempt;
pub mod codec;
pub mod containers;
pub mod cron;
pub mod effort;
pub mod event;
pub mod footprint;
pub mod group;
pub mod hash;
pub mod headers;
pub mod id;
pub mod item;
pub mod json;
pub mod limits;
pub mod machine;
pub mod mutant;
pub mod news;
pub mod partition;
pub mod refusal;
pub mod registry;
pub mod retry;
pub mod route;
pub mod row;
pub mod rule;
pub mod settings;
pub mod time;
pub mod urgency;
pub mod verb;
pub mod verbs;
