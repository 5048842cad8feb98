//! A store that does not answer, and a client beside it that wants nothing of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_engine::Engine;

use crate::client::Client;
use crate::history::QueueIndex;
use crate::plan::{StallPlan, queue_name};
use crate::rng::Rng;
use crate::server::{Server, Shift};
use crate::store::store_name;

const NANOS_PER_MICRO: u64 = 1_000;
/// How many calls the client makes that wants nothing of the store.
const CALLS: u32 = 40;

impl Server {
    /// Has the store stall after a while, and then somebody use queues of the others.
    pub(crate) fn spawn_stall(&self, engine: &Engine, shift: &Arc<Shift>, rng: &mut Rng) {
        let Some(stall) = self.plan.stall else { return };
        let (server, engine, shift, rng) = (self.clone(), engine.clone(), Arc::clone(shift), rng.fork());
        let stalling = async move {
            server.handle.sleep_micros(stall.after_micros).await;
            server.stall(stall);
            let queues = server.queues_elsewhere(&engine, stall.disk);
            if !queues.is_empty() {
                server.client_of(&engine, queues, rng).work(CALLS, || shift.is_over()).await;
            }
            shift.one_is_done();
        };
        self.handle.spawn("stall", Box::pin(stalling));
    }

    fn stall(&self, StallPlan { disk, micros, .. }: StallPlan) {
        let until_nanos = self.handle.now_nanos() + micros * NANOS_PER_MICRO;
        self.machine.disks()[disk].stall_until_nanos(until_nanos);
        self.recorder.stalls(store_name(disk), micros);
    }

    /// Those that have nothing in the store.
    fn queues_elsewhere(&self, engine: &Engine, disk: usize) -> Vec<QueueIndex> {
        let store = store_name(disk);
        let registered = engine.queues();
        let is_elsewhere = |index: &QueueIndex| {
            let queue = registered.iter().find(|queue| queue.name == queue_name(*index));
            queue.is_some_and(|queue| queue.homes().all(|(_, at)| at.is_none_or(|at| **at != *store)))
        };
        (0..self.plan.queues.len()).filter(is_elsewhere).collect()
    }

    fn client_of(&self, engine: &Engine, queues: Vec<QueueIndex>, rng: Rng) -> Client {
        Client { only: Some(queues), ..self.client(engine, self.plan.clients, rng) }
    }
}

impl Shift {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}
