//! What a client does in one call: it settles what it holds, and takes something new.

use std::collections::BTreeSet;

use bytes::Bytes;
use windlass_core::id::{ItemId, Permit};
use windlass_core::time::Span;

use super::{Client, Hold};
use crate::history::{Op, QueueIndex, RetryOp, SuspendOp};

/// What a turn says of items, by verb.
#[derive(Debug, Default)]
struct Said {
    complete: Vec<(ItemId, Permit, Option<Bytes>)>,
    retry: Vec<RetryOp>,
    release: Vec<(ItemId, Permit)>,
    suspend: Vec<SuspendOp>,
    extend: Vec<(ItemId, Permit)>,
}

impl Client {
    pub(super) async fn turn(&mut self) {
        let Some((queue, items)) = self.take_holds(false) else { return };
        let mut named = BTreeSet::new();
        let mut said = Said::default();
        for (id, permit) in items.into_iter().filter(|(id, _)| named.insert(*id)) {
            self.say(queue, id, permit, &mut said);
        }
        self.memory.known().suspended.extend(said.suspend.iter().map(|op| op.id));
        let most = self.plan.habits.lease_max_millis;
        let timeout = self.rng.percent(50).then(|| Span::from_millis(self.rng.skewed(1, most)));
        let wish = self.rng.percent(90).then(|| self.wish(queue));
        let accept = !self.rng.percent(self.plan.habits.drops_grants);
        let granted = self.caller.turn(queue, said.into_ops(queue, timeout), wish, accept).await;
        self.remember(queue, granted, accept);
    }

    fn say(&mut self, queue: QueueIndex, id: ItemId, permit: Permit, said: &mut Said) {
        match self.rng.below(100) {
            0..=44 => {
                let result = self.rng.percent(40).then(|| Bytes::from(format!("result of {}", id.number.0)));
                said.complete.push((id, permit, result));
            }
            45..=59 => {
                let retry_at = self.rng.percent(50).then(|| self.moment(5_000));
                said.retry.push(RetryOp { id, permit, retry_at, dead: self.rng.percent(20) });
            }
            60..=79 => said.release.push((id, permit)),
            80..=87 => {
                let reason = self.rng.percent(80).then(|| self.memory.serial());
                said.suspend.push(SuspendOp { id, permit, reason });
            }
            _ => {
                self.memory.known().held[self.caller.client].push(Hold { queue, id, permit });
                said.extend.push((id, permit));
            }
        }
    }
}

impl Said {
    fn into_ops(self, queue: QueueIndex, timeout: Option<Span>) -> Vec<Op> {
        let Self { complete, retry, release, suspend, extend } = self;
        let mut ops = Vec::new();
        ops.extend((!complete.is_empty()).then_some(Op::Complete { queue, items: complete }));
        ops.extend((!retry.is_empty()).then_some(Op::Retry { queue, items: retry }));
        ops.extend((!release.is_empty()).then_some(Op::Release { queue, items: release }));
        ops.extend((!suspend.is_empty()).then_some(Op::Suspend { queue, items: suspend }));
        ops.extend((!extend.is_empty()).then_some(Op::Extend { queue, timeout, items: extend }));
        ops
    }
}
