//! What workers and producers do with items: one file per verb.

pub(in crate::partition) mod cancel;
pub(in crate::partition) mod clear;
pub(in crate::partition) mod complete;
pub(in crate::partition) mod damaged;
pub(in crate::partition) mod delete;
pub(in crate::partition) mod emit;
pub(in crate::partition) mod extend;
pub(in crate::partition) mod import;
pub(in crate::partition) mod lease;
pub(in crate::partition) mod once;
pub(in crate::partition) mod produce;
pub(in crate::partition) mod redrive;
pub(in crate::partition) mod release;
pub(in crate::partition) mod retry;
pub(in crate::partition) mod revoke;
pub(in crate::partition) mod route;
pub(in crate::partition) mod suspend;
