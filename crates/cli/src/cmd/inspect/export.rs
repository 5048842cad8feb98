//! Every queue, every item and every group, one JSON document to a line; or what is in some partitions alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use windlass_api::groups::GroupReply;
use windlass_api::items::{Item, ItemReply};
use windlass_api::queues::QueueReply;
use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::partition::Partition;
use windlass_core::row::{Change, Part, Queue, Row};
use windlass_core::time::Timestamp;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::inspect::{self, Exported};
use windlass_server::http::show;

use super::{contents, failure};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::safe;

/// Lines are printed this many bytes at a time.
const PRINTED_BYTES: usize = 64 << 10;

/// Without numbers, of all partitions.
pub(super) async fn run(disk: Arc<dyn Disk>, partitions: &[u32], out: Output) -> Result<Exit, Failure> {
    let directory = disk.path("");
    let wanted: BTreeSet<PartitionId> = partitions.iter().copied().map(PartitionId).collect();
    let wanted = (!wanted.is_empty()).then_some(wanted);
    let shows_queues = wanted.as_ref().is_none_or(|wanted| wanted.contains(&PartitionId::REGISTRY));
    let mut export = Export::new(out, shows_queues);
    let each = &mut |partition, change| export.change(partition, change);
    let told = inspect::export(disk, wanted.as_ref(), each).await;
    export.end_partition();
    export.print();
    export.printed?;
    complete(&told.map_err(|error| failure(&error))?, &directory)
}

fn complete(exported: &Exported, directory: &str) -> Result<Exit, Failure> {
    if !exported.damage.is_empty() {
        let damage = exported.damage.iter().map(|(id, error)| format!("partition {id}: {error}"));
        let damage = damage.collect::<Vec<_>>().join("\n");
        return Err(Failure::new(Exit::Damaged, format!("the export is not complete:\n{damage}")));
    }
    match exported.missing.first() {
        Some(id) => Err(Failure::local(format!("there is no partition {id} in {directory}"))),
        None => Ok(Exit::Done),
    }
}

/// No lease is given time for its worker to come back: nobody owns what is exported.
fn empty(partition: PartitionId) -> Partition {
    Partition::new(partition, Timestamp(0))
}

/// Queues come first, then each partition's rows in the order of their keys, then its bodies in the order of items.
#[derive(Debug)]
struct Export {
    out: Output,
    shows_queues: bool,
    /// By the partitions that they have in this directory, if it is the first store's: others hold no registry.
    queues: BTreeMap<PartitionId, Arc<Queue>>,
    /// Rebuilt from its rows: what is shown of an item takes several of them.
    partition: Partition,
    /// Of this partition, those that were not printed yet: their bodies may be still to come.
    items: BTreeMap<ItemNumber, Listed>,
    lines: String,
    printed: Result<(), Failure>,
}

/// An item whose bodies may be still to come.
#[derive(Debug)]
struct Listed {
    item: Item,
    /// Whether a payload in the log is one that the item does not keep: it ended, and was not swept up yet.
    drops_payload: bool,
}

impl Export {
    fn new(out: Output, shows_queues: bool) -> Self {
        Self {
            out,
            shows_queues,
            queues: BTreeMap::new(),
            partition: empty(PartitionId::REGISTRY),
            items: BTreeMap::new(),
            lines: String::new(),
            printed: Ok(()),
        }
    }

    fn change(&mut self, partition: PartitionId, change: Change) {
        if partition != self.partition.id() {
            self.end_partition();
            self.partition = empty(partition);
        }
        match change {
            Change::Put(Row::Queue(queue)) => {
                if self.shows_queues {
                    self.line(&QueueReply { queue: show::queue(&queue) });
                }
                let queue: Arc<Queue> = Arc::from(queue);
                let here = queue.stored().filter(|stored| stored.store.is_none());
                self.queues.extend(here.map(|stored| (stored.partition, Arc::clone(&queue))));
            }
            Change::Put(
                row @ (Row::Item(_)
                | Row::Cleared(_)
                | Row::Group(_)
                | Row::Cron(_)
                | Row::CronHome(_)
                | Row::Dropped(_)
                | Row::Numbers(_)
                | Row::Settings(_)
                | Row::Taken(_)
                | Row::Events(_)
                | Row::Partitions(_)),
            ) => self.partition.put(row),
            // They come after all that items have at most once.
            Change::PutBody { number, part: Part::Events(first_seq), body } => {
                self.end_rows();
                self.print_items_before(ItemNumber(u64::MAX));
                let id = ItemId { number, partition };
                contents::events(id, first_seq, body).for_each(|event| self.line(&event));
            }
            Change::PutBody { number, part, body } => {
                self.end_rows();
                self.print_items_before(number);
                if let Some(listed) = self.items.get_mut(&number)
                    && !(listed.drops_payload && part == Part::Payload)
                {
                    let item = std::mem::take(&mut listed.item);
                    listed.item = contents::with_body(item, part, body);
                }
            }
            Change::Put(Row::Once(_) | Row::Intake(_) | Row::Rules(_) | Row::Rule(_))
            | Change::Remove(_)
            | Change::RemoveBody { .. } => {}
        }
    }

