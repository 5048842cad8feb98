//! A queue that gets other partitions, with everything that can go wrong at every step of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use windlass_core::effort::{Looked, looks};
use windlass_core::id::ItemId;
use windlass_core::refusal::Refusal;
use windlass_core::route::{Slot, SlotSet};
use windlass_core::row::QueueName;
use windlass_core::time::Span;
use windlass_core::verbs::{Completion, CreateGroup, NewItem};
use windlass_engine::{Engine, EngineError, Outcome};

use crate::behaviour::addresses::orders;
use crate::behaviour::groups::{end, group};
use crate::failures::world;
use crate::faulty::Fault;
use crate::world::{ManualEnv, completion, items, lease, queue_name};

/// More commits than it takes to grow, to shrink, and to empty what goes.
const COMMITS_MAX: usize = 24;
/// Longer than anything is kept here that has ended.
const RETENTION: Duration = Duration::from_secs(49 * 3600);
/// More turns of the scheduler than the registry takes to hear and commit something.
const YIELDS_MAX: usize = 2000;

async fn complete_all(engine: &Engine, queue: &QueueName) -> usize {
    let leased = engine.lease(queue, lease(1000), Span::ZERO).await.expect("leased").accept();
    let count = leased.len();
    let done = leased.into_iter().map(|item| completion(item.held())).collect();
    engine.complete(queue, done).await.expect("judged").results.into_iter().for_each(|result| {
        result.expect("completed");
    });
    count
}

/// Grows, shrinks, and empties what goes, until a crash comes in its way.
async fn two_to_five_to_one(engine: Engine, queue: QueueName) {
    engine.rebalance(&queue, 5).await.expect("grown");
    engine.rebalance(&queue, 1).await.expect("shrinking");
    complete_all(&engine, &queue).await;
    while engine.stats(&queue).await.expect("stats").partitions.len() > 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_crash_at_any_step_breaks_no_promise() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for commits in 0..COMMITS_MAX {
            crash_after(commits, fault).await;
        }
    }
}

async fn crash_after(commits: usize, fault: Fault) {
    let world = world(2).await;
    let made = world.engine.produce(&world.queue, orders(20)).await.expect("produced").results;
    let ids: Vec<ItemId> = made.into_iter().map(|made| made.expect("produced").id).collect();
    let call =
        world.engine.produce_once(&world.queue, "call".into(), items(3)).await.expect("judged").results;
    world.store.fail_after(commits, fault);
    let mut crashed = world.store.crashed.subscribe();
    tokio::select! {
        () = two_to_five_to_one(world.engine.clone(), world.queue.clone()) => world.store.disarm(),
        _crash = crashed.wait_for(|crashed| *crashed) => {}
    }
    let env = Arc::new(ManualEnv::new());
    env.advance(Duration::from_secs(1));
    let engine =
        Engine::open(env.clone(), Arc::new(world.store.next_process())).await.expect("it opens again");
    let queue = queue_name("q");
    let context = format!("{fault:?} after {commits}");

    // Leased ones were in the hands of a worker that is gone; the others stand as they were, or have ended.
    let again = engine.produce(&queue, orders(20)).await.expect("judged").results;
    for (result, id) in again.iter().zip(&ids) {
        let before = engine.get(*id).await.expect("kept").item.state.phase();
        match result {
            Ok(_) => assert!(before.is_final(), "{context}: {before:?}"),
            Err(EngineError::DuplicateAddress { id: taker }) => assert_eq!(taker, id, "{context}"),
            Err(error) => panic!("{context}: {error}"),
        }
    }
    let repeated = engine.produce_once(&queue, "call".into(), items(3)).await.expect("judged").results;
    for (repeated, first) in repeated.iter().zip(&call) {
        let (repeated, first) = (repeated.as_ref().expect("produced"), first.as_ref().expect("produced"));
        assert_eq!(repeated, first, "{context}");
    }
    // And it goes on from where it was.
    env.advance(Duration::from_secs(3600));
    while engine.stats(&queue).await.expect("stats").counts.live() > 0 {
        complete_all(&engine, &queue).await;
    }
    let width = |engine: &Engine| engine.queue_info(&queue).expect("it is there").width();
    while engine.stats(&queue).await.expect("stats").partitions.len() > width(&engine) {
        tokio::task::yield_now().await;
    }
    engine.rebalance(&queue, 3).await.expect("rebalanced");
    assert_eq!(width(&engine), 3, "{context}");
}

