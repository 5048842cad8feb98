//! Items that are rerun and get their address back, with everything that can go wrong at every step on their way.

use std::time::Duration;

use windlass_core::attempt;
use windlass_core::id::ItemId;
use windlass_core::item::{MoveReason, Phase};
use windlass_core::limits::KINDS_MAX;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Part, QueueName};
use windlass_core::settings::Settings;
use windlass_core::verbs::{NewItem, RetryItem, UpdateItem};
use windlass_engine::env::Env;
use windlass_engine::{Action, Engine, EngineError, Outcome, Redrive, Rewrite};

use crate::behaviour::addresses::at;
use crate::behaviour::find::in_phases;
use crate::behaviour::find_change::oldest;
use crate::behaviour::{is_refused, retry_item, until};
use crate::failures_moves::{COMMITS_MAX, Moving, RELAXED_FAULTS, is_in_one_place};
use crate::world::{bodies, item, items, queue_name};

/// Fails an item that is produced at this address.
async fn failed_at(engine: &Engine, queue: &QueueName, address: &str) -> ItemId {
    let produced = engine.produce(queue, vec![at(address)]).await.expect("produced");
    let id = produced.results[0].as_ref().expect("produced").id;
    let leased = engine.lease(queue, crate::world::lease(1), windlass_core::time::Span::ZERO).await;
    let dead = |item| RetryItem { dead: true, ..retry_item(item) };
    let leased = leased.expect("leased").accept();
    engine.retry(queue, leased.iter().map(dead).collect()).await.expect("judged");
    id
}

/// An item that failed in a queue whose partitions have grown since: its address is at home in another one by now.
async fn far_from_home() -> (Moving, ItemId) {
    let moving = Moving::new().await;
    moving.create(&moving.dead, Settings::default()).await;
    let moving = Moving { queue: queue_name("plain"), ..moving };
    moving.create(&moving.queue, Settings::default()).await;
    let id = failed_at(&moving.engine, &moving.queue, ADDRESS).await;
    moving.engine.rebalance(&moving.queue, 3).await.expect("more partitions");
    (moving, id)
}

/// At home in another partition than the first once there are three: `the_address_moves` says so.
const ADDRESS: &str = "desk 1";

async fn holder(moving: &Moving) -> Result<ItemId, EngineError> {
    moving.engine.item_at(&moving.queue, ADDRESS).await
}

#[tokio::test]
async fn an_item_rerun_in_another_partition_is_made_once_whatever_fails_at_any_step() {
    let mut struck = 0;
    for commits in 0..COMMITS_MAX {
        for fault in RELAXED_FAULTS {
            let (moving, id) = far_from_home().await;
            moving.store.fail_after(commits, fault);
            let rerun = moving.while_time_passes(moving.engine.rerun(id, None));
            let told = moving.unless_it_crashes(rerun).await;
            let (moving, has_struck) = moving.after_the_fault().await;
            struck += usize::from(has_struck);
            moving.settled().await;
            let after = moving.live(&moving.queue).await;
            let again = moving.while_time_passes(moving.engine.rerun(id, None)).await;
            let anew = match again {
                Ok(made) => {
                    assert_eq!(after, 0, "{fault:?} at commit {commits}: a second item");
                    assert!(!matches!(told, Some(Ok(_))), "{fault:?} at commit {commits}: it was told");
                    made.value.id
                }
                Err(EngineError::Refused(Refusal::MovedOn { id })) => id,
                Err(error) => panic!("{fault:?} at commit {commits}: {error}"),
            };
            moving.settled().await;
            assert_ne!(anew.partition, id.partition, "the address is at home in another partition");
            assert_eq!(moving.live(&moving.queue).await, 1, "{fault:?} at commit {commits}");
            assert_eq!(holder(&moving).await.expect("there"), anew);
            let leased = moving.lease(&moving.queue).await;
            assert_eq!(bodies(&leased), [ADDRESS], "{fault:?} at commit {commits}");
            let origin = leased[0].leased.origin.as_deref().expect("it was rerun");
            assert_eq!((origin.id, origin.reason), (Some(id), MoveReason::Rerun));
            let third = moving.engine.rerun(id, None).await;
            assert!(is_refused(&third, &Refusal::MovedOn { id: anew }), "{third:?}");
        }
    }
    // The departure, the choice of a taker, the arrival, and the end of the move.
    assert!(struck >= 4 * RELAXED_FAULTS.len(), "{struck}");
}

