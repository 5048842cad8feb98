//! What a client does with the events of items: it tells some, follows some, and closes streams.

use windlass_core::id::ItemId;
use windlass_engine::CloseMode;

use super::{Client, Hold};
use crate::caller::Caller;

impl Client {
    pub(super) async fn tell_or_close(&mut self) {
        match self.rng.below(100) {
            0..=59 => self.tell().await,
            60..=79 => {
                let micros = self.rng.skewed(1, 2_000_000);
                if let Some(id) = self.any_item() {
                    self.caller.follow_from_now(id, micros).await;
                }
            }
            _ => {
                if let Some(id) = self.any_item() {
                    self.close_streams(id).await;
                }
            }
        }
    }

    pub(super) async fn emit(&mut self) {
        let Some((_, items)) = self.take_holds(true) else { return };
        for (id, permit) in items {
            let count = self.rng.between(1, 4);
            let events = (0..count).map(|_| self.memory.serial()).collect();
            self.caller.emit(id, permit, events).await;
        }
    }

    /// From the beginning; and often once more from where it stopped.
    pub(super) async fn follow(&mut self) {
        let Some(id) = self.any_item() else { return };
        let micros = self.rng.skewed(1, 2_000_000);
        let last = self.caller.follow(id, 0, micros).await;
        if let Some(last) = last.filter(|_| self.rng.percent(50)) {
            self.caller.follow(id, last, micros).await;
        }
    }

    /// Says one thing after the other about an item that some follow, and has them go now and then. They may come again.
    async fn tell(&mut self) {
        let Some(hold) = self.latest_hold() else { return };
        for _ in 0..self.rng.between(1, 3) {
            self.follow_beside(hold.id).await;
        }
        for _ in 0..self.rng.between(1, 3) {
            let count = self.rng.between(1, 4);
            let events = (0..count).map(|_| self.memory.serial()).collect();
            self.caller.emit(hold.id, hold.permit, events).await;
            if self.rng.percent(40) {
                self.close_streams(hold.id).await;
            }
            if self.rng.percent(30) {
                self.follow_beside(hold.id).await;
            }
        }
        self.memory.known().held[self.caller.client].push(hold);
    }

    pub(super) fn latest_hold(&mut self) -> Option<Hold> {
        self.memory.known().held[self.caller.client].pop()
    }

    async fn close_streams(&mut self, id: ItemId) {
        let mode = *self.rng.pick(&[CloseMode::Graceful, CloseMode::Graceful, CloseMode::Immediate]);
        self.caller.close_streams(id, mode).await;
    }

    /// From the beginning or from now on, for a while.
    pub(super) async fn follow_beside(&mut self, id: ItemId) {
        let caller = Caller { patience: None, ..self.caller.clone() };
        let micros = self.rng.skewed(1_000, 10_000_000);
        let from_now = self.rng.percent(50);
        let follow = async move {
            if from_now {
                caller.follow_from_now(id, micros).await;
            } else {
                caller.follow(id, 0, micros).await;
            }
        };
        self.caller.handle.spawn("follower", Box::pin(follow));
        self.think().await;
    }
}
