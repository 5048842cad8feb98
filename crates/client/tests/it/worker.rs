//! The worker runtime, against a real server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use windlass_client::api::items::NewItem;
use windlass_client::api::payload::Payload;
use windlass_client::api::queues::ClearQueueRequest;
use windlass_client::worker::{BuildError, Builder, Failure, Fate, Reason, Until, Work, Worker};
use windlass_client::{Client, ClientError, Lease, new_item};

use crate::bench::{Bench, Gate, Running, next};
use crate::world::{SAFETY_NET, within};

#[tokio::test]
async fn payloads_and_results_are_typed() {
    let bench = Bench::new().await;
    let id = bench.produce_item(NewItem { kind: Some("sum".into()), ..new_item(&[1, 2, 3]).unwrap() }).await;
    let silent = bench.produce_item(NewItem { kind: Some("silent".into()), ..new_item(&"x").unwrap() }).await;
    let text = NewItem { kind: Some("text".into()), utf8: Some("hello".into()), ..NewItem::default() };
    let text = bench.produce_item(text).await;
    let worker = bench
        .worker()
        .until(Until::Drained)
        .handle(
            "sum",
            |work: Work<Vec<i64>>| async move { Ok::<_, Failure>(work.payload.iter().sum::<i64>()) },
        )
        .handle("silent", |work: Work<String>| async move {
            assert_eq!((work.payload.as_str(), work.item().attempts), ("x", 1));
            Ok::<_, Failure>(())
        })
        .handle_others(|work| async move {
            let text = work.payload.utf8.ok_or_else(|| Failure::new("no text"))?;
            Ok::<_, Failure>(Some(Payload::from_utf8(text.to_uppercase())))
        });
    within(worker.build().unwrap().run()).await.unwrap();
    assert_eq!(bench.item(&id).await.result.unwrap().json.as_deref(), Some("6"));
    assert_eq!(bench.item(&text).await.result.unwrap().utf8.as_deref(), Some("HELLO"));
    assert!(bench.client.item(silent).await.is_err(), "nothing is kept of an item without a result");
}

#[tokio::test]
async fn a_failure_says_what_is_to_become_of_the_item() {
    let bench = Bench::new().await;
    let never = bench.produce("never", 1).await;
    let panics = bench.produce("panics", 2).await;
    let later = bench.produce("later", 3).await;
    let worker = bench
        .worker()
        // What a panic prints can take its time.
        .lease_timeout(SAFETY_NET)
        .until(Until::Drained)
        .handle("never", |_: Work<serde_json::Value>| async {
            Err::<(), _>(Failure::new("no use").code("useless").dead())
        })
        .handle("later", |_: Work<serde_json::Value>| async {
            let failure = Failure::new("busy").retry_at(std::time::SystemTime::UNIX_EPOCH);
            Err::<(), _>(failure.retry_after(Duration::from_secs(7200)))
        })
        .handle_raw("panics", |_| async { panic!("oh {}", "no") as Result<_, Failure> });
    within(worker.build().unwrap().run()).await.unwrap();
    let never = bench.item(&never).await;
    assert_eq!((never.state.as_str(), never.error.unwrap().code.as_deref()), ("failed", Some("useless")));
    let later = bench.item(&later).await;
    let due = later.enqueue_at.expect("it is scheduled").as_micros();
    assert!(due - later.created_at.as_micros() >= 7_200_000_000, "the policy of the queue says 1h at most");
    let panics = bench.item(&panics).await;
    assert_eq!((panics.state.as_str(), panics.attempts), ("scheduled", 1));
    let error = panics.error.unwrap();
    assert_eq!(
        (error.code.as_deref(), error.message.as_str()),
        (Some("panicked"), "the handler panicked: oh no")
    );
}

#[tokio::test]
async fn an_error_is_tried_again_and_a_payload_that_cannot_be_read_is_not() {
    let bench = Bench::new().await;
    let fails = bench.produce("fails", 0).await;
    let unreadable = bench.produce("unreadable", 0).await;
    let worker = bench
        .worker()
        .until(Until::Drained)
        .handle("fails", |_: Work<serde_json::Value>| async { Err::<(), _>("x".parse::<u8>().unwrap_err()) })
        .handle("unreadable", |_: Work<u64>| async { Ok::<_, Failure>(()) });
    within(worker.build().unwrap().run()).await.unwrap();
    let fails = bench.item(&fails).await;
    assert_eq!((fails.state.as_str(), fails.attempts), ("scheduled", 1));
    assert_eq!(fails.error.unwrap().message, "invalid digit found in string");
    let unreadable = bench.item(&unreadable).await;
    assert_eq!((unreadable.state.as_str(), unreadable.attempts), ("failed", 1));
    let error = unreadable.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("bad_payload"));
    assert!(error.message.contains("expected u64"), "{}", error.message);
}

