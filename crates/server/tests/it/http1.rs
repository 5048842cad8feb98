//! HTTP/1.1 as clients and proxies rely on it: versions, options of a connection, and where a body ends.

use windlass_server::listener::Limits;

use crate::hostile::world::{World, arrived, chunked, delivered, request};

#[tokio::test]
async fn a_connection_is_closed_behind_the_reply_if_the_client_says_so() {
    let world = World::new(Limits::default()).await;
    for (head, version) in [
        ("GET /a HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 "),
        ("GET /a HTTP/1.1\r\nConnection: x, Close\r\n\r\n", "HTTP/1.1 "),
        ("GET /a HTTP/1.0\r\n\r\n", "HTTP/1.0 "),
    ] {
        let mut client = world.client().await;
        client.send(head).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{head:?}");
        assert!(answer.head.starts_with(version), "{head:?}: {}", answer.head);
        assert_eq!(answer.body, b"GET /a");
        client.closed().await;
    }
    world.finish().await;
}

#[tokio::test]
async fn a_client_that_sends_on_behind_its_last_request_still_gets_the_reply() {
    let mut world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    let more = "GET /never HTTP/1.1\r\n\r\n".repeat(3000);
    client.send(format!("GET /a HTTP/1.1\r\nConnection: close\r\n\r\n{more}")).await;
    assert_eq!((world.saw().await, world.saw().await), (arrived("/a"), delivered("/a")));
    assert_eq!(client.answer().await.body, b"GET /a");
    client.half_close().await;
    client.closed().await;
    world.saw_no_more();
    world.finish().await;
}

#[tokio::test]
async fn a_client_of_http_1_0_may_keep_its_connection() {
    let world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    for _ in 0..2 {
        client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.header("connection")), (200, Some("keep-alive")));
    }
    world.finish().await;
}

#[tokio::test]
async fn a_client_of_http_1_0_gets_a_stream_without_chunks_that_ends_with_its_connection() {
    let world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
    let head = client.head().await;
    assert_eq!((head.header("transfer-encoding"), head.header("connection")), (None, Some("close")));
    let mut piece = vec![0; 100_000];
    client.read(&mut piece).await;
    assert!(piece.iter().all(|byte| *byte == b'x'), "no lengths of chunks are among the bytes");
    drop(client);
    world.finish().await;
}

#[tokio::test]
async fn a_client_of_http_1_1_gets_a_stream_in_chunks() {
    let world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send("GET /stream HTTP/1.1\r\n\r\n").await;
    assert_eq!(client.head().await.header("transfer-encoding"), Some("chunked"));
    let mut piece = vec![0; 7 + (64 << 10) + 2 + 7];
    client.read(&mut piece).await;
    assert!(piece.starts_with(b"10000\r\nxxx") && piece.ends_with(b"xxx\r\n10000\r\n"));
    drop(client);
    world.finish().await;
}

#[tokio::test]
async fn a_reply_without_a_body_is_followed_by_the_next_one() {
    let world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    for _ in 0..2 {
        client.send("HEAD /a HTTP/1.1\r\n\r\n").await;
        let head = client.head().await;
        assert_eq!((head.status, head.header("content-length")), (200, Some("7")), "as long as `HEAD /a`");
    }
    client.echo("/echo", b"there is no body between the replies").await;
    client.send("HEAD /stream HTTP/1.1\r\n\r\n").await;
    assert_eq!(client.head().await.header("transfer-encoding"), Some("chunked"));
    client.echo("/echo", b"nor of a stream").await;
    world.finish().await;
}

#[tokio::test]
async fn bodies_of_known_length_and_in_chunks_share_a_connection() {
    let world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    for _ in 0..3 {
        client.send([chunked("/echo", b"in chunks"), request("/echo", b"of known length")].concat()).await;
        assert_eq!(client.answer().await.body, b"in chunks");
        assert_eq!(client.answer().await.body, b"of known length");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_request_whose_end_can_be_read_in_two_ways_is_refused() {
    let world = World::new(Limits::default()).await;
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: +5",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    ] {
        let mut client = world.client().await;
        client
            .send(format!("POST /echo HTTP/1.1\r\n{headers}\r\n\r\n0\r\n\r\nGET /b HTTP/1.1\r\n\r\n"))
            .await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.header("connection")), (400, Some("close")), "{headers:?}");
        client.half_close().await;
        client.closed().await;
    }
    world.finish().await;
}

#[tokio::test]
async fn every_reply_has_a_date() {
    let world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    let answer = client.get("/a").await;
    let date = answer.header("date").expect("a date");
    assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
    world.finish().await;
}
