//! Every queue and every item, one JSON document to a line.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use windlass_api::items::{Item, ItemReply};
use windlass_api::queues::QueueReply;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item;
use windlass_core::row::{Change, Cleared, Queue, Row};
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::inspect;
use windlass_server::http::show;

use super::{contents, failure};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Lines are printed this many bytes at a time.
const PRINTED_BYTES: usize = 64 << 10;

pub(super) async fn run(disk: Arc<dyn Disk>, out: Output) -> Result<Exit, Failure> {
    let mut export = Export::new(out);
    let told = inspect::export(disk, &mut |partition, change| export.change(partition, change)).await;
    export.end_partition();
    export.print();
    export.printed?;
    told.map_err(|error| failure(&error))?;
    Ok(Exit::Done)
}

/// Queues come first, then each partition's rows in the order of their keys, then its bodies in the order of items.
#[derive(Debug)]
struct Export {
    out: Output,
    queues: BTreeMap<PartitionId, Arc<Queue>>,
    partition: PartitionId,
    cleared: Cleared,
    /// Of this partition, those that were not printed yet: their bodies may be still to come.
    items: BTreeMap<ItemNumber, Item>,
    lines: String,
    printed: Result<(), Failure>,
}

impl Export {
    fn new(out: Output) -> Self {
        Self {
            out,
            queues: BTreeMap::new(),
            partition: PartitionId::REGISTRY,
            cleared: Cleared::default(),
            items: BTreeMap::new(),
            lines: String::new(),
            printed: Ok(()),
        }
    }

    fn change(&mut self, partition: PartitionId, change: Change) {
        if partition != self.partition {
            self.end_partition();
            self.partition = partition;
        }
        match change {
            Change::Put(Row::Queue(queue)) => {
                self.line(&QueueReply { queue: show::queue(&queue) });
                let queue: Arc<Queue> = Arc::from(queue);
                let of_it = queue.partitions.iter().map(|partition| (*partition, Arc::clone(&queue)));
                self.queues.extend(of_it);
            }
            Change::Put(Row::Cleared(cleared)) => self.cleared = cleared,
            Change::Put(Row::Item(item)) => self.item(item),
            Change::PutBody { number, part, body } => {
                self.print_items_before(number);
                if let Some(item) = self.items.remove(&number) {
                    self.items.insert(number, contents::with_body(item, part, body));
                }
            }
            Change::Put(
                Row::Numbers(_)
                | Row::Settings(_)
                | Row::Taken(_)
                | Row::Once(_)
                | Row::Intake(_)
                | Row::Partitions(_),
            )
            | Change::Remove(_)
            | Change::RemoveBody { .. } => {}
        }
    }

    /// One that was cleared has ended, and only waits to be swept up.
    fn item(&mut self, row: item::Item) {
        if let Some(row) = self.cleared.seen(row) {
            let queue = self.queues.get(&self.partition).map(|queue| &**queue);
            self.items.insert(row.number, contents::item(self.partition, queue, &row));
        }
    }

    fn print_items_before(&mut self, number: ItemNumber) {
        while let Some(first) = self.items.first_entry()
            && *first.key() < number
        {
            let item = first.remove();
            self.line(&ItemReply { item });
        }
    }

    fn end_partition(&mut self) {
        let complete = std::mem::take(&mut self.items);
        complete.into_values().for_each(|item| self.line(&ItemReply { item }));
        self.cleared = Cleared::default();
    }

    fn line(&mut self, document: &impl Serialize) {
        let line = serde_json::to_string(document).expect("what the API has types for can be written");
        self.lines.extend([line.as_str(), "\n"]);
        if self.lines.len() >= PRINTED_BYTES {
            self.print();
        }
    }

    /// Once nobody listens, nothing more is printed.
    fn print(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        if self.printed.is_ok() {
            self.printed = self.out.data(&lines);
        }
    }
}
