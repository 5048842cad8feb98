//! Who gets what, and who waits.

use std::time::Duration;

use windlass_core::item::Phase;
use windlass_core::limits::Invalid;
use windlass_core::refusal::Refusal;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{Filter, LeaseItems, NewItem};
use windlass_engine::{EngineError, Grant, LeaseBegun};

use super::waiting_lease;
use crate::world::{World, bodies, held, item, items, lease};

const AN_HOUR: Span = Span::from_secs(3600);

on_every_store!(
    items_are_leased_in_the_order_produced,
    kinds_and_priorities_choose_what_is_leased,
    an_item_produced_while_a_lease_waits_is_handed_over,
    an_item_produced_before_a_lease_joins_the_line_is_handed_over,
    a_waiting_lease_ends_empty_at_its_timeout,
    waiting_leases_are_served_in_the_order_they_came,
    an_abandoned_waiting_lease_takes_nothing,
    a_grant_that_is_dropped_is_given_back_uncharged,
    a_delivery_is_accepted_or_given_back_without_the_items,
    a_lease_fills_its_batch_from_several_partitions,
    leases_survive_a_restart_with_the_same_permits,
    downtime_does_not_end_a_lease,
    a_closing_engine_sends_waiting_leases_home,
    a_lease_under_way_at_the_close_is_delivered_or_given_back_uncharged,
    waiters_sent_home_are_answered_and_leases_after_them_do_not_wait,
    the_kinds_of_waiting_leases_are_bounded_in_bytes,
    what_is_too_large_for_one_answer_is_given_back_uncharged,
    a_lease_shorter_than_a_millisecond_is_refused,
);

async fn items_are_leased_in_the_order_produced(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let mut ids = world.produce(&queue, items(3)).await;
    ids.extend(world.produce(&queue, items(2)).await);
    let leased = world.lease(&queue, 10).await;
    assert_eq!(leased.iter().map(|item| item.leased.id).collect::<Vec<_>>(), ids);
    assert!(
        leased.windows(2).all(
            |pair| pair[0].leased.permit < pair[1].leased.permit && pair[0].leased.id < pair[1].leased.id
        )
    );
    for item in &leased {
        world.complete(&queue, item).await;
    }
    assert!(world.lease(&queue, 10).await.is_empty());
}

async fn kinds_and_priorities_choose_what_is_leased(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let make = |kind: &str, priority, name: &str| NewItem { kind: kind.into(), priority, ..item(name) };
    let batch = vec![make("a", 5, "a5"), make("b", 1, "b1"), make("c", 0, "c0"), make("a", 1, "a1")];
    world.produce(&queue, batch).await;
    let filtered = |kinds: Option<Vec<&str>>, max| LeaseItems {
        filter: Filter::new(kinds.map(|kinds| kinds.into_iter().map(Into::into).collect()), max),
        ..lease(10)
    };
    let engine = world.engine();
    let none = engine
        .lease(&queue, filtered(Some(vec![]), 255), Span::from_secs(3600))
        .await
        .expect("empty at once");
    assert!(none.accept().is_empty());
    let some = engine.lease(&queue, filtered(Some(vec!["a", "b"]), 1), Span::ZERO).await.expect("leased");
    assert_eq!(bodies(&some.accept()), ["b1", "a1"]);
    let rest = engine.lease(&queue, filtered(None, 255), Span::ZERO).await.expect("leased");
    assert_eq!(bodies(&rest.accept()), ["c0", "a5"]);
}

async fn an_item_produced_while_a_lease_waits_is_handed_over(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let waiting = waiting_lease(world, &queue, lease(10)).await;
    let ids = world.produce(&queue, items(2)).await;
    let granted = waiting.await.expect("the task ran").expect("leased").accept();
    assert_eq!(granted.iter().map(|item| item.leased.id).collect::<Vec<_>>(), ids);
}

async fn an_item_produced_before_a_lease_joins_the_line_is_handed_over(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let engine = world.engine();
    let begun = engine.begin_lease(&queue, lease(1), AN_HOUR).await.expect("begun");
    let LeaseBegun::Nothing(line) = begun else { panic!("there is nothing to take") };
    assert_eq!(world.stats(&queue).await.lease_waiters, 0);
    world.produce(&queue, items(1)).await;
    assert_eq!(line.wait().await.expect("leased").accept().len(), 1);
}

async fn a_waiting_lease_ends_empty_at_its_timeout(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let waiting = waiting_lease(world, &queue, lease(10)).await;
    world.env.advance(Duration::from_secs(3600));
    assert!(waiting.await.expect("the task ran").expect("empty").accept().is_empty());
    assert_eq!(world.stats(&queue).await.lease_waiters, 0);
}