#[tokio::test]
async fn a_letter_redriven_with_its_address_arrives_once_whatever_fails_at_any_step() {
    let mut struck = 0;
    for commits in 0..COMMITS_MAX {
        for fault in RELAXED_FAULTS {
            let moving = Moving::new().await;
            moving.create(&moving.dead, Settings::default()).await;
            moving.engine.rebalance(&moving.queue, 3).await.expect("more partitions");
            let id = failed_at(&moving.engine, &moving.queue, ADDRESS).await;
            moving.settled().await;
            moving.store.fail_after(commits, fault);
            moving.unless_it_crashes(moving.engine.redrive(&moving.dead, Redrive::default())).await;
            let (moving, has_struck) = moving.after_the_fault().await;
            struck += usize::from(has_struck);
            is_in_one_place(&moving, &moving.dead, &moving.queue).await;
            moving.settled().await;
            if moving.live(&moving.dead).await == 1 {
                assert_eq!((commits, moving.live(&moving.queue).await), (0, 0));
                let again = moving.engine.redrive(&moving.dead, Redrive::default()).await.expect("redriven");
                assert_eq!((again.value.moved, again.value.skipped), (1, 0));
                moving.settled().await;
            }
            assert_eq!(moving.live(&moving.dead).await, 0);
            let back = holder(&moving).await.expect("it has its address again");
            assert_eq!(moving.engine.follow(id).await.expect("followed"), back);
            let leased = moving.lease(&moving.queue).await;
            assert_eq!(bodies(&leased), [ADDRESS], "{fault:?} at commit {commits}");
            assert_eq!((leased[0].leased.id, leased[0].leased.address.as_deref()), (back, Some(ADDRESS)));
        }
    }
    // The departure, the choice of a taker, the arrival, and the end of the move.
    assert!(struck >= 4 * RELAXED_FAULTS.len(), "{struck}");
}

/// The items of a queue whose partitions have grown since they failed: one whose address is at home in a partition that takes
/// nothing for now, and one that is rerun where it is.
async fn towards_a_partition_that_stalls() -> (Moving, ItemId, ItemId) {
    let (moving, id) = far_from_home().await;
    let produced = moving.engine.produce(&moving.queue, vec![at(ADDRESS)]).await.expect("produced");
    let holder = produced.results[0].as_ref().expect("produced").id;
    moving.engine.delete_items(&moving.queue, vec![holder]).await.expect("deleted");
    let other = loop {
        let produced = moving.engine.produce(&moving.queue, items(1)).await.expect("produced");
        let made = produced.results[0].as_ref().expect("produced").id;
        if made.partition != holder.partition {
            moving.fail(&moving.lease(&moving.queue).await).await;
            break made;
        }
        moving.engine.delete_items(&moving.queue, vec![made]).await.expect("deleted");
    };
    moving.store.stalled.send_replace(Some(holder.partition));
    (moving, id, other)
}

async fn rerun_failed(moving: &Moving) -> Vec<(ItemId, Result<(), EngineError>)> {
    let failed = oldest(in_phases([Phase::Failed]), 100);
    let changing = moving.engine.change_items(&moving.queue, &failed, None, Action::Rerun, false);
    changing.await.expect("judged one by one").results
}

#[tokio::test]
async fn an_item_that_does_not_arrive_in_another_partition_fails_alone() {
    let (moving, id, other) = towards_a_partition_that_stalls().await;
    let results = moving.while_time_passes(rerun_failed(&moving)).await;
    let [(first, stuck), (second, done)] = &results[..] else { panic!("{results:?}") };
    assert_eq!((*first, *second), (id, other));
    let is_unknown = matches!(stuck, Err(EngineError::Unavailable { outcome: Outcome::Unknown, .. }));
    assert!(is_unknown && done.is_ok(), "{results:?}");
    let single = moving.while_time_passes(moving.engine.rerun(id, None)).await.map(drop);
    assert!(is_refused(&single, &Refusal::Leaving), "it is on its way: {single:?}");
    moving.store.stalled.send_replace(None);
    moving.settled().await;
    assert_eq!(moving.live(&moving.queue).await, 2);
}

/// An item that was rerun and does not arrive: the partition that is home to its address takes no further kinds. And an item of
/// that partition.
async fn refused_by_its_home() -> (Moving, ItemId, ItemId) {
    let (moving, id) = far_from_home().await;
    let produced = moving.engine.produce(&moving.queue, vec![at(ADDRESS)]).await.expect("produced");
    let home = produced.results[0].as_ref().expect("produced").id;
    moving.engine.delete_items(&moving.queue, vec![home]).await.expect("deleted");
    let mut of_home = None;
    // Equals take turns, so that the last that has room is found, too.
    for slice in 0..4 * KINDS_MAX / 1000 {
        let of_kind = |kind| NewItem { kind: format!("{slice} {kind}").into(), ..item("kind") };
        let items = (0..1000).map(of_kind).collect();
        let made = moving.engine.produce(&moving.queue, items).await.map(|made| made.results);
        let mut ids = made.into_iter().flatten().flatten().map(|made| made.id);
        of_home = ids.find(|id| id.partition == home.partition).or(of_home);
    }
    let rerun = moving.while_time_passes(moving.engine.rerun(id, None)).await;
    assert!(matches!(rerun, Err(EngineError::Unavailable { outcome: Outcome::Unknown, .. })), "{rerun:?}");
    (moving, id, of_home.expect("slices go around"))
}

