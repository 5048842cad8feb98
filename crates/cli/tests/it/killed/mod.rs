//! A hundred servers killed under load, one after the other on the same directories, and the history of all calls held
//! against what was promised: nothing acknowledged is lost, nothing is doubled, permits count over restarts, and so
//! on. The checker is the simulator's. `WINDLASS_KILLS` sets another number of kills.

mod caller;
mod life;
mod proof;
mod readout;
mod told;
mod worker;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fastrand::Rng;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_core::settings::{RetryPolicy, RetryStrategy, Settings};
use windlass_core::time::{Span, Timestamp};
use windlass_sim::check;
use windlass_sim::history::{History, Outcome, Why};
use windlass_sim::recorder::{Clocks, Recorder};

use self::caller::{Caller, World};
use self::life::Life;
use self::worker::{BUSY, QUIET, Worker, now};
use crate::server_process::{PATIENCE, ServerProcess};

const WORKERS: usize = 8;
/// How many calls a life answers at least, drawn anew for each.
const CALLS_MIN: std::ops::Range<usize> = 20..140;
const TRACE_LINES_MAX: usize = 1_000_000;

/// The data of all lives.
struct Site {
    data: TempDir,
    /// Names further stores.
    flags: Vec<OsString>,
    kills: usize,
}

impl Site {
    fn new(kills: usize) -> Self {
        let kills = std::env::var("WINDLASS_KILLS").map_or(kills, |kills| kills.parse().expect("a number"));
        let data = tempfile::tempdir().expect("a temporary directory");
        Self { data, flags: Vec::new(), kills }
    }

    fn with_stores(mut self, names: &[&str]) -> Self {
        let at = |name: &str| self.data.path().join(name);
        let store = |name: &&str| format!("[[stores]]\nname = {name:?}\ndata = {:?}\n", at(name));
        let config = at("windlass.toml");
        std::fs::write(&config, names.iter().map(store).collect::<String>()).expect("it can be written");
        self.flags = vec!["--config".into(), config.into()];
        self
    }

    async fn start(&self) -> ServerProcess {
        ServerProcess::start_with(&self.data.path().join("data"), &self.flags).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_hundred_killed_servers_acknowledged_holds() {
    what_killed_servers_acknowledged_holds(Site::new(100)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_killed_servers_with_several_stores_acknowledged_holds() {
    what_killed_servers_acknowledged_holds(Site::new(30).with_stores(&["second", "third"])).await;
}

async fn what_killed_servers_acknowledged_holds(site: Site) {
    let world = Arc::new(World {
        recorder: recorder(),
        serials: AtomicU64::new(1),
        known: Mutex::default(),
        held: AtomicUsize::new(0),
    });
    let held = live_and_die(&site, &world, Rng::new()).await;
    readout::read_out(&site, &world, held).await;
    let (history, trace) = world.recorder.finish();
    println!("figures: {}", Figures::of(&history));
    if let Err(violation) = check::check(&history) {
        let path = trace_path();
        std::fs::write(&path, trace.to_string()).expect("the trace can be written");
        panic!("{violation}\nAll calls are in {}", path.display());
    }
    Figures::of(&history).are_worth_something(site.kills);
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
    world.recorder.process_begins();
    let mut server = site.start().await;
    world.recorder.process_opened();
    let mut life = Arc::new(Life::new(0, server.url(), rng.usize(CALLS_MIN)));
    create_queues(&Caller::new(world, &life, 0)).await;
    let (lives, watching) = watch::channel(Some(Arc::clone(&life)));
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        let rng = rng.fork();
        let worker = Worker { world: Arc::clone(world), number, rng, held: Vec::new() };
        workers.spawn(worker.work(watching.clone()));
    }
    for process in 1..=site.kills {
        // A worker that panics is not waited for.
        tokio::select! {
            enough = timeout(PATIENCE, life.enough()) => enough.expect("calls are answered"),
            Some(ended) = workers.join_next() => panic!("a worker ended early: {ended:?}"),
        }
        world.recorder.process_ended("is killed");
        life.doom();
        server.kill().await;
        if process == site.kills {
            break;
        }
        world.recorder.process_begins();
        server = site.start().await;
        world.recorder.process_opened();
        life = Arc::new(Life::new(process, server.url(), rng.usize(CALLS_MIN)));
        lives.send_replace(Some(Arc::clone(&life)));
    }
    lives.send_replace(None);
    timeout(PATIENCE, workers.join_all()).await.expect("no worker hangs").concat()
}

async fn create_queues(caller: &Caller) {
    let strategy = RetryStrategy::Fixed;
    let retry = RetryPolicy { strategy, initial: Span::from_millis(20), ..RetryPolicy::default() };
    let settings = Settings { max_attempts: 0, retry, ..Settings::default() };
    caller.create(BUSY, settings.clone(), 3).await;
    caller.create(QUIET, Settings { max_attempts: 3, ..settings }, 1).await;
}

/// What the history is made of.
#[derive(Debug, Default)]
struct Figures {
    kills: usize,
    calls: usize,
    interrupted: usize,
    items: usize,
    outcomes: BTreeMap<&'static str, usize>,
}

impl Figures {
    fn of(history: &History) -> Self {
        let kills = history.processes.iter().filter(|process| process.end.is_some()).count();
        let mut figures = Self { kills, calls: history.calls.len(), ..Self::default() };
        for call in &history.calls {
            figures.items += call.outcome.produced().len();
            *figures.outcomes.entry(outcome_name(&call.outcome)).or_default() += 1;
        }
        figures.interrupted = figures.outcomes.get("interrupted").copied().unwrap_or(0);
        figures
    }

    /// A history without much in it proves nothing.
    fn are_worth_something(&self, kills: usize) {
        assert_eq!(self.kills, kills);
        assert!(self.interrupted >= kills, "the servers were killed while nobody called");
        for outcome in ["produced", "granted", "judged", "cancelled", "shown", "counted"] {
            assert!(self.outcomes.contains_key(outcome), "no call was {outcome}");
        }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} kills, {} calls, {} items: {:?}", self.kills, self.calls, self.items, self.outcomes)
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
        | Outcome::TooLarge => "other",
    }
}
