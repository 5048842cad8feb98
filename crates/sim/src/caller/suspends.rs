//! Calls that suspend items and answer them.

use windlass_core::id::ItemId;
use windlass_core::verbs::{Held, Input, SuspendItem};

use super::streams::new_event;
use super::{Caller, judge};
use crate::history::{Op, Outcome, QueueIndex, SuspendOp, Verdict, input_body};
use crate::plan::queue_name;

impl Caller {
    pub async fn suspend(&self, queue: QueueIndex, items: Vec<SuspendOp>) {
        let name = queue_name(queue);
        let call = self.engine.suspend(&name, items.iter().map(suspend_item).collect());
        self.call(Op::Suspend { queue, items }, call, |judged| judge(judged, |()| Verdict::Done)).await;
    }

    pub async fn resume(&self, id: ItemId, input: Option<u64>) {
        let answer = |serial: u64| Input { event: new_event(serial), body: input_body(serial) };
        let call = self.engine.resume(id, input.map(answer));
        self.call(Op::Resume { id, input }, call, |_resumed| Outcome::Resumed).await;
    }
}

pub(super) fn suspend_item(item: &SuspendOp) -> SuspendItem {
    SuspendItem {
        held: Held { id: item.id, permit: item.permit },
        reason: item.reason.map(|serial| serial.to_string().into()),
    }
}
