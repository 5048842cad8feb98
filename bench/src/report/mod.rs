//! What was measured, and how it is shown.

pub(crate) mod document;
pub(crate) mod number;
pub(crate) mod sheet;
pub(crate) mod svg;
pub(crate) mod table;
