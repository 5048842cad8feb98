//! A partition at work: the [`supervisor`] acquires it and starts a [`writer`], which alone touches its state;
//! everybody else has a [`handle`]. Leases that wait stand with the queue's [`waiters`], and what is produced has a place
//! among its [`places`].

pub(crate) mod grant;
pub(crate) mod handle;
pub(crate) mod in_flight;
pub(crate) mod places;
pub(crate) mod supervisor;
pub(crate) mod waiters;
pub(crate) mod writer;