#[tokio::test]
async fn a_result_that_the_server_does_not_take_fails_the_attempt() {
    let bench = Bench::new().await;
    let id = bench.produce("large", 0).await;
    let worker = bench.worker().until(Until::Once);
    let worker =
        worker.handle("large", |_: Work<serde_json::Value>| async { Ok::<_, Failure>("x".repeat(2 << 20)) });
    within(worker.build().unwrap().run()).await.unwrap();
    let item = bench.item(&id).await;
    assert_eq!((item.state.as_str(), item.error.unwrap().code.as_deref()), ("scheduled", Some("bad_result")));
}

#[tokio::test]
async fn kinds_without_a_handler_are_not_leased() {
    let bench = Bench::new().await;
    let unknown = bench.produce("unknown", 0).await;
    bench.produce("known", 1).await;
    let (gate, mut begins) = Gate::new();
    let running = Running::start(gate.on(bench.worker().concurrency(5), "known"));
    assert_eq!(next(&mut begins).await, "known1");
    gate.go_on.add_permits(1);
    running.stopped().await;
    let item = bench.item(&unknown).await;
    assert_eq!((item.state.as_str(), item.attempts), ("waiting", 0));
}

#[tokio::test]
async fn head_room_is_kept_for_the_urgent_and_given_back_while_a_lease_waits() {
    let bench = Bench::new().await;
    let (gate, mut begins) = Gate::new();
    let worker = bench.worker().concurrency_by_priority([(0, 3), (1, 2)]);
    let mut running = Running::start(gate.on(worker, "k"));
    for _ in 0..2 {
        bench.produce("k", 1).await;
        assert_eq!(next(&mut begins).await, "k1");
    }
    // Two run: a less urgent one has to wait, and an urgent one has not.
    let waiting = bench.produce("k", 5).await;
    bench.produce("k", 0).await;
    assert_eq!(next(&mut begins).await, "k0");
    assert_eq!(bench.item(&waiting).await.state, "waiting");
    // One ends, two still run: it waits on, and a lease waits for urgent ones only.
    gate.go_on.add_permits(1);
    assert_eq!(running.fate().await.1, Fate::Completed);
    bench.server.until_waiting(&bench.queue, 1).await;
    assert_eq!(bench.item(&waiting).await.state, "waiting");
    // One runs: the lease that waits is not the right one any more.
    gate.go_on.add_permits(1);
    assert_eq!(next(&mut begins).await, "k5");
    gate.go_on.add_permits(2);
    running.stopped().await;
    assert_eq!(bench.queue.stats().await.unwrap().counts.waiting, 0);
}

#[tokio::test]
async fn a_kind_at_its_limit_is_left_out_until_one_of_it_ends() {
    let bench = Bench::new().await;
    for _ in 0..3 {
        bench.produce("slow", 0).await;
    }
    let (slow, mut slow_begins) = Gate::new();
    let (quick, mut quick_begins) = Gate::new();
    let worker = slow.on(quick.on(bench.worker().concurrency(4), "quick"), "slow").limit("slow", 2);
    let running = Running::start(worker);
    next(&mut slow_begins).await;
    next(&mut slow_begins).await;
    bench.server.until_waiting(&bench.queue, 1).await;
    assert_eq!(bench.queue.stats().await.unwrap().counts.waiting, 1);
    // The lease that waits takes the other kind.
    bench.produce("quick", 9).await;
    assert_eq!(next(&mut quick_begins).await, "quick9");
    bench.server.until_waiting(&bench.queue, 1).await;
    slow.go_on.add_permits(1);
    next(&mut slow_begins).await;
    slow.go_on.add_permits(2);
    quick.go_on.add_permits(1);
    running.stopped().await;
}

