//! Requests and replies about items.

mod item;
mod lease;
mod next;
mod produce;

pub use self::item::*;
pub use self::lease::*;
pub use self::next::*;
pub use self::produce::*;
