//! Items and crons on their way to other partitions: how they leave, how they are taken, and what is on its way.

pub(crate) mod crons;
pub(crate) mod fall_back;
pub(crate) mod leave;
pub(crate) mod outbox;
pub(crate) mod take;
