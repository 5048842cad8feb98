use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::PartitionId;
use windlass_core::partition::Counts;
use windlass_core::route::SlotMap;
use windlass_core::row::{Queue, QueueName, StoreNames, Stored};
use windlass_core::settings::Settings;
use windlass_core::time::Timestamp;
use windlass_engine::store::{Room, StoreState, StoreStats};
use windlass_engine::{CommitStats, Histogram, MemoryStats, PartitionState, QueueOverview, Totals};
use windlass_server::metrics::{EngineNow, Kind, METRICS, Metric, Requests, Scrape, TrafficNow, render};

type Labels = Vec<(String, String)>;

/// A page as a strict reader understands it.
#[derive(Debug, Default)]
struct Page {
    types: BTreeMap<String, String>,
    samples: BTreeMap<(String, Labels), f64>,
    /// In the order of the page.
    names: Vec<String>,
}

impl Page {
    fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'));
        let mut page = Self::default();
        for line in text.lines() {
            if let Some(head) = line.strip_prefix("# TYPE ") {
                let (name, kind) = head.split_once(' ').unwrap();
                let before = page.types.insert(name.to_owned(), kind.to_owned());
                assert_eq!(before, None, "{name} begins twice");
            } else if !line.starts_with("# HELP ") {
                page.take_sample(line);
            }
        }
        page
    }

    fn take_sample(&mut self, line: &str) {
        let end = line.find(['{', ' ']).unwrap();
        let (name, rest) = line.split_at(end);
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => parse_labels(rest),
            None => (Vec::new(), rest),
        };
        let value: f64 = value.strip_prefix(' ').unwrap().parse().unwrap();
        self.names.push(name.to_owned());
        let before = self.samples.insert((name.to_owned(), labels), value);
        assert_eq!(before, None, "twice: {line}");
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let sample = (name.to_owned(), labels);
        *self.samples.get(&sample).unwrap_or_else(|| panic!("no {sample:?} in {self:#?}"))
    }

    /// The cumulative counts of a histogram with these labels, in the order of their bounds.
    fn buckets(&self, name: &str, labels: &[(&str, &str)]) -> Vec<(f64, f64)> {
        let bucket = format!("{name}_bucket");
        let ours = |found: &Labels| labels.iter().zip(found).all(|((_, one), (_, other))| one == other);
        let found = self.samples.iter().filter(|((name, found), _)| *name == bucket && ours(found));
        let end = |labels: &Labels| match labels.last().unwrap().1.as_str() {
            "+Inf" => f64::INFINITY,
            bound => bound.parse().unwrap(),
        };
        let mut buckets: Vec<(f64, f64)> = found.map(|((_, labels), count)| (end(labels), *count)).collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        buckets
    }
}

/// What stands after the opening brace: the labels, and the rest of the line.
fn parse_labels(mut rest: &str) -> (Labels, &str) {
    let mut labels = Vec::new();
    loop {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase()), "{name}");
        let (value, after) = parse_value(after);
        labels.push((name.to_owned(), value));
        if let Some(after) = after.strip_prefix('}') {
            return (labels, after);
        }
        rest = after.strip_prefix(',').unwrap();
    }
}

fn parse_value(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match characters.next().unwrap().1 {
                'n' => '\n',
                escaped @ ('\\' | '"') => escaped,
                other => panic!("\\{other} is no escape"),
            }),
            plain => value.push(plain),
        }
    }
    panic!("a label value has no end: {text}")
}

fn histogram() -> Histogram {
    Histogram { bounds: &[100, 2000], buckets: vec![3, 0, 4], sum: 500_000, count: 7 }
}

