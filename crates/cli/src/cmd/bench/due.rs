//! Items that fall due: how late one reaches a client that waits for it, and what calls take while very many fall due
//! in the same moment.

use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use windlass_api::items::{LeaseRequest, NewItem, ProduceRequest};
use windlass_api::queues::QueueStatsRequest;
use windlass_client::Client;

use super::Load;
use super::bed::HttpBed;
use super::figures::{Figures, Latencies, Summary, Tally};
use super::phases;
use crate::args::Encoding;
use crate::exit::Failure;

const LATE: &str = "late";
const BURST: &str = "burst";
const BATCH_MAX: u64 = 1000;

/// Between one item and the next: long enough for a server that has nothing else to do.
const APART: Duration = Duration::from_millis(10);
const HEAD_START: Duration = Duration::from_millis(500);

/// What a server surely takes in, so that all are there before their time.
const FILL_PER_SECOND: u64 = 20_000;
const FILL_SECONDS_MIN: u64 = 5;

/// How late items reached a client that waited, by this machine's clock.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Lateness {
    pub(super) items: u64,
    #[serde(flatten)]
    pub(super) late: Summary,
}

pub(super) async fn lateness(bed: &HttpBed, encoding: Encoding, load: Load) -> Result<Lateness, Failure> {
    bed.create(LATE).await?;
    let (client, queue) = (bed.client(encoding)?, bed.queue(LATE));
    let items = (load.seconds * 1000 / APART.as_millis() as u64).min(BATCH_MAX);
    let first = SystemTime::now() + HEAD_START;
    let due_at: Vec<SystemTime> = (0..items).map(|index| first + APART * index as u32).collect();
    produce(&client, &queue, due_at.iter().map(|due_at| due_item(*due_at)).collect()).await?;
    let lease = LeaseRequest { queue, client_id: "bench".into(), batch_size: 1, ..LeaseRequest::default() };
    let mut late = Latencies::new();
    for due_at in due_at {
        client.call(&lease).await?;
        late.record(SystemTime::now().duration_since(due_at).unwrap_or_default());
    }
    bed.delete(LATE).await?;
    Ok(Lateness { items, late: late.summary() })
}

/// Full cycles before and while very many items fall due in the same moment, in the same queue.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Burst {
    pub(super) items: u64,
    pub(super) before: Vec<Figures>,
    pub(super) during: Vec<Figures>,
    /// Not started yet when the measurement ended.
    pub(super) left: u64,
}

pub(super) async fn burst(
    bed: &HttpBed,
    encoding: Encoding,
    load: Load,
    items: u64,
) -> Result<Burst, Failure> {
    let callers = bed.callers(BURST, encoding, load).await?;
    let (client, queue) = (bed.client(encoding)?, bed.queue(BURST));
    let fill_time = Duration::from_secs(FILL_SECONDS_MIN + items / FILL_PER_SECOND);
    let (due, due_at) = (Instant::now() + fill_time, SystemTime::now() + fill_time);
    let mut left = items;
    while left > 0 {
        let batch = left.min(BATCH_MAX);
        produce(&client, &queue, vec![due_item(due_at); batch as usize]).await?;
        left -= batch;
    }
    let spare = due.saturating_duration_since(Instant::now() + HEAD_START);
    if spare < HEAD_START {
        return Err(Failure::local("the server took the items in too slowly: try fewer with --due"));
    }
    let before = phases::cycles(&callers, spare.min(load.time())).await?;
    tokio::time::sleep_until((due - HEAD_START).into()).await;
    let during = phases::cycles(&callers, HEAD_START + load.time()).await?;
    let left = client.call(&QueueStatsRequest { queue }).await?.counts.scheduled;
    bed.delete(BURST).await?;
    let figures = |tallies: Vec<Tally>| tallies.iter().map(Tally::figures).collect();
    Ok(Burst { items, before: figures(before), during: figures(during), left })
}

async fn produce(client: &Client, queue: &str, items: Vec<NewItem>) -> Result<(), Failure> {
    let request = ProduceRequest { queue: queue.to_owned(), items, ..ProduceRequest::default() };
    client.call(&request).await?;
    Ok(())
}

fn due_item(due_at: SystemTime) -> NewItem {
    NewItem { utf8: Some("due".into()), enqueue_at: Some(due_at.into()), ..NewItem::default() }
}
