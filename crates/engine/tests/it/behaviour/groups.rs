//! Items that belong together.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::group::{Ended, GroupView};
use windlass_core::item::{MoveReason, Phase, State};
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{Clear, CreateGroup, NewEnd, NewItem, SetGroupEnd};
use windlass_engine::{CreatedGroup, EngineError};

use super::dead_queues::{all_moved, arrived};
use super::{is_refused, waiting_for, waiting_lease};
use crate::world::{World, bodies, held, item, items, lease, queue_name};

on_every_store!(
    members_are_leased_after_the_start_and_in_order,
    a_lease_that_waits_gets_members_at_the_start,
    the_end_item_has_its_payload_whether_it_was_set_long_ago_or_just_now,
    an_end_item_that_is_gone_at_once_leaves_no_payload_behind,
    an_end_item_in_another_queue_tells_its_group,
    an_end_item_goes_to_the_next_queue_of_the_name_if_that_was_deleted,
    a_cancelled_group_is_aborted_when_the_last_worker_has_stopped,
    groups_are_listed_by_name_over_all_partitions,
    an_item_with_two_keys_is_refused_in_a_queue_of_several_partitions,
    a_group_outlives_a_restart,
    the_name_is_free_after_a_delete,
    places_of_members_count_and_are_free_again,
    whoever_waits_for_a_member_is_told_when_its_group_is_cancelled,
    a_revoked_member_of_a_cancelled_group_is_the_last_of_it,
    members_produced_once_are_told_again_as_they_were,
);

pub(crate) fn group(name: &str) -> CreateGroup {
    CreateGroup { name: name.into(), end: None, abort: None, items: Vec::new(), start: false }
}

pub(crate) fn end(payload: &str, queue: Option<&str>) -> Option<NewEnd> {
    let item = NewItem { kind: "end".into(), facts: Some("facts".into()), ..item(payload) };
    Some(NewEnd { queue: queue.map(Arc::from), item })
}

fn member(payload: &str, group: &str) -> NewItem {
    NewItem { group: Some(group.into()), ..item(payload) }
}

async fn create_group(world: &World, queue: &QueueName, create: CreateGroup) -> CreatedGroup {
    world.engine().create_group(queue, create).await.expect("the group is made").value
}

async fn seen(world: &World, queue: &QueueName, name: &str) -> GroupView {
    world.engine().group(queue, &name.into()).await.expect("the group is there")
}

async fn start(world: &World, queue: &QueueName, name: &str) -> GroupView {
    world.engine().start_group(queue, &name.into()).await.expect("started").value
}

async fn cancel(world: &World, queue: &QueueName, name: &str) -> GroupView {
    world.engine().cancel_group(queue, &name.into()).await.expect("cancelled").value
}

async fn members_are_leased_after_the_start_and_in_order(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let created = create_group(world, &queue, CreateGroup { items: items(3), ..group("g") }).await;
    assert!(created.items.iter().all(|item| item.phase == Phase::Held));
    world.produce(&queue, vec![item("plain")]).await;
    let view = world.engine().get(created.items[0].id).await.expect("shown");
    assert_eq!((view.phase(), view.member.map(|member| member.group)), (Phase::Held, Some("g".into())));
    let counts = world.stats(&queue).await.counts;
    assert_eq!((counts.held, counts.waiting), (3, 1));
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["plain"]);
    start(world, &queue, "g").await;
    let leased = world.lease(&queue, 10).await;
    assert_eq!(bodies(&leased), ["item 0", "item 1", "item 2"]);
    assert!(leased.iter().all(|leased| leased.leased.group.as_deref() == Some("g")));
}

async fn a_lease_that_waits_gets_members_at_the_start(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    create_group(world, &queue, CreateGroup { items: items(2), ..group("g") }).await;
    let waiting = waiting_lease(world, &queue, lease(10)).await;
    start(world, &queue, "g").await;
    let granted = waiting.await.expect("ends").expect("leased").accept();
    assert_eq!(bodies(&granted), ["item 0", "item 1"]);
}

