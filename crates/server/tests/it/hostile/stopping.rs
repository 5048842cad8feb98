//! How connections end when the server stops: who asked for something is answered, and nobody else is waited for.

use std::time::Duration;

use tokio::net::TcpStream;
use windlass_server::listener::Limits;

use super::world::{Client, LARGE, World, arrived, delivered, left, request, soon};

/// Longer than any test waits: what ends, ends because the server stops.
const NEVER: Duration = Duration::from_secs(3600);

async fn patient_world() -> World {
    let limits = Limits {
        first_byte_timeout: NEVER,
        head_timeout: NEVER,
        idle_timeout: NEVER,
        stall_timeout: NEVER,
        ..Limits::default()
    };
    World::with_grace(limits, NEVER).await
}

/// A client of which the server knows this, and no more.
async fn said(world: &World, bytes: impl AsRef<[u8]>) -> Client {
    let mut client = world.client().await;
    client.send(bytes).await;
    // Connections of this runtime are served in turn: when a later client has its answer, this one has been heard.
    world.client().await.echo("/echo/later", b"heard").await;
    client
}

#[tokio::test]
async fn stopping_closes_connections_in_mid_head() {
    let mut world = patient_world().await;
    world.neighbour_moves_out().await;
    let first = said(&world, "POST /echo HTTP/1.1\r\nhost: ").await;
    let mut second = world.client().await;
    second.echo("/echo", b"first").await;
    second.send("POST /echo HT").await;
    // Also hears the second out.
    let third = said(&world, "\r\n").await;
    let mut fourth = said(&world, [request("/echo", b"first"), b"POST /echo HT".to_vec()].concat()).await;
    assert_eq!(fourth.answer().await.body, b"first");
    world.stopping.send_replace(true);
    for client in [first, second, third, fourth] {
        client.closed().await;
    }
    finish(world).await;
}

/// As [`World::finish`], of a world that is stopping.
async fn finish(world: World) {
    assert_eq!(soon(world.running).await.unwrap(), 0, "connections were cut");
    assert_eq!((world.traffic.open(), world.traffic.bytes_in_flight()), (0, 0));
}

#[tokio::test]
async fn stopping_refuses_requests_in_mid_body() {
    let mut world = patient_world().await;
    world.neighbour_moves_out().await;
    let whole = request("/echo", &[b'x'; 1000]);
    let parts: [&[u8]; 4] = [
        &whole[..100],
        b"POST /echo HTTP/1.1\r\ncontent-length: 5\r\n\r\n",
        b"POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"POST /echo HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n",
    ];
    let mut clients = Vec::new();
    for part in parts {
        let mut client = world.client().await;
        client.send(part).await;
        assert_eq!(world.saw().await, arrived("/echo"));
        clients.push(client);
    }
    assert_eq!(clients[3].answer().await.status, 100);
    world.stopping.send_replace(true);
    for client in &mut clients {
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.header("connection")), (503, Some("close")));
        assert_eq!(world.saw().await, delivered("/echo"));
    }
    // One goes on as if nothing had happened, the others neither send nor close: none of them is waited for.
    clients[0].drip(b'x').await;
    finish(world).await;
}

#[tokio::test]
async fn stopping_cuts_farewells_short() {
    let mut world = patient_world().await;
    world.neighbour_moves_out().await;
    let unread = "POST /unread HTTP/1.1\r\ncontent-length: 100\r\n\r\nhello";
    let mut clients = Vec::new();
    for (words, status) in [(unread, 200), ("hello\r\n\r\n", 400)] {
        let mut client = world.client().await;
        client.send(words).await;
        assert_eq!(client.answer().await.status, status);
        clients.push(client);
    }
    world.stopping.send_replace(true);
    finish(world).await;
    for client in clients {
        client.closed().await;
    }
}

#[tokio::test]
async fn a_reply_on_its_way_is_delivered_while_the_server_stops() {
    let mut world = patient_world().await;
    world.neighbour_moves_out().await;
    let mut client = world.client().await;
    client.send("GET /large HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, arrived("/large"));
    world.stopping.send_replace(true);
    assert_eq!(client.answer().await.body.len(), LARGE);
    assert_eq!(world.saw().await, delivered("/large"));
    client.closed().await;
    finish(world).await;
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
    assert_eq!(soon(world.running).await.unwrap(), 1);
    assert_eq!(world.traffic.open(), 0);
}