fn queue(name: &str) -> QueueOverview {
    let name = QueueName { namespace: "default".into(), name: Arc::from(name) };
    let partitions = vec![PartitionId(1), PartitionId(2), PartitionId(3)];
    let faulty = PartitionState::Faulty { error: "\"disk\"\n".to_owned() };
    let states = [PartitionState::Available, faulty, PartitionState::Available];
    QueueOverview {
        partitions: partitions.iter().copied().zip(states).collect(),
        stores: ["default", "other", "other"].map(Arc::from).to_vec(),
        queue: Queue {
            name,
            settings: Settings::default(),
            meta: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            partitions,
            stores: StoreNames::default(),
            slots: SlotMap::default(),
            route_version: 0,
            draining: BTreeSet::from([PartitionId(3)]),
            retired: BTreeMap::new(),
            former: BTreeMap::new(),
            unknown: Vec::new(),
        },
        counts: Counts { held: 4, scheduled: 1, waiting: 2, leased: 3, suspended: 7 },
        oldest_waiting: Some(Timestamp(1_000_000)),
        lease_waiters: 4,
        item_waiters: 14,
        subscribers: 8,
        retained: 5,
        failed: 0,
        expired: 6,
        moving: 6,
        stopped: 2,
        paused: true,
        blocked: false,
        rules: [1, 0],
        totals: Totals {
            produced: 11,
            lease_expired: 12,
            failed: 13,
            expired: 14,
            redriven: 15,
            moved_out: 16,
            moved_in: 17,
            suspended: 18,
            resumed: 19,
            emitted: 20,
            cron_runs: 21,
            cron_late_ms: 22_500,
            cron_missed: 23,
            cron_skipped: 24,
            ..Totals::default()
        },
    }
}

fn engine(queues: Vec<QueueOverview>) -> EngineNow {
    let commits = CommitStats { commits: 7, latency_micros: histogram(), changes: histogram() };
    let store = StoreStats { syncs: 6, bytes_stored: 100, bytes_live: 10, ..StoreStats::default() };
    let stores = [("default", true), ("other", false)].map(|(name, is_open)| StoreState {
        name: name.into(),
        kind: "log",
        is_open,
        room: if is_open { Room::Full } else { Room::Enough },
        stats: StoreStats { bytes_stored: 50, bytes_free: is_open.then_some(70), ..StoreStats::default() },
    });
    let unclaimed = vec![Stored::new(PartitionId(9), &"default".into())];
    let (stores, memory) = (stores.to_vec(), Some(MemoryStats { bytes_max: 80, refused: 81 }));
    EngineNow { queues, commits, store, stores, unclaimed, memory, now: Timestamp(3_500_000) }
}

fn page(engine: Option<EngineNow>, requests: &Requests) -> Page {
    let traffic = TrafficNow {
        connections: 21,
        connections_accepted: 20,
        connections_refused: 22,
        connections_closed: [31, 32, 33, 34, 35],
        accept_failures: 25,
        bytes_in_flight: 23,
        reply_bytes_in_flight: 24,
    };
    Page::parse(&render(&Scrape { engine, requests, traffic, uptime: Duration::from_millis(1500) }))
}

#[test]
fn hostile_names_of_queues_stay_within_their_labels() {
    let names = ["plain", "\"} 1\nevil{x=\"", "\\", "\\n", "ends\\", "{},= \t", "ünïcødé"];
    let page = page(Some(engine(names.map(queue).to_vec())), &Requests::default());
    for name in names {
        assert_eq!(page.value("windlass_items", &[("queue", name), ("state", "waiting")]), 2.0);
        assert_eq!(page.value("windlass_lease_waiters", &[("queue", name)]), 4.0);
        assert_eq!(page.value("windlass_item_waiters", &[("queue", name)]), 14.0);
    }
    assert!(page.names.iter().all(|name| !name.contains("evil")));
}