async fn the_end_item_has_its_payload_whether_it_was_set_long_ago_or_just_now(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    create_group(world, &queue, CreateGroup { end: end("long ago", None), items: items(1), ..group("g") })
        .await;
    world.restart().await;
    start(world, &queue, "g").await;
    let members = world.lease(&queue, 10).await;
    world.complete(&queue, &members[0]).await;
    let last = world.lease(&queue, 10).await;
    assert_eq!(
        (bodies(&last), &*last[0].leased.kind, last[0].leased.origin.is_none()),
        (vec!["long ago".into()], "end", true)
    );
    assert!(last[0].leased.id > members[0].leased.id);
    let view = world.engine().get(last[0].leased.id).await.expect("shown");
    assert_eq!(view.facts.as_deref(), Some(&b"facts"[..]));

    create_group(world, &queue, CreateGroup { end: end("just now", None), start: true, ..group("h") }).await;
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["just now"]);
    create_group(world, &queue, CreateGroup { abort: end("never", None), items: items(1), ..group("i") })
        .await;
    let set = SetGroupEnd { name: "i".into(), end: None, abort: end("replaced", None) };
    world.engine().set_group_end(&queue, set).await.expect("set");
    cancel(world, &queue, "i").await;
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["replaced"]);
}

async fn an_end_item_that_is_gone_at_once_leaves_no_payload_behind(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    create_group(
        world,
        &queue,
        CreateGroup { end: end(&"gone".repeat(100), None), start: true, ..group("g") },
    )
    .await;
    let clear = Clear { waiting: true, scheduled: true, leased: true, suspended: false };
    assert_eq!(world.engine().clear(&queue, clear).await.expect("cleared").value, 1);
    world.env.advance(Duration::from_secs(1));
    // The sweep has come by once this is answered.
    world.produce(&queue, items(1)).await;
    let bytes_live = world.engine().store_stats().bytes_live;
    assert!(bytes_live <= 100, "{bytes_live} bytes: more than the one item that is left");
}

async fn an_end_item_in_another_queue_tells_its_group(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let to = world.queue("other", 1, Settings::default()).await;
    let missing = CreateGroup { end: end("end", Some("missing")), ..group("g") };
    let refused = world.engine().create_group(&queue, missing).await;
    assert!(is_refused(&refused, &Refusal::NoSuchQueue { queue: "missing".into() }), "{refused:?}");
    create_group(
        world,
        &queue,
        CreateGroup { end: end("end", Some("other")), items: items(1), start: true, ..group("g") },
    )
    .await;
    let members = world.lease(&queue, 1).await;
    world.complete(&queue, &members[0]).await;
    let moved = arrived(world, &to, 1).await.pop().expect("it arrived");
    assert_eq!((bodies(std::slice::from_ref(&moved)), moved.leased.attempts), (vec!["end".into()], 1));
    let origin = moved.leased.origin.expect("it was moved");
    assert_eq!((&*origin.queue, origin.group.as_deref(), origin.id), ("q", Some("g"), None));
    assert_eq!((origin.reason, origin.attempts), (MoveReason::GroupEnd, None));
    all_moved(world, &queue).await;
    // Its own queue is not another.
    create_group(world, &queue, CreateGroup { end: end("own", Some("q")), start: true, ..group("own") })
        .await;
    let own = world.lease(&queue, 1).await;
    assert_eq!((bodies(&own), own[0].leased.origin.is_none()), (vec!["own".into()], true));
}

async fn an_end_item_goes_to_the_next_queue_of_the_name_if_that_was_deleted(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let to = world.queue("other", 1, Settings::default()).await;
    create_group(
        world,
        &queue,
        CreateGroup { abort: end("abort", Some("other")), items: items(1), ..group("g") },
    )
    .await;
    world.engine().delete_queue(&to, false).await.expect("deleted");
    cancel(world, &queue, "g").await;
    let stats = world.stats(&queue).await;
    assert_eq!((stats.moving, stats.counts.live()), (1, 0));
    let refused = world.engine().delete_queue(&queue, false).await;
    assert!(is_refused(&refused.map(|_| ()), &Refusal::NotEmpty { live: 1 }));
    let to = world.queue("other", 1, Settings::default()).await;
    assert_eq!(
        arrived(world, &to, 1).await[0].leased.origin.as_ref().expect("moved").reason,
        MoveReason::GroupAbort
    );
}

