//! [`Alarm`]: a waker between a future and its task. It remembers that the future was woken, and passes that on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

#[derive(Debug, Default)]
pub(super) struct Alarm {
    rang: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Alarm {
    /// The task that is woken from now on.
    pub(super) fn wakes(&self, waker: &Waker) {
        let mut task = self.task.lock().expect("nothing panics while this lock is held");
        if !task.as_ref().is_some_and(|task| task.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }

    /// Whether the future was woken since this was asked last.
    pub(super) fn rang(&self) -> bool {
        self.rang.swap(false, Ordering::SeqCst)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::SeqCst);
        let task = self.task.lock().expect("nothing panics while this lock is held").clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}
