//! The heartbeat: keeps a lease for as long as its item is worked on.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use windlass_api::items::{ExtendRequest, Held};

use super::attend::Worker;
use crate::exit::Failure;

/// A heartbeat that fails is sent again after this.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Heart<'a> {
    worker: &'a Worker,
    pub(super) held: Held,
    /// When the lease or its last extension was asked for, of those that were answered.
    since: Instant,
}

/// Why not to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beat {
    CancelRequested,
    LeaseLost,
}

impl<'a> Heart<'a> {
    /// Of an item that was leased just now.
    pub(super) fn new(worker: &'a Worker, held: Held) -> Self {
        Self { worker, held, since: Instant::now() }
    }

    /// Until there is a reason not to go on. May be dropped and asked again.
    pub(super) async fn beat(&mut self) -> Beat {
        loop {
            sleep_until(self.since + self.worker.lease_timeout / 3).await;
            let sent = Instant::now();
            let stop = timeout_at(self.ends(), self.extend()).await.unwrap_or(Some(Beat::LeaseLost));
            if stop == Some(Beat::LeaseLost) {
                return Beat::LeaseLost;
            }
            self.since = sent;
            if let Some(stop) = stop {
                return stop;
            }
        }
    }

    /// Until the lease is lost.
    pub(super) async fn keep(&mut self) {
        while self.beat().await != Beat::LeaseLost {}
    }

    /// Until the lease is over by the clock, whatever the server says of it.
    pub(super) async fn lapse(&mut self) {
        self.keep().await;
        sleep_until(self.ends()).await;
    }

    fn ends(&self) -> Instant {
        self.since + self.worker.lease_timeout
    }

    /// Tries until the server answers.
    async fn extend(&self) -> Option<Beat> {
        let (worker, id) = (self.worker, &self.held.id);
        let request = ExtendRequest {
            queue: worker.queue.clone(),
            lease_timeout: worker.wanted.lease_timeout,
            items: vec![self.held.clone()],
        };
        loop {
            match worker.client.call(&request).await {
                Ok(reply) if !reply.failed.is_empty() => return Some(Beat::LeaseLost),
                Ok(reply) => {
                    let cancel = reply.items.iter().any(|item| item.cancel_requested);
                    return cancel.then_some(Beat::CancelRequested);
                }
                Err(error) => {
                    worker.out.talk(&format!("{id}: cannot extend its lease: {}", Failure::from(error)));
                    sleep(PAUSE).await;
                }
            }
        }
    }
}
