//! Ten thousand leases that wait on one server cost it nothing while there is no work, and when there is, each gets
//! its own. The figures: `cargo test -p windlass-cli --test it waiters -- --nocapture`.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_client::api::items::LeasedItem;
use windlass_client::{Client, Lease, Retries, new_item};

use crate::server_process::{Metrics, PATIENCE, ServerProcess};

const WAITERS: usize = 10_000;
/// Open files of the test and of the server beside their connections.
const OTHER_FILES: usize = 200;
/// So many connect at once: what has to stand in line to be accepted is bounded by the system.
const CROWD: usize = 500;
const BATCH_SIZE: usize = 1_000;
/// How long the server is watched while it has nothing to do.
const IDLE: Duration = Duration::from_secs(3);
/// Longer than anything here takes.
const WAIT: Duration = Duration::from_secs(10 * 60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_waiting_leases_cost_nothing_while_idle_and_each_gets_its_own_item() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let waiters = as_many_as_fit();
    let server = ServerProcess::start(directory.path()).await;
    let client = server.client();
    client.queue("work").create().await.expect("created");
    let memory_before = resident_kib(server.pid());

    let mut waiting = wait_for_work(&server, &client, waiters).await;
    let memory = resident_kib(server.pid()) - memory_before;
    let idle_cpu = nothing_happens(&server, &client).await;

    let before = Metrics::of(&client).await;
    let begun = Instant::now();
    let produced = produce_in_batches(&client, waiters).await;
    let leased = timeout(PATIENCE, all_of(&mut waiting)).await.expect("everybody is answered");
    let took = begun.elapsed();
    each_has_its_own(&produced, &leased);
    let after = Metrics::of(&client).await;
    let grown = |name| after.sum(name) - before.sum(name);
    assert_eq!(grown("windlass_items_leased_total"), waiters as u64, "nothing was granted twice");
    assert_eq!(after.sum("windlass_items{queue=\"work\",state=\"waiting\""), 0);
    assert_eq!(after.sum("windlass_items{queue=\"work\",state=\"leased\""), waiters as u64);
    assert_eq!(after.sum("windlass_lease_waiters"), 0);
    println!(
        "figures: {waiters} waiting leases; {} KiB of the server's memory for each; {idle_cpu:?} CPU time in {IDLE:?} \
         of idleness; {waiters} items produced in batches of {BATCH_SIZE} and handed over in {took:?}, with {} commits \
         and {} syncs",
        memory as f64 / waiters as f64,
        grown("windlass_commits_total"),
        grown("windlass_store_syncs_total"),
    );
    server.kill().await;
}

/// Raises the limit of open files, which the server takes over, and says how many connections it allows.
fn as_many_as_fit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("up to the hard limit everybody may go");
    let files = limit.maximum.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    let waiters = WAITERS.min(files.saturating_sub(OTHER_FILES));
    if waiters < WAITERS {
        eprintln!("only {waiters} waiting leases instead of {WAITERS}: the hard limit is {files} open files");
    }
    waiters
}

/// Returns when all of them wait.
async fn wait_for_work(server: &ServerProcess, watcher: &Client, waiters: usize) -> JoinSet<Vec<LeasedItem>> {
    let client = Client::builder(server.url()).retries(Retries::NONE).connect_timeout(PATIENCE);
    let queue = client.build().expect("a good address").queue("work");
    let mut waiting = JoinSet::new();
    while waiting.len() < waiters {
        for number in waiting.len()..waiters.min(waiting.len() + CROWD) {
            let queue = queue.clone();
            let lease = Lease { wait: Some(WAIT), ..Lease::new(format!("worker-{number}")) };
            waiting.spawn(async move { queue.lease(&lease).await.expect("answered") });
        }
        let shown = until_shown(watcher, waiting.len());
        timeout(PATIENCE, shown).await.expect("all of them come to wait");
    }
    waiting
}

async fn until_shown(watcher: &Client, waiters: usize) {
    while Metrics::of(watcher).await.sum("windlass_lease_waiters") < waiters as u64 {}
}

/// Nothing is committed, synced or answered by itself. Gives the CPU time that this took.
async fn nothing_happens(server: &ServerProcess, client: &Client) -> Duration {
    let before = Metrics::of(client).await;
    let cpu_before = cpu_time(server.pid());
    assert!(cpu_before > Duration::ZERO, "so many connections took some time, or it is not measured");
    // Not a wait for something: the time in which nothing must come.
    tokio::time::sleep(IDLE).await;
    let cpu = cpu_time(server.pid()) - cpu_before;
    let after = Metrics::of(client).await;
    for name in [
        "windlass_commits_total",
        "windlass_store_syncs_total",
        "windlass_store_bytes_written_total",
        "windlass_http_requests_total{call=\"queue.lease\"",
        "windlass_http_connections",
    ] {
        assert_eq!(after.sum(name), before.sum(name), "{name} moves while there is nothing to do");
    }
    cpu
}

async fn produce_in_batches(client: &Client, count: usize) -> BTreeSet<String> {
    let queue = client.queue("work");
    let mut ids = BTreeSet::new();
    while ids.len() < count {
        let size = BATCH_SIZE.min(count - ids.len());
        let items = (0..size).map(|number| new_item(&number).expect("a number is JSON"));
        let produced = queue.produce(items).await.expect("produced");
        ids.extend(produced.into_iter().map(|item| item.id.expect("it has an id")));
    }
    ids
}

async fn all_of(waiting: &mut JoinSet<Vec<LeasedItem>>) -> Vec<Vec<LeasedItem>> {
    let mut all = Vec::with_capacity(waiting.len());
    while let Some(leased) = waiting.join_next().await {
        all.push(leased.expect("no waiter panics"));
    }
    all
}

fn each_has_its_own(produced: &BTreeSet<String>, leased: &[Vec<LeasedItem>]) {
    let mut given = BTreeSet::new();
    for items in leased {
        assert_eq!(items.len(), 1, "nobody was sent home empty");
        assert_eq!(items[0].attempts, 1, "nobody had it before");
        assert!(given.insert(items[0].id.clone()), "{} was given twice", items[0].id);
    }
    assert_eq!(given, *produced);
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("our own child can be looked at");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is resident");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// In and for the process, so far.
fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("our own child can be looked at");
    let (_, fields) = stat.rsplit_once(')').expect("the name ends with it");
    let ticks = |field: &str| field.parse::<f64>().expect("a number");
    // Counted from the third field, its state: user and system time are the 14th and 15th.
    let ticks: f64 = fields.split_whitespace().skip(11).take(2).map(ticks).sum();
    Duration::from_secs_f64(ticks / rustix::param::clock_ticks_per_second() as f64)
}
