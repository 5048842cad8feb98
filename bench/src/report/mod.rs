//! What was measured, and how it is shown.

pub(crate) mod number;
pub(crate) mod sheet;
pub(crate) mod table;
