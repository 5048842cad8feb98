//! Requests and replies about items.

mod change;
mod find;
mod item;
mod lease;
mod next;
mod produce;

pub use self::change::*;
pub use self::find::*;
pub use self::item::*;
pub use self::lease::*;
pub use self::next::*;
pub use self::produce::*;
