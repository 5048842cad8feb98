//! Items that appear on a schedule: their verbs, their runs, and the index of crons.

pub(crate) mod index;
pub(crate) mod run;
pub(crate) mod verbs;
