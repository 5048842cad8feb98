//! A worker's turn: an item that has ended is told by the call that takes the next one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_client::worker::{Event, Failure, Fate, Until, Work, Worker};

use crate::bench::{Bench, Gate, Running, next};
use crate::script::{Act, Answer, Seen, Server};
use crate::world::{SAFETY_NET, json_client, within};

/// One value of the server's metrics, summed over its labels after `call`.
async fn metric(bench: &Bench, sample: &str) -> u64 {
    let page = bench.client.metrics().await.unwrap();
    let values =
        page.lines().filter_map(|line| line.strip_prefix(sample)?.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

async fn calls(bench: &Bench, call: &str) -> u64 {
    metric(bench, &format!("windlass_http_requests_total{{call=\"{call}\"")).await
}

async fn commits(bench: &Bench) -> u64 {
    metric(bench, "windlass_commits_total ").await
}

#[tokio::test]
async fn a_turn_of_a_busy_worker_is_one_commit() {
    const ITEMS: u64 = 20;
    let bench = Bench::new().await;
    for _ in 0..ITEMS {
        bench.produce("k", 0).await;
    }
    let before = commits(&bench).await;
    // A lease so long that no heartbeat is counted.
    let worker = bench.worker().concurrency(1).lease_timeout(SAFETY_NET).until(Until::Drained);
    let worker = worker.handle("k", |_: Work<Value>| async { Ok::<_, Failure>("done") });
    within(worker.build().unwrap().run()).await.unwrap();
    // The first lease; then each item's end with the lease of the next one.
    assert_eq!(commits(&bench).await - before, ITEMS + 1);
    assert_eq!(calls(&bench, "queue.next").await, ITEMS);
    assert_eq!(calls(&bench, "queue.complete").await, 0);
    assert_eq!(bench.queue.stats().await.unwrap().counts.leased, 0);
}

#[tokio::test]
async fn every_end_is_told_with_the_turn() {
    let bench = Bench::new().await;
    for kind in ["done", "fails", "dies", "asks", "done"] {
        bench.produce(kind, 0).await;
    }
    let worker = bench.worker().concurrency(1).lease_timeout(SAFETY_NET).until(Until::Drained);
    let worker = worker
        .handle("done", |_: Work<Value>| async { Ok::<_, Failure>(()) })
        .handle("fails", |_: Work<Value>| async { Err::<(), _>(Failure::new("again")) })
        .handle("dies", |_: Work<Value>| async { Err::<(), _>(Failure::new("never").dead()) })
        .handle("asks", |work: Work<Value>| async move { Err::<(), _>(work.suspend("what?")) });
    let fates = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&fates);
    let worker = worker.observe(move |event| {
        if let Event::Ended { fate, .. } = event {
            told.lock().unwrap().push(fate);
        }
    });
    within(worker.build().unwrap().run()).await.unwrap();
    let expected = [Fate::Completed, Fate::Retried, Fate::Dead, Fate::Suspended, Fate::Completed];
    assert_eq!(*fates.lock().unwrap(), expected);
    assert_eq!(calls(&bench, "queue.next").await, 5);
    for call in ["queue.complete", "queue.retry", "queue.suspend", "queue.release"] {
        assert_eq!(calls(&bench, call).await, 0, "{call}");
    }
}

#[tokio::test]
async fn an_item_that_ends_while_a_lease_waits_is_told_at_once() {
    let bench = Bench::new().await;
    bench.produce("k", 0).await;
    let (gate, mut begins) = Gate::new();
    let mut running = Running::start(gate.on(bench.worker().concurrency(2), "k"));
    next(&mut begins).await;
    bench.server.until_waiting(&bench.queue, 1).await;
    gate.go_on.add_permits(1);
    assert_eq!(running.fate().await.1, Fate::Completed);
    let stats = bench.queue.stats().await.unwrap();
    assert_eq!((stats.counts.leased, stats.lease_waiters), (0, 1), "the lease waits on");
    assert_eq!((calls(&bench, "queue.complete").await, calls(&bench, "queue.next").await), (1, 0));
    running.stopped().await;
}

#[tokio::test]
async fn an_item_that_ends_when_nothing_more_is_wanted_is_told_by_itself() {
    let bench = Bench::new().await;
    bench.produce("k", 0).await;
    bench.produce("k", 0).await;
    let worker = bench.worker().lease_timeout(SAFETY_NET).until(Until::Once);
    let worker = worker.handle("k", |_: Work<Value>| async { Ok::<_, Failure>(()) });
    within(worker.build().unwrap().run()).await.unwrap();
    assert_eq!((calls(&bench, "queue.complete").await, calls(&bench, "queue.next").await), (1, 0));
    assert_eq!(bench.queue.stats().await.unwrap().counts.waiting, 1);
}

fn answer(status: u16, body: Value) -> Act {
    Act::Answer(Answer::json(status, &body.to_string()))
}

fn item() -> Value {
    let at = "2026-01-01T00:00:00Z";
    json!({"id": "i", "permit": 1, "kind": "default", "json": "x", "lease_deadline": at, "created_at": at})
}

fn verb(asked: &Seen) -> String {
    asked.line.split_whitespace().nth(1).unwrap().trim_start_matches("/v1/").to_owned()
}

/// Runs a worker on a server that leases one item, until nothing is left; returns the fates and what was asked for beside
/// leases. `act` is told how many such requests came before.
async fn run_on(act: impl Fn(&str, usize) -> Act + Send + Sync + 'static) -> (Vec<Fate>, Vec<String>) {
    let (leases, others) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let server = Server::by_request(move |asked| match verb(asked).as_str() {
        "queue.lease" => {
            let is_first = leases.fetch_add(1, Ordering::SeqCst) == 0;
            answer(200, json!({"items": is_first.then(item).into_iter().collect::<Vec<_>>()}))
        }
        other => act(other, others.fetch_add(1, Ordering::SeqCst)),
    })
    .await;
    let fates = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&fates);
    let worker = Worker::builder(json_client(&server.url), "work")
        .until(Until::Drained)
        .lease_timeout(Duration::from_secs(3600))
        .handle("default", |_: Work<String>| async { Ok::<_, Failure>(()) })
        .observe(move |event| {
            if let Event::Ended { fate, .. } = event {
                told.lock().unwrap().push(fate);
            }
        });
    within(worker.build().unwrap().run()).await.unwrap();
    let fates = fates.lock().unwrap().clone();
    (fates, server.seen().iter().map(verb).filter(|verb| verb != "queue.lease").collect())
}

