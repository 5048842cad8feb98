//! More clients and more bytes than there is room for.

use windlass_api::error::ErrorReply;
use windlass_server::listener::Limits;

use super::world::{Seen, World, request};

fn arrived(path: &str) -> Seen {
    Seen::Arrived(path.to_owned())
}

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

#[tokio::test]
async fn bytes_in_flight_have_a_limit_and_are_given_back() {
    let mut world = World::new(Limits { bytes_in_flight_max: 1000, ..Limits::default() }).await;
    let mut holder = world.client().await;
    holder.send(request("/hold", &[b'x'; 800])).await;
    assert_eq!(world.saw().await, arrived("/hold"));
    let refused = until_refused(&world, 300).await;
    assert_eq!(refused, 429);
    world.client().await.echo("/echo", &[b'x'; 100]).await;
    world.release(1);
    assert_eq!(holder.answer().await.status, 200);
    world.client().await.echo("/echo", &[b'x'; 900]).await;
    world.finish().await;
}

/// The holder's request has arrived, and may not have been read yet.
async fn until_refused(world: &World, bytes: usize) -> u16 {
    loop {
        let status = world.client().await.post("/echo", &vec![b'x'; bytes]).await.status;
        if status != 200 {
            return status;
        }
    }
}

#[tokio::test]
async fn who_declares_much_and_sends_nothing_holds_nothing() {
    let mut world = World::new(Limits { bytes_in_flight_max: 1000, ..Limits::default() }).await;
    let mut idlers = Vec::new();
    for _ in 0..20 {
        let mut idler = world.client().await;
        idler.send("POST /hold HTTP/1.1\r\ncontent-length: 900\r\n\r\n").await;
        assert_eq!(world.saw().await, arrived("/hold"));
        idlers.push(idler);
    }
    world.client().await.echo("/echo", &[b'x'; 900]).await;
    drop(idlers);
    world.finish().await;
}

#[tokio::test]
async fn a_body_that_is_cut_gives_its_bytes_back() {
    let mut world = World::new(Limits { bytes_in_flight_max: 1000, ..Limits::default() }).await;
    let mut client = world.client().await;
    client.send(&request("/hold", &[b'x'; 900])[..800]).await;
    assert_eq!(world.saw().await, arrived("/hold"));
    client.half_close().await;
    let _refused_or_closed = client.try_answer().await;
    client.closed().await;
    world.client().await.echo("/echo", &[b'x'; 900]).await;
    world.finish().await;
}
