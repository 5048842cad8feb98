//! Replies to clients that had closed their side: whether these clients are gone is known only later.

use std::time::Duration;

use windlass_server::listener::Limits;

use super::world::{Client, Seen, World, arrived, left, request, undelivered};
use crate::still_clock::StillClock;

/// The server waits for less than this for the kernel of a client that is gone to refuse a reply.
const SETTLED: Duration = Duration::from_millis(1001);
const PATHS: [&str; 3] = ["/first", "/second", "/third"];

/// A client that has asked for all of `PATHS` and for what else is given, and has closed its side.
async fn half_closed(world: &World, then: &[u8]) -> Client {
    let mut client = world.client().await;
    let mut requests: Vec<u8> = PATHS.into_iter().flat_map(|path| request(path, b"")).collect();
    requests.extend(then);
    client.send(requests).await;
    client.half_close().await;
    for _ in PATHS {
        assert_eq!(client.answer().await.status, 200);
    }
    client
}

async fn saw_all(world: &mut World, seen: fn(String) -> Seen) {
    for path in PATHS {
        assert_eq!(world.saw().await, seen(path.into()));
    }
}

#[tokio::test]
async fn every_pipelined_reply_to_a_client_that_is_gone_is_undelivered() {
    let mut world = World::new(Limits::default()).await;
    let client = half_closed(&world, &request("/hold", b"")).await;
    saw_all(&mut world, Seen::Arrived).await;
    assert_eq!(world.saw().await, arrived("/hold"));
    client.reset();
    let mut ends = Vec::new();
    for _ in 0..=PATHS.len() {
        ends.push(world.saw().await);
    }
    assert_eq!(ends.remove(0), left("/hold"));
    assert_eq!(ends, PATHS.map(undelivered));
    world.finish().await;
}

#[tokio::test]
async fn every_pipelined_reply_to_a_client_that_still_reads_is_delivered() {
    let clock = StillClock::stop();
    let mut world = World::new(Limits::default()).await;
    let client = half_closed(&world, b"").await;
    saw_all(&mut world, Seen::Arrived).await;
    client.closed().await;
    world.saw_no_more();
    clock.advance(SETTLED).await;
    saw_all(&mut world, Seen::Delivered).await;
    world.finish().await;
}
