//! `GET /metrics`: what the engine, its store and the listener count, and how requests were answered.
//!
//! Everything is read when it is asked for. `names` is the table of all metrics, `text` the format.

mod names;
mod requests;
mod text;

use std::fmt::{Display, Write as _};
use std::time::Duration;

use windlass_core::row::Stored;
use windlass_core::rule::Stop;
use windlass_core::time::Timestamp;
use windlass_engine::store::{Room, StoreState, StoreStats};
use windlass_engine::{CommitStats, Engine, MemoryStats, PartitionState, QueueOverview};

pub use names::{Kind, METRICS, Metric};
pub use requests::{Counted, OTHER, Requests};
pub use text::CONTENT_TYPE;

use names::*;
use text::Page;

use crate::listener::{Timeout, Traffic};
use crate::log_thread::lines_dropped;
use crate::memory::resident_bytes;

const MICROS: f64 = 1e6;

/// What one page shows.
#[derive(Debug)]
pub struct Scrape<'a> {
    /// `None` while the data is being loaded.
    pub engine: Option<EngineNow>,
    pub requests: &'a Requests,
    pub traffic: TrafficNow,
    pub uptime: Duration,
}

#[derive(Clone, Debug)]
pub struct EngineNow {
    pub queues: Vec<QueueOverview>,
    pub commits: CommitStats,
    pub store: StoreStats,
    pub stores: Vec<StoreState>,
    pub unclaimed: Vec<Stored>,
    /// Unset if memory is not limited.
    pub memory: Option<MemoryStats>,
    pub now: Timestamp,
}

impl EngineNow {
    pub fn of(engine: &Engine) -> Self {
        let (commits, store) = (engine.commit_stats(), engine.store_stats());
        Self {
            queues: engine.overview(),
            commits,
            store,
            stores: engine.stores(),
            unclaimed: engine.unclaimed(),
            memory: engine.memory_stats(),
            now: engine.now(),
        }
    }
}

