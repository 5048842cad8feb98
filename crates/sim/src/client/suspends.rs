//! What a client does with work that cannot go on until somebody answers.

use windlass_core::id::ItemId;

use super::Client;
use crate::history::SuspendOp;

impl Client {
    pub(super) async fn suspend_or_answer(&mut self) {
        match self.rng.below(100) {
            0..=44 => self.suspend().await,
            45..=79 => self.resume().await,
            80..=86 => {
                if let Some(id) = self.suspended_item() {
                    self.caller.cancel(id).await;
                }
            }
            _ => self.follow_for_long().await,
        }
    }

    async fn suspend(&mut self) {
        let Some((queue, items)) = self.take_holds(false) else { return };
        let mut ops = Vec::new();
        for (id, permit) in items {
            let reason = self.rng.percent(80).then(|| self.memory.serial());
            ops.push(SuspendOp { id, permit, reason });
        }
        self.memory.known().suspended.extend(ops.iter().map(|op| op.id));
        self.caller.suspend(queue, ops).await;
    }

    /// Mostly what somebody suspended, now and then whatever there is.
    async fn resume(&mut self) {
        let id = if self.rng.percent(80) { self.suspended_item() } else { self.any_item() };
        let Some(id) = id else { return };
        let input = self.rng.percent(60).then(|| self.memory.serial());
        self.caller.resume(id, input).await;
    }

    /// One that is or was to be. Most are not taken again, so that all have their turn.
    fn suspended_item(&mut self) -> Option<ItemId> {
        let mut known = self.memory.known();
        let at = self.rng.index(known.suspended.len());
        let id = *known.suspended.get(at)?;
        if self.rng.percent(80) {
            known.suspended.swap_remove(at);
        }
        Some(id)
    }

    /// Of what somebody works on, so that it is followed when it is suspended.
    async fn follow_for_long(&mut self) {
        let held: Vec<ItemId> = self.memory.known().held.iter().flatten().map(|hold| hold.id).collect();
        if held.is_empty() {
            return;
        }
        let id = *self.rng.pick(&held);
        let micros = self.rng.skewed(1_000, 10_000_000);
        self.caller.follow(id, 0, micros).await;
    }
}
