//! Items that appear on a schedule: their verbs, their runs, and the index of crons.

pub(in crate::partition) mod index;
pub(in crate::partition) mod run;
pub(in crate::partition) mod verbs;
