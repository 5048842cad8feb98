//! A hundred real processes killed under load, on one directory: nothing acknowledged is lost, nothing that ended
//! comes back, and open leases are still held by the same permits.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use windlass_core::id::{ItemId, ItemNumber, PartitionId, Permit};
use windlass_core::item::State;
use windlass_core::row::QueueName;
use windlass_engine::Engine;
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};

const KILLS: usize = 100;
const CALLS_MIN: usize = 100;
const LEASES_MIN: usize = 10;

/// What the killed processes said, and what must therefore be true.
#[derive(Default)]
struct Word {
    live: BTreeMap<ItemId, Acknowledged>,
    ended: BTreeSet<ItemId>,
    /// Answered to the process that runs now.
    calls: usize,
}

#[derive(Default)]
struct Acknowledged {
    body: Option<String>,
    permit: Option<Permit>,
    /// A completion or release was sent and not answered.
    in_doubt: bool,
}

impl Word {
    fn hear(&mut self, line: &str) {
        if line == "acknowledged" {
            self.calls += 1;
            return;
        }
        let mut words = line.split(' ');
        let what = words.next().expect("split gives at least one");
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
        let id = ItemId { partition: PartitionId(number() as u32), number: ItemNumber(number()) };
        let more = words.next().unwrap_or_default();
        // Lines of different callers may overtake each other on the way to the pipe; permits tell which is newer.
        if what == "produced" {
            if !self.ended.contains(&id) {
                self.live.entry(id).or_default().body = Some(more.to_owned());
            }
            return;
        }
        let permit = Permit(more.parse().expect("a permit"));
        if what == "leased" {
            assert!(!self.ended.contains(&id), "{id} came back after its end: {line}");
        }
        let Some(item) = (!self.ended.contains(&id)).then(|| self.live.entry(id).or_default()) else {
            return;
        };
        let current = item.permit == Some(permit);
        match what {
            "leased" => {
                assert!(
                    item.permit.is_none_or(|old| item.in_doubt && old < permit),
                    "{id} leased twice at once"
                );
                (item.permit, item.in_doubt) = (Some(permit), false);
            }
            "ending" if current => item.in_doubt = true,
            "released" if current => (item.permit, item.in_doubt) = (None, false),
            "completed" => {
                self.live.remove(&id);
                self.ended.insert(id);
            }
            "ending" | "released" => {}
            other => panic!("the victim said something else: {other}"),
        }
    }

    fn open_leases(&self) -> usize {
        self.live.values().filter(|item| item.permit.is_some() && !item.in_doubt).count()
    }
}

#[test]
fn nothing_is_lost_and_nothing_comes_back_when_processes_are_killed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut word = Word::default();
    for _ in 0..KILLS {
        kill_one(directory.path(), &mut word);
        check(directory.path(), &mut word);
    }
    assert!(word.ended.len() > KILLS, "the victims did some work");
}

/// Starts a victim, and kills it once it has acknowledged enough and holds enough.
fn kill_one(directory: &Path, word: &mut Word) {
    let mut victim = Killed(
        Command::new(env!("CARGO_BIN_EXE_windlass-victim"))
            .arg(directory)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the victim starts"),
    );
    let lines = BufReader::new(victim.0.stdout.take().expect("piped")).lines();
    word.calls = 0;
    let mut killed = false;
    for line in lines {
        // What is cut off in the middle of a line was not said.
        let Ok(line) = line else { break };
        word.hear(&line);
        if !killed && word.calls >= CALLS_MIN && word.open_leases() >= LEASES_MIN {
            victim.0.kill().expect("it can be killed");
            killed = true;
        }
    }
    assert!(killed, "the victim ended by itself: {:?}", victim.0.wait());
}

/// Ends the child also when the test fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _already_dead = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Opens the log as the next process would, and compares it with what was said.
fn check(directory: &Path, word: &mut Word) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let engine = open(directory).await;
        for (id, item) in &word.live {
            check_live(&engine, *id, item).await;
        }
        for id in word.ended.iter().rev().take(500) {
            assert!(engine.get(*id).await.is_err(), "{id} came back after its end");
        }
        settle(&engine, word).await;
        engine.close().await;
    });
}

async fn check_live(engine: &Engine, id: ItemId, item: &Acknowledged) {
    let found = match engine.get(id).await {
        Ok(found) => found,
        Err(_) if item.in_doubt => return,
        Err(error) => panic!("{id} was acknowledged and is lost: {error}"),
    };
    if let Some(body) = &item.body {
        assert_eq!(found.payload.as_deref(), Some(body.as_bytes()), "{id} has another body");
    }
    if let (Some(permit), false) = (item.permit, item.in_doubt) {
        assert!(
            matches!(&found.item.state, State::Leased(lease) if lease.permit == permit),
            "{id} was leased by {permit:?} and is {:?}",
            found.item.state
        );
    }
}

/// Completes every lease the dead process held, which proves that the permits still count, and clears up what was in
/// doubt.
async fn settle(engine: &Engine, word: &mut Word) {
    let queue = QueueName { namespace: "default".into(), name: "q".into() };
    let leased: Vec<_> =
        word.live.iter().filter_map(|(id, item)| Some((*id, item.permit?, item.in_doubt))).collect();
    for (id, permit, in_doubt) in leased {
        let judged = engine.complete(&queue, vec![(id, permit, None)]).await.expect("judged");
        assert!(in_doubt || judged.results[0].is_ok(), "{id} cannot be completed by its holder: {judged:?}");
        if judged.results[0].is_ok() || engine.get(id).await.is_err() {
            word.live.remove(&id);
            word.ended.insert(id);
        } else if let Some(item) = word.live.get_mut(&id) {
            // Released, as was asked for.
            (item.permit, item.in_doubt) = (None, false);
        }
    }
}

async fn open(directory: &Path) -> Engine {
    let env = Arc::new(TokioEnv::new());
    let disk = Arc::new(RealDisk::new(directory).expect("the directory"));
    let options =
        LogOptions { segment_bytes: 256 << 10, snapshot_min_bytes: 256 << 10, ..LogOptions::default() };
    let store = LogStore::open(env.clone(), disk, options).await.expect("the log opens after a kill");
    Engine::open(env, Arc::new(store)).await.expect("the engine opens after a kill")
}
