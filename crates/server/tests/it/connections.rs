//! What a connection does for clients that behave, and for those that leave.

use std::time::Duration;

use tokio::net::TcpStream;
use windlass_server::listener::Limits;

use crate::hostile::world::{Seen, World, request, soon};

fn arrived(path: &str) -> Seen {
    Seen::Arrived(path.to_owned())
}

fn delivered(path: &str) -> Seen {
    Seen::Delivered(path.to_owned())
}

fn left(path: &str) -> Seen {
    Seen::Left(path.to_owned())
}

#[tokio::test]
async fn many_requests_share_a_connection_and_each_delivery_is_told_once() {
    let mut world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    for number in 0..50 {
        let path = format!("/echo/{number}");
        client.echo(&path, path.as_bytes()).await;
        assert_eq!((world.saw().await, world.saw().await), (arrived(&path), delivered(&path)));
    }
    world.saw_no_more();
    assert_eq!(world.traffic.accepted(), 2);
    world.finish().await;
}

#[tokio::test]
async fn replies_without_a_body_are_delivered_too() {
    let mut world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.echo("/echo/empty", b"").await;
    assert_eq!((world.saw().await, world.saw().await), (arrived("/echo/empty"), delivered("/echo/empty")));
    client.send("HEAD /head HTTP/1.1\r\n\r\n").await;
    assert_eq!((world.saw().await, world.saw().await), (arrived("/head"), delivered("/head")));
    world.finish().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let mut world = World::new(Limits::default()).await;
    let bodies: Vec<_> = (0..100).map(|number| vec![b'x'; number * number]).collect();
    let all: Vec<u8> = bodies.iter().flat_map(|body| request("/echo", body)).collect();
    // In one piece, and in pieces that end anywhere.
    for piece in [all.len(), 1009] {
        let mut client = world.client().await;
        let (mut answered, mut told) = (0, 0);
        for part in all.chunks(piece) {
            client.send(part).await;
        }
        for body in &bodies {
            assert_eq!(client.answer().await.body, *body);
            answered += 1;
        }
        while told < answered {
            told += usize::from(world.saw().await == delivered("/echo"));
        }
    }
    world.saw_no_more();
    world.finish().await;
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_is_noticed() {
    let mut world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send("GET /wait HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, arrived("/wait"));
    drop(client);
    assert_eq!(world.saw().await, left("/wait"));
    world.saw_no_more();
    world.finish().await;
}

#[tokio::test]
async fn a_client_that_has_sent_more_and_leaves_is_noticed() {
    let mut world = World::new(Limits::default()).await;
    for more in ["\r\n", "GET /next HT", "GET /next HTTP/1.1\r\n\r\n"] {
        let mut client = world.client().await;
        client.send(format!("GET /wait HTTP/1.1\r\n\r\n{more}")).await;
        assert_eq!(world.saw().await, arrived("/wait"));
        drop(client);
        assert_eq!(world.saw().await, left("/wait"));
        // What came later is not read at once.
        let mut client = world.client().await;
        client.send("GET /wait HTTP/1.1\r\n\r\n").await;
        assert_eq!(world.saw().await, arrived("/wait"));
        client.send(more).await;
        drop(client);
        assert_eq!(world.saw().await, left("/wait"));
    }
    world.finish().await;
}

#[tokio::test]
async fn a_client_that_closes_its_side_while_it_waits_is_taken_for_gone() {
    let mut world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send("GET /wait HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, arrived("/wait"));
    client.half_close().await;
    assert_eq!(world.saw().await, left("/wait"));
    client.closed().await;
    world.finish().await;
}

#[tokio::test]
async fn waiting_takes_as_long_as_it_takes() {
    let short = Duration::from_millis(100);
    let limits = Limits {
        first_byte_timeout: short,
        head_timeout: short,
        idle_timeout: short,
        stall_timeout: short,
        ..Limits::default()
    };
    let mut world = World::new(limits).await;
    world.neighbour_moves_out().await;
    let mut waiting = world.client().await;
    waiting.send(request("/hold", b"hello")).await;
    assert_eq!(world.saw().await, arrived("/hold"));
    // Another client that begins later is cut off for idleness: all of these times have passed.
    let mut idle = world.client().await;
    idle.echo("/echo", b"hello").await;
    idle.closed().await;
    assert_eq!((world.saw().await, world.saw().await), (arrived("/echo"), delivered("/echo")));
    world.saw_no_more();
    world.release(1);
    assert_eq!(waiting.answer().await.status, 200);
    world.finish().await;
}

#[tokio::test]
async fn a_panic_ends_its_own_connection_only() {
    let mut world = World::new(Limits::default()).await;
    let mut other = world.client().await;
    other.echo("/echo", b"before").await;
    let mut client = world.client().await;
    client.send("GET /panic HTTP/1.1\r\n\r\n").await;
    client.closed().await;
    other.echo("/echo", b"after").await;
    let seen = [arrived("/echo"), delivered("/echo"), arrived("/panic"), left("/panic")];
    for expected in seen {
        assert_eq!(world.saw().await, expected);
    }
    world.finish().await;
}

#[tokio::test]
async fn stopping_closes_idle_connections_and_waits_for_requests() {
    let mut world = World::new(Limits::default()).await;
    let (mut idle, fresh, mut waiting) = (world.client().await, world.client().await, world.client().await);
    idle.echo("/echo", b"hello").await;
    waiting.send("GET /wait HTTP/1.1\r\n\r\n").await;
    assert_eq!((world.saw().await, world.saw().await), (arrived("/echo"), delivered("/echo")));
    assert_eq!(world.saw().await, arrived("/wait"));
    world.neighbour_moves_out().await;
    world.stopping.send_replace(true);
    idle.closed().await;
    fresh.closed().await;
    assert!(TcpStream::connect(world.address).await.is_err(), "nobody is let in any more");
    assert!(!world.running.is_finished());
    world.release(1);
    let answer = waiting.answer().await;
    assert_eq!((answer.body.as_slice(), answer.header("connection")), (&b"waited"[..], Some("close")));
    waiting.closed().await;
    world.finish().await;
}

#[tokio::test]
async fn stopping_cuts_what_is_left_at_the_end_of_the_grace_period() {
    let mut world = World::with_grace(Limits::default(), Duration::from_millis(100)).await;
    let mut waiting = world.client().await;
    waiting.send("GET /wait HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, arrived("/wait"));
    world.neighbour_moves_out().await;
    world.stopping.send_replace(true);
    waiting.closed().await;
    assert_eq!(world.saw().await, left("/wait"));
    soon(world.running).await.unwrap();
    assert_eq!((world.traffic.open(), world.traffic.cut()), (0, 1));
}
