//! A read that fails may succeed later. It is told, and costs no item anything.

use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::row::QueueName;
use windlass_core::time::Span;
use windlass_engine::{EngineError, Outcome};

use crate::rot::{Rot, payloads};
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
        let wanted = large(name).into_bytes();
        let holds = |bytes: &Vec<u8>| bytes.windows(100).any(|found| found == &wanted[..100]);
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

/// How many items of a queue wait for their time.
async fn scheduled(rot: &Rot, queue: &QueueName) -> u64 {
    rot.engine.stats(queue).await.expect("stats").counts.scheduled
}

/// Until the items that were put off wait again.
async fn let_them_come_back(rot: &Rot, queue: &QueueName) {
    rot.env.advance(Duration::from_secs(30));
    while scheduled(rot, queue).await > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_fails_once_is_not_noticed() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    rot.produce(&queue, &["sound"]).await;
    rot.disk.faults().reads.store(1, Ordering::SeqCst);
    assert_eq!(bodies(&rot.lease(&queue, 1).await), ["sound"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_fails_twice_refuses_the_lease_and_the_item_waits_for_a_while_uncharged() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let ids = rot.produce(&queue, &["sound"]).await;
    rot.disk.faults().reads.store(2, Ordering::SeqCst);
    assert!(is_unavailable(&rot.engine.lease(&queue, lease(1), Span::from_secs(30)).await));
    let item = rot.get(ids[0]).await.item;
    assert_eq!((item.state.phase(), item.attempts), (Phase::Scheduled, 0));
    let_them_come_back(&rot, &queue).await;
    assert_eq!(bodies(&rot.lease(&queue, 1).await), ["sound"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_one_passes_items_that_cannot_be_read_now() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let (ids, segment) = two_of_three_unreadable(&rot, &queue).await;
    rot.disk.make_unreadable(&segment);
    let granted = rot.lease(&queue, 1).await;
    assert_eq!(granted.iter().map(|item| item.leased.id).collect::<Vec<_>>(), ids[2..]);
    assert!(is_unavailable(&rot.engine.get(ids[0]).await));
    rot.disk.make_readable(&segment);
    let_them_come_back(&rot, &queue).await;
    assert_eq!(rot.lease(&queue, 3).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_shows_items_that_cannot_be_read_now_without_their_payload() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let (ids, segment) = two_of_three_unreadable(&rot, &queue).await;
    rot.disk.make_unreadable(&segment);
    let listed = rot.list(&queue).await;
    assert_eq!(listed.iter().map(|view| view.id).collect::<Vec<_>>(), ids);
    let third = large("three ");
    assert_eq!(payloads(&listed), [None, None, Some(third.as_bytes())]);
    // So that they can be taken out by their ids.
    let deleted = rot.engine.delete_items(&queue, ids[..2].to_vec()).await.expect("judged");
    assert!(deleted.results.iter().all(Result::is_ok), "{:?}", deleted.results);
    assert_eq!(rot.list(&queue).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_items_that_cannot_be_read_do_not_block_those_behind_them() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let small: Vec<String> = (0..50).map(|number| format!("small {number}")).collect();
    rot.produce(&queue, &small.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (ids, segment) = two_of_three_unreadable(&rot, &queue).await;
    rot.disk.make_unreadable(&segment);
    let mut refused = 0;
    let granted = loop {
        match rot.engine.lease(&queue, lease(1), Span::ZERO).await {
            Ok(granted) => break granted.accept(),
            Err(_) => refused += 1,
        }
        assert!(refused < 10, "each call puts some off");
    };
    assert_eq!(granted.iter().map(|item| item.leased.id).collect::<Vec<_>>(), ids[2..]);
    assert_eq!(scheduled(&rot, &queue).await, 52);
    rot.disk.make_readable(&segment);
    let_them_come_back(&rot, &queue).await;
    let came_back = rot.lease(&queue, 100).await;
    assert_eq!(came_back.len(), 52);
    assert!(came_back.iter().all(|item| item.leased.attempts == 1));
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
