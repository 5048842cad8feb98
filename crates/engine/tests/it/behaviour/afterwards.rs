//! Items once something has become of them: what is kept of them, running them again, changing them, and where they went.

use bytes::Bytes;
use windlass_core::attempt::{Attempt, AttemptEnd};
use windlass_core::id::ItemId;
use windlass_core::item::{ItemError, MoveReason, Phase};
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::{Keep, RetainPayload, Settings};
use windlass_core::time::Span;
use windlass_core::verbs::{Clear, NewItem, RetryItem, SuspendItem, UpdateItem};
use windlass_engine::env::Env;
use windlass_engine::{EngineError, Granted, ItemView, Redrive, Redriven, Rewrite};

use super::addresses::at;
use super::crons::{cron, named};
use super::dead_queues::{all_moved, arrived, to_dead};
use super::groups::group;
use super::rebalance::rebalance;
use super::streams::emit;
use super::{is_refused, retry_item};
use crate::world::{World, bodies, item, items, queue_name};

on_every_store!(
    an_item_that_failed_keeps_its_payload_and_the_log_of_its_attempts,
    payloads_are_kept_as_the_queue_says,
    what_was_cleared_is_kept_where_the_queue_keeps_all,
    a_rerun_is_a_new_item_and_the_old_one_tells_it,
    of_several_reruns_at_once_one_makes_an_item,
    reruns_at_once_are_told_of_the_one_item_also_where_its_address_is_at_home_elsewhere,
    reruns_of_different_items_with_one_address_make_one_item,
    a_rerun_is_refused_by_a_full_queue_and_by_a_taken_address,
    a_rerun_goes_to_the_home_that_its_address_has_by_now,
    whatever_way_an_item_ended_it_can_be_rerun,
    what_has_not_ended_is_not_rerun,
    a_rerun_has_all_that_the_item_had_but_its_past,
    a_rerun_with_a_delay_waits_for_its_time_wherever_it_is_made,
    a_chain_of_moves_is_followed_to_its_latest_item,
    a_redrive_gives_addresses_back_that_are_free,
    an_update_changes_what_is_given_and_nothing_else,
    updates_of_one_record_do_not_undo_each_other,
);

async fn fail(world: &World, queue: &QueueName, item: &Granted, message: &str) {
    let error = Some(ItemError { code: Some("broken".into()), message: message.into() });
    let retry = RetryItem { dead: true, error, ..retry_item(item) };
    world.engine().retry(queue, vec![retry]).await.expect("judged").results.remove(0).expect("failed");
}

pub(super) async fn failed(world: &World, queue: &QueueName, new: NewItem) -> ItemId {
    let id = world.produce(queue, vec![new]).await[0];
    let leased = world.lease(queue, 1).await;
    assert_eq!(leased[0].leased.id, id);
    fail(world, queue, &leased[0], "no hope").await;
    id
}

pub(super) async fn shown(world: &World, id: ItemId) -> ItemView {
    world.engine().get(id).await.expect("shown")
}

pub(super) fn moved_to(view: &ItemView) -> Option<ItemId> {
    view.item.extras.as_ref()?.moved_to.as_ref().map(|moved_to| moved_to.id)
}

pub(super) fn payload(view: &ItemView) -> Option<&str> {
    view.payload.as_deref().map(|body| std::str::from_utf8(body).expect("a text"))
}

pub(super) async fn rerun(world: &World, id: ItemId) -> Result<ItemId, EngineError> {
    world.engine().rerun(id, None).await.map(|made| made.value.id)
}

async fn an_item_that_failed_keeps_its_payload_and_the_log_of_its_attempts(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let id = world.produce(&queue, vec![item("kept")]).await[0];
    for attempt in 1..=12 {
        let leased = world.lease(&queue, 1).await;
        assert_eq!(leased[0].leased.attempts, attempt, "a lease of the one item");
        let error = Some(ItemError { code: None, message: format!("attempt {attempt}").as_str().into() });
        let retry = RetryItem { delay: Some(Span::ZERO), error, ..retry_item(&leased[0]) };
        if attempt == 12 {
            fail(world, &queue, &leased[0], "the last").await;
        } else {
            world.engine().update(id, without_end(id), None).await.expect_err("it is leased");
            world.engine().retry(&queue, vec![retry]).await.expect("judged");
            world.engine().update(id, without_end(id), None).await.expect("it waits");
        }
    }
    for _ in ["before", "after a restart"] {
        let (view, log) = world.engine().get_with_attempts(id).await.expect("shown");
        assert_eq!((view.phase(), payload(&view)), (Phase::Failed, Some("kept")));
        assert_eq!(
            log.iter().map(|attempt| attempt.attempt).collect::<Vec<_>>(),
            (3..=12).collect::<Vec<_>>()
        );
        let last: &Attempt = log.last().expect("ten");
        assert_eq!((last.end, &*last.client_id), (AttemptEnd::Dead, "worker"));
        assert_eq!(last.error.as_ref().map(|error| &*error.message), Some("the last"));
        assert_eq!((log[0].end, log[0].leased_at <= log[0].ended_at), (AttemptEnd::Retried, true));
        world.restart().await;
    }
}

