//! Pickup: items are produced one by one at an even pace, and workers wait for them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use tokio::sync::mpsc;

use super::pace::{Pace, ticks_of};
use super::team::{self, Team};
use super::window::warm_up;
use super::{Scenario, stamp};
use crate::fleet::Running;
use crate::peers::{Client, Job, Manner, next_client};
use crate::report::number::whole;
use crate::report::sheet::Column;
use crate::stats::{Better, quantile};

const COLUMNS: &[Column] = &[
    Column { key: "p50_ms", head: "p50 ms", better: Better::Lower },
    Column { key: "p99_ms", head: "p99 ms", better: Better::Lower },
    Column { key: "received_per_second", head: "items/s", better: Better::Higher },
];

const PER_SECOND: u32 = 1000;
const PAYLOAD: usize = 200;
/// Producers, each with a connection: a free one for every tick, as long as a produce takes less than 16 ms.
const PRODUCERS: u32 = 16;
const WORKERS: usize = 16;
/// How long workers have to ask for their first item.
const SETTLE: Duration = Duration::from_millis(300);
/// How long after the last tick its item may come.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pickup {
    pub(crate) time: Duration,
}

/// When an item was sent (a stamp), and how many milliseconds later a worker had it.
type Picked = (u64, f64);

#[async_trait]
impl Scenario for Pickup {
    fn name(&self) -> &'static str {
        "pickup"
    }

    fn title(&self) -> String {
        let rate = whole(PER_SECOND as usize);
        format!(
            "Pickup at {rate}/s: from just before a produce is sent until one of {WORKERS} waiting workers has the item"
        )
    }

    fn label(&self) -> String {
        format!("{}/s", whole(PER_SECOND as usize))
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn planned(&self) -> Duration {
        SETTLE + warm_up(self.time) + self.time
    }

    async fn run(&self, running: &Running) -> Result<Vec<f64>> {
        let peer = running.peer()?;
        let job = Job {
            queue: format!("pickup{}", next_client()),
            batch: 1,
            payload: PAYLOAD,
            manner: Manner::Waiting,
        };
        peer.create(&job.queue).await?;
        let mut team = Team::new();
        let ticks = ticks_in(warm_up(self.time) + self.time);
        let (picked, mut arrivals) = mpsc::channel(ticks as usize);
        for worker in team::connect(peer, &job, WORKERS).await? {
            team.add(work(worker, picked.clone()));
        }
        let producers = team::connect(peer, &job, PRODUCERS as usize).await?;
        team.work_for(SETTLE).await?;
        let measured_from = stamp::now() + warm_up(self.time).as_nanos() as u64;
        let pace = Pace::new(Instant::now(), PER_SECOND);
        let (mut producing, mut index) = (Team::new(), 0);
        for producer in producers {
            producing.add(produce(producer, pace, index, ticks));
            index += 1;
        }
        let collect = collect(&mut arrivals, ticks as usize);
        let limit = warm_up(self.time) + self.time + GRACE;
        let all = tokio::time::timeout(limit, producing.work_until(team.work_until(collect))).await;
        let all =
            all.unwrap_or_else(|_| bail!("items did not come in time: this load is too much for it"))?;
        drop((team, producing));
        peer.delete(&job.queue).await?;
        figures(&all, measured_from)
    }
}

fn ticks_in(time: Duration) -> u32 {
    (time.as_secs_f64() * f64::from(PER_SECOND)) as u32
}

async fn produce(mut client: Box<dyn Client>, pace: Pace, producer: u32, ticks: u32) -> Result<()> {
    for tick in ticks_of(producer, PRODUCERS, ticks) {
        pace.wait(tick).await;
        client.produce(stamp::now()).await.context("produce")?;
    }
    Ok(())
}

/// Takes items one by one, and tells how old each was.
pub(super) async fn work(mut client: Box<dyn Client>, picked: mpsc::Sender<Picked>) -> Result<()> {
    loop {
        let sent = *client.lease().await.context("lease")?.first().context("a lease without an item")?;
        let _run_over = picked.send((sent, stamp::millis_since(sent))).await;
        client.complete().await.context("complete")?;
    }
}

async fn collect(arrivals: &mut mpsc::Receiver<Picked>, count: usize) -> Result<Vec<Picked>> {
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        all.push(arrivals.recv().await.context("all workers ended")?);
    }
    Ok(all)
}

fn figures(all: &[Picked], measured_from: u64) -> Result<Vec<f64>> {
    let measured = || all.iter().filter(|(sent, _)| *sent >= measured_from);
    let mut delays: Vec<f64> = measured().map(|(_, delay)| *delay).collect();
    delays.sort_by(f64::total_cmp);
    let last = measured().map(|(sent, _)| *sent).max().unwrap_or(measured_from);
    let seconds = (last - measured_from) as f64 / 1e9;
    ensure!(seconds > 0.0, "nothing was produced after the warm-up: give it more time with --seconds");
    let share = |share| quantile(&delays, share).unwrap_or(f64::NAN);
    Ok(vec![share(0.5), share(0.99), delays.len() as f64 / seconds])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_in_the_warm_up_does_not_count() {
        let second = 1_000_000_000;
        let mut all: Vec<Picked> = (0..=100).map(|item| (2 * second + item * second / 100, 0.5)).collect();
        all.push((second, 900.0));
        all.push((2 * second + 1, 7.0));
        let figures = figures(&all, 2 * second).unwrap();
        assert_eq!(figures, [0.5, 0.5, 102.0]);
    }

    #[test]
    fn nothing_measured_is_an_error_that_says_what_to_do() {
        assert!(figures(&[], 5).unwrap_err().to_string().contains("--seconds"));
    }
}
