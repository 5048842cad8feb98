//! A disk that fills up while nothing else is wrong: the log says so before it has to refuse what ends items.

use std::sync::Arc;

use windlass_core::id::ItemNumber;
use windlass_core::row::{Change, Key, Part};
use windlass_core::time::Timestamp;
use windlass_engine::store::log::LogStore;
use windlass_engine::store::{Batch, CommitError, Room, Store};

use super::changes::{NUMBERS, body, item};
use super::model::{REGISTRY, wrong};
use super::{Bench, id};
use crate::fault::Rates;
use crate::history::Violation;

const SECOND: u64 = 1_000_000;
/// Long enough for whatever is tried again.
const PATIENCE: u64 = 120 * SECOND;
/// More than the log and what it has ready can hold.
const PUTS_MAX: u64 = 60;
/// Of a segment, in percent: more than the log has left when it is full, and less than that and its reserve.
const REMOVALS_PERCENT: u64 = 95;

pub(super) async fn squeeze(bench: &Bench, store: &Arc<LogStore>) -> Result<(), Violation> {
    bench.hardware.set_rates(Rates::CALM);
    bench.handle.sleep_micros(PATIENCE).await;
    let epoch = bench.acquire(store, REGISTRY, None).await?;
    bench.handle.sleep_micros(PATIENCE).await;
    bench.hardware.set_room(Some(0));
    fill(bench, store, epoch).await?;
    let begun = store.stats().bytes_written;
    let enough = begun + u64::from(bench.plan.options.segment_bytes) * REMOVALS_PERCENT / 100;
    while store.stats().bytes_written < enough {
        let removed = commit(bench, store, epoch, removal()).await;
        removed.map_err(|error| wrong("reserve", format!("a full log refused a removal: {error}")))?;
    }
    bench.hardware.set_room(None);
    bench.handle.sleep_micros(PATIENCE).await;
    if store.room(id(REGISTRY)) != Room::Enough {
        return Err(wrong("reserve", "there is room again, and the log does not notice".to_owned()));
    }
    let put = commit(bench, store, epoch, put(NUMBERS + 1)).await;
    put.map_err(|error| wrong("reserve", format!("there is room again, and not for a commit: {error}")))
}

/// Puts until the log says that it is full.
async fn fill(bench: &Bench, store: &Arc<LogStore>, epoch: u64) -> Result<(), Violation> {
    for number in 1..=PUTS_MAX {
        if store.room(id(REGISTRY)) != Room::Enough {
            return Ok(());
        }
        let full = |error| wrong("reserve", format!("the log is full and did not say so: {error}"));
        commit(bench, store, epoch, put(NUMBERS + number)).await.map_err(full)?;
        bench.handle.sleep_micros(SECOND / 10).await;
    }
    Err(wrong("reserve", "the disk is full, and the log never is".to_owned()))
}

fn put(number: u64) -> Vec<Change> {
    let (item, number) = (item(ItemNumber(number), number), ItemNumber(number));
    vec![Change::Put(item), Change::PutBody { number, part: Part::Payload, body: body(number.0, 700) }]
}

/// Of all that was put.
fn removal() -> Vec<Change> {
    let remove = |number| Change::Remove(Key::Item(ItemNumber(NUMBERS + number)));
    (1..=PUTS_MAX).map(remove).collect()
}

async fn commit(
    bench: &Bench,
    store: &Arc<LogStore>,
    epoch: u64,
    changes: Vec<Change>,
) -> Result<(), CommitError> {
    let sent_at = bench.model().send(REGISTRY, &changes);
    let sequence = bench.model().past(REGISTRY).sequence();
    let batch = Batch {
        partition: id(REGISTRY),
        epoch,
        sequence,
        now: Timestamp(sequence),
        changes,
        may_block: true,
    };
    let committed = store.commit(batch).await;
    bench.note(format_args!("squeezed commit {sequence}: {committed:?}, {:?}", store.room(id(REGISTRY))));
    if committed.is_ok() {
        bench.model().answered(REGISTRY, sent_at, store.stats().events.rollbacks);
    }
    committed
}