/// Lets an item have as many attempts as it takes.
fn without_end(id: ItemId) -> UpdateItem {
    UpdateItem { max_attempts: Some(0), ..UpdateItem::new(id.number) }
}

async fn payloads_are_kept_as_the_queue_says(world: &World) {
    for (retain_payload, expected) in [
        (RetainPayload::Failed, [Some("fails"), None]),
        (RetainPayload::All, [Some("fails"), Some("is done")]),
        (RetainPayload::None, [None, None]),
    ] {
        let settings = Settings { retain_payload, keep: Keep::All, ..Settings::default() };
        let queue = world.queue(&format!("{retain_payload:?}"), 1, settings).await;
        let fails = failed(world, &queue, item("fails")).await;
        let is_done = world.produce(&queue, vec![item("is done")]).await[0];
        let leased = world.lease(&queue, 1).await;
        world.complete(&queue, &leased[0]).await;
        for _ in ["before", "after a restart"] {
            let views = [shown(world, fails).await, shown(world, is_done).await];
            assert_eq!([payload(&views[0]), payload(&views[1])], expected, "{retain_payload:?}");
            world.restart().await;
        }
        let again = rerun(world, is_done).await;
        match retain_payload {
            RetainPayload::All => drop(again.expect("the payload is kept")),
            RetainPayload::Failed | RetainPayload::None => {
                assert!(is_refused(&again, &Refusal::NoPayload { lost: false }), "{again:?}");
            }
        }
    }
}

async fn what_was_cleared_is_kept_where_the_queue_keeps_all(world: &World) {
    let settings = Settings { keep: Keep::All, ..Settings::default() };
    let queue = world.queue("q", 1, settings).await;
    let ids = world.produce(&queue, items(3)).await;
    let clear = Clear { waiting: true, scheduled: false, leased: false, suspended: false };
    assert_eq!(world.engine().clear(&queue, clear).await.expect("cleared").value, 3);
    for id in ids {
        let view = shown(world, id).await;
        assert_eq!((view.phase(), view.payload.is_some()), (Phase::Cancelled, true));
    }
    assert_eq!(world.stats(&queue).await.retained, 3);
}

async fn a_rerun_is_a_new_item_and_the_old_one_tells_it(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let new = NewItem { kind: "mail".into(), priority: 9, facts: Some("facts".into()), ..item("again") };
    let id = failed(world, &queue, new).await;
    let refused = rerun(world, world.produce(&queue, vec![item("lives")]).await[0]).await;
    assert!(is_refused(&refused, &Refusal::NotEnded), "{refused:?}");
    assert_eq!(bodies(&world.lease(&queue, 1).await), ["lives"]);
    let anew = rerun(world, id).await.expect("rerun");
    for _ in ["before", "after a restart"] {
        let again = rerun(world, id).await;
        assert!(is_refused(&again, &Refusal::MovedOn { id: anew }), "{again:?}");
        let old = shown(world, id).await;
        assert_eq!((old.phase(), moved_to(&old), &old.payload), (Phase::Failed, Some(anew), &None));
        let (view, log) = world.engine().get_with_attempts(anew).await.expect("shown");
        assert_eq!((view.phase(), payload(&view), view.item.attempts), (Phase::Waiting, Some("again"), 0));
        assert_eq!(view.facts.as_deref(), Some(&b"facts"[..]));
        assert_eq!(log.len(), 1, "the log travels along");
        world.restart().await;
    }
    let leased = world.lease(&queue, 10).await;
    let granted = leased.iter().find(|item| item.leased.id == anew).expect("leased");
    assert_eq!((&*granted.leased.kind, granted.leased.priority), ("mail", 9));
    let origin = granted.leased.origin.as_deref().expect("it was rerun");
    assert_eq!((origin.id, origin.reason, origin.attempts), (Some(id), MoveReason::Rerun, Some(1)));
    assert_eq!(granted.body, Bytes::from_static(b"again"));
    let later = world.engine().rerun(failed_too(world, &queue).await, Some(Span::from_secs(60))).await;
    assert_eq!(later.expect("rerun").value.phase, Phase::Scheduled);
}

