//! The end of a run, with all faults off: what is there is counted, shown, leased and completed, until nothing is. What is
//! suspended is left alone until there is nothing else: nobody may lease it before it is resumed.

mod crons;

use std::collections::BTreeSet;

use windlass_core::group::GroupState;
use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::rule::Stop;
use windlass_core::time::Span;
use windlass_core::verbs::Filter;

use crate::caller::{Caller, Wish};
use crate::check;
use crate::group::{GroupAsk, GroupOp};
use crate::history::{PartitionState, QueueCounts, QueueIndex, ShownItem, Violation};
use crate::plan::{kinds, queue_name};

const SECOND: u64 = 1_000_000;
const ROUNDS_MAX: usize = 400;
const SLEEP_MAX: u64 = 600 * SECOND;
/// Rounds after which what still moves has nowhere to go: longer than anybody who carries it rests.
const STILL_MAX: usize = 60;

/// Reads everything out of all queues. An error if something refuses to come out.
/// `stays` are those of the queues that something may be on its way out of for ever, because it goes to one that is not there.
pub async fn read_out(
    caller: &Caller,
    queues: &[QueueIndex],
    stays: &[QueueIndex],
    known: Vec<ItemId>,
) -> Result<(), Violation> {
    for queue in queues {
        wait_for_partitions(caller, *queue).await?;
        caller.groups(*queue).await;
        caller.stats(*queue).await;
    }
    let pausing = crons::pause_all(caller).await;
    let mut suspended = show(caller, &known).await;
    for queue in queues {
        caller.stats(*queue).await;
        start_groups(caller, *queue).await;
    }
    for queue in queues {
        for kind in kinds().into_iter().map(Some).chain([None]) {
            for stop in Stop::ALL {
                caller.go(*queue, kind.clone(), stop).await;
            }
        }
    }
    let mut seen: BTreeSet<ItemId> = known.into_iter().collect();
    drain_all(caller, queues, stays, &mut suspended, &mut seen).await?;
    for queue in queues {
        wait_until_drained(caller, *queue).await?;
    }
    if pausing {
        crons::run_and_end(caller, queues).await?;
        drain_all(caller, queues, stays, &mut suspended, &mut seen).await?;
        for queue in queues {
            wait_until_drained(caller, *queue).await?;
        }
    }
    show(caller, &seen.iter().copied().collect::<Vec<_>>()).await;
    show_chains(caller, seen).await;
    for queue in queues {
        caller.groups(*queue).await;
    }
    Ok(())
}

/// So that their members come out.
async fn start_groups(caller: &Caller, queue: QueueIndex) {
    for group in caller.groups(queue).await.unwrap_or_default() {
        if group.state == GroupState::Open {
            caller.group(GroupOp { queue, group: group.name, ask: GroupAsk::Start }).await;
        }
    }
}

/// Has every item shown, and gives those that are suspended.
pub async fn show(caller: &Caller, items: &[ItemId]) -> Vec<ShownItem> {
    let mut suspended = Vec::new();
    for id in items {
        let view = caller.get(*id).await;
        suspended.extend(view.filter(|view| view.phase == Phase::Suspended));
        caller.follow(*id, 0, SECOND).await;
    }
    suspended
}

/// Has every item shown that another one leads to and nobody was told of.
async fn show_chains(caller: &Caller, mut seen: BTreeSet<ItemId>) {
    let mut ids: Vec<ItemId> = seen.iter().copied().collect();
    while let Some(id) = ids.pop() {
        let next = caller.recorder.moved_to(id).filter(|next| !seen.contains(next));
        if let Some(next) = next {
            seen.insert(next);
            caller.get(next).await;
            ids.push(next);
        }
    }
}

/// So that what is suspended in a queue comes out. Nobody has an answer any more.
async fn resume(caller: &Caller, queue: QueueIndex, suspended: &mut Vec<ShownItem>) {
    for item in suspended.extract_if(.., |item| item.queue == queue_name(queue).name) {
        caller.resume(item.id, None).await;
    }
}

