//! Heads that do not come, or do not end.

use windlass_server::listener::{Limits, Timeout};

use super::world::{SHORT, World, arrived, request};

#[tokio::test]
async fn a_client_that_never_says_anything_is_cut_off() {
    let world = World::new(Limits { first_byte_timeout: SHORT, ..Limits::default() }).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(world.client().await);
    }
    for client in clients {
        client.closed().await;
    }
    assert_eq!(world.traffic.closed_by(Timeout::FirstByte), 20);
    world.finish().await;
}

#[tokio::test]
async fn a_client_that_stops_in_mid_head_is_cut_off() {
    let world = World::new(Limits { head_timeout: SHORT, ..Limits::default() }).await;
    for head in ["G", "GET / HTTP/1.1", "GET / HTTP/1.1\r\nhost: h\r\n", "\r\n\r\n"] {
        let mut client = world.client().await;
        client.send(head).await;
        client.closed().await;
    }
    assert_eq!(world.traffic.closed_by(Timeout::Head), 4);
    world.finish().await;
}

#[tokio::test]
async fn a_head_that_drips_is_cut_off() {
    let world = World::new(Limits { head_timeout: SHORT, ..Limits::default() }).await;
    let mut client = world.client().await;
    client.send("GET / HTTP/1.1\r\nx: ").await;
    assert!(client.drip(b'x').await.is_empty());
    assert_eq!(world.traffic.closed_by(Timeout::Head), 1);
    world.finish().await;
}

#[tokio::test]
async fn the_head_of_a_second_request_has_a_deadline_too() {
    let world = World::new(Limits { head_timeout: SHORT, ..Limits::default() }).await;
    let mut client = world.client().await;
    client.echo("/echo", b"first").await;
    client.send("POST /echo HTTP/1.1\r\n").await;
    client.closed().await;
    assert_eq!(world.traffic.closed_by(Timeout::Head), 1);
    world.finish().await;
}

#[tokio::test]
async fn an_idle_client_is_cut_off() {
    let mut world = World::new(Limits { idle_timeout: SHORT, ..Limits::default() }).await;
    // Between two of its requests the neighbour is idle as well, on a busy machine perhaps for long.
    world.neighbour_moves_out().await;
    let mut client = world.client().await;
    client.echo("/echo", b"first").await;
    client.closed().await;
    assert_eq!(world.traffic.closed_by(Timeout::Idle), 1);
    world.finish().await;
}

#[tokio::test]
async fn a_head_that_began_to_come_with_the_request_before_has_a_deadline_too() {
    let world = World::new(Limits { head_timeout: SHORT, ..Limits::default() }).await;
    let mut client = world.client().await;
    client.send([request("/echo", b"first"), b"POST /echo HT".to_vec()].concat()).await;
    assert_eq!(client.answer().await.body, b"first");
    client.closed().await;
    assert_eq!(world.traffic.closed_by(Timeout::Head), 1);
    world.finish().await;
}

#[tokio::test]
async fn a_client_that_is_idle_after_a_long_wait_is_cut_off() {
    let mut world = World::new(Limits { idle_timeout: SHORT, ..Limits::default() }).await;
    world.neighbour_moves_out().await;
    let mut client = world.client().await;
    client.send("GET /wait HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, arrived("/wait"));
    world.release(1);
    assert_eq!(client.answer().await.body, b"waited");
    client.closed().await;
    assert_eq!(world.traffic.closed_by(Timeout::Idle), 1);
    world.finish().await;
}

#[tokio::test]
async fn four_hundred_kilobytes_of_headers_are_refused() {
    let world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send(format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(400_000))).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (431, Some("close")));
    client.closed().await;
    world.finish().await;
}

#[tokio::test]
async fn a_head_may_be_as_large_as_its_limit_and_no_larger() {
    let world = World::new(Limits::default()).await;
    let line = "GET /head HTTP/1.1\r\nx: \r\n\r\n";
    let head = |bytes: usize| line.replace("x: ", &format!("x: {}", "x".repeat(bytes - line.len())));
    let mut client = world.client().await;
    client.send(head(32 * 1024)).await;
    assert_eq!(client.answer().await.status, 200);
    client.send(head(32 * 1024 + 1)).await;
    assert_eq!(client.answer().await.status, 431);
    client.closed().await;
    world.finish().await;
}

#[tokio::test]
async fn a_hundred_headers_are_taken_and_one_more_is_refused() {
    for (headers_max, limits) in
        [(100, Limits::default()), (7, Limits { headers_max: 7, ..Limits::default() })]
    {
        let world = World::new(limits).await;
        let head = |headers| format!("GET /head HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(headers));
        let mut client = world.client().await;
        client.send(head(headers_max)).await;
        assert_eq!(client.answer().await.status, 200);
        client.send(head(headers_max + 1)).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, 431);
        let said: windlass_api::error::ErrorReply = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(said.error.code, "too_large");
        client.closed().await;
        world.finish().await;
    }
}
