//! Readers of large replies that are as slow as they may be, on a clock that the test moves.

use std::time::Duration;

use tokio::time::advance;
use windlass_server::listener::{Limits, Timeout};

use super::world::{Client, LARGE, World, arrived, delivered, undelivered};
use crate::still_clock::StillClock;

/// The least that a reader must take, as `docs/concepts/connections.md` says.
const WINDOW_BYTES: usize = 160 << 10;
const WINDOW_SECONDS: usize = 10;
/// Bytes that [`take_steadily`] takes.
const STEADY_BYTES: usize = 2 * WINDOW_BYTES;
const SECOND: Duration = Duration::from_secs(1);

/// The receive buffer of a reader, as large as the kernel begins with. Left alone the kernel would make it larger, because by the
/// clock of the kernel these readers are fast.
const READER_WINDOW: u32 = 128 << 10;

/// A client that has begun to take a large reply.
async fn reader(world: &mut World) -> Client {
    let mut client = Client::with_window(world.address, READER_WINDOW).await;
    client.send("GET /large HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, arrived("/large"));
    client.head().await;
    client
}

/// Connections of this runtime are served in turn: when this client has its answer, what others took was noticed.
async fn everybody_is_served(other: &mut Client) {
    other.echo("/echo/neighbour", b"still there").await;
}

/// Takes the whole reply, so many bytes at a time and nothing for so long in between.
async fn take_all(world: &World, reader: &mut Client, bytes: usize, pause: Duration) {
    let mut other = world.client().await;
    let mut taken = 0;
    while taken < LARGE {
        let some = bytes.min(LARGE - taken);
        reader.take(some).await;
        taken += some;
        everybody_is_served(&mut other).await;
        advance(pause).await;
        assert_eq!(world.traffic.closed_by(Timeout::Reply), 0, "cut off after {taken} bytes");
    }
}

#[tokio::test]
async fn a_reader_at_the_least_pace_gets_its_whole_reply() {
    let _clock = StillClock::stop();
    let mut world = World::new(Limits::default()).await;
    world.neighbour_moves_out().await;
    for pauses in [WINDOW_SECONDS, 1] {
        let mut reader = reader(&mut world).await;
        let (bytes, pause) = (WINDOW_BYTES / pauses, WINDOW_SECONDS as u32 * SECOND / pauses as u32);
        take_all(&world, &mut reader, bytes, pause).await;
        assert_eq!(world.saw().await, delivered("/large"));
    }
    world.finish().await;
}

#[tokio::test]
async fn a_reader_far_below_the_least_pace_is_cut_off() {
    let _clock = StillClock::stop();
    let mut world = World::new(Limits::default()).await;
    world.neighbour_moves_out().await;
    let (mut other, mut reader) = (world.client().await, reader(&mut world).await);
    let mut taken = 0;
    while world.traffic.closed_by(Timeout::Reply) == 0 {
        assert!(taken < LARGE, "the reader got its whole reply");
        reader.take(WINDOW_BYTES / 64).await;
        taken += WINDOW_BYTES / 64;
        everybody_is_served(&mut other).await;
        advance(SECOND).await;
        everybody_is_served(&mut other).await;
    }
    assert_eq!(world.saw().await, undelivered("/large"));
    world.finish().await;
}

/// Room for two replies: a steady reader has one, and a client that takes nothing the other.
async fn steady_and_silent(world: &mut World) -> (Client, Client) {
    world.neighbour_moves_out().await;
    let silent = reader(world).await;
    let mut steady = reader(world).await;
    take_steadily(world, &mut steady).await;
    (steady, silent)
}

/// Takes twice the least that a reader must take, for one window.
async fn take_steadily(world: &World, reader: &mut Client) {
    let mut other = world.client().await;
    for _ in 0..WINDOW_SECONDS {
        reader.take(STEADY_BYTES / WINDOW_SECONDS).await;
        everybody_is_served(&mut other).await;
        advance(SECOND).await;
    }
}

#[tokio::test]
async fn a_steady_reader_gives_way_after_one_that_takes_nothing() {
    let _clock = StillClock::stop();
    let mut world = World::new(Limits { bytes_in_flight_max: 2 * LARGE, ..Limits::default() }).await;
    let (mut steady, silent) = steady_and_silent(&mut world).await;
    assert_eq!(world.client().await.get("/large").await.status, 200);
    assert_eq!(world.saw().await, arrived("/large"));
    assert_eq!(world.saw().await, undelivered("/large"));
    assert_eq!(world.saw().await, delivered("/large"));
    assert_eq!(world.traffic.closed_by(Timeout::Reply), 1);
    drop(silent);
    steady.take(LARGE - STEADY_BYTES).await;
    assert_eq!(world.saw().await, delivered("/large"));
    world.finish().await;
}

#[tokio::test]
async fn a_steady_reader_gives_way_when_there_is_no_slower_one() {
    let _clock = StillClock::stop();
    let mut world = World::new(Limits { bytes_in_flight_max: LARGE, ..Limits::default() }).await;
    world.neighbour_moves_out().await;
    let mut steady = reader(&mut world).await;
    take_steadily(&world, &mut steady).await;
    // The steady reader may have filled its window just now, and gives way after a second.
    advance(2 * SECOND).await;
    assert_eq!(world.traffic.closed_by(Timeout::Reply), 0);
    assert_eq!(world.client().await.get("/large").await.status, 200);
    assert_eq!(world.traffic.closed_by(Timeout::Reply), 1);
    steady.closed_within(LARGE - STEADY_BYTES).await;
    world.finish().await;
}
