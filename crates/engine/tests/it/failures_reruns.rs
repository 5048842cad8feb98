//! Items that are rerun and get their address back, with everything that can go wrong at every step on their way.

use windlass_core::id::ItemId;
use windlass_core::item::MoveReason;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::verbs::RetryItem;
use windlass_engine::{Engine, EngineError, Redrive};

use crate::behaviour::addresses::at;
use crate::behaviour::{is_refused, retry_item};
use crate::failures_moves::{COMMITS_MAX, Moving, RELAXED_FAULTS, is_in_one_place};
use crate::world::{bodies, queue_name};

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
