//! A partition at work: the [`supervisor`] acquires it and starts a [`writer`], which alone touches its state;
//! everybody else has a [`handle`], which puts messages into its [`inbox`]. Leases that wait stand with the queue's [`waiters`], what is produced has a place
//! among its [`places`], and callers who wait for items to end are its [`watchers`], those who follow
//! everything that happens to one read its [`streams`]. A [`reload`] has the supervisor do
//! its work anew.

pub(crate) mod call;
pub(crate) mod copied;
mod copies;
mod gathered;
pub(crate) mod grant;
pub(crate) mod handle;
pub(crate) mod in_flight;
mod inbox;
mod line;
pub(crate) mod lookout;
pub(crate) mod message;
pub(crate) mod places;
pub(crate) mod published;
pub(crate) mod reload;
pub(crate) mod streams;
pub(crate) mod supervisor;
pub(crate) mod waiters;
pub(crate) mod watchers;
pub(crate) mod writer;
