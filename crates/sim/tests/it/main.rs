//! What the simulator promises of itself: runs that repeat, a disk that behaves like one, a checker that can fail.

mod disk;
mod executor;
