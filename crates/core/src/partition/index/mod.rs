//! What is derived from rows: lanes, counts, ages, kinds and addresses.

pub(crate) mod addresses;
pub(crate) mod ages;
pub(crate) mod counts;
pub(crate) mod era;
pub(crate) mod eras;
pub(crate) mod errors;
pub(crate) mod findable;
pub(crate) mod kinds;
pub(crate) mod lanes;
pub(crate) mod lingering;
pub(crate) mod standing;
pub(crate) mod traces;
