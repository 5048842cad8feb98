//! What it costs to find ten of a million items, to run failed ones again, and what a walk costs those who produce beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use windlass_core::headers::header_hash;
use windlass_core::item::Phase;
use windlass_core::partition::{Find, FindOrder};
use windlass_core::settings::Settings;
use windlass_core::verbs::NewItem;
use windlass_engine::store::log::LogOptions;
use windlass_engine::{Action, Engine, EngineOptions, Search, Verify};

use crate::load::{Bed, lease, median, new_items};
use crate::memory::fail;

const MATCHES: u64 = 10;
const BATCH: u64 = 1000;
const RUNS: usize = 7;
const PRODUCES: usize = 3000;
const INDEXED: &str = "order";
const UNINDEXED: &str = "customer";

/// A queue that indexes one of the two headers that its items have.
fn bed() -> Bed {
    let options = EngineOptions { headers_of: Some(headers_of), ..EngineOptions::default() };
    let settings = Settings { indexed_headers: vec![INDEXED.into()], ..Settings::default() };
    Bed::with(LogOptions::default(), options, settings)
}

/// Facts are the value that both headers have.
fn headers_of(facts: &Bytes) -> Vec<(String, String)> {
    let value = String::from_utf8_lossy(facts);
    [INDEXED, UNINDEXED].map(|name| (name.to_owned(), value.to_string())).into()
}

fn search(find: Find, order: FindOrder, limit: usize) -> Search {
    Search { find: Arc::new(find), order, verify: None, limit, payloads: false, partial: false }
}

/// Items with the header `name` of the few.
fn by_header(name: &str) -> Search {
    let headers = [(name.into(), header_hash(name, "wanted"))].into();
    let has_it = |facts: &Bytes| &**facts == b"wanted";
    let find = Find { headers, ..Find::default() };
    Search { verify: Some(Verify(Arc::new(has_it))), ..search(find, FindOrder::Newest, 100) }
}

/// Items of the kind of the few.
fn by_kind() -> Search {
    search(Find { kinds: Some(["rare".into()].into()), ..Find::default() }, FindOrder::Newest, 100)
}

pub(crate) fn run(items: u64) {
    let bed = bed();
    fill(&bed, items);
    println!("{MATCHES} matches among {items} items\n");
    println!("{:<24} {:>6} {:>12} {:>12}", "found by", "calls", "looked at", "milliseconds");
    for (name, search) in [
        ("indexed header", by_header(INDEXED)),
        ("kind, by a scan", by_kind()),
        ("other header, by a scan", by_header(UNINDEXED)),
    ] {
        let started = Instant::now();
        let walk = bed.runtime.block_on(walk(&bed.engine, &bed, &search));
        assert_eq!(walk.found, MATCHES, "all are found");
        let took = started.elapsed().as_secs_f64() * 1000.0;
        println!("{name:<24} {:>6} {:>12} {took:>12.1}", walk.calls, walk.looked);
    }
    println!("\nproduce of one item, milliseconds, medians of {RUNS} interleaved runs of {PRODUCES}\n");
    println!("{:<24} {:>8} {:>8} {:>8}", "beside", "p50", "p99", "ratio");
    beside("a walk by kind", &bed, &by_kind());
    beside("a walk by other header", &bed, &by_header(UNINDEXED));
    bed.close();
    rerun_failed(items.div_ceil(10));
}

/// All different but the few, which stand apart evenly.
fn fill(bed: &Bed, items: u64) {
    let apart = items / MATCHES;
    let one = |number: u64| {
        let is_wanted = number % apart == apart / 2;
        let value = if is_wanted { "wanted".to_owned() } else { number.to_string() };
        let kind = if is_wanted { "rare" } else { "default" };
        NewItem { facts: Some(value.into()), ..NewItem::plain(kind, Bytes::from_static(&[b'x'; 100])) }
    };
    for first in (0..items).step_by(BATCH as usize) {
        let batch = (first..items.min(first + BATCH)).map(one).collect();
        bed.runtime.block_on(bed.engine.produce(&bed.queue, batch)).expect("produced");
    }
}

struct Walked {
    calls: u64,
    looked: usize,
    found: u64,
}

