//! What a worker says while it works on an item, for whoever watches: events, numbered from 1 within their item.
//!
//! They come in batches. A batch is one row and one body: the row tells which numbers it holds and how much it comes to, the
//! body holds the events themselves, and only the store has it.

use bytes::{BufMut, Bytes, BytesMut};

use crate::id::ItemNumber;
use crate::time::Timestamp;

/// A batch of events as its row holds it. Never written again, so what a later version adds stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventBatch {
    pub item: ItemNumber,
    pub first_seq: u64,
    pub last_seq: u64,
    /// What counts against the limit of its item.
    pub bytes: u64,
}

/// An event to be. The core never looks inside and does not keep it.
#[derive(Clone, Debug)]
pub struct NewEvent {
    pub content: Bytes,
    /// What of it counts: its payload.
    pub bytes: u64,
}

/// The body of a batch: when it was emitted, then each event after its length.
pub(crate) fn pack(at: Timestamp, events: &[NewEvent]) -> Bytes {
    let length = |event: &NewEvent| 4 + event.content.len();
    let mut body = BytesMut::with_capacity(8 + events.iter().map(length).sum::<usize>());
    body.put_u64_le(at.0);
    for event in events {
        let length = u32::try_from(event.content.len()).expect("a request is far smaller than 4 GiB");
        body.put_u32_le(length);
        body.put_slice(&event.content);
    }
    body.freeze()
}

/// What [`pack`] made: when, and the events in their order. `None` for what it did not make.
pub fn unpack(mut body: Bytes) -> Option<(Timestamp, Vec<Bytes>)> {
    let take = |body: &mut Bytes, length: usize| (length <= body.len()).then(|| body.split_to(length));
    let at = u64::from_le_bytes(take(&mut body, 8)?.as_ref().try_into().ok()?);
    let mut events = Vec::new();
    while !body.is_empty() {
        let length = u32::from_le_bytes(take(&mut body, 4)?.as_ref().try_into().ok()?);
        events.push(take(&mut body, length as usize)?);
    }
    Some((Timestamp(at), events))
}
