//! The core's tests: scripts for each verb, and properties over random histories.

mod cancel;
mod clear;
mod codec;
mod complete;
mod extend;
mod history;
mod lease;
mod limits;
mod produce;
mod properties;
mod registry;
mod release;
mod retention;
mod retry;
mod route;
mod schedule;
mod script;
mod sorted;
