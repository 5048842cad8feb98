//! A worker's turn: what it settles and what it leases is one commit in each partition.

use windlass_core::id::{ItemId, ItemNumber};
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{ExtendItem, Filter, Held, LeaseItems, NewItem, Settle, Settled, SuspendItem};
use windlass_engine::{EngineError, Granted, Turn};

use super::{is_refused, retry_item, waiting_lease};
use crate::world::{World, bodies, completion, held, item, items, lease};

on_every_store!(
    a_turn_is_one_commit,
    a_turn_over_several_partitions_is_one_commit_in_each,
    a_turn_leases_from_other_partitions_what_its_own_do_not_have,
    a_turn_settles_by_every_verb,
    a_turn_without_a_lease_only_settles,
    a_turn_does_not_wait_for_work,
    what_a_turn_gave_back_is_not_leased_by_it,
    what_a_turn_gave_back_goes_to_a_lease_that_waits,
    a_turn_takes_only_the_kinds_and_priorities_it_asks_for,
    an_item_that_is_not_in_the_queue_is_not_found_and_the_others_go_on,
    a_malformed_turn_settles_nothing,
    a_grant_of_a_turn_that_is_dropped_is_given_back_uncharged,
);

fn complete(item: &Granted) -> Settle {
    Settle::Complete(completion(item.held()))
}

async fn next(world: &World, queue: &QueueName, items: Vec<Settle>, batch_size: usize) -> Turn {
    world.engine().next(queue, items, Some(lease(batch_size))).await.expect("a sound turn")
}

fn leased(turn: Turn) -> Vec<Granted> {
    turn.leased.expect("leased").accept()
}

fn all_settled(turn: &Turn) {
    assert!(turn.settled.results.iter().all(Result::is_ok), "{:?}", turn.settled);
}

/// Two items in each of two partitions, of which the first of each is leased.
async fn two_partitions(world: &World) -> (QueueName, Vec<Granted>) {
    let queue = world.queue("q", 2, Settings::default()).await;
    for batch in 0..2 {
        world
            .produce(&queue, vec![item(&format!("first of {batch}")), item(&format!("next of {batch}"))])
            .await;
    }
    let leased = world.lease(&queue, 4).await;
    let (first, later): (Vec<_>, Vec<_>) =
        leased.into_iter().partition(|item| item.body.starts_with(b"first"));
    world.engine().release(&queue, held(&later)).await.expect("judged");
    assert_ne!(first[0].leased.id.partition, first[1].leased.id.partition);
    (queue, first)
}

async fn a_turn_is_one_commit(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(3)).await;
    let held = world.lease(&queue, 2).await;
    let before = world.engine().commit_stats().commits;
    let turn = next(world, &queue, held.iter().map(complete).collect(), 2).await;
    assert_eq!(world.engine().commit_stats().commits, before + 1);
    all_settled(&turn);
    assert_eq!(turn.commits().len(), 1);
    assert_eq!(turn.commits(), turn.leased.as_ref().expect("leased").commits());
    assert_eq!(bodies(&leased(turn)), ["item 2"]);
}

async fn a_turn_over_several_partitions_is_one_commit_in_each(world: &World) {
    let (queue, held) = two_partitions(world).await;
    let before = world.engine().commit_stats().commits;
    let turn = next(world, &queue, held.iter().map(complete).collect(), 2).await;
    assert_eq!(world.engine().commit_stats().commits, before + 2);
    all_settled(&turn);
    assert_eq!(turn.commits().len(), 2);
    let mut got = bodies(&leased(turn));
    got.sort();
    assert_eq!(got, ["next of 0", "next of 1"]);
}

async fn a_turn_leases_from_other_partitions_what_its_own_do_not_have(world: &World) {
    let (queue, held) = two_partitions(world).await;
    let turn = next(world, &queue, vec![complete(&held[0])], 10).await;
    all_settled(&turn);
    assert_eq!(turn.settled.commits.len(), 1);
    assert_eq!(turn.commits().len(), 2);
    assert_eq!(leased(turn).len(), 2);
    assert_eq!(world.waiting(&queue).await, 0);
}

async fn a_turn_settles_by_every_verb(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(5)).await;
    let held = world.lease(&queue, 5).await;
    let lease_timeout = Some(Span::from_secs(7));
    let settles = vec![
        complete(&held[0]),
        Settle::Retry(retry_item(&held[1])),
        Settle::Release(held[2].held()),
        Settle::Suspend(SuspendItem { held: held[3].held(), reason: Some("an answer".into()) }),
        Settle::Extend(ExtendItem { held: held[4].held(), lease_timeout }),
    ];
    let turn = world.engine().next(&queue, settles, None).await.expect("a sound turn");
    let deadline = world.engine().now() + Span::from_secs(7);
    let [
        Ok(Settled::Completed),
        Ok(Settled::Retried(_)),
        Ok(Settled::Released),
        Ok(Settled::Suspended),
        Ok(Settled::Extended(extended)),
    ] = &turn.settled.results[..]
    else {
        panic!("{:?}", turn.settled)
    };
    assert!(extended.deadline <= deadline && !extended.cancel_requested);
    let counts = world.stats(&queue).await.counts;
    assert_eq!((counts.scheduled, counts.waiting, counts.suspended, counts.leased), (1, 1, 1, 1));
}

