//! One way to take a lock.

use std::sync::{Mutex, MutexGuard};

/// Nobody panics while holding one of our locks, short of a bug; then the process's state is not to be trusted.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panicked while holding this lock")
}
