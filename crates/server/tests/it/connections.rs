//! What a connection does for clients that behave, and for those that leave.

use windlass_server::listener::Limits;

use crate::hostile::world::{Client, SHORT, Seen, World, arrived, delivered, left, request, undelivered};

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

/// A whole request after the one that waited may be answered, or not, if its client is gone.
async fn saw(world: &mut World, expected: Seen) {
    loop {
        let seen = world.saw().await;
        let is_next = |path: &str| seen == arrived(path) || seen == delivered(path);
        if !is_next("/next") && seen != left("/next") && seen != undelivered("/next") {
            assert_eq!(seen, expected);
            return;
        }
    }
}

#[tokio::test]
async fn a_client_that_has_sent_more_and_leaves_is_noticed() {
    let mut world = World::new(Limits::default()).await;
    for more in ["\r\n", "GET /next HT", "GET /next HTTP/1.1\r\n\r\n"] {
        let mut client = world.client().await;
        client.send(format!("GET /wait HTTP/1.1\r\n\r\n{more}")).await;
        saw(&mut world, arrived("/wait")).await;
        drop(client);
        saw(&mut world, left("/wait")).await;
        // What came later is not read at once.
        let mut client = world.client().await;
        client.send("GET /wait HTTP/1.1\r\n\r\n").await;
        saw(&mut world, arrived("/wait")).await;
        client.send(more).await;
        drop(client);
        saw(&mut world, left("/wait")).await;
    }
    world.finish().await;
}

#[tokio::test]
async fn nothing_waits_for_a_client_that_closed_its_side_but_it_is_answered() {
    let mut world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send("GET /wait HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, arrived("/wait"));
    client.half_close().await;
    assert_eq!(world.saw().await, left("/wait"));
    assert_eq!(client.answer().await.status, 204);
    client.closed().await;
    world.finish().await;
}

#[tokio::test]
async fn requests_before_the_client_closed_its_side_are_answered() {
    let mut world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send([request("/hold", b"one"), request("/echo", b"two")].concat()).await;
    client.half_close().await;
    assert_eq!(world.saw().await, arrived("/hold"));
    world.release(1);
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(client.answer().await.body, b"two");
    client.closed().await;
    world.finish().await;
}

/// A client that has closed its side, and the server knows it while the handler still works.
async fn closed_while_held(
    world: &mut World,
    leave: impl AsyncFnOnce(Client) -> Option<Client>,
) -> Option<Client> {
    let mut client = world.client().await;
    client.send(request("/hold", b"hello")).await;
    assert_eq!(world.saw().await, arrived("/hold"));
    let client = leave(client).await;
    // Connections of this runtime are served in turn: when a later client has its answer, the end of this one was noticed.
    world.client().await.echo("/echo/later", b"noticed").await;
    assert_eq!((world.saw().await, world.saw().await), (arrived("/echo/later"), delivered("/echo/later")));
    world.release(1);
    client
}

#[tokio::test]
async fn a_reply_to_a_client_that_died_is_not_delivered() {
    let mut world = World::new(Limits::default()).await;
    let died = async |client: Client| {
        drop(client);
        None
    };
    assert!(closed_while_held(&mut world, died).await.is_none());
    assert_eq!(world.saw().await, undelivered("/hold"));
    world.finish().await;
}

#[tokio::test]
async fn a_reply_to_a_client_that_closed_its_side_and_reads_is_delivered() {
    let mut world = World::new(Limits::default()).await;
    let closed = async |mut client: Client| {
        client.half_close().await;
        Some(client)
    };
    let mut client = closed_while_held(&mut world, closed).await.expect("the client is there");
    assert_eq!(client.answer().await.status, 200);
    client.closed().await;
    assert_eq!(world.saw().await, delivered("/hold"));
    world.finish().await;
}

#[tokio::test]
async fn a_client_that_resets_its_connection_is_gone() {
    let mut world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send(request("/hold", b"hello")).await;
    assert_eq!(world.saw().await, arrived("/hold"));
    client.reset();
    assert_eq!(world.saw().await, left("/hold"));
    world.finish().await;
}

#[tokio::test]
async fn waiting_takes_as_long_as_it_takes() {
    let limits = Limits {
        first_byte_timeout: SHORT,
        head_timeout: SHORT,
        idle_timeout: SHORT,
        stall_timeout: SHORT,
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
