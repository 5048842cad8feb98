//! Updates of items, and what items may be because of them.

use bytes::Bytes;
use windlass_core::time::Span;

use super::{Facts, ItemFacts};
use crate::history::{Call, ChangeOp, Op};

impl<'a> Facts<'a> {
    pub(super) fn add_changes(&mut self) {
        for call in &self.history.calls {
            let Op::Change(ChangeOp { id, .. }) = &call.op else { continue };
            if !call.outcome.is_possible() {
                continue;
            }
            match self.by_id.get(id) {
                Some(index) => {
                    self.changes.entry(self.items[*index].made.serial).or_default().push(call);
                }
                None => self.stray_changes.push(call),
            }
        }
    }

    /// Updates that may have changed the item, or one that it was before it was moved or rerun.
    pub fn changes(&self, item: &ItemFacts<'_>) -> impl Iterator<Item = &'a Call> {
        let known = self.changes.get(&item.made.serial).into_iter().flatten();
        known.chain(&self.stray_changes).copied()
    }

    fn change_ops(&self, item: &ItemFacts<'_>) -> impl Iterator<Item = &'a ChangeOp> {
        self.changes(item).filter_map(|call| call.op.change())
    }

    pub fn may_have_changed(&self, item: &ItemFacts<'_>) -> bool {
        self.changes(item).next().is_some()
    }

    /// Whether the item may be due at another time than it was made for.
    pub fn may_be_put_off(&self, item: &ItemFacts<'_>) -> bool {
        self.change_ops(item).any(|op| op.enqueue_at.is_some())
    }

    /// The priorities that the item can have had: its first, and those of updates.
    pub fn priorities(&self, item: &ItemFacts<'_>) -> impl Iterator<Item = u8> {
        std::iter::once(item.made.priority).chain(self.change_ops(item).filter_map(|op| op.priority))
    }

    pub fn may_have_body(&self, item: &ItemFacts<'_>, body: &Bytes) -> bool {
        let edits = self.change_ops(item).filter_map(|op| op.edit);
        *body == item.made.body()
            || edits.map(|edit| item.made.edited_body(edit)).any(|edited| edited == *body)
    }

    pub(super) fn changed_limits(&self, item: &ItemFacts<'_>) -> impl Iterator<Item = u32> {
        self.change_ops(item).filter_map(|op| op.max_attempts)
    }

    pub fn changed_dead_timeouts(&self, item: &ItemFacts<'_>) -> impl Iterator<Item = Span> {
        self.change_ops(item).filter_map(|op| op.dead_timeout)
    }
}
