//! Questions that change nothing.

pub(in crate::partition) mod explain;
pub(in crate::partition) mod follow;
pub(in crate::partition) mod head;
pub(in crate::partition) mod list;
pub(in crate::partition) mod watch;
