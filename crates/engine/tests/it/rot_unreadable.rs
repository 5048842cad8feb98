//! A read that fails may succeed later. It is told, and costs no item anything.

use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::command::List;
use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::row::QueueName;
use windlass_core::time::Span;
use windlass_engine::{EngineError, Outcome, Page};

use crate::rot::Rot;
use crate::world::{bodies, item, lease};

/// Two of them fill a segment.
const LARGE: usize = 100 << 10;

fn large(name: &str) -> String {
    name.repeat(LARGE / name.len())
}

/// Three items of which the first two are in a segment that cannot be read, and the name of that.
async fn two_of_three_unreadable(rot: &Rot, queue: &QueueName) -> (Vec<ItemId>, String) {
    let mut ids = Vec::new();
    for name in ["one ", "two ", "three "] {
        let made = rot.engine.produce(queue, vec![item(&large(name))]).await.expect("produced");
        ids.push(made.results.into_iter().next().expect("one").expect("produced").id);
    }
    let segments = |name: &str| {
        let holds = |bytes: &Vec<u8>| bytes.windows(100).any(|found| found == &large(name).as_bytes()[..100]);
        let images = rot.disk.images().into_iter();
        images.filter(|(_, bytes)| holds(bytes)).map(|(name, _)| name).collect::<Vec<_>>()
    };
    let first = segments("one ");
    assert_eq!((first.len(), segments("two ")), (1, first.clone()));
    assert_ne!(segments("three "), first);
    (ids, first[0].clone())
}

fn is_unavailable<T>(result: &Result<T, EngineError>) -> bool {
    matches!(result, Err(EngineError::Unavailable { outcome: Outcome::NotApplied, .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_read_refuses_the_lease_and_the_item_waits_on_uncharged() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let ids = rot.produce(&queue, &["sound"]).await;
    rot.disk.faults().reads.store(1, Ordering::SeqCst);
    assert!(is_unavailable(&rot.engine.lease(&queue, lease(1), Span::from_secs(30)).await));
    while rot.waiting(&queue).await == 0 {
        tokio::task::yield_now().await;
    }
    let item = rot.get(ids[0]).await.item;
    assert_eq!((item.state.phase(), item.attempts), (Phase::Waiting, 0));
    assert_eq!(bodies(&rot.lease(&queue, 1).await), ["sound"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_one_passes_items_that_cannot_be_read_now() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let (ids, segment) = two_of_three_unreadable(&rot, &queue).await;
    rot.disk.make_unreadable(&segment);
    let granted = rot.lease(&queue, 1).await;
    assert_eq!(granted.iter().map(|item| item.id).collect::<Vec<_>>(), ids[2..]);
    while rot.waiting(&queue).await < 2 {
        tokio::task::yield_now().await;
    }
    assert!(is_unavailable(&rot.engine.get(ids[0]).await));
    let partition = rot.engine.stats(&queue).await.expect("stats").partitions[0].partition;
    let page = Page { partition, list: List::Queue, after: None, limit: 10 };
    assert!(is_unavailable(&rot.engine.list(&queue, page).await), "a list must not hide them");
    rot.disk.make_readable(&segment);
    assert_eq!(rot.lease(&queue, 3).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_that_cannot_be_read_now_lets_others_pass_and_follows_later() {
    let rot = Rot::new().await;
    let (queue, dead) = (rot.queue("q", Some("dead")).await, rot.queue("dead", None).await);
    let (_, segment) = two_of_three_unreadable(&rot, &queue).await;
    let leased = rot.lease(&queue, 3).await;
    rot.disk.make_unreadable(&segment);
    rot.give_up(&queue, &leased).await;
    while rot.engine.stats(&queue).await.expect("stats").moving == 3 {
        rot.env.advance(Duration::from_millis(50));
        tokio::task::yield_now().await;
    }
    assert_eq!(rot.waiting(&dead).await, 1);
    rot.disk.make_readable(&segment);
    rot.all_moved(&queue).await;
    let mut arrived = bodies(&rot.lease(&dead, 3).await);
    arrived.sort();
    assert_eq!(arrived, ["one ", "three ", "two "].map(large));
}