#[tokio::test]
async fn nested_work_does_not_deadlock_with_a_single_slot() {
    let bench = Bench::new().await;
    let parent = bench.produce("parent", 0).await;
    let child_done = Arc::new(Notify::new());
    let (waits, told) = (Arc::clone(&child_done), child_done);
    let worker = bench
        .worker()
        .concurrency(1)
        .until(Until::Drained)
        .handle("parent", move |work: Work<serde_json::Value>| {
            let waits = Arc::clone(&waits);
            async move {
                // Produced when the slot is given up already.
                let child = async {
                    let item = NewItem { kind: Some("child".into()), ..new_item(&1)? };
                    work.queue().produce([item]).await?;
                    waits.notified().await;
                    Ok::<_, ClientError>(())
                };
                work.waiting(child).await?;
                Ok::<_, Failure>("both")
            }
        })
        .handle("child", move |_: Work<u8>| {
            let told = Arc::clone(&told);
            async move {
                told.notify_one();
                Ok::<_, Failure>(())
            }
        });
    within(worker.build().unwrap().run()).await.unwrap();
    assert_eq!(bench.item(&parent).await.result.unwrap().json.as_deref(), Some("\"both\""));
    assert_eq!(bench.queue.stats().await.unwrap().counts.waiting, 0);
}

