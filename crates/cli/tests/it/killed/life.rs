//! One life of the server, as all of its callers see it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// So many items are in the hands of workers when a server ends whose disk has room.
const HELD_MIN: usize = 5;
/// A life on a disk that is full ends after so many calls even if none was refused.
const CALLS_MAX: usize = 5_000;

#[derive(Debug)]
pub(super) struct Life {
    /// Its place among all processes of the history.
    pub(super) process: usize,
    pub(super) url: String,
    calls_min: usize,
    /// On a disk that is full: how many calls are refused before the life ends.
    refused_min: Option<usize>,
    calls: AtomicUsize,
    refused: AtomicUsize,
    half: Notify,
    enough: Notify,
    doomed: AtomicBool,
}

impl Life {
    /// A life that ends after so many calls, with work in the hands of workers.
    pub(super) fn new(process: usize, url: &str, calls_min: usize) -> Self {
        Self {
            process,
            url: url.to_owned(),
            calls_min,
            refused_min: None,
            calls: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            half: Notify::new(),
            enough: Notify::new(),
            doomed: AtomicBool::new(false),
        }
    }

    /// A life that ends once so many calls were refused because the disk is full.
    pub(super) fn until_refused(self, refused_min: usize) -> Self {
        Self { refused_min: Some(refused_min), ..self }
    }

    /// A call was answered, when so many items were in the hands of workers.
    pub(super) fn answered(&self, held: usize, refused: bool) {
        let refused = self.refused.fetch_add(usize::from(refused), Ordering::Relaxed) + usize::from(refused);
        let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if calls >= self.calls_min / 2 {
            self.half.notify_one();
        }
        let is_ripe = match self.refused_min {
            Some(refused_min) => refused >= refused_min || calls >= CALLS_MAX,
            None => held >= HELD_MIN,
        };
        if calls >= self.calls_min && is_ripe {
            self.enough.notify_one();
        }
    }

    /// Half of the calls were made that the life has at least.
    pub(super) async fn half(&self) {
        self.half.notified().await;
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