#[tokio::test]
async fn while_a_former_home_is_faulty_its_keys_are_unavailable_and_others_are_not() {
    let world = world(1).await;
    let made = world.engine.produce(&world.queue, orders(40)).await.expect("produced").results;
    let ids: Vec<ItemId> = made.into_iter().map(|made| made.expect("produced").id).collect();
    world.engine.rebalance(&world.queue, 4).await.expect("rebalanced");
    *world.store.broken_partition.lock().expect("not poisoned") = Some(ids[0].partition);
    let _brings_the_fault_about = world.engine.cancel(ids[0]).await.expect_err("broken");
    let error = world.engine.produce(&world.queue, orders(40)).await.expect_err("nobody can say");
    assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error}");
    let free = world.engine.produce(&world.queue, items(3)).await.expect("they go around");
    assert!(free.results.iter().all(Result::is_ok));
    *world.store.broken_partition.lock().expect("not poisoned") = None;
    assert_eq!(world.waiting().await, 43);
    let taken = world.engine.produce(&world.queue, orders(40)).await.expect("judged").results;
    let is_taken = |(result, id): (&Result<_, EngineError>, &ItemId)| matches!(result, Err(EngineError::DuplicateAddress { id: taker }) if taker == id);
    assert!(taken.iter().zip(&ids).all(is_taken), "{taken:?}");
}

