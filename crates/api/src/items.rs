//! Requests and replies about items.

mod item;
mod lease;
mod produce;

pub use self::item::*;
pub use self::lease::*;
pub use self::produce::*;
