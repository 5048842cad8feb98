//! The Rust client of Windlass.
