//! What stops work: the verbs, and the index of rules.

pub(crate) mod index;
pub(crate) mod verbs;
