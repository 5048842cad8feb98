//! What failed is tried again as the queue says, and then failed for all to see; an error that is a result is none.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::item::{ItemError, Phase};
use windlass_core::settings::{RetryPolicy, RetryStrategy, Settings};
use windlass_core::time::Span;
use windlass_core::verbs::RetryItem;

use super::retry_item;
use crate::world::{World, completion_with, items};

on_every_store!(
    three_attempts_five_minutes_apart_are_one_setting,
    completing_with_an_error_value_is_completion,
);

async fn three_attempts_five_minutes_apart_are_one_setting(world: &World) {
    let every_five_minutes = RetryPolicy {
        strategy: RetryStrategy::Fixed,
        initial: Span::from_secs(300),
        jitter: 0.0,
        ..RetryPolicy::default()
    };
    let queue = world.queue("q", 1, Settings { retry: every_five_minutes, ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    for attempt in 1..=3 {
        let leased = world.lease(&queue, 1).await;
        assert_eq!(leased[0].leased.attempts, attempt);
        let error = Some(ItemError { code: None, message: format!("failure {attempt}").into() });
        let retry = RetryItem { error, ..retry_item(&leased[0]) };
        world.engine().retry(&queue, vec![retry]).await.expect("judged");
        world.env.advance(Duration::from_secs(299));
        assert!(world.lease(&queue, 1).await.is_empty(), "not before its time");
        world.env.advance(Duration::from_secs(1));
    }
    let item = world.engine().get(id).await.expect("it is kept").item;
    let error = item.extras.and_then(|extras| extras.error).expect("the worker's last");
    assert_eq!((item.state.phase(), &*error.message), (Phase::Failed, "failure 3"));
}

async fn completing_with_an_error_value_is_completion(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let leased = world.lease(&queue, 1).await;
    let result = Bytes::from_static(br#"{"error": "no such customer"}"#);
    let done = vec![completion_with(leased[0].held(), result.clone())];
    world.engine().complete(&queue, done).await.expect("judged").results.remove(0).expect("completed");
    let view = world.engine().get(leased[0].leased.id).await.expect("it is kept");
    assert_eq!((view.phase(), view.result), (Phase::Completed, Some(result)));
    assert!(world.lease(&queue, 1).await.is_empty());
}
