//! [`Alarm`]: a waker between a future and its task. It remembers that the future was woken, and passes that on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

#[derive(Debug, Default)]
pub(super) struct Alarm {
    rang: AtomicBool,
    /// Wake-ups are remembered, and not passed on.
    held: AtomicBool,
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

    /// Keeps wake-ups from the task until [`Alarm::let_go`].
    pub(super) fn hold(&self) {
        self.held.store(true, Ordering::SeqCst);
        // Read too, so that the poll that follows sees whatever the wake-up was for.
        let _seen_by_the_poll = self.rang();
    }

    /// Tells whether the future was woken meanwhile.
    pub(super) fn let_go(&self) -> bool {
        // In this order: a wake-up in between reaches the task, or is told here.
        self.held.store(false, Ordering::SeqCst);
        self.rang()
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::SeqCst);
        if self.held.load(Ordering::SeqCst) {
            return;
        }
        let task = self.task.lock().expect("nothing panics while this lock is held").clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}
