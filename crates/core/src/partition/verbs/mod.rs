//! What workers and producers do with items: one file per verb.

pub(crate) mod cancel;
pub(crate) mod clear;
pub(crate) mod complete;
pub(crate) mod configure;
pub(crate) mod damaged;
pub(crate) mod delete;
pub(crate) mod emit;
pub(crate) mod extend;
pub(crate) mod import;
pub(crate) mod lease;
pub(crate) mod next;
pub(crate) mod once;
pub(crate) mod produce;
pub(crate) mod redrive;
pub(crate) mod release;
pub(crate) mod rerun;
pub(crate) mod retry;
pub(crate) mod revoke;
pub(crate) mod route;
pub(crate) mod suspend;
pub(crate) mod update;
