//! Figures of all runs, and how they are shown.

pub(crate) mod document;
pub(crate) mod number;
pub(crate) mod sheet;
pub(crate) mod svg;
pub(crate) mod table;
