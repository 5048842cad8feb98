//! The last life, which nobody ends early: what is there is counted, shown, leased and completed, until nothing is.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_core::id::ItemId;
use windlass_core::time::Span;
use windlass_core::verbs::Filter;
use windlass_sim::history::QueueIndex;

use super::caller::{Caller, Wish, World};
use super::life::Life;
use super::site::Site;
use super::worker::{BUSY, DEAD, Holding, LONG, QUIET};
use crate::server_process::PATIENCE;

const READERS: usize = 4;
const BATCH_SIZE: usize = 50;
const NEVER: usize = usize::MAX;

pub(super) async fn read_out(site: &Site, world: &Arc<World>, held: Vec<Holding>) {
    world.recorder.process_begins();
    let server = site.start().await;
    world.recorder.process_opened();
    let life = Arc::new(Life::new(site.deaths, server.url(), NEVER));
    let caller = Caller::new(world, &life, 0);
    // Counted before and after: with the same counts nothing ended meanwhile, and all must fit together.
    count(&caller).await;
    show_all(world, &life).await;
    count(&caller).await;
    complete_held(&caller, &held).await;
    for queue in [BUSY, QUIET, DEAD] {
        timeout(PATIENCE, drain(&caller, queue)).await.expect("everything comes out in the end");
    }
    show_all(world, &life).await;
    server.kill().await;
}

async fn count(caller: &Caller) {
    caller.stats(BUSY).await;
    caller.stats(QUIET).await;
    caller.stats(DEAD).await;
}

/// Every item that anybody was told of.
async fn show_all(world: &Arc<World>, life: &Arc<Life>) {
    let known = world.known();
    let mut readers = JoinSet::new();
    for (number, part) in known.chunks(known.len().div_ceil(READERS)).enumerate() {
        let (caller, part) = (Caller::new(world, life, number), part.to_vec());
        readers.spawn(async move { show(&caller, &part).await });
    }
    readers.join_all().await;
}

async fn show(caller: &Caller, items: &[(ItemId, QueueIndex)]) {
    for (id, queue) in items {
        caller.get(*id, *queue).await;
    }
}

/// Workers can still complete what they were given by servers long dead.
async fn complete_held(caller: &Caller, held: &[Holding]) {
    for queue in [BUSY, QUIET, DEAD] {
        let held = held.iter().filter(|held| held.queue == queue);
        let items: Vec<_> = held.map(|held| (held.id, held.permit, None)).collect();
        for part in items.chunks(BATCH_SIZE) {
            caller.complete(queue, part.to_vec()).await;
        }
    }
}

/// Leases and completes until nothing is left or on its way to the dead queue. Leases that nobody knows of have to end
/// for that.
async fn drain(caller: &Caller, queue: QueueIndex) {
    loop {
        let wish = Wish {
            queue,
            batch_size: BATCH_SIZE,
            timeout: LONG,
            filter: Filter::ANY,
            wait: Span::from_millis(500),
        };
        let granted = caller.lease(wish).await;
        if !granted.is_empty() {
            caller.complete(queue, granted.iter().map(|item| (item.id, item.permit, None)).collect()).await;
            continue;
        }
        let stats = caller.stats(queue).await.expect("the server lives");
        let counts = stats.counts;
        if counts.waiting + counts.scheduled + counts.leased + stats.moving == 0 {
            return;
        }
    }
}
