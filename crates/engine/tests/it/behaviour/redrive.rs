//! Dead items sent back.

use std::time::Duration;

use windlass_core::id::ItemId;
use windlass_core::item::{MoveReason, Phase};
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::NewItem;
use windlass_engine::{EngineError, Redrive};

use super::addresses::at;
use super::dead_queues::{all_moved, arrived, fail_all, fill_with_kinds, to_dead, while_time_passes};
use super::expiry::lives;
use super::is_refused;
use crate::world::{World, bodies, item, items, queue_name};

on_every_store!(
    a_redrive_sends_all_back_to_where_they_came_from,
    a_redrive_takes_the_first_that_wait_of_the_kind_asked_for,
    what_came_from_nowhere_stays_unless_a_queue_is_named,
    what_came_from_a_queue_that_is_gone_stays,
    what_is_leased_or_overdue_is_not_redriven,
    a_redrive_to_a_queue_that_is_not_there_is_refused,
    a_redrive_of_more_than_a_slice_leaves_nothing_behind,
    a_letter_that_the_home_of_its_address_refuses_is_sent_again_with_pauses,
    of_several_letters_of_one_address_the_first_has_it_over_several_slices,
    a_letter_whose_address_is_taken_on_its_way_arrives_without_it,
    letters_have_their_addresses_again_in_the_queue_that_a_redrive_names,
    a_dead_letter_has_no_address_itself,
);

async fn redrive(world: &World, queue: &QueueName, redrive: Redrive) -> u64 {
    world.engine().redrive(queue, redrive).await.expect("redriven").value.moved
}

/// Two queues whose items died, and the dead queue they are in.
async fn graveyard(world: &World, partitions: u32) -> (QueueName, QueueName, QueueName) {
    let (one, two) = (world.queue("one", 2, to_dead()).await, world.queue("two", 1, to_dead()).await);
    let dead = world.queue("dead", partitions, Settings::default()).await;
    let mail = NewItem { kind: "mail".into(), ..item("mail") };
    world.produce(&one, vec![item("first"), mail, item("last")]).await;
    world.produce(&two, vec![item("other")]).await;
    for queue in [&one, &two] {
        fail_all(world, queue).await;
        all_moved(world, queue).await;
    }
    (one, two, dead)
}

async fn a_redrive_sends_all_back_to_where_they_came_from(world: &World) {
    let (one, two, dead) = graveyard(world, 2).await;
    let committed = world.engine().redrive(&dead, Redrive::default()).await.expect("redriven");
    assert_eq!((committed.value.moved, committed.commits.len()), (4, 2));
    assert_eq!(world.waiting(&dead).await, 0);
    let back = arrived(world, &one, 3).await;
    assert!(back.iter().all(|item| item.leased.attempts == 1), "their attempts begin anew");
    let origin = back[0].leased.origin.as_deref().expect("moved");
    assert_eq!((&*origin.queue, origin.reason, origin.attempts), ("dead", MoveReason::Redrive, Some(0)));
    let letter = origin.id.expect("known");
    assert_eq!(bodies(&arrived(world, &two, 1).await), ["other"]);
    all_moved(world, &dead).await;
    for _ in ["before", "after a restart"] {
        let stats = world.stats(&dead).await;
        assert_eq!((stats.counts.live(), stats.retained, stats.moving), (0, 4, 0));
        let shown = world.engine().get(letter).await.expect("kept");
        assert_eq!((shown.item.state.phase(), &shown.payload), (Phase::Cancelled, &None));
        let moved_to = shown.item.extras.and_then(|extras| extras.moved_to).expect("it went on");
        assert_eq!((&*moved_to.queue, moved_to.id), ("one", back[0].leased.id));
        world.restart().await;
    }
}

async fn a_redrive_takes_the_first_that_wait_of_the_kind_asked_for(world: &World) {
    let (one, _, dead) = graveyard(world, 1).await;
    let mail = Redrive { kind: Some("mail".into()), ..Redrive::default() };
    assert_eq!(redrive(world, &dead, mail.clone()).await, 1);
    assert_eq!(bodies(&arrived(world, &one, 1).await), ["mail"]);
    assert_eq!(redrive(world, &dead, mail).await, 0);
    assert_eq!(redrive(world, &dead, Redrive { limit: Some(0), ..Redrive::default() }).await, 0);
    assert_eq!(redrive(world, &dead, Redrive { limit: Some(1), ..Redrive::default() }).await, 1);
    assert_eq!(bodies(&arrived(world, &one, 1).await), ["first"]);
    assert_eq!(world.waiting(&dead).await, 2);
}

