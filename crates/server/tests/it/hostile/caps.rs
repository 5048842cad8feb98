//! More clients and more bytes than there is room for.

use std::time::Duration;

use windlass_api::error::ErrorReply;
use windlass_server::listener::{Limits, Timeout};

use super::world::{Client, World, arrived, request};

#[tokio::test]
async fn a_connection_too_many_is_told_to_come_back() {
    let world = World::new(Limits { connections_max: 3, ..Limits::default() }).await;
    let (mut one, mut two) = (world.client().await, world.client().await);
    one.echo("/echo", b"one").await;
    two.echo("/echo", b"two").await;
    for first_word in [&b""[..], &request("/echo", b"let me in")] {
        let mut client = world.client().await;
        client.shout(first_word).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")));
        assert_eq!(answer.header("connection"), Some("close"));
        let said: ErrorReply = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(said.error.code, "overloaded");
        client.closed().await;
    }
    assert_eq!((world.traffic.open(), world.traffic.accepted(), world.traffic.refused()), (3, 3, 2));
    one.half_close().await;
    one.closed().await;
    world.client().await.echo("/echo", b"there is room again").await;
    world.finish().await;
}

#[tokio::test]
async fn a_flood_of_connections_drowns_nobody() {
    let world = World::new(Limits { connections_max: 2, ..Limits::default() }).await;
    let mut admitted = world.client().await;
    admitted.echo("/echo", b"in").await;
    let mut flood = Vec::new();
    for _ in 0..300 {
        flood.push(world.client().await);
    }
    for mut client in flood {
        if let Some(answer) = client.try_answer().await {
            assert_eq!(answer.status, 429);
        }
    }
    admitted.echo("/echo", b"still in").await;
    assert_eq!(world.traffic.refused(), 300);
    world.finish().await;
}

const KIB: usize = 1 << 10;

/// Room for 1,000 KiB, so that no body below is small.
fn thousand_kib() -> Limits {
    Limits { bytes_in_flight_max: 1000 * KIB, ..Limits::default() }
}

#[tokio::test]
async fn bytes_in_flight_have_a_limit_and_are_given_back() {
    let mut world = World::new(thousand_kib()).await;
    let mut holder = world.client().await;
    holder.send(request("/hold", &vec![b'x'; 800 * KIB])).await;
    assert_eq!(world.saw().await, arrived("/hold"));
    until_held(&world, 800 * KIB).await;
    assert_eq!(world.client().await.post("/echo", &vec![b'x'; 300 * KIB]).await.status, 429);
    world.client().await.echo("/echo", &vec![b'x'; 100 * KIB]).await;
    world.release(1);
    assert_eq!(holder.answer().await.status, 200);
    world.client().await.echo("/echo", &vec![b'x'; 900 * KIB]).await;
    world.finish().await;
}

/// The neighbour's bodies come on top.
async fn until_held(world: &World, bytes: usize) {
    while world.traffic.bytes_in_flight() < bytes {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_declares_much_and_sends_nothing_holds_nothing() {
    let mut world = World::new(thousand_kib()).await;
    let mut idlers = Vec::new();
    for _ in 0..20 {
        let mut idler = world.client().await;
        idler.send("POST /hold HTTP/1.1\r\ncontent-length: 900000\r\n\r\n").await;
        assert_eq!(world.saw().await, arrived("/hold"));
        idlers.push(idler);
    }
    world.client().await.echo("/echo", &vec![b'x'; 900 * KIB]).await;
    drop(idlers);
    world.finish().await;
}

#[tokio::test]
async fn a_body_that_is_cut_gives_its_bytes_back() {
    let mut world = World::new(thousand_kib()).await;
    let mut client = world.client().await;
    client.send(&request("/hold", &vec![b'x'; 900 * KIB])[..800 * KIB]).await;
    assert_eq!(world.saw().await, arrived("/hold"));
    client.half_close().await;
    let _refused_or_closed = client.try_answer().await;
    client.closed().await;
    world.client().await.echo("/echo", &vec![b'x'; 900 * KIB]).await;
    world.finish().await;
}

/// Bodies that have almost come, of clients that send no more.
async fn unfinished(world: &mut World, clients: usize) -> Vec<Client> {
    let mut unfinished = Vec::new();
    for number in 1..=clients {
        let mut client = world.client().await;
        client.send(&request("/echo", &vec![b'x'; 90 * KIB])[..80 * KIB]).await;
        assert_eq!(world.saw().await, arrived("/echo"));
        until_held(world, number * 79 * KIB).await;
        unfinished.push(client);
    }
    unfinished
}

#[tokio::test]
async fn a_body_takes_the_room_of_the_body_that_has_been_slow_for_longest() {
    let mut world = World::new(Limits { slow_after: Duration::ZERO, ..thousand_kib() }).await;
    let almost = request("/echo", &vec![b'x'; 90 * KIB]);
    let mut slow = unfinished(&mut world, 12).await;
    world.client().await.echo("/echo", &vec![b'x'; 100 * KIB]).await;
    assert_eq!(slow.remove(0).answer().await.status, 429);
    world.client().await.echo("/echo", &vec![b'x'; 200 * KIB]).await;
    assert_eq!(slow.remove(0).answer().await.status, 429);
    assert_eq!(world.traffic.closed_by(Timeout::Body), 2);
    // The others keep their room, and may go on.
    for mut client in slow {
        client.send(&almost[80 * KIB..]).await;
        assert_eq!(client.answer().await.status, 200);
    }
    world.finish().await;
}

#[tokio::test]
async fn bodies_that_keep_up_do_not_give_way() {
    let mut world = World::new(Limits { slow_after: Duration::from_secs(3600), ..thousand_kib() }).await;
    let slow = unfinished(&mut world, 12).await;
    assert_eq!(world.client().await.post("/echo", &vec![b'x'; 100 * KIB]).await.status, 429);
    world.client().await.echo("/echo", &vec![b'x'; 16 * KIB]).await;
    drop(slow);
    world.finish().await;
}