#[tokio::test]
async fn an_end_whose_turn_was_not_answered_is_told_again_and_counts_as_heard() {
    let lost = json!({"id": "i", "permit": 1, "code": "lease_lost", "message": "-", "details": {"reason": "completed"}});
    let (fates, asked) = run_on(move |_, before| match before {
        0 => Act::Cut,
        _ => answer(200, json!({"completed": 0, "failed": [lost]})),
    })
    .await;
    assert_eq!(
        (fates, asked[0].as_str(), asked.len()),
        (vec![Fate::Completed], "queue.next", 2),
        "{asked:?}"
    );
}

#[tokio::test]
async fn an_end_whose_turn_is_refused_is_told_by_itself() {
    let (fates, asked) = run_on(|verb, _| match verb {
        "queue.next" => answer(413, json!({"error": {"code": "too_large", "message": "too much"}})),
        "queue.complete" => answer(200, json!({"completed": 1, "failed": []})),
        other => panic!("nobody is meant to ask for {other}"),
    })
    .await;
    assert_eq!(fates, [Fate::Completed]);
    assert_eq!(asked, ["queue.next", "queue.complete"]);
}

#[tokio::test]
async fn a_lost_permit_is_told_by_the_turn() {
    let lost = json!({"verb": "complete", "id": "i", "permit": 1, "code": "lease_lost", "message": "-"});
    let (fates, asked) = run_on(move |verb, _| match verb {
        "queue.next" => answer(200, json!({"failed": [lost]})),
        other => panic!("nobody is meant to ask for {other}"),
    })
    .await;
    assert_eq!((fates, asked), (vec![Fate::Lost], vec!["queue.next".to_owned()]));
}