async fn what_came_from_nowhere_stays_unless_a_queue_is_named(world: &World) {
    let (_, two, dead) = graveyard(world, 1).await;
    world.produce(&dead, vec![NewItem { priority: 1, ..item("produced here") }]).await;
    assert_eq!(redrive(world, &dead, Redrive::default()).await, 4);
    assert_eq!(world.waiting(&dead).await, 1);
    assert_eq!(bodies(&arrived(world, &two, 1).await), ["other"]);
    let to = Some(two.clone());
    assert_eq!(redrive(world, &dead, Redrive { to, ..Redrive::default() }).await, 1);
    assert_eq!(bodies(&arrived(world, &two, 1).await), ["produced here"]);
    // And back again: that is where it came from now.
    world.env.advance(Duration::from_secs(61));
    assert_eq!(arrived(world, &dead, 2).await.len(), 2);
}

async fn what_came_from_a_queue_that_is_gone_stays(world: &World) {
    let (one, two, dead) = graveyard(world, 1).await;
    world.engine().delete_queue(&two, false).await.expect("nothing is left of it");
    assert_eq!(redrive(world, &dead, Redrive::default()).await, 3);
    assert_eq!(arrived(world, &one, 3).await.len(), 3);
    assert_eq!(world.waiting(&dead).await, 1);
    let to = Some(one.clone());
    assert_eq!(redrive(world, &dead, Redrive { to, ..Redrive::default() }).await, 1);
    assert_eq!(bodies(&arrived(world, &one, 1).await), ["other"]);
}

async fn what_is_leased_or_overdue_is_not_redriven(world: &World) {
    let (_, two, dead) = graveyard(world, 1).await;
    let leased = world.lease(&dead, 1).await;
    assert_eq!(bodies(&leased), ["first"]);
    assert_eq!(redrive(world, &dead, Redrive::default()).await, 3);
    world.complete(&dead, &leased[0]).await;
    world.produce(&dead, vec![NewItem { dead_timeout: lives(5), ..item("old") }]).await;
    world.env.advance(Duration::from_secs(5));
    assert_eq!(redrive(world, &dead, Redrive { to: Some(two), ..Redrive::default() }).await, 0);
}

async fn a_redrive_to_a_queue_that_is_not_there_is_refused(world: &World) {
    let (_, _, dead) = graveyard(world, 1).await;
    let to = |name: &str| Redrive { to: Some(queue_name(name)), ..Redrive::default() };
    let refused = world.engine().redrive(&dead, to("nowhere")).await;
    assert!(is_refused(&refused, &Refusal::NoSuchQueue { queue: "nowhere".into() }));
    assert!(is_refused(
        &world.engine().redrive(&queue_name("nowhere"), to("one")).await,
        &Refusal::NoSuchQueue { queue: "nowhere".into() }
    ));
    let itself = world.engine().redrive(&dead, to("dead")).await;
    assert!(matches!(itself, Err(EngineError::Refused(Refusal::Invalid(invalid))) if invalid.field == "to"));
    assert_eq!(world.waiting(&dead).await, 4);
}

async fn a_redrive_of_more_than_a_slice_leaves_nothing_behind(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 2, Settings::default()).await;
    world.produce(&queue, items(900)).await;
    fail_all(world, &queue).await;
    all_moved(world, &queue).await;
    assert_eq!(redrive(world, &dead, Redrive { limit: Some(600), ..Redrive::default() }).await, 600);
    assert_eq!(world.waiting(&dead).await, 300);
    assert_eq!(redrive(world, &dead, Redrive::default()).await, 300);
    let back = arrived(world, &queue, 900).await;
    let mut payloads = bodies(&back);
    payloads.sort();
    payloads.dedup();
    assert_eq!(payloads.len(), 900, "each once");
}

/// A letter that was redriven to a queue whose partition takes no further kinds, and the items of that queue.
async fn refused_on_its_way(world: &World) -> (QueueName, QueueName, ItemId) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let full = world.queue("full", 1, Settings::default()).await;
    fill_with_kinds(world, &full).await;
    world.produce(&queue, vec![NewItem { kind: "one-too-many".into(), ..at("desk") }]).await;
    fail_all(world, &queue).await;
    let letter = arrived(world, &dead, 1).await.remove(0);
    world.engine().release(&dead, vec![letter.held()]).await.expect("released");
    assert_eq!(redrive(world, &dead, Redrive { to: Some(full.clone()), ..Redrive::default() }).await, 1);
    (dead, full, letter.leased.id)
}

async fn a_letter_that_the_home_of_its_address_refuses_is_sent_again_with_pauses(world: &World) {
    let (dead, full, letter) = refused_on_its_way(world).await;
    let engine = world.engine();
    let waiting = tokio::spawn(async move { engine.wait(letter, Span::from_secs(3600)).await });
    let before = world.engine().commit_stats().commits;
    for _ in 0..1000 {
        world.env.advance(Duration::from_millis(10));
        // Asks every partition: the engine goes on meanwhile.
        assert_eq!(world.stats(&dead).await.moving, 1);
    }
    let commits = world.engine().commit_stats().commits - before;
    assert!(commits <= 60, "{commits} commits in ten seconds");
    // Not held back for an hour.
    let told = while_time_passes(world, waiting).await.expect("the task ran").expect("told");
    assert_eq!(told.phase(), Phase::Cancelled);
    let id = world.lease(&full, 1).await[0].leased.id;
    world.engine().delete_items(&full, vec![id]).await.expect("judged");
    while_time_passes(world, all_moved(world, &dead)).await;
    let there = world.engine().item_at(&full, "desk").await.expect("it has its address again");
    assert_eq!(world.engine().follow(letter).await.expect("followed"), there);
}