/// How many partitions are asked about keys of slots that they lost, once the registry has had time to forget them.
async fn former_homes(engine: &Engine, queue: &QueueName) -> usize {
    let count = || engine.queue_info(queue).expect("it is there").former.len();
    for _ in 0..YIELDS_MAX {
        if count() == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    count()
}

/// Orders whose keys are not at home in the first partition, which was home to all of them.
fn moved_orders(engine: &Engine, queue: &QueueName) -> Vec<NewItem> {
    let queue = engine.queue_info(queue).expect("it is there");
    let has_moved = |item: &NewItem| queue.home(Slot::of(item.key().expect("an address"))) != Some(0);
    orders(40).into_iter().filter(has_moved).collect()
}

#[tokio::test]
async fn a_former_home_without_keys_is_not_asked_and_its_fault_does_no_harm() {
    let world = world(1).await;
    let (engine, queue) = (&world.engine, &world.queue);
    let made = engine.produce(queue, orders(40)).await.expect("produced").results;
    let id = made[0].as_ref().expect("produced").id;
    engine.rebalance(queue, 3).await.expect("grown");
    assert_eq!(former_homes(engine, queue).await, 1, "its keys are live");
    let before = looks(Looked::FormerHomes);
    let taken = engine.produce(queue, moved_orders(engine, queue)).await.expect("judged").results;
    assert!(taken.iter().all(Result::is_err));
    assert_eq!(looks(Looked::FormerHomes) - before, 1, "one question for the whole call");

    assert_eq!(complete_all(engine, queue).await, 40);
    // Until then it keeps what became of them.
    world.env.advance(RETENTION);
    assert_eq!(former_homes(engine, queue).await, 0);
    *world.store.broken_partition.lock().expect("not poisoned") = Some(id.partition);
    let free = items(30);
    let _brings_the_fault_about = engine.produce(queue, free).await;
    let before = looks(Looked::FormerHomes);
    let made = engine.produce(queue, moved_orders(engine, queue)).await.expect("produced").results;
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    assert_eq!(looks(Looked::FormerHomes) - before, 0, "nobody is asked");
}

#[tokio::test]
async fn a_former_home_is_asked_for_as_long_as_it_keeps_an_outcome_a_group_or_a_call() {
    let world = world(1).await;
    let (engine, queue) = (&world.engine, &world.queue);
    engine.produce(queue, orders(20)).await.expect("produced");
    let leased = engine.lease(queue, lease(20), Span::ZERO).await.expect("leased").accept();
    let outcome = Some(Bytes::from_static(b"done"));
    let done =
        leased.into_iter().map(|item| Completion { held: item.held(), result: outcome.clone() }).collect();
    engine.complete(queue, done).await.expect("judged");
    let call = engine.produce_once(queue, "call".into(), orders(20)).await.expect("made").results;
    let call: Vec<_> = call.into_iter().map(|made| made.expect("produced")).collect();
    complete_all(engine, queue).await;
    for number in 0..12 {
        let name: Arc<str> = format!("group-{number}").into();
        engine
            .create_group(queue, CreateGroup { start: true, items: items(1), ..group(&name) })
            .await
            .expect("made");
    }
    complete_all(engine, queue).await;
    engine.rebalance(queue, 3).await.expect("grown");
    assert_eq!(former_homes(engine, queue).await, 1);

    // Nothing lives any more, and all of it is still known.
    assert!(engine.item_at(queue, "order-1").await.is_ok());
    let repeated = engine.produce_once(queue, "call".into(), orders(20)).await.expect("judged").results;
    let repeated: Vec<_> = repeated.into_iter().map(|made| made.expect("produced")).collect();
    assert_eq!(repeated, call);

    world.env.advance(RETENTION);
    assert_eq!(former_homes(engine, queue).await, 0);
}

#[tokio::test]
async fn a_slot_without_keys_is_not_asked_about_while_another_one_has_some() {
    let world = world(1).await;
    let (engine, queue) = (&world.engine, &world.queue);
    engine.produce(queue, orders(20)).await.expect("produced");
    engine.rebalance(queue, 3).await.expect("grown");
    assert_eq!(former_homes(engine, queue).await, 1);
    let asked: usize = engine.queue_info(queue).expect("it is there").former.values().map(SlotSet::len).sum();
    assert!((1..=20).contains(&asked), "{asked} slots are asked about");
}

#[tokio::test]
async fn while_a_former_home_is_faulty_groups_that_others_have_are_served() {
    let world = world(1).await;
    let names =
        |of: &str| -> Vec<Arc<str>> { (0..12).map(|number| format!("{of}{number}").into()).collect() };
    let (before, after) = (names("before"), names("after"));
    let create = |name: &Arc<str>| CreateGroup { end: end(name, None), items: items(1), ..group(name) };
    let mut homes = Vec::new();
    for name in &before {
        world.engine.create_group(&world.queue, create(name)).await.expect("made");
    }
    world.engine.rebalance(&world.queue, 4).await.expect("rebalanced");
    for name in &after {
        let made = world.engine.create_group(&world.queue, create(name)).await.expect("made").value;
        homes.push(made.items[0].id);
    }
    let first = world.engine.queue_info(&world.queue).expect("it is there").partitions[0];
    *world.store.broken_partition.lock().expect("not poisoned") = Some(first);
    let _brings_the_fault_about =
        world.engine.start_group(&world.queue, &before[0]).await.expect_err("broken");
    for (name, home) in after.iter().zip(&homes).filter(|(_, home)| home.partition != first) {
        world.engine.start_group(&world.queue, name).await.expect("its partition serves");
        let member = NewItem { group: Some(Arc::clone(name)), ..items(1).remove(0) };
        let told = world.engine.produce(&world.queue, vec![member]).await.expect("judged").results.remove(0);
        assert_eq!(told.expect("taken").id.partition, home.partition);
    }
    for name in &before {
        let error = world.engine.create_group(&world.queue, create(name)).await.expect_err("nobody can say");
        assert!(matches!(error, EngineError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error}");
    }
}

/// Who was seen with which body.
type Seen = Mutex<BTreeSet<(Bytes, ItemId)>>;

/// Takes note of what it gets before it completes it.
async fn complete_and_tell(engine: &Engine, queue: &QueueName, seen: &Seen) {
    let leased = engine.lease(queue, lease(1000), Span::ZERO).await.expect("leased").accept();
    seen.lock().expect("not poisoned").extend(leased.iter().map(|item| (item.body.clone(), item.leased.id)));
    let done = leased.into_iter().map(|item| completion(item.held())).collect();
    engine.complete(queue, done).await.expect("judged");
}

async fn empty_it_and_tell(engine: Engine, queue: QueueName, seen: &Seen) {
    engine.rebalance(&queue, 5).await.expect("grown");
    engine.rebalance(&queue, 1).await.expect("shrinking");
    while engine.stats(&queue).await.expect("stats").partitions.len() > 1 {
        complete_and_tell(&engine, &queue, seen).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_crash_at_any_step_leaves_each_group_its_one_end() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for commits in 0..COMMITS_MAX {
            crash_with_groups(commits, fault).await;
        }
    }
}

async fn crash_with_groups(commits: usize, fault: Fault) {
    let world = world(2).await;
    let names: Vec<Arc<str>> = (0..8).map(|number| format!("g{number}").into()).collect();
    for name in &names {
        let create = CreateGroup { end: end(name, None), items: items(1), start: true, ..group(name) };
        world.engine.create_group(&world.queue, create).await.expect("made");
    }
    let seen = Seen::default();
    world.store.fail_after(commits, fault);
    let mut crashed = world.store.crashed.subscribe();
    tokio::select! {
        () = empty_it_and_tell(world.engine.clone(), world.queue.clone(), &seen) => world.store.disarm(),
        _crash = crashed.wait_for(|crashed| *crashed) => {}
    }
    let env = Arc::new(ManualEnv::new());
    env.advance(Duration::from_secs(1));
    let engine =
        Engine::open(env.clone(), Arc::new(world.store.next_process())).await.expect("it opens again");
    let queue = queue_name("q");
    let context = format!("{fault:?} after {commits}");
    for name in &names {
        let again = engine.create_group(&queue, group(name)).await.expect_err("it is there");
        assert!(matches!(again, EngineError::Refused(Refusal::GroupExists)), "{context}: {again}");
        let member = NewItem { group: Some(Arc::clone(name)), ..items(1).remove(0) };
        let told = engine.produce(&queue, vec![member]).await.expect("judged").results.remove(0);
        let is_done = engine.group(&queue, name).await.expect("it is there").state.name() == "done";
        assert_eq!(told.is_err(), is_done, "{context}: {told:?}");
    }
    // What a worker had that is gone comes back, and ends after all.
    env.advance(Duration::from_secs(3600));
    while engine.stats(&queue).await.expect("stats").counts.live() > 0 {
        complete_and_tell(&engine, &queue, &seen).await;
    }
    let seen = seen.into_inner().expect("not poisoned");
    for name in &names {
        let view = engine.group(&queue, name).await.expect("it is there");
        assert_eq!((view.state.name(), view.live.live()), ("done", 0), "{context}");
        let ends = seen.iter().filter(|(body, _)| body.as_ref() == name.as_bytes()).count();
        assert_eq!(ends, 1, "{context}: {name}");
    }
}
