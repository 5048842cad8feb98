//! What a client does with items after the fact: it changes them while they wait, runs them again once they ended, and asks
//! where they went on.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::id::ItemId;
use windlass_core::time::{Span, Timestamp};

use super::{ADDRESSES, Client, Hold};
use crate::caller::{Caller, Wish};
use crate::history::{ChangeOp, Made, RetryOp};

impl Client {
    pub(super) async fn afterthought(&mut self) {
        match self.rng.below(100) {
            0..=9 => self.change().await,
            10..=14 => self.change_suspended().await,
            15..=29 => self.change_at_once().await,
            30..=39 => {
                if let Some(id) = self.any_item() {
                    self.rerun(id).await;
                }
            }
            40..=79 => self.run_again().await,
            80..=89 => {
                if let Some(id) = self.any_item() {
                    self.caller.latest(id).await;
                }
            }
            _ => self.get().await,
        }
    }

    /// Whatever its state: some are refused.
    async fn change(&mut self) {
        let suspended = if self.rng.percent(60) { self.some_suspended() } else { None };
        if let Some(id) = suspended.or_else(|| self.any_item()) {
            self.change_one(id).await;
        }
    }

    /// An item that is suspended, and updated before somebody answers.
    async fn change_suspended(&mut self) {
        let Some(Hold { queue, id, permit }) = self.some_work().await else { return };
        self.suspend_all(queue, vec![(id, permit)]).await;
        self.change_one(id).await;
    }

    async fn change_one(&mut self, id: ItemId) {
        let op = ChangeOp {
            id,
            priority: self.rng.percent(50).then(|| *self.rng.pick(&[0, 1, 7, 255])),
            enqueue_at: self.rng.percent(20).then(|| self.moment(5_000)),
            max_attempts: self.rng.percent(30).then(|| self.rng.between(1, 4) as u32),
            dead_timeout: self.mortality(),
            edit: self.rng.percent(50).then(|| self.memory.serial()),
        };
        self.caller.change(op).await;
    }

    /// Of those that somebody asked to suspend, a late one.
    fn some_suspended(&mut self) -> Option<ItemId> {
        let known = self.memory.known();
        let back = self.rng.between(1, 3) as usize;
        known.suspended.len().checked_sub(back).map(|index| known.suspended[index])
    }

    /// An item that is scheduled and then, before anybody else is told of it, is to be due, to be put off or to expire; the
    /// expired one is run again.
    async fn change_at_once(&mut self) {
        let queue = self.queue();
        let due = self.now() + Span::from_millis(self.rng.between(5_000, 20_000));
        let made = Made { enqueue_at: Some(due), dead_timeout: None, ..self.made() };
        let Some(ids) = self.caller.produce(queue, vec![made]).await else { return };
        self.memory.learn(&ids);
        let op = ChangeOp {
            id: ids[0],
            priority: self.rng.percent(50).then_some(7),
            enqueue_at: None,
            max_attempts: None,
            dead_timeout: None,
            edit: None,
        };
        let expires = self.rng.percent(40);
        let op = if expires {
            self.caller.handle.sleep_micros(5_000).await;
            ChangeOp { dead_timeout: Some(Span::from_millis(1)), ..op }
        } else {
            let later = self.now() + Span::from_millis(self.rng.between(20_000, 60_000));
            let enqueue_at = *self.rng.pick(&[Some(Timestamp(1)), Some(Timestamp(1)), Some(later), None]);
            ChangeOp { enqueue_at, ..op }
        };
        self.caller.change(op).await;
        if expires {
            self.rerun(op.id).await;
            self.caller.get(op.id).await;
        }
    }

    async fn rerun(&mut self, id: ItemId) -> Option<ItemId> {
        let delay = self.rng.percent(20).then(|| Span::from_millis(self.rng.skewed(1, 5_000)));
        let again = self.caller.rerun(id, delay).await?;
        self.memory.learn(&[again]);
        Some(again)
    }

    /// Ends an item in one way or another, and reruns it, often by two clients at once, and often more than once.
    async fn run_again(&mut self) {
        if self.plan.habits.rebalances > 0 && self.rng.percent(15) {
            return match self.rng.percent(40) {
                true => self.run_one_address_again_elsewhere().await,
                false => self.run_again_elsewhere().await,
            };
        }
        let Some(hold) = self.some_work().await else { return };
        self.end(hold).await;
        self.get_in_the_way(hold).await;
        let mut id = hold.id;
        for _ in 0..self.rng.between(1, 3) {
            if self.rng.percent(50) {
                self.rerun_beside(id).await;
            }
            let Some(again) = self.rerun(id).await else { break };
            if self.rng.percent(50) {
                self.caller.get(id).await;
                self.caller.latest(id).await;
            }
            self.caller.cancel(again).await;
            id = again;
        }
    }

