//! The phases of a measurement: only produce, only lease, only complete; then all three in turns.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::Load;
use super::bed::Bed;
use super::caller::{Caller, Taken};
use super::figures::{Figures, Latencies};
use crate::exit::Failure;
use crate::human::counted;
use crate::output::Output;

const FILL_BATCH: usize = 1000;

pub(super) async fn all(bed: Bed<'_>, load: Load, out: Output) -> Result<Vec<Figures>, Failure> {
    let mut figures = one_by_one(bed, load, out).await?;
    figures.extend(cycles(bed, load, out).await?);
    Ok(figures)
}

async fn one_by_one(bed: Bed<'_>, load: Load, out: Output) -> Result<Vec<Figures>, Failure> {
    let name = bed.name();
    let callers = bed.callers("phases", load).await?;
    fill(bed, "phases", load, out).await?;
    out.talk(&format!("{name}: produce …"));
    let produced = together(&callers, |caller| produce(caller, load.time())).await?;
    out.talk(&format!("{name}: lease …"));
    let leased = together(&callers, |caller| lease(caller, load.time())).await?;
    let lease_figures = leased.figures("lease", |part| &part.latencies);
    out.talk(&format!("{name}: complete …"));
    let mut taken = leased.parts.into_iter().map(|part| part.taken);
    let completed = together(&callers, |caller| complete(caller, taken.next().unwrap_or_default())).await?;
    bed.delete("phases").await?;
    let produce_figures = produced.figures("produce", |part| &part.latencies);
    Ok(vec![produce_figures, lease_figures, completed.figures("complete", |part| &part.latencies)])
}

/// The whole, and each of its calls.
pub(super) async fn cycles(bed: Bed<'_>, load: Load, out: Output) -> Result<Vec<Figures>, Failure> {
    let callers = bed.callers("cycles", load).await?;
    fill(bed, "cycles", load, out).await?;
    out.talk(&format!("{}: full cycles …", bed.name()));
    let cycled = together(&callers, |caller| cycle(caller, load.time())).await?;
    bed.delete("cycles").await?;
    Ok(vec![
        cycled.figures("cycle", |part| &part.cycle),
        cycled.figures("cycle: produce", |part| &part.produce),
        cycled.figures("cycle: lease", |part| &part.lease),
        cycled.figures("cycle: complete", |part| &part.complete),
    ])
}

async fn fill(bed: Bed<'_>, queue: &str, load: Load, out: Output) -> Result<(), Failure> {
    if load.backlog == 0 {
        return Ok(());
    }
    out.talk(&format!("{}: a backlog of {} …", bed.name(), counted(load.backlog, "item")));
    bed.fill(queue, Load { batch: FILL_BATCH, clients: 1, ..load }).await
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
    fn figures(&self, phase: &'static str, of: impl Fn(&P) -> &Latencies) -> Figures {
        let mut all = Latencies::new();
        self.parts.iter().for_each(|part| all.add(of(part)));
        Figures::new(phase, self.parts.iter().map(Part::items).sum(), self.took, &all)
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
