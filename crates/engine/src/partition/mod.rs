//! A partition as the rest of the engine sees it: a [`handle`] with a mailbox, [`orders`] of the registry, and what its
//! writer publishes. How its batches are made is in [`served`] and [`crate::machine`]. Leases that wait stand with the queue's
//! [`waiters`], what is produced has a place among its [`places`], callers who wait for items to end are its [`watchers`], and
//! those who follow everything that happens to an item read its [`streams`].

mod effects;
pub(crate) mod grant;
pub(crate) mod handle;
mod line;
mod lookout;
pub(crate) mod orders;
pub(crate) mod places;
pub(crate) mod published;
mod served;
pub(crate) mod streams;
pub(crate) mod waiters;
pub(crate) mod watchers;