async fn waiting_leases_are_served_in_the_order_they_came(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let first = waiting_lease(world, &queue, lease(1)).await;
    let second = waiting_lease(world, &queue, lease(1)).await;
    world.produce(&queue, vec![item("one")]).await;
    assert_eq!(bodies(&first.await.expect("the task ran").expect("leased").accept()), ["one"]);
    world.produce(&queue, vec![item("two")]).await;
    assert_eq!(bodies(&second.await.expect("the task ran").expect("leased").accept()), ["two"]);
}

async fn an_abandoned_waiting_lease_takes_nothing(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let waiting = waiting_lease(world, &queue, lease(10)).await;
    waiting.abort();
    assert!(waiting.await.expect_err("aborted").is_cancelled());
    world.produce(&queue, items(1)).await;
    assert_eq!(world.lease(&queue, 1).await[0].leased.attempts, 1);
}

async fn a_grant_that_is_dropped_is_given_back_uncharged(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(3)).await;
    drop(world.engine().lease(&queue, lease(2), Span::ZERO).await.expect("leased"));
    // The wait is for the item to come back, which the dropped grant sees to.
    let mut all =
        world.engine().lease(&queue, lease(3), Span::from_secs(3600)).await.expect("leased").accept();
    while all.len() < 3 {
        all.extend(
            world.engine().lease(&queue, lease(3), Span::from_secs(3600)).await.expect("leased").accept(),
        );
    }
    assert!(all.iter().all(|item| item.leased.attempts == 1));
}

async fn a_delivery_is_accepted_or_given_back_without_the_items(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    world.produce(&queue, items(1)).await;
    let grant = world.engine().lease(&queue, lease(1), Span::ZERO).await.expect("leased");
    let kept = grant.items().to_vec();
    grant.into_delivery().accept();
    let grant = world.engine().lease(&queue, lease(1), Span::ZERO).await.expect("leased");
    let given_back = grant.items()[0].leased.id;
    drop(grant.into_delivery());
    let again = world.engine().lease(&queue, lease(2), AN_HOUR).await.expect("leased").accept();
    assert_eq!(
        again.iter().map(|item| (item.leased.id, item.leased.attempts)).collect::<Vec<_>>(),
        [(given_back, 1)]
    );
    world.complete(&queue, &kept[0]).await;
}

async fn a_lease_fills_its_batch_from_several_partitions(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    for _ in 0..3 {
        world.produce(&queue, items(4)).await;
    }
    let leased = world.lease(&queue, 10).await;
    assert_eq!(leased.len(), 10);
    assert_eq!(world.lease(&queue, 10).await.len(), 2);
}

async fn leases_survive_a_restart_with_the_same_permits(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    for _ in 0..4 {
        world.produce(&queue, items(5)).await;
    }
    let leased = world.lease(&queue, 8).await;
    world.restart().await;
    let rest = world.lease(&queue, 100).await;
    assert_eq!(rest.len(), 12);
    for item in leased.iter().chain(&rest) {
        world.complete(&queue, item).await;
    }
    let newer = world.produce(&queue, items(1)).await[0];
    assert!(leased.iter().chain(&rest).all(|old| old.leased.id != newer));
}

async fn downtime_does_not_end_a_lease(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let leased = world.lease(&queue, 1).await;
    world.env.advance(Duration::from_secs(30));
    world.engine().close().await;
    world.env.advance(Duration::from_secs(300));
    world.restart().await;
    world.env.advance(Duration::from_secs(9));
    assert!(world.lease(&queue, 1).await.is_empty());
    world.complete(&queue, &leased[0]).await;
}

async fn a_closing_engine_sends_waiting_leases_home(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    world.engine().close().await;
    assert!(waiting.await.expect("the task ran").expect("empty").accept().is_empty());
    assert!(matches!(world.engine().produce(&queue, items(1)).await, Err(EngineError::Unavailable { .. })));
}

