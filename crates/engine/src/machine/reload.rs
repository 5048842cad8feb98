//! Acquiring a partition anew because somebody asks for it. Whoever asks waits for the next try that begins after.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

#[derive(Debug)]
pub(crate) struct Reload {
    /// How many were asked for.
    wanted: watch::Sender<u64>,
    done: watch::Sender<Done>,
    /// Notified after `wanted` is raised: the writer's `Mailbox::woken` waits for it.
    wake: Arc<Notify>,
}

/// What came of a try to acquire a partition anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    Acquired,
    Failed(String),
    /// The partition is served no more: its queue was deleted, or does without it.
    Gone,
}

/// The last try that ended.
#[derive(Clone, Debug)]
struct Done {
    /// How many had been asked for when it began: they have what they wanted.
    wanted: u64,
    tried: Tried,
}

impl Default for Done {
    fn default() -> Self {
        Self { wanted: 0, tried: Tried::Acquired }
    }
}

impl Reload {
    pub(super) fn new(wake: Arc<Notify>) -> Self {
        Self { wanted: watch::Sender::default(), done: watch::Sender::default(), wake }
    }

    /// Asks for a try and waits for its end.
    pub(crate) async fn ask(&self) -> Tried {
        let mut number = 0;
        self.wanted.send_modify(|wanted| {
            *wanted += 1;
            number = *wanted;
        });
        self.wake.notify_one();
        let mut done = self.done.subscribe();
        let done = done.wait_for(|done| done.wanted >= number).await.expect("the sender is ours");
        done.tried.clone()
    }

    /// For a try that begins: how many it is for.
    pub(crate) fn wanted(&self) -> u64 {
        *self.wanted.borrow()
    }

    /// A try for so many has ended.
    pub(crate) fn done(&self, wanted: u64, tried: Tried) {
        self.done.send_replace(Done { wanted, tried });
    }

    /// There will be no further try.
    pub(crate) fn ended(&self, tried: Tried) {
        self.done(u64::MAX, tried);
    }

    /// Until one is asked for that no try has ended for.
    pub(crate) async fn outstanding(&self) {
        let served = self.done.borrow().wanted;
        let mut wanted = self.wanted.subscribe();
        wanted.wait_for(|wanted| *wanted > served).await.expect("the sender is ours");
    }
}
