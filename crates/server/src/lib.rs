//! The shell around the engine: it listens, translates, checks limits, and decides nothing about queues.
//!
//! Read [`lifecycle`] first: the order in which things start and stop. Then [`listener`] (connections, and how they
//! are kept from doing harm), [`gate`] (which requests are let in), [`http`] (one reply for each request), and
//! [`config`].

mod backup_dir;
pub mod config;
pub mod gate;
pub mod http;
pub mod lifecycle;
pub mod listener;
mod log_thread;
mod memory;
pub mod metrics;
pub mod stores;
pub mod telemetry;