#[test]
fn the_page_shows_what_the_engine_tells() {
    let page = page(Some(engine(vec![queue("q"), queue("r")])), &Requests::default());
    for (state, count) in
        [("held", 4.0), ("scheduled", 1.0), ("waiting", 2.0), ("leased", 3.0), ("suspended", 7.0)]
    {
        assert_eq!(page.value("windlass_items", &[("queue", "q"), ("state", state)]), count);
    }
    for (name, value) in [
        ("windlass_items_retained", 5.0),
        ("windlass_oldest_waiting_age_seconds", 2.5),
        ("windlass_items_produced_total", 11.0),
        ("windlass_leases_expired_total", 12.0),
        ("windlass_items_failed_total", 13.0),
        ("windlass_items_moving", 6.0),
        ("windlass_items_expired_total", 14.0),
        ("windlass_items_redriven_total", 15.0),
        ("windlass_items_moved_out_total", 16.0),
        ("windlass_items_moved_in_total", 17.0),
        ("windlass_items_suspended_total", 18.0),
        ("windlass_items_resumed_total", 19.0),
        ("windlass_events_total", 20.0),
        ("windlass_cron_runs_total", 21.0),
        ("windlass_cron_lateness_seconds_total", 22.5),
        ("windlass_cron_missed_total", 23.0),
        ("windlass_cron_skipped_total", 24.0),
    ] {
        assert_eq!(page.value(name, &[("queue", "q")]), value);
    }
    assert_eq!(page.value("windlass_partitions", &[("state", "available")]), 2.0);
    assert_eq!(page.value("windlass_partitions", &[("state", "draining")]), 2.0);
    assert_eq!(page.value("windlass_partitions", &[("state", "faulty")]), 2.0);
    assert_eq!(page.value("windlass_partitions", &[("state", "loading")]), 0.0);
    for (store, count) in [("default", 1.0), ("other", 0.0)] {
        assert_eq!(page.value("windlass_partitions_unclaimed", &[("store", store)]), count);
    }
    for (name, value) in [
        ("windlass_commits_total", 7.0),
        ("windlass_store_syncs_total", 6.0),
        ("windlass_subscribers", 16.0),
        ("windlass_http_connections", 21.0),
        ("windlass_http_connections_accepted_total", 20.0),
        ("windlass_http_connections_refused_total", 22.0),
        ("windlass_http_accept_failures_total", 25.0),
        ("windlass_http_bytes_in_flight", 23.0),
        ("windlass_http_reply_bytes_in_flight", 24.0),
        ("windlass_uptime_seconds", 1.5),
    ] {
        assert_eq!(page.value(name, &[]), value);
    }
    assert_eq!(page.value("windlass_store_bytes", &[("kind", "live")]), 10.0);
    for (reason, count) in
        [("first_byte", 31.0), ("head", 32.0), ("idle", 33.0), ("body", 34.0), ("reply", 35.0)]
    {
        assert_eq!(page.value("windlass_http_connections_closed_total", &[("reason", reason)]), count);
    }
    assert_eq!(page.value("windlass_store_bytes_free", &[("store", "default")]), 70.0);
    for (store, open, faulty) in [("default", 1.0, 0.0), ("other", 0.0, 2.0)] {
        // The first store of this engine is full, the other is not open.
        assert_eq!(page.value("windlass_store_full", &[("store", store)]), open);
        assert_eq!(page.value("windlass_store_open", &[("store", store)]), open);
        assert_eq!(page.value("windlass_store_stored_bytes", &[("store", store)]), 50.0);
        assert_eq!(page.value("windlass_store_partitions_faulty", &[("store", store)]), faulty);
    }
}

#[test]
fn a_queue_in_which_nothing_waits_has_no_age() {
    let idle = QueueOverview { oldest_waiting: None, ..queue("q") };
    let page = page(Some(engine(vec![idle])), &Requests::default());
    assert_eq!(page.value("windlass_oldest_waiting_age_seconds", &[("queue", "q")]), 0.0);
}