async fn a_cancelled_group_is_aborted_when_the_last_worker_has_stopped(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let create = CreateGroup {
        end: end("end", None),
        abort: end("abort", None),
        items: items(5),
        start: true,
        ..group("g")
    };
    let created = create_group(world, &queue, create).await;
    let leased = world.lease(&queue, 2).await;
    let view = cancel(world, &queue, "g").await;
    assert_eq!((view.state.name(), view.live.leased, view.ended.cancelled), ("cancelled", 2, 3));
    assert!(is_refused(&world.engine().get(created.items[4].id).await.map(|_| ()), &Refusal::NotFound));
    let State::Leased(shown) = world.engine().get(leased[0].leased.id).await.expect("shown").item.state
    else {
        panic!("it stays leased")
    };
    assert!(shown.cancel_requested);
    let extended = world.engine().extend(&queue, None, held(&leased)).await.expect("judged");
    assert!(extended.results.iter().all(|one| one.as_ref().is_ok_and(|one| one.cancel_requested)));
    world.complete(&queue, &leased[0]).await;
    world.restart().await;
    assert_eq!(seen(world, &queue, "g").await.state.name(), "cancelled");
    world.engine().release(&queue, held(&leased[1..])).await.expect("judged");
    let view = seen(world, &queue, "g").await;
    assert_eq!(view.state.name(), "aborted");
    assert_eq!(view.ended, Ended { completed: 1, cancelled: 4, ..Ended::default() });
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["abort"]);
}

async fn groups_are_listed_by_name_over_all_partitions(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    let names: Vec<String> = (0..20).map(|index| format!("group-{index:02}")).collect();
    for name in names.iter().rev() {
        create_group(world, &queue, CreateGroup { items: items(1), ..group(name) }).await;
    }
    let produced = names.iter().map(|name| member("more", name)).chain([item("plain"), member("x", "none")]);
    let produced = world.engine().produce(&queue, produced.collect()).await.expect("judged").results;
    assert!(is_refused(
        &produced[21].as_ref().map(|_| ()).map_err(EngineError::clone),
        &Refusal::NoSuchGroup
    ));
    assert!(produced[..21].iter().all(Result::is_ok));
    let partitions: std::collections::BTreeSet<_> =
        produced[..20].iter().map(|one| one.as_ref().expect("made").id.partition).collect();
    assert!(partitions.len() > 1, "they are spread");
    let mut listed = Vec::new();
    let mut pivot = None;
    loop {
        let page = world.engine().groups(&queue, pivot, 7).await.expect("listed");
        let Some(last) = page.last() else { break };
        pivot = Some(last.name.clone());
        assert!(page.iter().all(|group| group.live.held == 2));
        listed.extend(page.into_iter().map(|group| group.name.to_string()));
    }
    assert_eq!(listed, names);
}

async fn an_item_with_two_keys_is_refused_in_a_queue_of_several_partitions(world: &World) {
    let two_keys = |group: &str| NewItem { address: Some("here".into()), ..member("x", group) };
    let several = world.queue("several", 2, Settings::default()).await;
    create_group(world, &several, group("g")).await;
    let refused = world.engine().produce(&several, vec![item("plain"), two_keys("g")]).await;
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::Invalid(_)))), "{refused:?}");
    let refused = world.engine().produce_once(&several, "call".into(), vec![two_keys("g")]).await;
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::Invalid(_)))), "{refused:?}");
    let with_address = CreateGroup { items: vec![two_keys("h")], ..group("h") };
    let refused = world.engine().create_group(&several, with_address.clone()).await;
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::Invalid(_)))), "{refused:?}");
    let one = world.queue("one", 1, Settings::default()).await;
    let created = create_group(world, &one, with_address).await;
    let again = CreateGroup { items: vec![item("new"), two_keys("i")], ..group("i") };
    let refused = world.engine().create_group(&one, again).await;
    assert!(matches!(refused, Err(EngineError::DuplicateAddress { id }) if id == created.items[0].id));
    assert_eq!(world.live(&one).await, 1, "all of it or nothing");
    assert_eq!(world.engine().item_at(&one, "here").await.expect("there"), created.items[0].id);
}

async fn a_group_outlives_a_restart(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    create_group(world, &queue, CreateGroup { items: items(3), start: true, ..group("g") }).await;
    let leased = world.lease(&queue, 2).await;
    world.complete(&queue, &leased[0]).await;
    let before = seen(world, &queue, "g").await;
    world.restart().await;
    assert_eq!(seen(world, &queue, "g").await, before);
    assert_eq!((before.live.leased, before.live.waiting, before.ended.completed), (1, 1, 1));
}

