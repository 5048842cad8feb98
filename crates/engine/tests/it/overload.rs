//! A partition that has more to do than it can: what it takes no more of, and what still gets in.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use tokio::task::unconstrained;
use windlass_core::event::NewEvent;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{Completion, CreateQueue, RetryItem, Settle, SuspendItem};
use windlass_engine::{EngineError, Granted};

use crate::behaviour::retry_item;
use crate::failures::{Broken, world, world_of};
use crate::world::{completion, held, items, lease, queue_name};

/// A quarter of an inbox is kept for commands that settle work.
const ORDINARY_MAX: usize = 3072;
const SETTLING_MAX: usize = 1024;
const MIB: usize = 1 << 20;

type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + 'a>>;

/// A call that has been sent. Its first poll is not cut short by the runtime.
fn call<'a, T>(call: impl Future<Output = Result<T, EngineError>> + 'a) -> Call<'a, T> {
    Box::pin(unconstrained(call))
}

/// The answer to a call that got no further than the inbox: `None` if the call waits there.
pub(crate) async fn first_poll<T>(mut call: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    poll_fn(|context| {
        Poll::Ready(match call.as_mut().poll(context) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        })
    })
    .await
}

/// Sends until a call is refused as overloaded, and returns the calls that wait.
async fn send_until_refused<'a, T>(send: impl Fn() -> Call<'a, T>) -> Vec<Call<'a, T>> {
    let mut waiting = Vec::new();
    loop {
        let mut next = send();
        match first_poll(next.as_mut()).await {
            None => waiting.push(next),
            Some(Err(EngineError::Overloaded { .. })) => return waiting,
            Some(Err(error)) => panic!("refused for another reason: {error}"),
            Some(Ok(_)) => panic!("answered while no commit comes to an end"),
        }
    }
}

/// Leases `count` items, leaves one, and has the writer wait for a commit that does not end.
async fn stalled(world: &Broken, count: usize) -> Vec<Granted> {
    world.engine.produce(&world.queue, items(count + 1)).await.expect("produced");
    let leased = world.engine.lease(&world.queue, lease(count), Span::ZERO).await.expect("leased").accept();
    stall(world, &world.queue).await;
    leased
}

/// Has the writer of a queue wait for a commit that does not end.
async fn stall(world: &Broken, queue: &QueueName) {
    let begun = *world.store.committing.borrow();
    world.store.held.send_replace(true);
    let (engine, queue) = (world.engine.clone(), queue.clone());
    tokio::spawn(async move { engine.produce(&queue, items(1)).await });
    world.store.committing.subscribe().wait_for(|now| *now > begun).await.expect("the store is there");
}

async fn is_overloaded<'a, T>(mut call: Call<'a, T>) -> bool {
    matches!(first_poll(call.as_mut()).await, Some(Err(EngineError::Overloaded { .. })))
}

#[tokio::test]
async fn commands_that_settle_work_get_in_when_produces_fill_the_inbox() {
    let world = world(1).await;
    let (engine, queue) = (&world.engine, &world.queue);
    let leased = stalled(&world, 7).await;
    let produces = send_until_refused(|| call(engine.produce(queue, items(1)))).await;
    assert_eq!(produces.len(), ORDINARY_MAX);
    for wait in [Span::ZERO, Span::from_secs(60)] {
        assert!(is_overloaded(call(engine.lease(queue, lease(1), wait))).await);
    }
    assert!(is_overloaded(call(engine.stats(queue))).await);
    let suspend = SuspendItem { held: leased[4].held(), reason: None };
    let event = NewEvent { content: Bytes::from_static(b"1"), bytes: 1 };
    let mut extend = call(engine.extend(queue, None, held(&leased[..1])));
    let mut complete = call(engine.complete(queue, vec![completion(leased[1].held())]));
    let mut retry = call(engine.retry(queue, vec![retry_item(&leased[2])]));
    let mut release = call(engine.release(queue, held(&leased[3..4])));
    let mut suspend = call(engine.suspend(queue, vec![suspend]));
    let mut emit = call(engine.emit(leased[5].held(), None, vec![event]));
    let settle = Settle::Complete(completion(leased[6].held()));
    let mut next = call(engine.next(queue, vec![settle], Some(lease(1))));
    assert!(first_poll(extend.as_mut()).await.is_none());
    assert!(first_poll(complete.as_mut()).await.is_none());
    assert!(first_poll(retry.as_mut()).await.is_none());
    assert!(first_poll(release.as_mut()).await.is_none());
    assert!(first_poll(suspend.as_mut()).await.is_none());
    assert!(first_poll(emit.as_mut()).await.is_none());
    assert!(first_poll(next.as_mut()).await.is_none());
    world.store.held.send_replace(false);
    assert!(extend.await.expect("judged").results[0].is_ok());
    assert!(complete.await.expect("judged").results[0].is_ok());
    assert!(retry.await.expect("judged").results[0].is_ok());
    assert!(release.await.expect("judged").results[0].is_ok());
    assert!(suspend.await.expect("judged").results[0].is_ok());
    emit.await.expect("emitted");
    assert!(next.await.expect("judged").settled.results[0].is_ok());
    for produce in produces {
        produce.await.expect("produced");
    }
}

