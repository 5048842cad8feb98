//! What stops work: the verbs, and the index of rules.

pub(in crate::partition) mod index;
pub(in crate::partition) mod verbs;