/// With a sound disk every partition serves again by itself, unless what it holds is damaged.
async fn wait_for_partitions(caller: &Caller, queue: QueueIndex) -> Result<(), Violation> {
    for _ in 0..60 {
        let Some(stats) = caller.stats(queue).await else { return Ok(()) };
        let is_settled =
            |state: &PartitionState| *state == PartitionState::Available || check::is_damaged(state);
        if stats.partitions.iter().all(|partition| is_settled(&partition.state)) {
            return Ok(());
        }
        caller.handle.sleep_micros(SECOND).await;
    }
    Err(Violation { rule: "recovery", text: format!("q{queue} does not serve although nothing is wrong") })
}

/// A partition that drains and is empty goes by itself, once whatever it sent has arrived.
async fn wait_until_drained(caller: &Caller, queue: QueueIndex) -> Result<(), Violation> {
    for _ in 0..60 {
        let Some(stats) = caller.stats(queue).await else { return Ok(()) };
        let drains = stats.partitions.iter().any(|partition| partition.drains);
        if !drains || stats.moving > 0 {
            return Ok(());
        }
        caller.handle.sleep_micros(SECOND).await;
    }
    Err(Violation { rule: "draining", text: format!("q{queue} does not let go of empty partitions") })
}

/// One queue after the other, until all are empty at once: what ends badly in one may turn up in another.
async fn drain_all(
    caller: &Caller,
    queues: &[QueueIndex],
    stays: &[QueueIndex],
    suspended: &mut Vec<ShownItem>,
    seen: &mut BTreeSet<ItemId>,
) -> Result<(), Violation> {
    let (mut moving, mut still) = (Vec::new(), 0);
    for _ in 0..ROUNDS_MAX {
        let (before, moved) = (seen.len(), moving);
        for queue in queues {
            drain(caller, *queue, suspended, seen).await?;
        }
        let stats = all_stats(caller, queues).await;
        moving = stats.iter().map(|(queue, stats)| (*queue, stats.moving)).collect::<Vec<_>>();
        still = if moving == moved { still + 1 } else { 0 };
        let may_stay = |queue: &QueueIndex| still >= STILL_MAX && stays.contains(queue);
        let arrived = moving.iter().all(|(queue, moving)| *moving == 0 || may_stay(queue));
        if seen.len() == before && stats.iter().all(|(_, stats)| is_empty(stats)) && arrived {
            return Ok(());
        }
        caller.handle.sleep_micros(SECOND / 10).await;
    }
    Err(Violation { rule: "moving", text: format!("what is on its way does not arrive: {moving:?}") })
}

async fn all_stats(caller: &Caller, queues: &[QueueIndex]) -> Vec<(QueueIndex, QueueCounts)> {
    let mut all = Vec::new();
    for queue in queues {
        all.extend(caller.stats(*queue).await.map(|stats| (*queue, stats)));
    }
    all
}

async fn drain(
    caller: &Caller,
    queue: QueueIndex,
    suspended: &mut Vec<ShownItem>,
    seen: &mut BTreeSet<ItemId>,
) -> Result<(), Violation> {
    let mut sleep = SECOND / 10;
    let mut last = None;
    for _ in 0..ROUNDS_MAX {
        while let Some(found) = take(caller, queue).await {
            seen.extend(found);
            sleep = SECOND / 10;
        }
        let Some(stats) = caller.stats(queue).await else { return Ok(()) };
        if is_empty(&stats) {
            return Ok(());
        }
        if stats.counts.live() == stats.counts.suspended {
            resume(caller, queue, suspended).await;
        }
        last = Some(stats);
        caller.handle.sleep_micros(sleep).await;
        sleep = (sleep * 2).min(SLEEP_MAX);
    }
    let counts = last.map(|stats| stats.counts);
    Err(Violation { rule: "drain", text: format!("q{queue} is never empty: {counts:?}") })
}

fn is_empty(stats: &QueueCounts) -> bool {
    stats.counts.live() == 0
}

/// Leases what waits and completes it.
async fn take(caller: &Caller, queue: QueueIndex) -> Option<Vec<ItemId>> {
    let wish = Wish {
        queue,
        batch_size: 50,
        timeout: Some(Span::from_secs(3600)),
        filter: Filter::ANY,
        wait: Span::ZERO,
    };
    let granted = caller.lease(wish, true).await.filter(|granted| !granted.is_empty())?;
    let completions = granted.iter().map(|item| (item.id, item.permit, None)).collect();
    caller.complete(queue, completions).await;
    Some(granted.into_iter().map(|item| item.id).collect())
}
