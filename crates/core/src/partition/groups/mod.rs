//! Items that belong together: their verbs, their end, and the index of groups.

pub(crate) mod end;
pub(crate) mod index;
pub(crate) mod verbs;
