//! How long it takes until a produced item is in the hands of a client that waits for one.

use std::time::{Duration, Instant};

use serde::Serialize;
use windlass_api::queues::QueueStatsRequest;
use windlass_client::Client;

use super::Load;
use super::bed::HttpBed;
use super::caller::Caller;
use super::figures::{Latencies, Summary};
use crate::args::Encoding;
use crate::exit::Failure;

const QUEUE: &str = "pickup";
const ROUNDS_MAX: u64 = 1000;

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Pickup {
    pub(super) rounds: u64,
    /// Until the lease was answered, from the moment the produce call was sent.
    pub(super) from_produce_sent: Summary,
    /// From the moment the produce call was answered: zero if the lease was answered first.
    pub(super) from_produce_answered: Summary,
}

pub(super) async fn measure(bed: &HttpBed, encoding: Encoding, load: Load) -> Result<Pickup, Failure> {
    let load = Load { batch: 1, ..load };
    bed.create(QUEUE).await?;
    let caller = || bed.caller(QUEUE, encoding, load);
    let (producer, worker, watcher) = (caller()?, caller()?, bed.client(encoding)?);
    let (mut sent, mut answered) = (Latencies::new(), Latencies::new());
    let until = Instant::now() + load.time();
    while Instant::now() < until && sent.calls() < ROUNDS_MAX {
        let (from_sent, from_answered) = round(&producer, &worker, &watcher, &bed.queue(QUEUE)).await?;
        sent.record(from_sent);
        answered.record(from_answered);
    }
    bed.delete(QUEUE).await?;
    Ok(Pickup {
        rounds: sent.calls(),
        from_produce_sent: sent.summary(),
        from_produce_answered: answered.summary(),
    })
}

async fn round(
    producer: &Caller,
    worker: &Caller,
    watcher: &Client,
    queue: &str,
) -> Result<(Duration, Duration), Failure> {
    let waiting = tokio::spawn({
        let worker = worker.clone();
        async move {
            let taken = worker.lease(true).await?;
            Ok::<_, Failure>((taken, Instant::now()))
        }
    });
    wait_for_waiter(watcher, queue).await?;
    let sent = Instant::now();
    producer.produce().await?;
    let answered = Instant::now();
    let (taken, had) = waiting.await.expect("a lease does not panic")?;
    worker.complete(taken).await?;
    Ok((had - sent, had.saturating_duration_since(answered)))
}

/// What is measured is a lease that waits, not one that is on its way.
async fn wait_for_waiter(watcher: &Client, queue: &str) -> Result<(), Failure> {
    let request = QueueStatsRequest { queue: queue.to_owned() };
    while watcher.call(&request).await?.lease_waiters == 0 {}
    Ok(())
}
