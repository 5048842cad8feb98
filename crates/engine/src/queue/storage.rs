//! What operators do with a queue's partitions and the items in them.

use std::sync::Arc;

use bytes::Bytes;
use tracing::warn;
use windlass_core::group::Member;
use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::item::Item;
use windlass_core::partition::Partition;
use windlass_core::refusal::Refusal;
use windlass_core::row::Part;
use windlass_core::verbs::{Delete, List};

use super::QueueHandle;
use crate::commit::Judged;
use crate::error::EngineError;
use crate::machine::reload::Tried;
use crate::partition::handle::Handle;
use crate::view;
use crate::view::ItemView;

/// A page takes no further item once its bodies have come to so many bytes: so that it can also be sent back whole.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// Bodies that are read at once: their sizes are only known afterwards.
const READ_SLICE: usize = 16;

/// Part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub partition: PartitionId,
    pub list: List,
    /// Begins after this item, which must be in the list. Unset: at the beginning.
    pub after: Option<ItemId>,
    pub limit: usize,
}

impl QueueHandle {
    /// Empty only at the end of the list.
    pub(crate) async fn list(&self, page: Page) -> Result<Vec<ItemView>, EngineError> {
        let handle = self.partition(page.partition)?;
        let pivot = page.after.map(|id| pivot_number(id, page.partition)).transpose()?;
        let (list, limit) = (page.list, page.limit);
        loop {
            let items = handle.query(move |partition, _| listed(partition, list, pivot, limit)).await??;
            let at_the_end = items.is_empty();
            let views = self.with_payloads(handle, items).await?;
            // All that were found may have ended before they could be read.
            if at_the_end || !views.is_empty() {
                return Ok(views);
            }
        }
    }

    fn partition(&self, id: PartitionId) -> Result<&Arc<Handle>, EngineError> {
        let found = self.partitions.iter().find(|handle| handle.id == id);
        found.ok_or_else(|| self.no_such_partition(id))
    }

    /// As many of the first ones as fit a page. One whose payload cannot be read now is shown without it, as one whose
    /// payload is damaged: it must not hide those behind it, and its id is what a deletion needs.
    async fn with_payloads(&self, handle: &Handle, items: Vec<Listed>) -> Result<Vec<ItemView>, EngineError> {
        let mut views = Vec::with_capacity(items.len());
        let mut bytes = 0;
        for slice in items.chunks(READ_SLICE) {
            let wanted = slice.iter().map(|(item, _)| (item.number, Part::Payload)).collect();
            let payloads = self.store.read(handle.id, wanted).await;
            for ((item, member), payload) in slice.iter().zip(payloads) {
                let id = ItemId { partition: handle.id, number: item.number };
                let payload = payload.sound().unwrap_or_else(|error| {
                    warn!(queue = &*self.queue.name.name, item = %id, %error, "listed without payload");
                    None
                });
                bytes += payload.as_ref().map_or(0, Bytes::len);
                if bytes > PAGE_BYTES_MAX && !views.is_empty() {
                    return Ok(views);
                }
                if payload.is_some() || self.is_there(handle, item).await? {
                    // A payload's record has the facts in it.
                    let facts = if payload.is_none() { self.facts_left(id, item).await } else { None };
                    let (item, member) = (item.clone(), member.clone());
                    views.push(view::of(&self.queue, id, item, member, [payload, None, facts]));
                }
            }
        }
        Ok(views)
    }

    /// The facts of an item whose payload is lost, if they can be read.
    async fn facts_left(&self, id: ItemId, item: &Item) -> Option<Bytes> {
        if !view::has_facts(item) {
            return None;
        }
        view::facts(&*self.store, id).await.unwrap_or_else(|error| {
            warn!(queue = &*self.queue.name.name, item = %id, %error, "listed without facts");
            None
        })
    }

    /// Whether an item without a payload is still live: then its payload is lost, else it has ended since it was found.
    async fn is_there(&self, handle: &Handle, item: &Item) -> Result<bool, EngineError> {
        let number = item.number;
        let found = handle.query(move |partition, _| partition.get(number)).await?;
        Ok(found.is_some_and(|item| !item.state.phase().is_final()))
    }

    pub(crate) async fn delete(&self, ids: Vec<ItemId>) -> Judged<()> {
        let verb = |ids: Vec<ItemId>| Delete(ids.into_iter().map(|id| id.number).collect());
        self.judge(ids, |id| *id, verb).await
    }

    /// One partition after the other, so that the others serve meanwhile. A partition that goes meanwhile has nothing to
    /// be read back. An error tells of those that could not be had, and that nothing was changed: a reload reads.
    pub(crate) async fn reload(&self) -> Result<(), EngineError> {
        let mut failed = Vec::new();
        for handle in self.all() {
            match handle.reload.ask().await {
                Tried::Acquired | Tried::Gone => {}
                Tried::Failed(error) => failed.push(format!("partition {}: {error}", handle.id)),
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(EngineError::not_applied(failed.join("; "))) }
    }
}

/// An item, and what it is to its group.
type Listed = (Item, Option<Member>);

fn listed(
    partition: &Partition,
    list: List,
    pivot: Option<ItemNumber>,
    limit: usize,
) -> Result<Vec<Listed>, Refusal> {
    let items = partition.list(list, pivot, limit)?;
    let with_member = |item: Item| {
        let member = partition.member(&item);
        (item, member)
    };
    Ok(items.into_iter().map(with_member).collect())
}

/// An item of another partition is not in the list of this one.
fn pivot_number(id: ItemId, partition: PartitionId) -> Result<ItemNumber, EngineError> {
    if id.partition == partition { Ok(id.number) } else { Err(Refusal::NoSuchPivot.into()) }
}
