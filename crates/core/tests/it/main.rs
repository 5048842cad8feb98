//! The core's tests: scripts for each verb, and properties over random histories.

mod codec;
mod sorted;
