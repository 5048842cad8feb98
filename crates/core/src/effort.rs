//! How many tickets, lanes and other things a call looks at. Tests hold calls to a bound on it, because a count is the same on
//! every machine.
//!
//! Without the feature `effort`, [`look`] does nothing and is not in the build.

/// Kind of thing looked at. Each kind has a counter of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Lanes, groups, and items on the way to a page of a list.
    Indexed,
    /// Places in the line of waiting leases.
    Tickets,
    /// Questions to former homes.
    FormerHomes,
    /// Items that a find looks at.
    Items,
}

#[cfg(feature = "effort")]
mod counter {
    use std::cell::Cell;

    use super::Looked;

    thread_local! {
        // Per thread: tests run side by side, and a test that counts runs on one thread.
        static LOOKS: Cell<[u64; 4]> = const { Cell::new([0; 4]) };
    }

    pub fn look(at: Looked) {
        let mut looks = LOOKS.get();
        looks[at as usize] += 1;
        LOOKS.set(looks);
    }

    /// All looks of this thread so far.
    pub fn looks(at: Looked) -> u64 {
        LOOKS.get()[at as usize]
    }
}

#[cfg(feature = "effort")]
pub use counter::{look, looks};

#[cfg(not(feature = "effort"))]
pub const fn look(_: Looked) {}