#[tokio::test]
async fn the_share_of_commands_that_settle_work_is_bounded_too() {
    let world = world(1).await;
    let (engine, queue) = (&world.engine, &world.queue);
    let leased = stalled(&world, 1).await;
    let produces = send_until_refused(|| call(engine.produce(queue, items(1)))).await;
    // A batch call tells of its items one by one: what did not get in is told as the items' own error.
    let extend = || async {
        let judged = engine.extend(queue, None, held(&leased)).await?;
        judged.results.into_iter().next().expect("one item was named")
    };
    let extends = send_until_refused(|| call(extend())).await;
    assert_eq!((produces.len(), extends.len()), (ORDINARY_MAX, SETTLING_MAX));
    world.store.held.send_replace(false);
    for extend in extends {
        extend.await.expect("extended");
    }
}

/// Time stands still in this world: a move that is refused is not tried again.
#[tokio::test]
async fn a_dead_letter_gets_in_when_produces_fill_the_inbox_of_the_dead_queue() {
    let settings = Settings { dead_queue: Some("dead".into()), ..Settings::default() };
    let world = world_of(1, settings).await;
    let (engine, queue, dead) = (&world.engine, &world.queue, queue_name("dead"));
    let create = CreateQueue::new(dead.clone(), Settings::default(), 1);
    let made = engine.create_queue(create).await.expect("made").value;
    *world.store.held_partition.lock().expect("not poisoned") = Some(made.partitions[0]);
    engine.produce(queue, items(1)).await.expect("produced");
    let leased = engine.lease(queue, lease(1), Span::ZERO).await.expect("leased").accept();
    stall(&world, &dead).await;
    let produces = send_until_refused(|| call(engine.produce(&dead, items(1)))).await;
    let begun = *world.store.committing.borrow();
    let last = RetryItem { dead: true, ..retry_item(&leased[0]) };
    assert!(engine.retry(queue, vec![last]).await.expect("judged").results[0].is_ok());
    // The end of the item, and the choice of who takes it.
    world.store.committing.subscribe().wait_for(|now| *now >= begun + 2).await.expect("the store is there");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    world.store.held.send_replace(false);
    let count = produces.len() as u64;
    for produce in produces {
        produce.await.expect("produced");
    }
    assert_eq!(
        engine.stats(&dead).await.expect("stats").counts.waiting,
        count + 2,
        "the first produce, the others, and the letter"
    );
}

#[tokio::test]
async fn results_get_in_when_the_bytes_of_produces_fill_the_inbox() {
    let world = world(1).await;
    let (engine, queue) = (&world.engine, &world.queue);
    let leased = stalled(&world, 1).await;
    let large = || vec![windlass_core::verbs::NewItem::plain("default", Bytes::from(vec![0; MIB]))];
    let produces = send_until_refused(|| call(engine.produce(queue, large()))).await;
    assert_eq!(produces.len(), 48);
    let result = Some(Bytes::from(vec![0; MIB]));
    let mut complete = call(engine.complete(queue, vec![Completion { held: leased[0].held(), result }]));
    assert!(first_poll(complete.as_mut()).await.is_none());
    world.store.held.send_replace(false);
    assert!(complete.await.expect("judged").results[0].is_ok());
}
