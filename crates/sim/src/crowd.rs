//! More leases ending at once than one sweep takes: what is past its deadline is lost, also where the sweep has not
//! come by.

use windlass_core::id::ItemId;
use windlass_core::time::Span;
use windlass_core::verbs::Filter;

use crate::caller::{Caller, Wish};
use crate::client::Memory;
use crate::disk::Hardware;
use crate::fault::Rates;
use crate::history::{Given, QueueIndex};
use crate::plan::plain_item;
use crate::rng::Rng;

const QUEUE: QueueIndex = 0;
const BATCHES: usize = 13;
const BATCH: usize = 100;
/// So many of the latest leases are completed too late.
const LATE: usize = 150;
const TIMEOUT: Span = Span::from_millis(20);

/// Leases a crowd of items, has the disk hang when the leases end, and completes some of them only then.
pub async fn gather(caller: &Caller, hardware: &Hardware, memory: &Memory, rng: &mut Rng) {
    for _ in 0..BATCHES {
        let items = (0..BATCH).map(|_| plain_item(memory.serial())).collect();
        let ids = caller.produce(QUEUE, items).await.unwrap_or_default();
        memory.learn(&ids);
    }
    let mut held = lease_all(caller).await;
    let leased_at = caller.handle.now_micros();
    hardware.set_rates(Rates::HANGING);
    caller.handle.sleep_micros(TIMEOUT.0 - rng.between(500, 2_000)).await;
    keep_busy(caller, memory);
    let late = leased_at + TIMEOUT.0 + rng.between(1, 500);
    caller.handle.sleep_micros(late.saturating_sub(caller.handle.now_micros())).await;
    let latest = held.split_off(held.len().saturating_sub(LATE));
    caller.complete(QUEUE, latest.iter().map(|item| (item.id, item.permit, None)).collect()).await;
}

async fn lease_all(caller: &Caller) -> Vec<Given> {
    let mut held = Vec::new();
    let wish = || Wish {
        queue: QUEUE,
        batch_size: BATCHES * BATCH,
        timeout: Some(TIMEOUT),
        filter: Filter::ANY,
        wait: Span::ZERO,
    };
    while let Some(granted) = caller.lease(wish(), true).await.filter(|granted| !granted.is_empty()) {
        held.extend(granted);
    }
    held
}

/// The partition is busy with something else while the leases end.
fn keep_busy(caller: &Caller, memory: &Memory) {
    let (caller, memory) = (caller.clone(), memory.clone());
    let handle = caller.handle.clone();
    let produce = async move {
        let made = vec![plain_item(memory.serial())];
        let ids: Vec<ItemId> = caller.produce(QUEUE, made).await.unwrap_or_default();
        memory.learn(&ids);
    };
    handle.spawn("crowd", Box::pin(produce));
}
