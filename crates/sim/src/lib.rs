pub mod disk;
pub mod env;
pub mod executor;
pub mod fault;
pub mod rng;
