//! The phases of a measurement: only produce, only lease, only complete; then all three in turns.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::Load;
use super::bed::Bed;
use super::caller::{Caller, Taken};
use super::figures::{Latencies, Tally};
use crate::exit::Failure;
use crate::human::counted;
use crate::output::Output;

const FILL_BATCH: usize = 1000;
const PHASES: &str = "phases";
const CYCLES: &str = "cycles";

/// A bed with its queues made and filled.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    bed: Bed<'a>,
    /// None if only cycles are measured.
    phases: Vec<Caller>,
    cycles: Vec<Caller>,
}

impl<'a> Stage<'a> {
    pub(super) async fn new(bed: Bed<'a>, load: Load, out: Output) -> Result<Self, Failure> {
        let phases = callers(bed, PHASES, load, out).await?;
        Ok(Self { bed, phases, cycles: callers(bed, CYCLES, load, out).await? })
    }

    pub(super) async fn only_cycles(bed: Bed<'a>, load: Load, out: Output) -> Result<Self, Failure> {
        Ok(Self { bed, phases: Vec::new(), cycles: callers(bed, CYCLES, load, out).await? })
    }

    pub(super) async fn close(self) -> Result<(), Failure> {
        if !self.phases.is_empty() {
            self.bed.delete(PHASES).await?;
        }
        self.bed.delete(CYCLES).await
    }

    /// Each phase for so long.
    pub(super) async fn measure(&self, time: Duration) -> Result<Vec<Tally>, Failure> {
        let mut tallies = Vec::new();
        if !self.phases.is_empty() {
            tallies.extend(one_by_one(&self.phases, time).await?);
        }
        tallies.extend(cycles(&self.cycles, time).await?);
        Ok(tallies)
    }
}

async fn callers(bed: Bed<'_>, queue: &str, load: Load, out: Output) -> Result<Vec<Caller>, Failure> {
    let callers = bed.callers(queue, load).await?;
    if load.backlog > 0 {
        out.talk(&format!("{}: a backlog of {} …", bed.name(), counted(load.backlog, "item")));
        bed.fill(queue, Load { batch: FILL_BATCH, clients: 1, ..load }).await?;
    }
    Ok(callers)
}

async fn one_by_one(callers: &[Caller], time: Duration) -> Result<Vec<Tally>, Failure> {
    let produced = together(callers, |caller| produce(caller, time)).await?;
    let leased = together(callers, |caller| lease(caller, time)).await?;
    let leased_tally = leased.tally("lease", |part| &part.latencies);
    let mut taken = leased.parts.into_iter().map(|part| part.taken);
    let completed = together(callers, |caller| complete(caller, taken.next().unwrap_or_default())).await?;
    Ok(vec![
        produced.tally("produce", |part| &part.latencies),
        leased_tally,
        completed.tally("complete", |part| &part.latencies),
    ])
}

/// The whole, and each of its calls.
pub(super) async fn cycles(callers: &[Caller], time: Duration) -> Result<Vec<Tally>, Failure> {
    let cycled = together(callers, |caller| cycle(caller, time)).await?;
    Ok(vec![
        cycled.tally("cycle", |part| &part.cycle),
        cycled.tally("cycle: produce", |part| &part.produce),
        cycled.tally("cycle: lease", |part| &part.lease),
        cycled.tally("cycle: complete", |part| &part.complete),
    ])
}

/// What one caller has done.
trait Part {
    fn items(&self) -> u64;
}

struct Together<P> {
    parts: Vec<P>,
    took: Duration,
}

impl<P: Part> Together<P> {
    fn tally(&self, phase: &'static str, of: impl Fn(&P) -> &Latencies) -> Tally {
        let mut latencies = Latencies::new();
        self.parts.iter().for_each(|part| latencies.add(of(part)));
        Tally { phase, items: self.parts.iter().map(Part::items).sum(), took: self.took, latencies }
    }
}

/// All callers at a time, in their order.
async fn together<P, F>(callers: &[Caller], mut work: impl FnMut(Caller) -> F) -> Result<Together<P>, Failure>
where
    P: Part + Send + 'static,
    F: Future<Output = Result<P, Failure>> + Send + 'static,
{
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for (index, caller) in callers.iter().enumerate() {
        let work = work(caller.clone());
        tasks.spawn(async move { work.await.map(|part| (index, part)) });
    }
    let mut parts = Vec::new();
    while let Some(part) = tasks.join_next().await {
        parts.push(part.expect("a caller does not panic")?);
    }
    let took = began.elapsed();
    parts.sort_by_key(|(index, _)| *index);
    Ok(Together { parts: parts.into_iter().map(|(_, part)| part).collect(), took })
}

/// Calls of one sort.
struct Same {
    items: u64,
    latencies: Latencies,
    taken: Vec<Taken>,
}

impl Same {
    fn new() -> Self {
        Self { items: 0, latencies: Latencies::new(), taken: Vec::new() }
    }
}

impl Part for Same {
    fn items(&self) -> u64 {
        self.items
    }
}

async fn produce(caller: Caller, time: Duration) -> Result<Same, Failure> {
    let until = Instant::now() + time;
    let mut part = Same::new();
    while Instant::now() < until {
        part.items += part.latencies.time(caller.produce()).await?;
    }
    Ok(part)
}

/// Ends early if there is nothing left.
async fn lease(caller: Caller, time: Duration) -> Result<Same, Failure> {
    let until = Instant::now() + time;
    let mut part = Same::new();
    while Instant::now() < until {
        let taken = part.latencies.time(caller.lease(false)).await?;
        if taken.len() == 0 {
            break;
        }
        part.items += taken.len();
        part.taken.push(taken);
    }
    Ok(part)
}

async fn complete(caller: Caller, taken: Vec<Taken>) -> Result<Same, Failure> {
    let mut part = Same::new();
    for taken in taken {
        part.items += part.latencies.time(caller.complete(taken)).await?;
    }
    Ok(part)
}

struct Cycles {
    items: u64,
    cycle: Latencies,
    produce: Latencies,
    lease: Latencies,
    complete: Latencies,
}

impl Part for Cycles {
    fn items(&self) -> u64 {
        self.items
    }
}

async fn cycle(caller: Caller, time: Duration) -> Result<Cycles, Failure> {
    let until = Instant::now() + time;
    let new = Latencies::new;
    let mut part = Cycles { items: 0, cycle: new(), produce: new(), lease: new(), complete: new() };
    while Instant::now() < until {
        let began = Instant::now();
        part.produce.time(caller.produce()).await?;
        let taken = part.lease.time(caller.lease(true)).await?;
        part.items += part.complete.time(caller.complete(taken)).await?;
        part.cycle.record(began.elapsed());
    }
    Ok(part)
}
