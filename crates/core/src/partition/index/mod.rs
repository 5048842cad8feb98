//! What is derived from rows: lanes, counts, ages, kinds and addresses.

pub(in crate::partition) mod addresses;
pub(in crate::partition) mod ages;
pub(in crate::partition) mod counts;
pub(in crate::partition) mod era;
pub(in crate::partition) mod eras;
pub(in crate::partition) mod kinds;
pub(in crate::partition) mod lanes;
pub(in crate::partition) mod lingering;
pub(in crate::partition) mod standing;
pub(in crate::partition) mod traces;
