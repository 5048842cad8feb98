//! The deterministic simulator of Windlass, and its history checker.
//!
//! One run is one seed: it draws a configuration, clients and faults, runs the real engine and the real log store on
//! a simulated scheduler, clock and disk, lets the server crash and come back, and then asks whether anything that
//! callers were told cannot have been so. The same seed gives the same bytes, every time.
//!
//! Read [`run`] first, then [`server`] and [`client`]; beneath them [`executor`], [`env`] and [`disk`]; and for what
//! is promised, [`check`].

pub mod caller;
pub mod check;
pub mod client;
pub mod coverage;
pub mod cron;
pub mod crowd;
pub mod disk;
mod ear;
pub mod env;
pub mod executor;
pub mod fault;
pub mod group;
pub mod history;
pub mod log_run;
pub mod machine;
pub mod plan;
pub mod readout;
pub mod recorder;
pub mod rescue;
pub mod restore;
pub mod rng;
pub mod run;
pub mod server;
mod stall;
pub mod store;
pub mod trace;