#[tokio::test]
async fn many_reruns_are_told_what_an_item_on_its_way_has_become() {
    let (moving, id, in_its_way) = refused_by_its_home().await;
    // Once the call waits for the item: it does for twenty seconds.
    let ten_seconds_later = moving.env.boot() + Duration::from_secs(10);
    let arriving = async {
        moving.env.sleep_until(ten_seconds_later).await;
        moving.engine.delete_items(&moving.queue, vec![in_its_way]).await.expect("deleted");
    };
    let (results, ()) = tokio::join!(moving.while_time_passes(rerun_failed(&moving)), arriving);
    let anew = holder(&moving).await.expect("there");
    let [(told, result)] = &results[..] else { panic!("{results:?}") };
    assert_eq!(*told, id);
    assert!(is_refused(result, &Refusal::MovedOn { id: anew }), "{result:?}");
}

#[tokio::test]
async fn reruns_are_told_who_took_the_address_before_their_item_arrived() {
    let (moving, id) = far_from_home().await;
    moving.store.reads_held.send_replace(true);
    let take_the_address = async {
        // Both have found the address free by then, and read the payload next.
        until(async || moving.store.reads_held.receiver_count() == 2).await;
        let produced = moving.engine.produce(&moving.queue, vec![at(ADDRESS)]).await.expect("produced");
        moving.store.reads_held.send_replace(false);
        produced.results[0].as_ref().expect("produced").id
    };
    let rerun = || moving.engine.rerun(id, None);
    let all = async { tokio::join!(rerun(), rerun(), take_the_address) };
    let (first, second, taker) = moving.while_time_passes(all).await;
    for rerun in [first, second] {
        assert!(
            matches!(rerun, Err(EngineError::DuplicateAddress { id }) if id == taker),
            "{taker}: {rerun:?}"
        );
    }
    assert_eq!(moving.live(&moving.queue).await, 1);
    moving.engine.delete_items(&moving.queue, vec![taker]).await.expect("deleted");
    let made = moving.while_time_passes(rerun()).await.expect("the item is as it ended").value.id;
    assert_eq!(holder(&moving).await.expect("there"), made);
}

#[tokio::test]
async fn a_rerun_of_an_item_with_a_body_that_cannot_be_read_now_fails_alone() {
    let moving = Moving::new().await;
    let moving = Moving { queue: queue_name("plain"), ..moving };
    moving.create(&moving.queue, Settings::default()).await;
    let new = NewItem { facts: Some("facts".into()), ..at("desk") };
    let produced = moving.engine.produce(&moving.queue, vec![new]).await.expect("produced");
    let id = produced.results[0].as_ref().expect("produced").id;
    moving.fail(&moving.lease(&moving.queue).await).await;
    let attempt = attempt::parts(1).next().expect("one");
    for part in [Part::Payload, Part::Facts, attempt] {
        *moving.store.unreadable.lock().expect("not poisoned") = Some(part);
        let refused = moving.engine.rerun(id, None).await;
        let is_unchanged =
            matches!(refused, Err(EngineError::Unavailable { outcome: Outcome::NotApplied, .. }));
        assert!(is_unchanged, "{part:?}: {refused:?}");
        assert!(moving.serves(&moving.queue).await, "{part:?}");
    }
    *moving.store.unreadable.lock().expect("not poisoned") = None;
    let made = moving.engine.rerun(id, None).await.expect("it can be read again").value.id;
    let view = moving.engine.get(made).await.expect("shown");
    assert_eq!(view.facts.as_deref(), Some(&b"facts"[..]));
}

#[tokio::test]
async fn an_update_whose_caller_has_gone_is_not_undone_by_the_next() {
    let moving = Moving::new().await;
    let produced = moving.engine.produce(&moving.queue, vec![at("a")]).await.expect("produced");
    let id = produced.results[0].as_ref().expect("produced").id;
    let update = |letter: u8| {
        let rewrite: Rewrite = Box::new(move |stored, _| {
            let mut body = stored.expect("there").to_vec();
            body.push(letter);
            Ok((body.into(), None))
        });
        moving.engine.update(id, UpdateItem::new(id.number), Some(rewrite))
    };
    moving.store.held.send_replace(true);
    let mut committing = moving.store.committing.subscribe();
    committing.mark_unchanged();
    tokio::select! {
        biased;
        changed = update(b'b') => panic!("{changed:?}"),
        begun = committing.changed() => begun.expect("the store is there"),
    }
    let free_again = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        moving.store.held.send_replace(false);
    };
    let (changed, ()) = tokio::join!(update(b'c'), free_again);
    assert_eq!(changed.expect("changed").value.payload.as_deref(), Some(&b"abc"[..]));
}
