//! One life of the server, as all of its callers see it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

#[derive(Debug)]
pub(super) struct Life {
    /// Its place among all processes of the history.
    pub(super) process: usize,
    pub(super) url: String,
    calls_min: usize,
    acknowledged: AtomicUsize,
    enough: Notify,
    doomed: AtomicBool,
}

impl Life {
    /// Enough is had of it when so many calls were acknowledged.
    pub(super) fn new(process: usize, url: &str, calls_min: usize) -> Self {
        Self {
            process,
            url: url.to_owned(),
            calls_min,
            acknowledged: AtomicUsize::new(0),
            enough: Notify::new(),
            doomed: AtomicBool::new(false),
        }
    }

    /// A call was answered, when so many items were in the hands of workers.
    pub(super) fn acknowledged(&self, held: usize, held_min: usize) {
        let calls = self.acknowledged.fetch_add(1, Ordering::Relaxed) + 1;
        if calls >= self.calls_min && held >= held_min {
            self.enough.notify_one();
        }
    }

    pub(super) async fn enough(&self) {
        self.enough.notified().await;
    }

    /// From now on its end excuses everything.
    pub(super) fn doom(&self) {
        self.doomed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_doomed(&self) -> bool {
        self.doomed.load(Ordering::SeqCst)
    }
}