async fn the_name_is_free_after_a_delete(world: &World) {
    let queue =
        world.queue("q", 1, Settings { retention: Span::from_secs(100), ..Settings::default() }).await;
    let name: Arc<str> = "g".into();
    create_group(world, &queue, CreateGroup { items: items(1), ..group("g") }).await;
    let taken = world.engine().create_group(&queue, group("g")).await;
    assert!(is_refused(&taken, &Refusal::GroupExists));
    assert!(is_refused(&world.engine().delete_group(&queue, &name).await, &Refusal::GroupNotOver));
    cancel(world, &queue, "g").await;
    world.engine().delete_group(&queue, &name).await.expect("deleted");
    assert!(is_refused(&world.engine().group(&queue, &name).await, &Refusal::NoSuchGroup));
    create_group(world, &queue, CreateGroup { start: true, ..group("g") }).await;
    world.env.advance(Duration::from_secs(100));
    assert!(is_refused(&world.engine().group(&queue, &name).await, &Refusal::NoSuchGroup));
    world.engine().delete_queue(&queue_name("q"), false).await.expect("a queue goes with its groups");
}

async fn places_of_members_count_and_are_free_again(world: &World) {
    let queue = world.queue("q", 1, Settings { max_items: 3, ..Settings::default() }).await;
    create_group(world, &queue, CreateGroup { items: items(2), ..group("g") }).await;
    let refused = world.engine().create_group(&queue, CreateGroup { items: items(2), ..group("h") }).await;
    assert!(matches!(refused, Err(EngineError::Overloaded { .. })), "{refused:?}");
    cancel(world, &queue, "g").await;
    create_group(world, &queue, CreateGroup { items: items(3), ..group("h") }).await;
}

async fn whoever_waits_for_a_member_is_told_when_its_group_is_cancelled(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let addressed = NewItem { address: Some("here".into()), ..item("with an address") };
    let members = vec![item("leased"), item("waiting"), addressed];
    let created =
        create_group(world, &queue, CreateGroup { items: members, start: true, ..group("g") }).await;
    let leased = world.lease(&queue, 1).await;
    assert_eq!(world.engine().item_at(&queue, "here").await.expect("known"), created.items[2].id);
    let mut waiting = Vec::new();
    for made in &created.items {
        waiting.push(waiting_for(&world.engine(), made.id).await);
    }
    cancel(world, &queue, "g").await;
    for task in waiting.drain(1..) {
        let view = task.await.expect("the task ran").expect("told");
        assert_eq!(view.phase(), Phase::Cancelled);
        assert_eq!(view.member.map(|member| member.group), Some("g".into()));
    }
    world.engine().release(&queue, held(&leased)).await.expect("judged");
    let view = waiting.remove(0).await.expect("the task ran").expect("told");
    assert_eq!((view.id, view.phase()), (leased[0].leased.id, Phase::Cancelled));
    assert_eq!(seen(world, &queue, "g").await.state.name(), "aborted");
}

async fn a_revoked_member_of_a_cancelled_group_is_the_last_of_it(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let create_it = CreateGroup { items: items(2), abort: end("over", None), start: true, ..group("g") };
    create_group(world, &queue, create_it).await;
    let leased = world.lease(&queue, 1).await;
    cancel(world, &queue, "g").await;
    let waiting = waiting_for(&world.engine(), leased[0].leased.id).await;
    world.engine().revoke(&queue, held(&leased)).await.expect("judged");
    assert_eq!(waiting.await.expect("the task ran").expect("told").phase(), Phase::Cancelled);
    let view = seen(world, &queue, "g").await;
    assert_eq!((view.state.name(), view.ended), ("aborted", Ended { cancelled: 2, ..Ended::default() }));
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["over"]);
}

async fn members_produced_once_are_told_again_as_they_were(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    let names: Vec<String> = (0..8).map(|number| format!("g{number}")).collect();
    for name in &names {
        create_group(world, &queue, group(name)).await;
    }
    let call = || {
        let members = names.iter().map(|name| member("x", name));
        members.chain([item("plain"), member("x", "none")]).collect::<Vec<_>>()
    };
    let once = || async {
        let told = world.engine().produce_once(&queue, "call".into(), call()).await.expect("judged").results;
        let told = told.into_iter().map(|told| told.map(|made| (made.id, made.phase)));
        told.map(|told| told.map_err(|error| error.to_string())).collect::<Vec<_>>()
    };
    let first = once().await;
    assert!(first[..8].iter().all(|told| matches!(told, Ok((_, Phase::Held)))), "{first:?}");
    assert!(matches!(first[8..], [Ok((_, Phase::Waiting)), Err(_)]), "{first:?}");
    world.restart().await;
    for name in &names {
        start(world, &queue, name).await;
    }
    create_group(world, &queue, group("none")).await;
    assert_eq!(once().await, first, "as it was then");
    assert_eq!(world.live(&queue).await, 9);
}
