//! Replies that nobody takes.

use std::time::Duration;

use tokio::time::Instant;
use windlass_server::listener::{Limits, Timeout};

use super::world::{Client, LARGE, SHORT, Seen, World, arrived, delivered, undelivered};

#[tokio::test]
async fn a_client_that_does_not_take_its_reply_is_cut_off() {
    let mut world = World::new(Limits { stall_timeout: SHORT, ..Limits::default() }).await;
    let mut client = world.client().await;
    client.send("GET /large HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, arrived("/large"));
    assert_eq!(world.saw().await, undelivered("/large"));
    assert_eq!(world.traffic.closed_by(Timeout::Reply), 1);
    world.finish().await;
}

#[tokio::test]
async fn a_client_that_leaves_in_mid_reply_is_noticed() {
    let mut world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send("GET /large HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, arrived("/large"));
    drop(client);
    assert_eq!(world.saw().await, undelivered("/large"));
    world.finish().await;
}

#[tokio::test]
async fn a_large_reply_is_delivered_whole() {
    let mut world = World::new(Limits { stall_timeout: SHORT, ..Limits::default() }).await;
    let mut client = world.client().await;
    let answer = client.get("/large").await;
    assert!(answer.body.len() == LARGE && answer.body.iter().all(|byte| *byte == b'x'));
    assert_eq!(world.saw().await, arrived("/large"));
    assert_eq!(world.saw().await, delivered("/large"));
    world.finish().await;
}

#[tokio::test]
async fn who_pipelines_without_reading_is_cut_off() {
    let mut world = World::new(Limits { stall_timeout: SHORT, ..Limits::default() }).await;
    let mut client = world.client().await;
    client.shout("GET /large HTTP/1.1\r\n\r\n".repeat(1000)).await;
    assert_eq!(world.saw().await, arrived("/large"));
    assert_eq!(world.saw().await, undelivered("/large"));
    world.finish().await;
}

/// A client that does not take the reply it asked for.
async fn reluctant(world: &mut World) -> Client {
    let mut client = world.client().await;
    client.send("GET /large HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, arrived("/large"));
    client
}

#[tokio::test]
async fn replies_that_are_not_taken_have_a_limit_and_are_given_back() {
    let mut world = World::new(Limits { bytes_in_flight_max: 2 * LARGE, ..Limits::default() }).await;
    let (mut one, two) = (reluctant(&mut world).await, reluctant(&mut world).await);
    assert_eq!(world.traffic.reply_bytes_in_flight(), 2 * LARGE);
    let mut third = world.client().await;
    assert_eq!(third.get("/large").await.status, 429);
    assert_eq!(world.saw().await, arrived("/large"));
    // Neither small replies nor bodies of requests have anything to do with it.
    third.echo("/echo", &[b'x'; 64 << 10]).await;
    assert_eq!((world.saw().await, world.saw().await), (arrived("/echo"), delivered("/echo")));
    assert_eq!(world.traffic.reply_bytes_in_flight(), 2 * LARGE);

    drop(two);
    assert_eq!(world.saw().await, undelivered("/large"));
    assert_eq!(world.traffic.reply_bytes_in_flight(), LARGE);
    assert_eq!(one.answer().await.body.len(), LARGE);
    assert_eq!(world.saw().await, delivered("/large"));
    assert_eq!(world.traffic.reply_bytes_in_flight(), 0);
    assert_eq!(third.get("/large").await.body.len(), LARGE);
    world.finish().await;
}

#[tokio::test]
async fn a_reply_larger_than_the_limit_goes_out_alone() {
    let mut world = World::new(Limits { bytes_in_flight_max: 1000, ..Limits::default() }).await;
    let mut alone = reluctant(&mut world).await;
    let mut second = world.client().await;
    assert_eq!(second.get("/large").await.status, 429);
    second.echo("/echo", b"small ones go on").await;
    assert_eq!(alone.answer().await.body.len(), LARGE);
    assert_eq!(second.get("/large").await.body.len(), LARGE);
    world.finish().await;
}

#[tokio::test]
async fn a_reply_takes_the_room_of_replies_that_nobody_takes() {
    let limits = Limits { bytes_in_flight_max: 2 * LARGE, slow_after: Duration::ZERO, ..Limits::default() };
    let mut world = World::new(limits).await;
    let (first, mut second) = (reluctant(&mut world).await, reluctant(&mut world).await);
    let mut third = world.client().await;
    // A reply is slow once the kernel takes no more of it.
    while third.get("/large").await.status != 200 {
        assert_eq!(world.saw().await, arrived("/large"));
    }
    assert_eq!(world.saw().await, arrived("/large"));
    assert_eq!(world.saw().await, undelivered("/large"));
    assert_eq!(world.traffic.closed_by(Timeout::Reply), 1);
    assert_eq!(second.answer().await.body.len(), LARGE);
    drop(first);
    world.finish().await;
}

const SLOW_READERS: usize = 40;

#[tokio::test]
async fn slow_readers_of_the_same_bytes_hold_them_once() {
    let mut world = World::new(Limits { bytes_in_flight_max: 2 * LARGE, ..Limits::default() }).await;
    let mut readers = Vec::new();
    for _ in 0..SLOW_READERS {
        let mut client = Client::with_small_window(world.address).await;
        client.send("GET /shared HTTP/1.1\r\n\r\n").await;
        assert_eq!(world.saw().await, arrived("/shared"));
        readers.push(client);
    }
    assert_eq!(world.traffic.reply_bytes_in_flight(), LARGE);
    assert_eq!(world.client().await.get("/large").await.body.len(), LARGE);
    drop(readers);
    let mut given_up = 0;
    while given_up < SLOW_READERS {
        given_up += usize::from(world.saw().await == undelivered("/shared"));
    }
    assert_eq!(world.traffic.reply_bytes_in_flight(), 0);
    world.finish().await;
}

/// They neither read nor close, as if they were gone without a word.
#[tokio::test]
async fn those_who_take_nothing_of_a_stream_are_cut_off() {
    let mut world = World::new(Limits { stream_stall_timeout: SHORT, ..Limits::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        let mut client = world.client().await;
        client.send("GET /stream HTTP/1.1\r\n\r\n").await;
        silent.push(client);
    }
    let (mut came, mut cut) = (0, 0);
    while cut < silent.len() {
        match world.saw().await {
            Seen::Arrived(_) => came += 1,
            Seen::Undelivered(_) => cut += 1,
            Seen::Left(_) | Seen::Delivered(_) => panic!("a stream that always has more is not over"),
        }
    }
    assert_eq!((came, world.traffic.closed_by(Timeout::Reply)), (50, 50));
    world.finish().await;
}

/// Long enough for a client to be steady on a busy machine.
const STALL: Duration = Duration::from_secs(2);

/// The kernel calls a socket writable when a third of its buffer is free, and what this reader takes is less than that.
#[tokio::test]
async fn who_takes_little_of_a_stream_is_not_cut_off_before_it_stops() {
    let mut world = World::new(Limits { stream_stall_timeout: STALL, ..Limits::default() }).await;
    let client = loop {
        if let Some(client) = steady(&mut world).await {
            break client;
        }
    };
    let cut = world.traffic.closed_by(Timeout::Reply);
    assert_eq!(world.saw().await, undelivered("/stream"));
    assert_eq!(world.traffic.closed_by(Timeout::Reply), cut + 1);
    drop(client);
    world.finish().await;
}

/// A client that took little of a stream for several times `STALL`. `None` if the machine held it up: then it may rightly have
/// been cut off.
async fn steady(world: &mut World) -> Option<Client> {
    let cut = world.traffic.closed_by(Timeout::Reply);
    let mut client = Client::with_small_window(world.address).await;
    client.send("GET /stream HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, arrived("/stream"));
    let begun = Instant::now();
    while begun.elapsed() < 3 * STALL {
        if !client.sip(6 << 10, STALL / 2).await {
            drop(client);
            assert_eq!(world.saw().await, undelivered("/stream"));
            return None;
        }
        assert_eq!(world.traffic.closed_by(Timeout::Reply), cut);
    }
    Some(client)
}

#[tokio::test]
async fn who_leaves_a_stream_is_noticed() {
    let mut world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send("GET /stream HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, arrived("/stream"));
    drop(client);
    assert_eq!(world.saw().await, undelivered("/stream"));
    world.finish().await;
}
