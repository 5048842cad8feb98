//! Items that belong together: their verbs, their end, and the index of groups.

pub(in crate::partition) mod end;
pub(in crate::partition) mod index;
pub(in crate::partition) mod verbs;
