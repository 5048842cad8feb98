//! What the engine promises, from the outside. One behaviour suite runs on every store.

mod behaviour;
mod failures;
mod faulty;
mod log_basics;
mod log_damage;
mod log_disk;
mod log_failure;
mod log_rows;
mod log_upkeep;
mod world;
