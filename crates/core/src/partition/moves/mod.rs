//! Items and crons on their way to other partitions: how they leave, how they are taken, and what is on its way.

pub(in crate::partition) mod crons;
pub(in crate::partition) mod leave;
pub(in crate::partition) mod outbox;
pub(in crate::partition) mod take;
