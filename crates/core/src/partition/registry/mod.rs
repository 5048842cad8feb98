//! What the partition with number 0 knows: queues, their partitions, and the names of crons.

pub(in crate::partition) mod cron_names;
pub(in crate::partition) mod index;
pub(in crate::partition) mod rebalance;
pub(in crate::partition) mod unclaimed;
pub(in crate::partition) mod verbs;
