//! How many tickets, lanes and groups a call looks at. Tests hold calls to a bound on it, because a count is the same on
//! every machine.
//!
//! Without the feature `effort`, [`look`] does nothing and is not in the build.

#[cfg(feature = "effort")]
mod counter {
    use std::cell::Cell;

    thread_local! {
        // Per thread: tests run side by side, and a test that counts runs on one thread.
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    pub fn look() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// The number of looks that `work` took on this thread.
    pub fn looks_of<T>(work: impl FnOnce() -> T) -> (u64, T) {
        let before = looks();
        let done = work();
        (looks() - before, done)
    }

    /// All looks of this thread so far.
    pub fn looks() -> u64 {
        LOOKS.get()
    }
}

#[cfg(feature = "effort")]
pub use counter::{look, looks, looks_of};

#[cfg(not(feature = "effort"))]
pub const fn look() {}
