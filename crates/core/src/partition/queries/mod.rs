//! Questions that change nothing.

pub(crate) mod errors;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod follow;
pub(crate) mod head;
pub(crate) mod list;
pub(crate) mod watch;