#[tokio::test]
async fn a_handler_that_has_its_slot_back_ends_the_wait_of_a_lease() {
    let bench = Bench::new().await;
    bench.produce("parent", 0).await;
    let (waited_for, back, done) =
        (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let signals = [&waited_for, &back, &done].map(Arc::clone);
    let worker = bench.worker().concurrency(1).handle_raw("parent", move |work| {
        let [waited_for, back, done] = signals.clone();
        async move {
            work.waiting(waited_for.notified()).await;
            back.notify_one();
            done.notified().await;
            Ok::<_, Failure>(None)
        }
    });
    let running = Running::start(worker);
    bench.server.until_waiting(&bench.queue, 1).await;
    waited_for.notify_one();
    within(back.notified()).await;
    bench.server.until_waiting(&bench.queue, 0).await;
    let next = bench.produce("parent", 0).await;
    assert_eq!(bench.item(&next).await.state, "waiting");
    done.notify_one();
    running.stopped().await;
}

/// A handler that tells why it was cancelled, and fails.
fn tells_reason(
    builder: Builder,
) -> (Builder, mpsc::UnboundedReceiver<String>, mpsc::UnboundedReceiver<Reason>) {
    let (begun, begins) = mpsc::unbounded_channel();
    let (tell, reasons) = mpsc::unbounded_channel();
    let builder = builder.handle_raw("k", move |work| {
        let (begun, tell) = (begun.clone(), tell.clone());
        async move {
            begun.send(work.id().to_owned()).unwrap();
            tell.send(work.cancellation().cancelled().await).unwrap();
            Err::<Option<Payload>, _>(Failure::new("given up"))
        }
    });
    (builder, begins, reasons)
}

#[tokio::test]
async fn a_lost_permit_cancels_the_handler_and_nothing_is_told() {
    let bench = Bench::new().await;
    let id = bench.produce("k", 0).await;
    let (worker, mut begins, mut reasons) = tells_reason(bench.worker());
    let mut running = Running::start(worker);
    next(&mut begins).await;
    bench.queue.clear(ClearQueueRequest { leased: Some(true), ..Default::default() }).await.unwrap();
    assert_eq!(within(reasons.recv()).await, Some(Reason::LeaseLost));
    assert_eq!(running.fate().await, (id, Fate::Lost));
    running.stopped().await;
}

#[tokio::test]
async fn a_permit_that_cannot_be_extended_cancels_the_handler_before_it_ends() {
    let bench = Bench::new().await;
    let id = bench.produce("k", 0).await;
    let (worker, mut begins, mut reasons) = tells_reason(bench.worker());
    let mut running = Running::start(worker);
    next(&mut begins).await;
    bench.server.stop().await;
    assert_eq!(within(reasons.recv()).await, Some(Reason::LeaseEnding));
    assert_eq!(running.fate().await, (id, Fate::Lost));
    running.stopped().await;
}

#[tokio::test]
async fn a_cancel_reaches_the_handler_and_the_item_is_given_up() {
    let bench = Bench::new().await;
    let id = bench.produce("k", 0).await;
    let (worker, mut begins, mut reasons) = tells_reason(bench.worker());
    let mut running = Running::start(worker);
    next(&mut begins).await;
    assert_eq!(bench.client.cancel(id.clone()).await.unwrap().cancel_requested, Some(true));
    assert_eq!(within(reasons.recv()).await, Some(Reason::CancelRequested));
    assert_eq!(running.fate().await, (id, Fate::Released));
    assert_eq!(bench.queue.stats().await.unwrap().counts.leased, 0);
    running.stopped().await;
}

#[tokio::test]
async fn a_stop_lets_handlers_finish_and_takes_nothing_more() {
    let bench = Bench::new().await;
    bench.produce("k", 0).await;
    let (gate, mut begins) = Gate::new();
    let mut running = Running::start(gate.on(bench.worker().concurrency(2), "k"));
    next(&mut begins).await;
    running.stopper.stop();
    bench.server.until_waiting(&bench.queue, 0).await;
    bench.produce("k", 0).await;
    gate.go_on.add_permits(1);
    assert_eq!(running.fate().await.1, Fate::Completed);
    running.stopped().await;
    assert_eq!(bench.queue.stats().await.unwrap().counts.waiting, 1);
}

#[tokio::test]
async fn what_does_not_end_within_the_grace_is_released_uncharged() {
    let bench = Bench::new().await;
    let id = bench.produce("k", 0).await;
    let deaf = bench.produce("deaf", 0).await;
    let worker = bench.worker().concurrency(2).grace(Duration::ZERO).abort_after(Duration::from_millis(1));
    let (worker, mut begins, mut reasons) = tells_reason(worker);
    let (gate, mut deaf_begins) = Gate::new();
    let running = Running::start(gate.on(worker, "deaf"));
    next(&mut begins).await;
    next(&mut deaf_begins).await;
    running.stopped().await;
    assert_eq!(within(reasons.recv()).await, Some(Reason::Stopping));
    for id in [id, deaf] {
        let item = bench.item(&id).await;
        assert_eq!((item.state.as_str(), item.attempts), ("waiting", 0));
    }
    let items = bench.queue.lease(&Lease { batch_size: 9, ..Lease::new("another") }).await.unwrap();
    assert_eq!(items.len(), 2, "elsewhere at once");
}

#[tokio::test]
async fn a_lease_is_kept_for_as_long_as_a_handler_runs() {
    let bench = Bench::new().await;
    let id = bench.produce("k", 0).await;
    let (gate, mut begins) = Gate::new();
    let mut running = Running::start(gate.on(bench.worker(), "k"));
    next(&mut begins).await;
    let first = bench.item(&id).await.lease_deadline.unwrap();
    // It has been extended beyond where it would have ended.
    let kept = async { while bench.item(&id).await.lease_deadline.unwrap() <= first {} };
    within(kept).await;
    gate.go_on.add_permits(1);
    assert_eq!(running.fate().await, (id, Fate::Completed));
    running.stopped().await;
}

#[tokio::test]
async fn a_queue_that_is_not_there_is_told() {
    let bench = Bench::new().await;
    let (gate, _begins) = Gate::new();
    let worker = gate.on(Worker::builder(bench.client.clone(), "nowhere"), "k").build().unwrap();
    let error = within(worker.run()).await.unwrap_err();
    assert_eq!(error.code(), Some(windlass_client::api::Code::NotFound));
}

#[tokio::test]
async fn settings_that_make_no_worker_are_refused() {
    let client = Client::new("http://127.0.0.1:1").unwrap();
    let (gate, _begins) = Gate::new();
    let empty = || Worker::builder(client.clone(), "work");
    let refused = |builder: Builder| builder.build().unwrap_err();
    assert_eq!(refused(empty()), BuildError::NoHandler);
    assert_eq!(refused(gate.on(empty(), "k").concurrency(0)), BuildError::NoRoom);
    let limited = gate.on(empty(), "k").limit("other", 1);
    assert_eq!(refused(limited), BuildError::LimitWithoutHandler { kind: "other".to_owned() });
    let shut = gate.on(empty(), "k").limit("k", 0);
    assert_eq!(refused(shut), BuildError::NoRoomForKind { kind: "k".to_owned() });
    let others = gate.on(empty(), "k").limit("k", 1).handle_others(move |work| gate.clone().pass(work));
    assert_eq!(refused(others), BuildError::LimitAmongOthers { kind: "k".to_owned() });
}
