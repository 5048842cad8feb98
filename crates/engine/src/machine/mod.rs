//! A state machine at work, be it a partition or the registry: the [`supervisor`] acquires it and starts a [`writer`], which
//! alone touches its state; everybody else has a handle, whose [`mailbox`] takes messages. A [`reload`] has the supervisor do
//! its work anew. What only one of the two machines does stands behind the trait [`Served`].

pub(crate) mod call;
mod copies;
pub(crate) mod gathered;
pub(crate) mod in_flight;
mod inbox;
pub(crate) mod mailbox;
pub(crate) mod message;
pub(crate) mod reload;
mod served;
pub(crate) mod supervisor;
pub(crate) mod writer;

pub(crate) use served::{Effects, Served};
