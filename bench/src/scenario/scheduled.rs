//! Many items that fall due at one moment: how long until workers have all of them.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use tokio::sync::mpsc;

use super::Scenario;
use super::team::{self, Team};
use crate::fleet::Running;
use crate::peers::{Client, Contender, Job, Manner, Peer, next_client};
use crate::report::number::whole;
use crate::report::sheet::Column;
use crate::stats::Better;

const COLUMNS: &[Column] = &[
    Column { key: "seconds_to_lease_all", head: "seconds until all are leased", better: Better::Lower },
    Column { key: "items_leased_early", head: "leased before due", better: Better::Neither },
];

const WORKERS: usize = 16;
const BATCH: usize = 100;
const PAYLOAD: usize = 200;
const PRODUCE_BATCH: usize = 1000;
/// How far ahead items are scheduled: the first that leaves enough time to produce them all.
const LEADS: [Duration; 3] = [Duration::from_secs(4), Duration::from_secs(20), Duration::from_secs(100)];
/// How long after their time items may come.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scheduled {
    pub(crate) items: usize,
}

#[async_trait]
impl Scenario for Scheduled {
    fn name(&self) -> &'static str {
        "scheduled"
    }

    fn title(&self) -> String {
        let items = whole(self.items);
        format!("Scheduled: {items} items due at one moment, {WORKERS} workers with batches of {BATCH}")
    }

    fn label(&self) -> String {
        format!("{} items", whole(self.items))
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn planned(&self) -> Duration {
        LEADS[0] + Duration::from_secs(2)
    }

    fn patience(&self) -> Duration {
        LEADS.iter().sum::<Duration>() + PATIENCE * 2
    }

    fn cannot(&self, contender: Contender) -> Option<&'static str> {
        match contender {
            Contender::Rabbitmq => Some("it has no scheduled messages without a plugin"),
            Contender::Nats => Some("it has no scheduled messages"),
            Contender::WindlassNext => Some("it leases as windlass does"),
            Contender::Bare
            | Contender::Windlass
            | Contender::WindlassProtobuf
            | Contender::Redis
            | Contender::Postgres
            | Contender::Beanstalkd => None,
        }
    }

    async fn run(&self, running: &Running) -> Result<Vec<f64>> {
        let peer = running.peer()?;
        for lead in LEADS {
            let queue = format!("scheduled{}", next_client());
            peer.create(&queue).await?;
            let job = Job { queue, batch: BATCH, payload: PAYLOAD, manner: Manner::Scheduled };
            let due = Due::after(lead);
            let measured = match schedule(peer, &job, self.items, due).await? {
                Filled::InTime => Some(self.lease_all(peer, &job, due).await?),
                Filled::TooLate => None,
            };
            peer.delete(&job.queue).await?;
            if let Some(measured) = measured {
                return Ok(measured);
            }
        }
        bail!("it did not take {} items in {} s", whole(self.items), LEADS[LEADS.len() - 1].as_secs())
    }
}

impl Scheduled {
    async fn lease_all(&self, peer: &dyn Peer, job: &Job, due: Due) -> Result<Vec<f64>> {
        let (leased, arrivals) = mpsc::channel(self.items);
        let mut team = Team::new();
        for worker in team::connect(peer, job, WORKERS).await? {
            team.add(work(worker, leased.clone()));
        }
        let limit = due.at.saturating_duration_since(Instant::now()) + PATIENCE;
        let all = tokio::time::timeout(limit, team.work_until(collect(arrivals, self.items, due))).await;
        all.unwrap_or_else(|_| bail!("items were missing {} s after they were due", PATIENCE.as_secs()))
    }
}

/// The moment when items are due, by both clocks.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: Instant,
    time: SystemTime,
}

impl Due {
    fn after(lead: Duration) -> Self {
        Self { at: Instant::now() + lead, time: SystemTime::now() + lead }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    InTime,
    TooLate,
}

/// Produces all items, and stops when they would come too late.
async fn schedule(peer: &dyn Peer, job: &Job, items: usize, due: Due) -> Result<Filled> {
    let margin = Duration::from_millis(500);
    let job = Job { batch: PRODUCE_BATCH.min(items), ..job.clone() };
    ensure!(items.is_multiple_of(job.batch), "--scheduled takes a multiple of {PRODUCE_BATCH}");
    let mut client = peer.connect(&job).await?;
    for first in (0..items).step_by(job.batch) {
        client.schedule(first as u64, due.time).await?;
        if Instant::now() + margin > due.at {
            return Ok(Filled::TooLate);
        }
    }
    Ok(Filled::InTime)
}

async fn work(mut client: Box<dyn Client>, leased: mpsc::Sender<(Instant, usize)>) -> Result<()> {
    loop {
        let items = client.lease().await.context("lease")?.len();
        let _run_over = leased.send((Instant::now(), items)).await;
        client.complete().await.context("complete")?;
    }
}

/// How long after their time the last item was leased, and how many were leased too early.
async fn collect(mut arrivals: mpsc::Receiver<(Instant, usize)>, items: usize, due: Due) -> Result<Vec<f64>> {
    let (mut count, mut early, mut last) = (0, 0, due.at);
    while count < items {
        let (at, leased) = arrivals.recv().await.context("all workers ended")?;
        count += leased;
        early += if at < due.at { leased } else { 0 };
        last = last.max(at);
    }
    Ok(vec![(last - due.at).as_secs_f64(), early as f64])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_time_of_the_last_item_counts_and_early_ones_are_told() {
        let due = Due::after(Duration::ZERO);
        let (leased, arrivals) = mpsc::channel(3);
        let early = due.at.checked_sub(Duration::from_millis(5)).unwrap();
        for arrival in
            [(due.at + Duration::from_secs(2), 10), (early, 5), (due.at + Duration::from_secs(1), 10)]
        {
            leased.send(arrival).await.unwrap();
        }
        assert_eq!(collect(arrivals, 25, due).await.unwrap(), [2.0, 5.0]);
    }
}
