//! Something that happens once, and those who wait for it.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Latch {
    is_set: AtomicBool,
    told: Notify,
}

impl Latch {
    pub(super) fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    pub(crate) async fn wait(&self) {
        // `told` is listened to before `is_set` is read: a `set` in between is not missed.
        let told = self.told.notified();
        if !self.is_set() {
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_latch_wakes_those_who_wait_and_those_who_come_later() {
        let latch = Latch::default();
        let ((), ()) = tokio::join!(latch.wait(), async { latch.set() });
        latch.wait().await;
        assert!(latch.is_set());
    }
}