    /// Reruns items of several partitions while all of these but one drain.
    async fn run_again_elsewhere(&mut self) {
        let queue = self.queue();
        self.caller.rebalance(queue, 3).await;
        let made = (0..3).map(|_| Made { enqueue_at: None, ..self.made() }).collect();
        let Some(ids) = self.caller.produce(queue, made).await else { return };
        self.memory.learn(&ids);
        for id in &ids {
            self.caller.cancel(*id).await;
        }
        self.caller.rebalance(queue, 1).await;
        for id in ids {
            self.rerun(id).await;
        }
    }

    /// Reruns two items that had one address, while the home of that address may have become another partition.
    async fn run_one_address_again_elsewhere(&mut self) {
        let queue = self.queue();
        self.caller.rebalance(queue, 1).await;
        let address: Option<Arc<str>> = Some(self.rng.pick(&ADDRESSES).to_string().into());
        let mut ended = Vec::new();
        for _ in 0..2 {
            let made = Made { enqueue_at: None, address: address.clone(), ..self.made() };
            let Some(ids) = self.caller.produce(queue, vec![made]).await else { return };
            self.memory.learn(&ids);
            self.caller.cancel(ids[0]).await;
            ended.push(ids[0]);
        }
        self.caller.rebalance(queue, 3).await;
        self.rerun_beside(ended[0]).await;
        self.rerun(ended[1]).await;
    }

    /// What this client was given last, or an item that is produced and leased for this.
    async fn some_work(&mut self) -> Option<Hold> {
        if self.rng.percent(35) {
            return self.latest_hold();
        }
        let queue = self.queue();
        let address = self.rng.percent(80).then(|| self.rng.pick(&ADDRESSES).to_string().into());
        let made = Made { enqueue_at: None, address, ..self.made() };
        let ids = self.caller.produce(queue, vec![made]).await?;
        self.memory.learn(&ids);
        let wish = Wish { batch_size: 1, ..self.wish(queue) };
        let granted = self.caller.lease(wish, true).await?;
        self.remember(queue, granted, true);
        self.latest_hold()
    }

    /// Now and then another item has the address of one that is to run again, or the queue has other partitions by then.
    async fn get_in_the_way(&mut self, Hold { queue, id, .. }: Hold) {
        if self.rng.percent(52) {
            let shown = self.caller.get(id).await;
            if let Some(address) = shown.and_then(|view| view.address) {
                let made = Made { address: Some(address), enqueue_at: None, ..self.made() };
                let ids = self.caller.produce(queue, vec![made]).await;
                self.memory.learn(&ids.unwrap_or_default());
            }
        }
        if self.plan.habits.rebalances > 0 && self.rng.percent(80) {
            // Mostly the one partition that never drains is left.
            let partitions = if self.rng.percent(60) { 1 } else { self.rng.between(1, 3) as u32 };
            self.caller.rebalance(queue, partitions).await;
        }
    }

    async fn end(&mut self, Hold { queue, id, permit }: Hold) {
        match self.rng.below(100) {
            0..=44 => {
                let result = self.rng.percent(60).then(|| Bytes::from(format!("result of {}", id.number.0)));
                self.caller.complete(queue, vec![(id, permit, result)]).await;
            }
            45..=74 => {
                let dead = RetryOp { id, permit, retry_at: None, dead: true };
                self.caller.retry(queue, vec![dead]).await;
            }
            _ => {
                self.caller.release(queue, vec![(id, permit)]).await;
                self.caller.cancel(id).await;
            }
        }
    }

    /// At the same time as this client does.
    async fn rerun_beside(&mut self, id: ItemId) {
        let caller = Caller { patience: None, ..self.caller.clone() };
        let memory = self.memory.clone();
        let rerun = async move {
            if let Some(again) = caller.rerun(id, None).await {
                memory.learn(&[again]);
            }
        };
        self.caller.handle.spawn("rerunner", Box::pin(rerun));
        if self.rng.percent(50) {
            self.think().await;
        }
    }
}
