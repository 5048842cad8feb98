//! How the log is read while it is served. A caller gets its [`bodies`] from the cache or by their places, and a partition's
//! new owner its [`rows`] from the snapshot and the frames since; the [`reader`]'s thread reads both, and [`fetch`] reads
//! pieces together that are close. A [`view`] holds fast what is durable at a moment. [`unreadable`] tells for how long an
//! error of the disk may pass.

mod bodies;
pub(crate) mod fetch;
pub(crate) mod reader;
pub(crate) mod rows;
pub(crate) mod unreadable;
pub(crate) mod view;