#[test]
fn buckets_of_histograms_are_cumulative() {
    let page = page(Some(engine(Vec::new())), &Requests::default());
    let seconds = page.buckets("windlass_commit_seconds", &[]);
    assert_eq!(seconds, [(0.0001, 3.0), (0.002, 3.0), (f64::INFINITY, 7.0)]);
    assert_eq!(page.value("windlass_commit_seconds_sum", &[]), 0.5);
    assert_eq!(page.value("windlass_commit_seconds_count", &[]), 7.0);
    let changes = page.buckets("windlass_commit_changes", &[]);
    assert_eq!(changes, [(100.0, 3.0), (2000.0, 3.0), (f64::INFINITY, 7.0)]);
}

#[test]
fn requests_are_counted_by_call_and_status() {
    let requests = Requests::default();
    requests.record(requests.call("queue.lease"), 200, Duration::from_micros(100));
    requests.record(requests.call("queue.lease"), 200, Duration::from_micros(101));
    requests.record(requests.call("queue.lease"), 409, Duration::from_secs(3600));
    requests.record(requests.call("other"), 404, Duration::ZERO);
    let page = page(None, &requests);

    let count = |call, code| page.value("windlass_http_requests_total", &[("call", call), ("code", code)]);
    assert_eq!(
        (count("queue.lease", "200"), count("queue.lease", "409"), count("other", "404")),
        (2.0, 1.0, 1.0)
    );
    let lease = [("call", "queue.lease")];
    let buckets = page.buckets("windlass_http_request_seconds", &lease);
    assert_eq!(buckets[0], (0.0001, 1.0), "a bound belongs to its own bucket");
    assert_eq!(buckets[1], (0.00025, 2.0));
    assert_eq!(*buckets.last().unwrap(), (f64::INFINITY, 3.0));
    assert!(buckets.is_sorted_by(|one, next| one.1 <= next.1), "{buckets:?}");
    assert_eq!(page.value("windlass_http_request_seconds_sum", &lease), 3_600.000_201);
    assert_eq!(page.value("windlass_http_request_seconds_count", &lease), 3.0);
}

#[test]
fn what_is_not_of_the_api_does_not_add_labels() {
    let requests = Requests::default();
    requests.record(requests.call("queue.no_such_verb"), 299, Duration::ZERO);
    requests.record(requests.call(""), 299, Duration::ZERO);
    let page = page(None, &requests);
    assert_eq!(page.value("windlass_http_requests_total", &[("call", "other"), ("code", "other")]), 2.0);
}

#[test]
fn every_metric_is_on_the_page_in_the_order_of_the_table() {
    let requests = Requests::default();
    requests.record(requests.call("queue.lease"), 200, Duration::ZERO);
    let page = page(Some(engine(vec![queue("q")])), &requests);
    let metric_of = |sample: &String| {
        let is_of = |metric: &&Metric| match metric.kind {
            Kind::Histogram => {
                ["_bucket", "_sum", "_count"].iter().any(|end| sample.strip_suffix(end) == Some(metric.name))
            }
            Kind::Counter | Kind::Gauge => metric.name == sample,
        };
        METRICS.iter().find(is_of).unwrap_or_else(|| panic!("{sample} is not in the table")).name
    };
    let mut shown: Vec<&str> = page.names.iter().map(metric_of).collect();
    shown.dedup();
    let expected = METRICS.iter().map(|metric| metric.name);
    let expected: Vec<&str> =
        expected.filter(|name| cfg!(target_os = "linux") || !name.starts_with("process_")).collect();
    assert_eq!(shown, expected);
    for metric in METRICS.iter().filter(|metric| expected.contains(&metric.name)) {
        assert_eq!(page.types[metric.name], metric.kind.to_string());
        assert_eq!(metric.kind == Kind::Counter, metric.name.ends_with("_total"), "{}", metric.name);
    }
}

#[test]
fn a_page_can_be_had_while_the_data_is_loaded() {
    let page = page(None, &Requests::default());
    assert_eq!(page.value("windlass_uptime_seconds", &[]), 1.5);
    assert!(page.names.iter().all(|name| name != "windlass_commits_total"));
}