    /// All rows of the partition are there. One that was cleared, or cancelled with its group, has ended, and only waits to
    /// be swept up.
    fn end_rows(&mut self) {
        let id = self.partition.id();
        let rows = std::mem::replace(&mut self.partition, empty(id));
        let queue = self.queues.get(&id).cloned();
        for row in rows.rows() {
            let Row::Item(row) = row else { continue };
            let is_moving = row.state.outgoing().is_some();
            let number = row.number;
            let held = rows.get(number);
            let drops_payload = held.as_ref().is_some_and(|item| !item.keeps_payload());
            let Some(seen) = held.or(is_moving.then_some(row)) else { continue };
            let member = rows.member(&seen);
            let item = contents::item(id, queue.as_deref(), seen, member);
            self.items.insert(number, Listed { item, drops_payload });
        }
        if let Some(queue) = queue {
            let groups = rows.list_groups(None, usize::MAX);
            groups.iter().for_each(|group| self.line(&GroupReply { group: show::group(&queue.name, group) }));
        }
    }

    fn print_items_before(&mut self, number: ItemNumber) {
        while let Some(first) = self.items.first_entry()
            && *first.key() < number
        {
            let Listed { item, .. } = first.remove();
            self.line(&ItemReply { item });
        }
    }

    fn end_partition(&mut self) {
        self.end_rows();
        let complete = std::mem::take(&mut self.items);
        complete.into_values().for_each(|Listed { item, .. }| self.line(&ItemReply { item }));
    }

    fn line(&mut self, document: &impl Serialize) {
        let line = serde_json::to_string(document).expect("what the API has types for can be written");
        self.lines.extend([&*safe::one_line(&line), "\n"]);
        if self.lines.len() >= PRINTED_BYTES {
            self.print();
        }
    }

    /// Once nobody listens, nothing more is printed.
    fn print(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        if self.printed.is_ok() {
            self.printed = self.out.export(&lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use windlass_core::settings::{RetainPayload, Settings};
    use windlass_core::verbs::{Clear, Configure, NewItem, Produce};

    use super::*;

    /// An item with an address that was cleared, and that the sweep has still to meet.
    fn cleared(retain_payload: RetainPayload) -> (PartitionId, Vec<Change>) {
        let (id, now) = (PartitionId(1), Timestamp(1));
        let mut partition = Partition::new(id, now);
        let settings = Settings { version: 1, retain_payload, ..Settings::default() };
        let body = Bytes::from_static(b"{\"secret\": 1}");
        let item = NewItem { address: Some("here".into()), ..NewItem::plain("letter", body) };
        let mut changes = partition.apply(now, Configure(settings)).changes;
        changes.extend(partition.apply(now, Produce { items: vec![item] }).changes);
        let clear = Clear { waiting: true, scheduled: false, leased: false, suspended: false };
        changes.extend(partition.apply(now, clear).changes);
        // A log tells rows before bodies.
        let (rows, bodies): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| matches!(change, Change::Put(_)));
        (id, [rows, bodies].concat())
    }

    fn exported((partition, changes): (PartitionId, Vec<Change>)) -> String {
        let mut export = Export::new(Output::new(true), true);
        changes.into_iter().for_each(|change| export.change(partition, change));
        export.end_partition();
        export.lines
    }

    #[test]
    fn a_payload_that_its_item_does_not_keep_is_not_exported() {
        let bare = exported(cleared(RetainPayload::None));
        assert!(bare.contains("\"cancelled\"") && bare.contains("\"here\""), "{bare}");
        assert!(!bare.contains("\"bytes\""), "{bare}");
        let whole = exported(cleared(RetainPayload::Failed));
        assert!(whole.contains("\"cancelled\"") && whole.contains("\"bytes\""), "{whole}");
    }
}