async fn a_turn_without_a_lease_only_settles(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(2)).await;
    let held = world.lease(&queue, 1).await;
    let turn = world.engine().next(&queue, vec![complete(&held[0])], None).await.expect("a sound turn");
    all_settled(&turn);
    assert!(leased(turn).is_empty());
    assert_eq!(world.waiting(&queue).await, 1);
}

async fn a_turn_does_not_wait_for_work(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let held = world.lease(&queue, 1).await;
    // Time stands still: a turn that waited would never end.
    assert!(leased(next(world, &queue, vec![complete(&held[0])], 1).await).is_empty());
}

async fn what_a_turn_gave_back_is_not_leased_by_it(world: &World) {
    let (queue, held) = two_partitions(world).await;
    let back = Settle::Release(held[0].held());
    let got = leased(next(world, &queue, vec![back, complete(&held[1])], 10).await);
    assert_eq!(got.len(), 2, "what waits behind it and in the other partition");
    assert!(got.iter().all(|item| item.leased.id != held[0].leased.id));
    assert_eq!(world.lease(&queue, 10).await[0].leased.id, held[0].leased.id);
}

async fn what_a_turn_gave_back_goes_to_a_lease_that_waits(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let held = world.lease(&queue, 1).await;
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    assert!(leased(next(world, &queue, vec![Settle::Release(held[0].held())], 1).await).is_empty());
    let granted = waiting.await.expect("the task ran").expect("leased").accept();
    assert_eq!((granted[0].leased.id, granted[0].leased.attempts), (held[0].leased.id, 1));
}

async fn a_turn_takes_only_the_kinds_and_priorities_it_asks_for(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let make = |kind: &str, priority, name: &str| NewItem { kind: kind.into(), priority, ..item(name) };
    world.produce(&queue, vec![make("a", 0, "held")]).await;
    let held = world.lease(&queue, 1).await;
    world.produce(&queue, vec![make("a", 5, "a5"), make("b", 1, "b1"), make("a", 1, "a1")]).await;
    world.produce(&queue, vec![make("a", 1, "a1 too"), make("b", 0, "b0")]).await;
    let only = |kinds: Vec<&str>| {
        let filter = Filter::new(Some(kinds.into_iter().map(Into::into).collect()), 1);
        Some(LeaseItems { filter, ..lease(10) })
    };
    let engine = world.engine();
    let extend = || vec![Settle::Extend(ExtendItem { held: held[0].held(), lease_timeout: None })];
    assert!(leased(engine.next(&queue, extend(), only(vec![])).await.expect("a sound turn")).is_empty());
    let turn = engine.next(&queue, extend(), only(vec!["a"])).await.expect("a sound turn");
    let mut got = bodies(&leased(turn));
    got.sort();
    assert_eq!(got, ["a1", "a1 too"]);
}

async fn an_item_that_is_not_in_the_queue_is_not_found_and_the_others_go_on(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let other = world.queue("other", 1, Settings::default()).await;
    world.produce(&queue, items(2)).await;
    world.produce(&other, items(1)).await;
    let (held, stranger) = (world.lease(&queue, 1).await, world.lease(&other, 1).await);
    let gone = ItemId { number: ItemNumber(9_999_999), ..held[0].leased.id };
    let gone = Settle::Release(Held { id: gone, permit: held[0].leased.permit });
    let turn = next(world, &queue, vec![complete(&stranger[0]), complete(&held[0]), gone], 5).await;
    assert!(is_refused(&turn.settled.results[0], &Refusal::NotFound));
    assert!(turn.settled.results[1].is_ok());
    assert!(is_refused(&turn.settled.results[2], &Refusal::NotFound));
    assert_eq!(leased(turn).len(), 1);
    assert_eq!(world.stats(&other).await.counts.leased, 1);
}

async fn a_malformed_turn_settles_nothing(world: &World) {
    let (queue, held) = two_partitions(world).await;
    let engine = world.engine();
    let before = engine.commit_stats().commits;
    let invalid = |result: Result<Turn, EngineError>| {
        assert!(matches!(result, Err(EngineError::Refused(Refusal::Invalid(_)))), "{result:?}");
    };
    let twice = vec![complete(&held[0]), complete(&held[1]), Settle::Release(held[1].held())];
    invalid(engine.next(&queue, twice, Some(lease(1))).await);
    invalid(engine.next(&queue, vec![complete(&held[0])], Some(lease(0))).await);
    let timeout = Settle::Extend(ExtendItem { held: held[1].held(), lease_timeout: Some(Span::ZERO) });
    invalid(engine.next(&queue, vec![complete(&held[0]), timeout], None).await);
    invalid(engine.next(&queue, vec![], Some(lease(1))).await);
    assert_eq!(engine.commit_stats().commits, before);
    assert_eq!(world.stats(&queue).await.counts.leased, 2);
}

async fn a_grant_of_a_turn_that_is_dropped_is_given_back_uncharged(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(2)).await;
    let held = world.lease(&queue, 1).await;
    let turn = next(world, &queue, vec![complete(&held[0])], 1).await;
    all_settled(&turn);
    drop(turn);
    // The wait is for the item to come back, which the dropped grant sees to.
    let again = world.engine().lease(&queue, lease(1), Span::from_secs(3600)).await.expect("leased").accept();
    assert_eq!(again[0].leased.attempts, 1);
}