async fn a_lease_under_way_at_the_close_is_delivered_or_given_back_uncharged(world: &World) {
    let queue = world.queue("q", 2, Settings { max_attempts: 0, ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    for _ in 0..20 {
        let (engine, name) = (world.engine(), queue.clone());
        let leasing = tokio::spawn(async move { engine.lease(&name, lease(1), Span::from_secs(3600)).await });
        tokio::task::yield_now().await;
        let engine = world.engine();
        let closing = tokio::spawn(async move { engine.close().await });
        let leased = leasing.await.expect("the task ran").map(Grant::accept).unwrap_or_default();
        closing.await.expect("the task ran");
        world.restart().await;
        let view = world.engine().get(id).await.expect("it is there");
        let charged = leased.first().map_or(0, |item| item.leased.attempts);
        assert_eq!((view.item.attempts, view.item.state.phase() == Phase::Leased), (charged, charged == 1));
        world.engine().release(&queue, held(&leased)).await.expect("judged");
    }
}

async fn waiters_sent_home_are_answered_and_leases_after_them_do_not_wait(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    world.engine().send_waiters_home();
    assert!(waiting.await.expect("the task ran").expect("empty").accept().is_empty());
    let later = world.queue("later", 2, Settings::default()).await;
    for queue in [queue, later] {
        // Time stands still: a lease that waited would wait forever.
        let none = world.engine().lease(&queue, lease(1), AN_HOUR).await.expect("empty at once");
        assert!(none.accept().is_empty());
        world.produce(&queue, items(2)).await;
        let leased = world.engine().lease(&queue, lease(1), AN_HOUR).await.expect("leased").accept();
        world.complete(&queue, &leased[0]).await;
        // A grant is still given back, and can be had again.
        drop(world.engine().lease(&queue, lease(1), AN_HOUR).await.expect("leased"));
        while world.lease(&queue, 1).await.is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

async fn the_kinds_of_waiting_leases_are_bounded_in_bytes(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let mut waiting = Vec::new();
    let refused = loop {
        let (engine, name, count) = (world.engine(), queue.clone(), waiting.len());
        let mut next = Box::pin(async move { engine.lease(&name, picky(count), AN_HOUR).await });
        let engine = world.engine();
        let joined = async {
            while engine.overview()[0].lease_waiters == count {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            answer = &mut next => break answer.expect_err("nothing to lease"),
            () = joined => waiting.push(tokio::spawn(next)),
        }
    };
    assert!(matches!(refused, EngineError::Overloaded { max: 33_554_432, .. }), "{refused}");
    // Each names 128,000 bytes, and what it takes to hold them comes on top.
    assert!((140..262).contains(&waiting.len()), "{}", waiting.len());
    // Whoever names none still may wait, and those who leave make room.
    let modest = waiting_lease(world, &queue, lease(1)).await;
    for task in waiting.drain(..1).chain([modest]) {
        task.abort();
        assert!(task.await.expect_err("aborted").is_cancelled());
    }
    waiting.push(waiting_lease(world, &queue, picky(1000)).await);
    world.engine().send_waiters_home();
    for task in waiting {
        assert!(task.await.expect("the task ran").expect("empty").accept().is_empty());
    }
}

async fn a_lease_shorter_than_a_millisecond_is_refused(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let refused = |error: EngineError| {
        matches!(error, EngineError::Refused(Refusal::Invalid(Invalid { field: "lease_timeout", .. })))
    };
    let short = Some(Span::from_micros(999));
    let wish = LeaseItems { lease_timeout: short, ..lease(1) };
    assert!(refused(world.engine().lease(&queue, wish, AN_HOUR).await.expect_err("too short")));
    let leased = world.lease(&queue, 1).await;
    assert!(refused(world.engine().extend(&queue, short, held(&leased)).await.expect_err("too short")));
    world.complete(&queue, &leased[0]).await;
}

/// A lease that names as many kinds as it may, and long ones; none names the same.
fn picky(number: usize) -> LeaseItems {
    let kinds = (0..1000).map(|kind| format!("{number:064}{kind:064}").into()).collect();
    LeaseItems { filter: Filter::new(Some(kinds), u8::MAX), ..lease(1) }
}

async fn what_is_too_large_for_one_answer_is_given_back_uncharged(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    // A few small ones first: they tell nothing about those that follow.
    world.produce(&queue, items(10)).await;
    let large = |number: usize| NewItem { body: vec![number as u8; 500_000].into(), ..item("x") };
    for number in 0..150 {
        world.produce(&queue, vec![large(number)]).await;
    }
    let first = world.lease(&queue, 200).await;
    assert_eq!(first.len(), 10 + 68, "those that reach 32 MiB and none beyond");
    let second = world.engine().lease(&queue, lease(200), AN_HOUR).await.expect("leased").accept();
    assert_eq!(second.len(), 68);
    let third = world.engine().lease(&queue, lease(200), AN_HOUR).await.expect("leased").accept();
    assert_eq!(third.len(), 14);
    let all: Vec<_> = first[10..].iter().chain(&second).chain(&third).collect();
    assert!(all.iter().all(|item| item.leased.attempts == 1), "nobody was charged for what was given back");
    assert!(all.iter().enumerate().all(|(number, item)| item.body[0] == number as u8));
}
