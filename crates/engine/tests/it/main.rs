//! What the engine promises, from the outside. One behaviour suite runs on every store.

mod behaviour;
mod failures;
mod faulty;
mod world;