impl EngineNow {
    fn faulty_in(&self, store: &str) -> usize {
        let partitions = self.queues.iter().flat_map(|seen| seen.partitions.iter().zip(&seen.stores));
        let faulty = |state: &PartitionState| matches!(state, PartitionState::Faulty { .. });
        partitions.filter(|((_, state), name)| ***name == *store && faulty(state)).count()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficNow {
    pub connections: u64,
    pub connections_accepted: u64,
    pub connections_refused: u64,
    /// In the order of [`Timeout::ALL`].
    pub connections_closed: [u64; Timeout::ALL.len()],
    pub accept_failures: u64,
    pub bytes_in_flight: u64,
    pub reply_bytes_in_flight: u64,
}

impl TrafficNow {
    pub fn of(traffic: &Traffic) -> Self {
        Self {
            connections: traffic.open() as u64,
            connections_accepted: traffic.accepted(),
            connections_refused: traffic.refused(),
            connections_closed: Timeout::ALL.map(|timeout| traffic.closed_by(timeout)),
            accept_failures: traffic.accept_failures(),
            bytes_in_flight: traffic.bytes_in_flight() as u64,
            reply_bytes_in_flight: traffic.reply_bytes_in_flight() as u64,
        }
    }
}

pub fn render(scrape: &Scrape<'_>) -> String {
    let mut page = Page::default();
    process(&mut page, scrape.uptime);
    if let Some(engine) = &scrape.engine {
        queues(&mut page, &engine.queues, engine.now);
        totals(&mut page, &engine.queues);
        partitions(&mut page, &engine.queues);
        unclaimed(&mut page, engine);
        memory(&mut page, engine.memory);
        commits(&mut page, &engine.commits);
        store(&mut page, engine);
    }
    requests(&mut page, scrape.requests);
    traffic(&mut page, scrape.traffic);
    page.into_text()
}

fn process(page: &mut Page, uptime: Duration) {
    page.begin(&BUILD_INFO).sample(&[env!("CARGO_PKG_VERSION")], 1);
    page.single(&UPTIME, uptime.as_secs_f64());
    if let Some(bytes) = resident_bytes() {
        page.single(&RESIDENT, bytes);
    }
    page.single(&LOG_LINES_DROPPED, lines_dropped());
}

fn queues(page: &mut Page, queues: &[QueueOverview], now: Timestamp) {
    let mut items = page.begin(&ITEMS);
    for seen in queues {
        for (state, count) in states(seen) {
            items.sample(&[name(seen), state], count);
        }
    }
    each_queue(page, &RETAINED, queues, |seen| seen.retained);
    each_queue(page, &MOVING, queues, |seen| seen.moving);
    each_queue(page, &STOPPED, queues, |seen| seen.stopped);
    let mut rules = page.begin(&RULES);
    for seen in queues {
        for (stop, count) in Stop::ALL.into_iter().zip(seen.rules) {
            rules.sample(&[name(seen), stop.name()], count);
        }
    }
    each_queue(page, &OLDEST_WAITING, queues, |seen| seen.oldest_waiting.map_or(0.0, |at| seconds(at, now)));
    each_queue(page, &LEASE_WAITERS, queues, |seen| seen.lease_waiters);
    each_queue(page, &ITEM_WAITERS, queues, |seen| seen.item_waiters);
    page.single(&SUBSCRIBERS, queues.iter().map(|seen| seen.subscribers).sum::<usize>());
}

fn name(seen: &QueueOverview) -> &str {
    &seen.queue.name.name
}

/// Suspended items are not there yet; their state is.
fn states(seen: &QueueOverview) -> [(&'static str, u64); 5] {
    let counts = &seen.counts;
    [
        ("held", counts.held),
        ("scheduled", counts.scheduled),
        ("waiting", counts.waiting),
        ("leased", counts.leased),
        ("suspended", counts.suspended),
    ]
}

fn seconds(since: Timestamp, now: Timestamp) -> f64 {
    (now - since).as_micros() as f64 / MICROS
}

fn totals(page: &mut Page, queues: &[QueueOverview]) {
    each_queue(page, &PRODUCED, queues, |seen| seen.totals.produced);
    each_queue(page, &LEASED, queues, |seen| seen.totals.leased);
    each_queue(page, &COMPLETED, queues, |seen| seen.totals.completed);
    each_queue(page, &RETRIED, queues, |seen| seen.totals.retried);
    each_queue(page, &RELEASED, queues, |seen| seen.totals.released);
    each_queue(page, &REVOKED, queues, |seen| seen.totals.revoked);
    each_queue(page, &EXTENDED, queues, |seen| seen.totals.extended);
    each_queue(page, &SUSPENDED, queues, |seen| seen.totals.suspended);
    each_queue(page, &RESUMED, queues, |seen| seen.totals.resumed);
    each_queue(page, &EMITTED, queues, |seen| seen.totals.emitted);
    each_queue(page, &CANCELLED, queues, |seen| seen.totals.cancelled);
    each_queue(page, &FAILED, queues, |seen| seen.totals.failed);
    each_queue(page, &EXPIRED, queues, |seen| seen.totals.expired);
    each_queue(page, &REDRIVEN, queues, |seen| seen.totals.redriven);
    each_queue(page, &MOVED_OUT, queues, |seen| seen.totals.moved_out);
    each_queue(page, &MOVED_IN, queues, |seen| seen.totals.moved_in);
    each_queue(page, &DAMAGED, queues, |seen| seen.totals.damaged);
    each_queue(page, &LEASES_EXPIRED, queues, |seen| seen.totals.lease_expired);
    each_queue(page, &CRON_RUNS, queues, |seen| seen.totals.cron_runs);
    each_queue(page, &CRON_LATENESS, queues, |seen| seen.totals.cron_late_ms as f64 / 1000.0);
    each_queue(page, &CRON_MISSED, queues, |seen| seen.totals.cron_missed);
    each_queue(page, &CRON_SKIPPED, queues, |seen| seen.totals.cron_skipped);
}

fn each_queue<V: Display>(
    page: &mut Page,
    metric: &'static Metric,
    queues: &[QueueOverview],
    value: impl Fn(&QueueOverview) -> V,
) {
    let mut family = page.begin(metric);
    queues.iter().for_each(|seen| family.sample(&[name(seen)], value(seen)));
}

fn partitions(page: &mut Page, queues: &[QueueOverview]) {
    let mut counts = [("available", 0), ("loading", 0), ("faulty", 0), ("closed", 0), ("draining", 0)];
    let partitions = queues.iter().flat_map(|seen| seen.partitions.iter().map(move |one| (seen, one)));
    for (seen, (id, state)) in partitions {
        let at = match state {
            PartitionState::Available if seen.queue.draining.contains(id) => 4,
            PartitionState::Available => 0,
            PartitionState::Loading => 1,
            PartitionState::Faulty { .. } => 2,
            PartitionState::Closed => 3,
        };
        counts[at].1 += 1;
    }
    let mut family = page.begin(&PARTITIONS);
    counts.into_iter().for_each(|(state, count)| family.sample(&[state], count));
}

fn unclaimed(page: &mut Page, engine: &EngineNow) {
    let mut family = page.begin(&UNCLAIMED);
    for store in &engine.stores {
        let held = engine.unclaimed.iter().filter(|stored| *stored.store_name() == *store.name).count();
        family.sample(&[&store.name], held);
    }
}

/// Without a limit there is no such metric.
fn memory(page: &mut Page, memory: Option<MemoryStats>) {
    if let Some(MemoryStats { bytes_max, refused }) = memory {
        page.single(&MEMORY_LIMIT, bytes_max);
        page.single(&MEMORY_REFUSED, refused);
    }
}

fn commits(page: &mut Page, commits: &CommitStats) {
    page.single(&COMMITS, commits.commits);
    page.begin(&COMMIT_SECONDS).histogram(&[], &commits.latency_micros, MICROS);
    page.begin(&COMMIT_CHANGES).histogram(&[], &commits.changes, 1.0);
}

fn store(page: &mut Page, engine: &EngineNow) {
    let store = &engine.store;
    page.single(&SYNCS, store.syncs);
    page.single(&BYTES_WRITTEN, store.bytes_written);
    let mut bytes = page.begin(&STORE_BYTES);
    bytes.sample(&["stored"], store.bytes_stored);
    bytes.sample(&["live"], store.bytes_live);
    each_store(page, engine);
    page.single(&SNAPSHOTS, store.snapshots);
    page.single(&COMPACTIONS, store.compactions);
}

fn each_store(page: &mut Page, engine: &EngineNow) {
    let mut open = page.begin(&STORE_OPEN);
    engine.stores.iter().for_each(|store| open.sample(&[&store.name], u8::from(store.is_open)));
    let mut stored = page.begin(&STORE_STORED);
    engine.stores.iter().for_each(|store| stored.sample(&[&store.name], store.stats.bytes_stored));
    let mut free = page.begin(&STORE_FREE);
    for store in &engine.stores {
        if let Some(bytes) = store.stats.bytes_free {
            free.sample(&[&store.name], bytes);
        }
    }
    let mut full = page.begin(&STORE_FULL);
    let is_full = |store: &StoreState| u8::from(store.room != Room::Enough);
    engine.stores.iter().for_each(|store| full.sample(&[&store.name], is_full(store)));
    let mut faulty = page.begin(&STORE_FAULTY);
    engine.stores.iter().for_each(|store| faulty.sample(&[&store.name], engine.faulty_in(&store.name)));
}

fn requests(page: &mut Page, requests: &Requests) {
    let mut answered = page.begin(&REQUESTS);
    requests.by_status().for_each(|(call, status, count)| answered.sample(&[call, &status], count));
    let mut seconds = page.begin(&REQUEST_SECONDS);
    requests.latencies().for_each(|(call, latency)| seconds.histogram(&[call], &latency, MICROS));
}

fn traffic(page: &mut Page, traffic: TrafficNow) {
    page.single(&CONNECTIONS, traffic.connections);
    page.single(&ACCEPTED, traffic.connections_accepted);
    page.single(&REFUSED, traffic.connections_refused);
    let mut closed = page.begin(&CLOSED);
    for (timeout, count) in Timeout::ALL.iter().zip(traffic.connections_closed) {
        closed.sample(&[timeout.as_str()], count);
    }
    page.single(&ACCEPT_FAILURES, traffic.accept_failures);
    page.single(&IN_FLIGHT, traffic.bytes_in_flight);
    page.single(&REPLIES_IN_FLIGHT, traffic.reply_bytes_in_flight);
}

const INTRODUCTION: &str = "\
# Metrics

<!-- Made from the table in crates/server/src/metrics/names.rs: `UPDATE_DOCS=1 cargo test -p windlass-server docs`. -->

`GET /metrics` answers in the text format of Prometheus. Counters begin at 0 when the server starts. Metrics of items,
partitions and the store are there once the data is loaded; a call shows up once it was made.

| Metric | Type | Labels | Meaning |
| --- | --- | --- | --- |
";

/// The page about all metrics, as Markdown.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    for Metric { name, kind, labels, help } in METRICS {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        writeln!(page, "| `{name}` | {kind} | {labels} | {help} |")
            .expect("a string takes all that memory does");
    }
    page
}
