//! Rows and bodies of a log as the server shows them.

use bytes::Bytes;
use serde::Serialize;
use windlass_api::events::EventFrame;
use windlass_api::items::Item;
use windlass_core::event;
use windlass_core::group::Member;
use windlass_core::id::{ItemId, PartitionId};
use windlass_core::item;
use windlass_core::row::{Part, Queue, QueueName};
use windlass_engine::ItemView;
use windlass_server::http::record::{EventRecord, Record};
use windlass_server::http::show;

/// Without its bodies. Of an item whose queue is not known only the row can tell.
pub(super) fn item(
    partition: PartitionId,
    queue: Option<&Queue>,
    row: item::Item,
    member: Option<Member>,
) -> Item {
    let own_limit = row.extras.as_ref().and_then(|extras| extras.max_attempts);
    let limit = own_limit.or(queue.map(|queue| queue.settings.max_attempts));
    let unknown = QueueName { namespace: "".into(), name: "".into() };
    let shown = show::item(ItemView {
        queue: queue.map_or(unknown, |queue| queue.name.clone()),
        id: ItemId { number: row.number, partition },
        item: row,
        member,
        max_attempts: limit.unwrap_or_default(),
        payload: None,
        result: None,
        facts: None,
    });
    // Of an item without a queue and a limit of its own nothing tells the limit: an import takes that of its new queue.
    Item { max_attempts: limit, ..shown }
}

/// An event of an item, as the stream tells it.
#[derive(Debug, Serialize)]
pub(super) struct EventLine {
    id: String,
    event: EventFrame,
}

/// Nothing of what is no batch of events.
pub(super) fn events(id: ItemId, first_seq: u64, body: Bytes) -> impl Iterator<Item = EventLine> {
    let (at, events) = event::unpack(body).unwrap_or_default();
    (first_seq..).zip(events).map(move |(seq, content)| {
        let EventRecord { json, utf8, bytes, r#type } = EventRecord::from_stored(content);
        EventLine {
            id: id.to_string(),
            event: EventFrame { seq, r#type, at: show::time(at), json, utf8, bytes },
        }
    })
}

pub(super) fn with_body(item: Item, part: Part, body: Bytes) -> Item {
    let record = Record::from_stored(body);
    match part {
        Part::Payload => {
            let Record { json, utf8, bytes, reference, headers } = record;
            Item { json, utf8, bytes, reference, headers, ..item }
        }
        Part::Facts => Item { reference: record.reference, headers: record.headers, ..item },
        Part::Result => Item { result: Some(record.into_payload()), ..item },
        // What an item was answered is an event of it too. An import takes no attempts.
        Part::Input | Part::Attempt(_) | Part::Events(_) => item,
    }
}
