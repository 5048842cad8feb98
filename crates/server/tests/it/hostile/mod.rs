//! Clients that do what they should not. Whatever they do, they are refused or cut off in bounded time, nothing of them
//! is left over, and a well-behaved client beside them is served all the while.

mod bodies;
mod caps;
mod descriptors;
mod doubtful;
mod garbage;
mod heads;
mod replies;
mod steady;
mod stopping;
pub(crate) mod world;
