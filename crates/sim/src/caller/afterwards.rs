//! Calls that change an item after it was produced, run it again once it ended, or ask where it went on.

use bytes::Bytes;
use windlass_core::id::ItemId;
use windlass_core::refusal::Refusal;
use windlass_core::time::Span;
use windlass_core::verbs::UpdateItem;
use windlass_engine::Rewrite;

use super::Caller;
use crate::history::{ChangeOp, Made, Op, Outcome, ShownItem, edited_body};

impl Caller {
    pub async fn change(&self, op: ChangeOp) {
        let update = UpdateItem {
            priority: op.priority,
            enqueue_at: op.enqueue_at,
            max_attempts: op.max_attempts,
            dead_timeout: op.dead_timeout,
            ..UpdateItem::new(op.id.number)
        };
        let call = self.engine.update(op.id, update, op.edit.map(rewrite));
        self.call(Op::Change(op), call, |changed| {
            Outcome::Changed(Box::new(ShownItem::from(&changed.value)))
        })
        .await;
    }

    /// Gives the item that the rerun made.
    pub async fn rerun(&self, id: ItemId, delay: Option<Span>) -> Option<ItemId> {
        let call = self.engine.rerun(id, delay);
        let answer =
            self.call(Op::Rerun { id, delay }, call, |made| Outcome::Rerun(made.value.id, made.value.phase));
        Some(answer.await?.value.id)
    }

    pub async fn latest(&self, id: ItemId) -> Option<ItemId> {
        self.call(Op::Latest(id), self.engine.follow(id), |latest| Outcome::Latest(*latest)).await
    }
}

/// A payload that is lost tells no serial that another one could be made of.
fn rewrite(edit: u64) -> Rewrite {
    Box::new(move |payload: Option<Bytes>, _facts| {
        let serial = payload.as_deref().and_then(Made::serial_of).ok_or(Refusal::NotFound)?;
        Ok((edited_body(serial, edit), None))
    })
}