async fn failed_too(world: &World, queue: &QueueName) -> ItemId {
    failed(world, queue, item("once more")).await
}

async fn of_several_reruns_at_once_one_makes_an_item(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    let id = failed(world, &queue, item("again")).await;
    one_is_made_and_the_others_are_told(reruns_at_once(world, &[id; 8]).await);
    assert_eq!(world.live(&queue).await, 1);
}

async fn reruns_at_once(world: &World, ids: &[ItemId]) -> Vec<Result<ItemId, EngineError>> {
    let begin = |id: &ItemId| {
        let (engine, id) = (world.engine(), *id);
        tokio::spawn(async move { engine.rerun(id, None).await.map(|made| made.value.id) })
    };
    let begun: Vec<_> = ids.iter().map(begin).collect();
    let mut reruns = Vec::new();
    for rerun in begun {
        reruns.push(rerun.await.expect("the task ran"));
    }
    reruns
}

fn one_is_made_and_the_others_are_told(reruns: Vec<Result<ItemId, EngineError>>) {
    let (mut made, mut told) = (Vec::new(), Vec::new());
    for rerun in reruns {
        match rerun {
            Ok(id) => made.push(id),
            Err(EngineError::Refused(Refusal::MovedOn { id })) => told.push(id),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(made.len(), 1, "{told:?}");
    assert!(told.iter().all(|id| *id == made[0]));
}

/// The queue has room for one item: nobody is told that it is full.
async fn reruns_at_once_are_told_of_the_one_item_also_where_its_address_is_at_home_elsewhere(world: &World) {
    let queue = world.queue("q", 1, Settings { max_items: 1, ..Settings::default() }).await;
    let mut ids = Vec::new();
    for number in 0..12 {
        ids.push(failed(world, &queue, at(&format!("desk {number}"))).await);
    }
    rebalance(world, &queue, 4).await;
    let mut elsewhere = 0;
    for id in ids {
        one_is_made_and_the_others_are_told(reruns_at_once(world, &[id; 8]).await);
        let anew = moved_to(&shown(world, id).await).expect("it was rerun");
        elsewhere += usize::from(anew.partition != id.partition);
        world.engine().cancel(anew).await.expect("cancelled");
    }
    assert!(elsewhere > 0, "no address has another home");
}

async fn reruns_of_different_items_with_one_address_make_one_item(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let addresses: Vec<String> = (0..12).map(|number| format!("desk {number}")).collect();
    let mut ids = Vec::new();
    for address in addresses.iter().flat_map(|address| [address; 4]) {
        ids.push(failed(world, &queue, at(address)).await);
    }
    rebalance(world, &queue, 4).await;
    let mut elsewhere = 0;
    for (ids, address) in ids.chunks(4).zip(&addresses) {
        let mut made = Vec::new();
        for rerun in reruns_at_once(world, ids).await {
            match rerun {
                Ok(id) => made.push(id),
                Err(EngineError::DuplicateAddress { id }) => made.push(id),
                Err(error) => panic!("{error}"),
            }
        }
        let holder = world.engine().item_at(&queue, address).await.expect("one has the address");
        assert!(made.iter().all(|id| *id == holder), "{made:?}");
        elsewhere += usize::from(ids.iter().all(|id| id.partition != holder.partition));
    }
    assert!(elsewhere > 0, "no address has another home");
    assert_eq!(world.live(&queue).await, 12);
}

async fn a_rerun_is_refused_by_a_full_queue_and_by_a_taken_address(world: &World) {
    let settings = Settings { max_items: 1, ..Settings::default() };
    let queue = world.queue("q", 2, settings).await;
    let id = failed(world, &queue, at("desk")).await;
    let holder = world.produce(&queue, vec![at("desk")]).await[0];
    let refused = rerun(world, id).await;
    assert!(matches!(&refused, Err(EngineError::DuplicateAddress { id }) if *id == holder), "{refused:?}");
    world.engine().cancel(holder).await.expect("cancelled");
    world.produce(&queue, vec![at("elsewhere")]).await;
    let refused = rerun(world, id).await;
    assert!(matches!(refused, Err(EngineError::Overloaded { .. })), "{refused:?}");
    world.lease(&queue, 1).await;
    let at_elsewhere = world.engine().item_at(&queue, "elsewhere").await.expect("there");
    world.engine().cancel(at_elsewhere).await.expect("asked to stop");
    world.env.advance(std::time::Duration::from_secs(61));
    assert_eq!(world.live(&queue).await, 0);
    let anew = rerun(world, id).await.expect("there is room");
    assert_eq!(world.engine().item_at(&queue, "desk").await.expect("there"), anew);
}

async fn a_rerun_goes_to_the_home_that_its_address_has_by_now(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let addresses: Vec<String> = (0..20).map(|number| format!("desk {number}")).collect();
    let mut ids = Vec::new();
    for address in &addresses {
        ids.push(failed(world, &queue, at(address)).await);
    }
    rebalance(world, &queue, 4).await;
    world.env.advance(std::time::Duration::from_secs(3600));
    let mut elsewhere = 0;
    for (id, address) in ids.iter().zip(&addresses) {
        let failed_at = shown(world, *id).await.item.changed_at();
        let anew = rerun(world, *id).await.expect("rerun");
        elsewhere += usize::from(anew.partition != id.partition);
        assert_eq!(world.engine().item_at(&queue, address).await.expect("there"), anew);
        let again = rerun(world, *id).await;
        assert!(is_refused(&again, &Refusal::MovedOn { id: anew }), "{again:?}");
        let (view, log) = world.engine().get_with_attempts(anew).await.expect("shown");
        assert_eq!((payload(&view), log.len()), (Some(&**address), 1));
        let origin = view.item.extras.expect("extras").origin.expect("it was rerun");
        assert_eq!((origin.id, origin.reason), (Some(*id), MoveReason::Rerun));
        assert!(
            origin.moved_at >= failed_at + Span::from_secs(3600),
            "that of the rerun, wherever it is made"
        );
    }
    assert!(elsewhere > 0, "no address has another home");
    assert_eq!(world.live(&queue).await, 20);
}

async fn a_chain_of_moves_is_followed_to_its_latest_item(world: &World) {
    let queue = world.queue("q", 1, to_dead()).await;
    let dead = world.queue("dead", 1, Settings::default()).await;
    let id = failed(world, &queue, item("first")).await;
    all_moved(world, &queue).await;
    let letter = moved_to(&shown(world, id).await).expect("it died");
    let follow = async |id: ItemId| world.engine().follow(id).await.expect("followed");
    assert_eq!((follow(id).await, follow(letter).await), (id, letter));
    let redriven = world.engine().redrive(&dead, Redrive::default()).await.expect("redriven").value;
    assert_eq!(redriven, Redriven { moved: 1, skipped: 0 });
    all_moved(world, &dead).await;
    let back = arrived(world, &queue, 1).await.remove(0);
    for _ in ["before", "after a restart"] {
        assert_eq!((follow(id).await, follow(letter).await), (back.leased.id, back.leased.id));
        world.restart().await;
    }
    let nobody = world.engine().follow(ItemId { number: windlass_core::id::ItemNumber(1), ..id }).await;
    assert!(is_refused(&nobody, &Refusal::NotFound), "{nobody:?}");
}

async fn a_redrive_gives_addresses_back_that_are_free(world: &World) {
    let queue = world.queue("q", 3, to_dead()).await;
    let dead = world.queue("dead", 2, Settings::default()).await;
    // Two dead letters of one address, one of an address that is taken by now, and one without.
    for address in ["twice", "twice", "taken"] {
        failed(world, &queue, at(address)).await;
        all_moved(world, &queue).await;
    }
    failed(world, &queue, item("plain")).await;
    all_moved(world, &queue).await;
    let holder = world.produce(&queue, vec![at("taken")]).await[0];
    let redriven = world.engine().redrive(&dead, Redrive::default()).await.expect("redriven").value;
    assert_eq!(redriven, Redriven { moved: 2, skipped: 2 });
    all_moved(world, &dead).await;
    assert_eq!(world.waiting(&dead).await, 2);
    let twice = world.engine().item_at(&queue, "twice").await.expect("it has its address again");
    assert_eq!(shown(world, twice).await.phase(), Phase::Waiting);
    assert_eq!(world.engine().item_at(&queue, "taken").await.expect("there"), holder);
    assert_eq!(world.live(&queue).await, 3);
}

async fn an_update_changes_what_is_given_and_nothing_else(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let ids = world.produce(&queue, vec![NewItem { priority: 5, ..item("one") }, item("two")]).await;
    let update = UpdateItem { priority: Some(0), ..UpdateItem::new(ids[1].number) };
    let changed = world.engine().update(ids[1], update, None).await.expect("changed").value;
    assert_eq!((changed.item.priority, payload(&changed)), (0, Some("two")));
    let update = UpdateItem { delay: Some(Span::from_secs(60)), ..UpdateItem::new(ids[1].number) };
    let changed = world.engine().update(ids[1], update, None).await.expect("changed").value;
    assert_eq!(changed.phase(), Phase::Scheduled);
    let rewrite: Rewrite = Box::new(|_, _| Ok(("three".into(), Some("facts".into()))));
    let update = UpdateItem { priority: Some(9), ..UpdateItem::new(ids[0].number) };
    let changed = world.engine().update(ids[0], update, Some(rewrite)).await.expect("changed").value;
    assert_eq!((payload(&changed), changed.facts.as_deref()), (Some("three"), Some(&b"facts"[..])));
    world.restart().await;
    let leased = world.lease(&queue, 2).await;
    assert_eq!((bodies(&leased), leased[0].leased.priority), (vec!["three".to_owned()], 9));
    let refused = world.engine().update(ids[0], UpdateItem::new(ids[0].number), None).await;
    assert!(is_refused(&refused.map(drop), &Refusal::WrongPhase { phase: Phase::Leased }));
    let nobody = ItemId { number: windlass_core::id::ItemNumber(1), ..ids[0] };
    let refused = world.engine().update(nobody, UpdateItem::new(nobody.number), None).await;
    assert!(is_refused(&refused.map(drop), &Refusal::NotFound));
    let elsewhere = world.engine().item_at(&queue_name("nowhere"), "a").await;
    assert!(elsewhere.is_err());
}

async fn updates_of_one_record_do_not_undo_each_other(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let id = world.produce(&queue, vec![item("")]).await[0];
    let updates: Vec<_> = (0..20)
        .map(|number| {
            let engine = world.engine();
            let rewrite: Rewrite = Box::new(move |stored, _| {
                let mut body = stored.expect("there").to_vec();
                body.push(b'a' + number);
                Ok((body.into(), None))
            });
            tokio::spawn(async move { engine.update(id, UpdateItem::new(id.number), Some(rewrite)).await })
        })
        .collect();
    for update in updates {
        update.await.expect("the task ran").expect("changed");
    }
    let mut letters = shown(world, id).await.payload.expect("a payload").to_vec();
    letters.sort_unstable();
    assert_eq!(letters, (b'a'..b'a' + 20).collect::<Vec<_>>());
}

async fn whatever_way_an_item_ended_it_can_be_rerun(world: &World) {
    let settings = Settings { retain_payload: RetainPayload::All, ..Settings::default() };
    let queue = world.queue("q", 1, settings).await;
    let completed = world.produce(&queue, vec![at("completes")]).await[0];
    let leased = world.lease(&queue, 1).await;
    world.complete(&queue, &leased[0]).await;
    let expired = NewItem { dead_timeout: Some(Span::from_secs(5)), ..at("expires") };
    let expired = world.produce(&queue, vec![expired]).await[0];
    world.env.advance(std::time::Duration::from_secs(5));
    let cancelled = world.produce(&queue, vec![at("is cancelled")]).await[0];
    world.engine().cancel(cancelled).await.expect("cancelled");
    for (id, phase) in
        [(completed, Phase::Completed), (expired, Phase::Expired), (cancelled, Phase::Cancelled)]
    {
        let anew = rerun(world, id).await.expect("rerun");
        let (old, new) = (shown(world, id).await, shown(world, anew).await);
        assert_eq!((old.phase(), moved_to(&old), payload(&old)), (phase, Some(anew), None));
        assert_eq!((new.phase(), new.item.created_at), (Phase::Waiting, world.env.wall()));
        assert!(payload(&new).is_some());
    }
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["completes", "expires", "is cancelled"]);
}

async fn a_rerun_has_all_that_the_item_had_but_its_past(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.engine().create_group(&queue, group("g")).await.expect("made");
    let new = NewItem {
        kind: "mail".into(),
        priority: 4,
        group: Some("g".into()),
        address: Some("desk".into()),
        max_attempts: Some(2),
        dead_timeout: Some(Span::from_secs(5000)),
        facts: Some("facts".into()),
        ..item("work")
    };
    let grouped = world.produce(&queue, vec![new]).await[0];
    world.engine().start_group(&queue, &"g".into()).await.expect("started");
    let leased = world.lease(&queue, 1).await;
    emit(&world.engine(), leased[0].held(), &["an event"]).await;
    fail(world, &queue, &leased[0], "no hope").await;
    world.engine().create_cron(&queue, cron("nightly", "@every 24h")).await.expect("made");
    let of_cron = world.engine().trigger_cron(&named("nightly")).await.expect("triggered").value.id;
    let leased = world.lease(&queue, 1).await;
    fail(world, &queue, &leased[0], "no hope").await;
    for id in [grouped, of_cron] {
        let anew = rerun(world, id).await.expect("rerun");
        let (old, new) = (shown(world, id).await, shown(world, anew).await);
        let origin_group = old.member.as_ref().map(|member| member.group.clone());
        assert_eq!((&new.item.kind, new.item.priority), (&old.item.kind, old.item.priority));
        assert_eq!((new.item.attempts, &new.member, &new.facts), (0, &None, &old.facts));
        let (old, new) = (old.item.extras.expect("extras"), new.item.extras.expect("extras"));
        assert_eq!((&new.address, new.max_attempts), (&old.address, old.max_attempts));
        assert_eq!((new.dead_timeout, &new.cron), (old.dead_timeout, &old.cron));
        assert_eq!((new.event_count, &new.error), (0, &None));
        let origin = new.origin.expect("it was rerun");
        assert_eq!((&*origin.queue, origin.id, origin.attempts), ("q", Some(id), Some(1)));
        assert_eq!((&origin.address, &origin.error), (&old.address, &old.error));
        assert_eq!((&origin.group, origin.moved_at), (&origin_group, world.env.wall()));
        let mut stream = world.engine().subscribe(anew, Some(0)).await.expect("it has no events");
        assert!(stream.at_hand().is_none());
        if id == grouped {
            assert_eq!((origin.group.as_deref(), old.event_count), (Some("g"), 1));
        } else {
            assert!(new.cron.is_some());
        }
    }
}

async fn a_rerun_with_a_delay_waits_for_its_time_wherever_it_is_made(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let mut ids = Vec::new();
    for number in 0..8 {
        ids.push(failed(world, &queue, at(&format!("desk {number}"))).await);
    }
    rebalance(world, &queue, 4).await;
    let mut elsewhere = 0;
    for id in ids {
        let made = world.engine().rerun(id, Some(Span::from_secs(60))).await.expect("rerun").value;
        assert_eq!(made.phase, Phase::Scheduled);
        elsewhere += usize::from(made.id.partition != id.partition);
    }
    assert!(elsewhere > 0, "no address has another home");
    assert!(world.lease(&queue, 10).await.is_empty());
    world.env.advance(std::time::Duration::from_secs(60));
    let mut leased = 0;
    while leased < 8 {
        leased += world.lease(&queue, 10).await.len();
    }
}

async fn what_has_not_ended_is_not_rerun(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.engine().create_group(&queue, group("g")).await.expect("made");
    let suspended = world.produce(&queue, vec![item("suspended")]).await[0];
    let suspend = SuspendItem { held: world.lease(&queue, 1).await[0].held(), reason: None };
    world
        .engine()
        .suspend(&queue, vec![suspend])
        .await
        .expect("judged")
        .results
        .remove(0)
        .expect("suspended");
    let leased = world.produce(&queue, vec![item("leased")]).await[0];
    assert_eq!(world.lease(&queue, 1).await[0].leased.id, leased);
    let others = vec![
        NewItem { group: Some("g".into()), ..item("held") },
        NewItem { delay: Some(Span::from_secs(60)), ..item("scheduled") },
    ];
    let others = world.produce(&queue, others).await;
    let all = [
        (suspended, Phase::Suspended),
        (leased, Phase::Leased),
        (others[0], Phase::Held),
        (others[1], Phase::Scheduled),
    ];
    for (id, phase) in all {
        let refused = rerun(world, id).await;
        assert!(is_refused(&refused, &Refusal::NotEnded), "{phase:?}: {refused:?}");
        let view = shown(world, id).await;
        assert_eq!((view.phase(), moved_to(&view)), (phase, None));
    }
    assert_eq!(world.live(&queue).await, 4);
}