async fn of_several_letters_of_one_address_the_first_has_it_over_several_slices(world: &World) {
    const ADDRESSES: usize = 150;
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let all = || (0..ADDRESSES).map(|number| at(&format!("desk {number}"))).collect();
    for _ in 0..2 {
        world.produce(&queue, all()).await;
        fail_all(world, &queue).await;
        all_moved(world, &queue).await;
    }
    let limited = Redrive { limit: Some(30), ..Redrive::default() };
    let done = world.engine().redrive(&dead, limited).await.expect("redriven").value;
    assert_eq!((done.moved, done.skipped), (30, 0));
    all_moved(world, &dead).await;
    let done = world.engine().redrive(&dead, Redrive::default()).await.expect("redriven").value;
    assert_eq!((done.moved, done.skipped), (ADDRESSES as u64 - 30, ADDRESSES as u64));
    all_moved(world, &dead).await;
    let back = arrived(world, &queue, ADDRESSES).await;
    assert!(back.iter().all(|item| item.leased.address.is_some()), "each has its address");
}

async fn a_letter_whose_address_is_taken_on_its_way_arrives_without_it(world: &World) {
    let (dead, full, _) = refused_on_its_way(world).await;
    let holder = world.produce(&full, vec![NewItem { kind: "kind-7".into(), ..at("desk") }]).await[0];
    let id = world.lease(&full, 1).await[0].leased.id;
    world.engine().delete_items(&full, vec![id]).await.expect("judged");
    while_time_passes(world, all_moved(world, &dead)).await;
    assert_eq!(world.engine().item_at(&full, "desk").await.expect("there"), holder);
    let items = world.lease(&full, 1000).await;
    let without = async |items: Vec<windlass_engine::Granted>| {
        items.into_iter().find(|item| &*item.leased.kind == "one-too-many")
    };
    let mut found = without(items).await;
    while found.is_none() {
        found = without(world.lease(&full, 1000).await).await;
    }
    let leased = found.expect("it arrived").leased;
    let origin = leased.origin.as_deref().expect("redriven");
    assert_eq!((leased.address, origin.address.as_deref()), (None, Some("desk")));
}

async fn letters_have_their_addresses_again_in_the_queue_that_a_redrive_names(world: &World) {
    let queue = world.queue("q", 2, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let other = world.queue("other", 3, Settings::default()).await;
    for address in ["free", "taken", "twice", "twice"] {
        world.produce(&queue, vec![at(address)]).await;
        fail_all(world, &queue).await;
        all_moved(world, &queue).await;
    }
    // An address counts in the queue where the letter goes: in the one that it came from it may be taken.
    world.produce(&queue, vec![at("free")]).await;
    let holder = world.produce(&other, vec![at("taken")]).await[0];
    let to_other = Redrive { to: Some(other.clone()), ..Redrive::default() };
    let done = world.engine().redrive(&dead, to_other).await.expect("redriven").value;
    assert_eq!((done.moved, done.skipped), (2, 2));
    all_moved(world, &dead).await;
    for address in ["free", "twice"] {
        let there = world.engine().item_at(&other, address).await.expect("it has its address again");
        let view = world.engine().get(there).await.expect("shown");
        assert_eq!(view.payload.as_deref(), Some(address.as_bytes()));
    }
    assert_eq!(world.engine().item_at(&other, "taken").await.expect("there"), holder);
    assert_eq!((world.live(&other).await, world.waiting(&dead).await), (3, 2));
}

async fn a_dead_letter_has_no_address_itself(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    for _ in ["one", "and another of the same address"] {
        world.produce(&queue, vec![at("desk")]).await;
        fail_all(world, &queue).await;
        all_moved(world, &queue).await;
    }
    world.restart().await;
    let refused = world.engine().item_at(&dead, "desk").await;
    assert!(is_refused(&refused, &Refusal::NotFound), "{refused:?}");
    world.produce(&dead, vec![NewItem { priority: 9, ..at("desk") }]).await;
    let letters = world.lease(&dead, 10).await;
    let addresses: Vec<Option<&str>> = letters.iter().map(|item| item.leased.address.as_deref()).collect();
    assert_eq!(addresses, [None, None, Some("desk")]);
    for letter in &letters[..2] {
        let origin = letter.leased.origin.as_deref().expect("it died");
        assert_eq!(origin.address.as_deref(), Some("desk"));
    }
}
