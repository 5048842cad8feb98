//! What those are shown who follow an item while the store fails: nothing that is not durable, and all that is.

use windlass_core::id::{ItemId, Permit};
use windlass_core::time::Span;
use windlass_engine::{Engine, Subscription};

use crate::behaviour::streams::{emit, event, next, rest};
use crate::failures::{Broken, world};
use crate::faulty::Fault;
use crate::world::{items, lease};

async fn followed(world: &Broken) -> ((ItemId, Permit), Subscription) {
    world.engine.produce(&world.queue, items(1)).await.expect("produced");
    let leased = world.engine.lease(&world.queue, lease(1), Span::ZERO).await.expect("leased").accept();
    let stream = world.engine.subscribe(leased[0].id, Some(0)).await.expect("subscribed");
    ((leased[0].id, leased[0].permit), stream)
}

async fn try_emit(engine: &Engine, (id, permit): (ItemId, Permit), content: &str) -> bool {
    engine.emit(id, permit, None, vec![event(content)]).await.is_ok()
}

#[tokio::test]
async fn an_event_whose_commit_looked_failed_and_made_it_is_shown_once() {
    let world = world(1).await;
    let (held, mut stream) = followed(&world).await;
    world.store.fail_next(Fault::UnknownDone);
    assert!(try_emit(&world.engine, held, "a").await);
    assert_eq!(next(&mut stream).await, "1 a");
    assert_eq!(emit(&world.engine, held, &["b"]).await.first_seq, 2);
    assert_eq!(next(&mut stream).await, "2 b");
}

#[tokio::test]
async fn an_event_whose_commit_was_lost_is_never_shown_and_its_number_is_the_next_ones() {
    for fault in [Fault::UnknownLost, Fault::NotApplied] {
        let world = world(1).await;
        let (held, stream) = followed(&world).await;
        world.store.fail_next(fault);
        assert!(!try_emit(&world.engine, held, "lost").await);
        world.waiting().await;
        assert_eq!(emit(&world.engine, held, &["kept"]).await.first_seq, 1);
        let done = vec![(held.0, held.1, None)];
        world.engine.complete(&world.queue, done).await.expect("judged").results[0]
            .clone()
            .expect("completed");
        assert_eq!(rest(stream).await, ["1 kept", "Completed", "end Final Completed"]);
    }
}

#[tokio::test]
async fn an_end_whose_commit_was_lost_is_not_shown_before_the_next_one() {
    let world = world(1).await;
    let (held, stream) = followed(&world).await;
    world.store.fail_next(Fault::UnknownLost);
    let done = || world.engine.complete(&world.queue, vec![(held.0, held.1, None)]);
    done().await.expect("judged").results[0].clone().expect_err("it was lost");
    world.waiting().await;
    emit(&world.engine, held, &["a"]).await;
    done().await.expect("judged").results[0].clone().expect("completed");
    assert_eq!(rest(stream).await, ["1 a", "Completed", "end Final Completed"]);
}
