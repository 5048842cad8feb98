//! Servers that are killed under load, or whose disks lose their power, one after the other on the same data; and the
//! history of all calls held against what was promised: nothing acknowledged is lost, nothing is doubled, nothing is moved
//! twice, permits count over restarts, and so on. The checker is the simulator's.
//!
//! `just kills` and `just power-cuts` run the same with more deaths (`WINDLASS_KILLS`, `WINDLASS_POWER_CUTS`).

mod caller;
mod life;
mod loop_disk;
mod machine;
mod proof;
mod readout;
mod reruns;
mod site;
mod told;
mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fastrand::Rng;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_core::settings::{RetryPolicy, RetryStrategy, Settings};
use windlass_core::time::{Span, Timestamp};
use windlass_sim::check;
use windlass_sim::history::{History, Outcome, Why};
use windlass_sim::plan::queue_name;
use windlass_sim::recorder::{Clocks, Recorder};

use self::caller::{Caller, World};
use self::life::Life;
use self::site::{Death, Site};
use self::worker::{BUSY, DEAD, QUIET, Worker, now};
use crate::server_process::{PATIENCE, ServerProcess};

const WORKERS: usize = 8;
/// How many calls a life answers at least, drawn anew for each.
const CALLS_MIN: std::ops::Range<usize> = 20..140;
/// Calls that a full disk refuses before a life on it ends.
const REFUSED_MIN: usize = 5;
const TRACE_LINES_MAX: usize = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_hundred_killed_servers_acknowledged_holds() {
    what_servers_acknowledged_holds(Site::with_directories(1, 100)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_killed_servers_with_several_stores_acknowledged_holds() {
    what_servers_acknowledged_holds(Site::with_directories(3, 40)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_killed_servers_on_a_full_disk_acknowledged_holds() {
    let Some(site) = Site::with_full_disks(1, 20, Death::Kill) else { return };
    what_servers_acknowledged_holds(site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_servers_acknowledged_before_a_power_cut_holds() {
    let Some(site) = Site::with_disks(1, 20, Death::PowerCut) else { return };
    what_servers_acknowledged_holds(site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_servers_acknowledged_before_a_power_cut_of_several_disks_holds() {
    let Some(site) = Site::with_disks(2, 20, Death::PowerCut) else { return };
    what_servers_acknowledged_holds(site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_servers_acknowledged_before_a_power_cut_of_full_disks_holds() {
    let Some(site) = Site::with_full_disks(2, 20, Death::PowerCut) else { return };
    what_servers_acknowledged_holds(site).await;
}

async fn what_servers_acknowledged_holds(site: Site) {
    let world = Arc::new(World {
        recorder: recorder(),
        serials: AtomicU64::new(1),
        known: Mutex::default(),
        held: AtomicUsize::new(0),
    });
    let held = live_and_die(&site, &world, Rng::new()).await;
    readout::read_out(&site, &world, held).await;
    let (history, trace) = world.recorder.finish();
    println!("figures: {}, last segments: {:?}", Figures::of(&history), site.last_segments());
    if let Err(violation) = check::check(&history) {
        let path = trace_path();
        std::fs::write(&path, trace.to_string()).expect("the trace can be written");
        panic!("{violation}\nAll calls are in {}", path.display());
    }
    Figures::of(&history).are_worth_something(&site);
}

fn trace_path() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("killed-{}.trace", std::process::id()))
}

fn recorder() -> Recorder {
    let began = Instant::now();
    let latest = Mutex::new((Timestamp(0), began));
    let clocks = Clocks {
        now_micros: Arc::new(move || u64::try_from(began.elapsed().as_micros()).expect("not that long")),
        wall: Arc::new(|_| now()),
        // The clock may be set back; partitions do not follow it there, but go on from where they were.
        latest: Arc::new(move |_| {
            let mut latest = latest.lock().expect("nothing panics while it holds this lock");
            let ((last, at), is) = (*latest, Instant::now());
            *latest = (now().max(last + Span::from(is - at)), is);
            latest.0
        }),
    };
    let history = History { keeps_everything: true, ..History::default() };
    Recorder::new(clocks, history, TRACE_LINES_MAX)
}

/// All lives but the last. Gives back what workers have in their hands at the end.
async fn live_and_die(site: &Site, world: &Arc<World>, mut rng: Rng) -> Vec<worker::Holding> {
    let (mut server, mut life) = begin(site, world, 0, &mut rng).await;
    create_queues(&Caller::new(world, &life, 0)).await;
    let (lives, watching) = watch::channel(Some(Arc::clone(&life)));
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        let rng = rng.fork();
        let worker = Worker { world: Arc::clone(world), number, rng, held: Vec::new() };
        workers.spawn(worker.work(watching.clone()));
    }
    for process in 1..=site.deaths {
        // A worker that panics is not waited for.
        tokio::select! {
            lived = timeout(PATIENCE, live(site, world, &life)) => lived.expect("calls are answered"),
            Some(ended) = workers.join_next() => panic!("a worker ended early: {ended:?}"),
        }
        life.doom();
        site.end(&world.recorder, server).await;
        if process == site.deaths {
            break;
        }
        (server, life) = begin(site, world, process, &mut rng).await;
        lives.send_replace(Some(Arc::clone(&life)));
    }
    lives.send_replace(None);
    timeout(PATIENCE, workers.join_all()).await.expect("no worker hangs").concat()
}

async fn begin(site: &Site, world: &World, process: usize, rng: &mut Rng) -> (ServerProcess, Arc<Life>) {
    world.recorder.process_begins();
    if site.begins_full(process) {
        site.fill(&world.recorder, process);
    }
    let server = site.start().await;
    world.recorder.process_opened();
    let life = Life::new(process, server.url(), rng.usize(CALLS_MIN));
    let life = if site.fills_up { life.until_refused(REFUSED_MIN) } else { life };
    (server, Arc::new(life))
}

/// Until the server has lived long enough. If its disks fill up, they do so half way, unless they were full before.
async fn live(site: &Site, world: &World, life: &Life) {
    if site.fills_up && !site.begins_full(life.process) {
        life.half().await;
        site.fill(&world.recorder, life.process);
    }
    life.enough().await;
}

async fn create_queues(caller: &Caller) {
    let strategy = RetryStrategy::Fixed;
    let retry = RetryPolicy { strategy, initial: Span::from_millis(20), ..RetryPolicy::default() };
    let settings = Settings { max_attempts: 0, retry, ..Settings::default() };
    let busy = Settings { dead_queue: Some(queue_name(DEAD).name), ..settings.clone() };
    caller.create(BUSY, busy, 3).await;
    caller.create(DEAD, settings.clone(), 2).await;
    caller.create(QUIET, Settings { max_attempts: 3, ..settings }, 1).await;
}

/// The sum of a history.
#[derive(Debug, Default)]
struct Figures {
    deaths: usize,
    calls: usize,
    interrupted: usize,
    items: usize,
    moved: usize,
    outcomes: BTreeMap<&'static str, usize>,
}

impl Figures {
    fn of(history: &History) -> Self {
        let deaths = history.processes.iter().filter(|process| process.end.is_some()).count();
        let mut figures = Self { deaths, calls: history.calls.len(), ..Self::default() };
        for call in &history.calls {
            figures.items += call.outcome.produced().len();
            figures.moved += call.outcome.granted().iter().filter(|given| given.origin.is_some()).count();
            *figures.outcomes.entry(outcome_name(&call.outcome)).or_default() += 1;
        }
        figures.interrupted = figures.count("interrupted");
        figures
    }

    fn count(&self, outcome: &str) -> usize {
        self.outcomes.get(outcome).copied().unwrap_or(0)
    }

    /// A history without much in it proves nothing.
    fn are_worth_something(&self, site: &Site) {
        assert_eq!(self.deaths, site.deaths);
        // A server whose disks have no power answers until it is killed, but does not know the outcome.
        let cut_short = self.interrupted + self.count("unknown");
        assert!(cut_short >= site.deaths, "the servers ended while nobody called");
        let filled = |last: &String| last.as_str() > "00000002.seg";
        assert!(site.last_segments().iter().all(filled), "too few segments were filled");
        assert!(self.moved > site.deaths / 4, "too few items were moved");
        assert!(!site.fills_up || self.count("not applied") > site.deaths, "the disks were never full");
        for outcome in ["produced", "granted", "judged", "cancelled", "shown", "counted"] {
            assert!(self.outcomes.contains_key(outcome), "no call was {outcome}");
        }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { deaths, calls, items, moved, outcomes, .. } = self;
        write!(f, "{deaths} deaths, {calls} calls, {items} items, {moved} leased after a move: {outcomes:?}")
    }
}

fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Produced(_) => "produced",
        Outcome::Granted { items, .. } if items.is_empty() => "empty",
        Outcome::Granted { .. } => "granted",
        Outcome::Judged(_) => "judged",
        Outcome::Cancelled(_) => "cancelled",
        Outcome::Shown(_) => "shown",
        Outcome::Counted(_) => "counted",
        Outcome::Queue(_) => "created",
        Outcome::Refused(_) => "refused",
        Outcome::NotApplied(_) => "not applied",
        Outcome::Unknown(Why::Crashed) => "interrupted",
        Outcome::Unknown(Why::Told | Why::Abandoned) | Outcome::Open => "unknown",
        Outcome::Resumed
        | Outcome::Emitted(_)
        | Outcome::Subscribed { .. }
        | Outcome::Followed(_)
        | Outcome::Closed(_)
        | Outcome::Cleared(_)
        | Outcome::Redriven(_)
        | Outcome::Deleted
        | Outcome::Ruled
        | Outcome::Group(_)
        | Outcome::GroupMade(..)
        | Outcome::Groups(_)
        | Outcome::Cron(_)
        | Outcome::Crons(_)
        | Outcome::CronDone
        | Outcome::Triggered(_)
        | Outcome::TooLarge
        | Outcome::Changed(_)
        | Outcome::Rerun(..)
        | Outcome::Found(_)
        | Outcome::ManyChanged(_)
        | Outcome::Latest(_) => "other",
    }
}
