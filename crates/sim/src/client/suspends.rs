//! What a client does with work that cannot go on until somebody answers.

use windlass_core::id::{ItemId, Permit};
use windlass_core::verbs::Filter;

use super::{Client, Hold};
use crate::caller::Wish;
use crate::history::{QueueIndex, SuspendOp};

/// How often a dialogue goes to and fro at most.
const ROUNDS_MAX: u64 = 3;

impl Client {
    pub(super) async fn suspend_or_answer(&mut self) {
        match self.rng.below(100) {
            0..=39 => self.suspend().await,
            40..=59 => self.resume().await,
            60..=72 => {
                if let Some(id) = self.suspended_item() {
                    self.caller.cancel(id).await;
                }
            }
            _ => self.dialogue().await,
        }
    }

    async fn suspend(&mut self) {
        if let Some((queue, items)) = self.take_holds(false) {
            self.suspend_all(queue, items).await;
        }
    }

    pub(super) async fn suspend_all(&mut self, queue: QueueIndex, items: Vec<(ItemId, Permit)>) {
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
        let id = if self.rng.percent(85) { self.suspended_item() } else { self.any_item() };
        if let Some(id) = id {
            self.answer(id).await;
        }
    }

    async fn answer(&mut self, id: ItemId) {
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

    /// An item is suspended, answered and leased again, mostly while somebody follows it. Others come in between.
    async fn dialogue(&mut self) {
        let Some(mut hold) = self.latest_hold() else { return };
        if self.rng.percent(70) {
            self.follow_beside(hold.id).await;
        }
        for _ in 0..self.rng.between(1, ROUNDS_MAX) {
            if self.rng.percent(50) {
                let events = vec![self.memory.serial()];
                self.caller.emit(hold.id, hold.permit, events).await;
            }
            self.suspend_all(hold.queue, vec![(hold.id, hold.permit)]).await;
            if self.rng.percent(30) {
                self.caller.extend(hold.queue, None, vec![(hold.id, hold.permit)]).await;
            }
            self.think().await;
            self.answer(hold.id).await;
            let Some(again) = self.lease_again(hold).await else { return };
            hold = again;
        }
        self.memory.known().held[self.caller.client].push(hold);
    }

    /// What else is leased with it is kept for later.
    async fn lease_again(&mut self, hold: Hold) -> Option<Hold> {
        let wish = Wish {
            queue: hold.queue,
            batch_size: self.rng.between(1, 10) as usize,
            timeout: None,
            filter: Filter::ANY,
            wait: self.wait(),
        };
        let granted = self.caller.lease(wish, true).await?;
        let mut known = self.memory.known();
        let mut again = None;
        for item in granted {
            known.items.insert(item.id);
            let given = Hold { queue: hold.queue, id: item.id, permit: item.permit };
            if item.id == hold.id {
                again = Some(given);
            } else {
                known.held[self.caller.client].push(given);
            }
        }
        again
    }
}
