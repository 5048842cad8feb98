//! What the partition with number 0 knows: queues, their partitions, and the names of crons.

pub(crate) mod cron_names;
pub(crate) mod index;
pub(crate) mod rebalance;
pub(crate) mod unclaimed;
pub(crate) mod verbs;