async fn walk(engine: &Engine, bed: &Bed, search: &Search) -> Walked {
    let (mut walked, mut goes_on) = (Walked { calls: 0, looked: 0, found: 0 }, None);
    loop {
        let page = engine.find(&bed.queue, search, goes_on.as_ref()).await.expect("found");
        walked.calls += 1;
        walked.looked += page.scanned;
        walked.found += page.items.len() as u64;
        match page.walk {
            Some(next) => goes_on = Some(next),
            None => return walked,
        }
    }
}

/// The times of produces with a client that walks all the time, against those without one.
fn beside(name: &str, bed: &Bed, search: &Search) {
    let (mut alone, mut with_walk, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let quiet = Times::of_produces(bed);
        let busy = bed.runtime.block_on(async {
            let (stop, pages) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
            let walking = {
                let (engine, queue, search) = (bed.engine.clone(), bed.queue.clone(), search.clone());
                let (stop, pages) = (Arc::clone(&stop), Arc::clone(&pages));
                tokio::spawn(async move {
                    let mut goes_on = None;
                    while !stop.load(Ordering::Relaxed) {
                        let page = engine.find(&queue, &search, goes_on.as_ref()).await.expect("found");
                        pages.fetch_add(1, Ordering::Relaxed);
                        goes_on = page.walk;
                    }
                })
            };
            let times = Times::measured(bed).await;
            stop.store(true, Ordering::Relaxed);
            walking.await.expect("it walked");
            assert!(pages.load(Ordering::Relaxed) > 1, "the walk went on beside");
            times
        });
        ratios.push(busy.p99 / quiet.p99);
        alone.push(quiet);
        with_walk.push(busy);
    }
    let line = |name: &str, times: &[Times], ratio: f64| {
        let p50 = median(times.iter().map(|times| times.p50).collect());
        let p99 = median(times.iter().map(|times| times.p99).collect());
        println!("{name:<24} {p50:>8.3} {p99:>8.3} {ratio:>8.2}");
    };
    line("nothing", &alone, 1.0);
    line(name, &with_walk, median(ratios));
}

/// Milliseconds.
struct Times {
    p50: f64,
    p99: f64,
}

impl Times {
    fn of_produces(bed: &Bed) -> Self {
        bed.runtime.block_on(Self::measured(bed))
    }

    async fn measured(bed: &Bed) -> Self {
        let mut times = Vec::with_capacity(PRODUCES);
        for _ in 0..PRODUCES {
            let started = Instant::now();
            bed.engine.produce(&bed.queue, new_items(1, 0)).await.expect("produced");
            times.push(started.elapsed());
        }
        times.sort_unstable();
        let at = |share: usize| times[PRODUCES * share / 100].as_secs_f64() * 1000.0;
        Self { p50: at(50), p99: at(99) }
    }
}

/// Runs items again that failed, as items.change does, beside a loop that produces as many in batches of the same size.
fn rerun_failed(items: u64) {
    let bed = bed();
    fail(&bed, items);
    let failed = Find { phases: Some([Phase::Failed].into()), ..Find::default() };
    let search = search(failed, FindOrder::Oldest, BATCH as usize);
    let (mut calls, mut changed, mut goes_on) = (0, 0, None);
    let commits = bed.engine.commit_stats().commits;
    let started = Instant::now();
    loop {
        let change = bed.engine.change_items(&bed.queue, &search, goes_on.as_ref(), Action::Rerun, false);
        let page = bed.runtime.block_on(change).expect("changed");
        calls += 1;
        changed += page.results.iter().filter(|(_, result)| result.is_ok()).count() as u64;
        match page.walk {
            Some(next) => goes_on = Some(next),
            None => break,
        }
    }
    let took = started.elapsed();
    assert_eq!(changed, items, "every item runs again");
    let commits = bed.engine.commit_stats().commits - commits;
    let again = bed.runtime.block_on(lease(&bed.engine, &bed.queue, 1));
    assert_eq!(again.len(), 1, "they wait");
    let started = Instant::now();
    bed.fill(items);
    let produced = started.elapsed();
    println!("\n{items} failed items run again: {calls} calls, {commits} commits, {}", seconds(took));
    let ratio = took.as_secs_f64() / produced.as_secs_f64();
    println!("as many produced in batches of {BATCH}: {}; ratio {ratio:.1}", seconds(produced));
    bed.close();
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
