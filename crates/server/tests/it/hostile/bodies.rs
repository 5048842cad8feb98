//! Bodies that are too large, too slow, or never come to an end.

use windlass_server::listener::{Limits, Timeout};

use super::world::{SHORT, World, chunked, request};

const MB: usize = 1_000_000;

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_its_sender_gets_to_know() {
    let world = World::new(Limits::default()).await;
    let body = vec![b'x'; 20 * MB];
    for request in [request("/echo", &body), chunked("/echo", &body)] {
        let mut client = world.client().await;
        client.send(request).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
        client.closed().await;
    }
    world.finish().await;
}

#[tokio::test]
async fn a_body_may_be_as_large_as_its_limit_and_no_larger() {
    let world = World::new(Limits { body_bytes_max: MB, ..Limits::default() }).await;
    let body: Vec<u8> = (0..=MB).map(|at| (at % 251) as u8).collect();
    let mut client = world.client().await;
    client.echo("/echo", &body[..MB]).await;
    client.send(chunked("/echo", &body[..MB])).await;
    assert!(client.answer().await.body == body[..MB]);
    client.send(chunked("/echo", &body)).await;
    assert_eq!(client.answer().await.status, 413);
    client.closed().await;
    world.finish().await;
}

#[tokio::test]
async fn a_body_without_an_end_is_cut_off() {
    let world = World::new(Limits { body_bytes_max: 1000, ..Limits::default() }).await;
    for framing in ["content-length: 1000000000", "transfer-encoding: chunked"] {
        let mut client = world.client().await;
        client.send(format!("POST /echo HTTP/1.1\r\n{framing}\r\n\r\n")).await;
        // The listener hears a sender out for four times the limit; what the kernel takes on the way comes on top.
        let chunk = [b"10000\r\n".to_vec(), vec![b'x'; 0x10000], b"\r\n".to_vec()].concat();
        client.shout(chunk.repeat(1000)).await;
        drop(client);
    }
    world.finish().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_not_asked_for() {
    let world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    let head =
        |bytes| format!("POST /echo HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {bytes}\r\n\r\n");
    client.send(head(5)).await;
    assert_eq!(client.answer().await.status, 100);
    client.send("hello").await;
    assert_eq!(client.answer().await.body, b"hello");
    client.send(head(20 * MB)).await;
    assert_eq!(client.answer().await.status, 413);
    client.half_close().await;
    client.closed().await;
    world.finish().await;
}

#[tokio::test]
async fn a_body_that_stops_is_cut_off() {
    let world = World::new(Limits { stall_timeout: SHORT, ..Limits::default() }).await;
    for part in ["content-length: 100\r\n\r\nhello", "transfer-encoding: chunked\r\n\r\n5\r\nhel"] {
        let mut client = world.client().await;
        client.send(format!("POST /echo HTTP/1.1\r\n{part}")).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
        client.closed().await;
    }
    assert_eq!(world.traffic.closed_by(Timeout::Body), 2);
    world.finish().await;
}

#[tokio::test]
async fn a_body_that_was_fast_and_stops_is_cut_off() {
    let world = World::new(Limits { stall_timeout: SHORT, ..Limits::default() }).await;
    let mut client = world.client().await;
    // At 16 KiB a second it would have earned minutes.
    client.send(&request("/echo", &vec![b'x'; 10 * MB])[..9 * MB]).await;
    assert_eq!(client.answer().await.status, 408);
    client.closed().await;
    world.finish().await;
}

#[tokio::test]
async fn a_body_that_drips_is_cut_off() {
    let world = World::new(Limits { stall_timeout: SHORT, ..Limits::default() }).await;
    let mut client = world.client().await;
    client.send(format!("POST /echo HTTP/1.1\r\ncontent-length: {MB}\r\n\r\n")).await;
    let said = String::from_utf8(client.drip(b'x').await).unwrap();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
    assert_eq!(world.traffic.closed_by(Timeout::Body), 1);
    world.finish().await;
}

#[tokio::test]
async fn a_body_that_was_fast_and_drips_is_cut_off() {
    let world = World::new(Limits { stall_timeout: SHORT, ..Limits::default() }).await;
    let mut client = world.client().await;
    client.send(&request("/echo", &vec![b'x'; 10 * MB])[..9 * MB]).await;
    let said = String::from_utf8(client.drip(b'x').await).unwrap();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
    assert_eq!(world.traffic.closed_by(Timeout::Body), 1);
    world.finish().await;
}

#[tokio::test]
async fn a_refused_sender_that_drips_on_is_not_listened_to_for_long() {
    let limits = Limits { stall_timeout: SHORT, body_bytes_max: 100, ..Limits::default() };
    let world = World::new(limits).await;
    let mut client = world.client().await;
    client.send("POST /echo HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 413);
    client.drip(b'x').await;
    world.finish().await;
}

#[tokio::test]
async fn a_request_that_is_cut_at_any_byte_is_not_answered_as_if_it_were_whole() {
    let world = World::new(Limits::default()).await;
    let requests = [request("/echo/cut", b"hello"), chunked("/echo/cut", b"hello")];
    for request in requests {
        for end in 0..request.len() {
            let mut client = world.client().await;
            client.send(&request[..end]).await;
            if end % 2 == 0 {
                client.half_close().await;
                let answer = client.try_answer().await;
                assert!(answer.is_none_or(|answer| answer.status == 400), "cut at {end}");
            }
        }
    }
    world.finish().await;
}

#[tokio::test]
async fn a_chunk_that_breaks_the_protocol_is_refused() {
    let world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send("POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (400, Some("close")));
    client.half_close().await;
    client.closed().await;
    world.finish().await;
}

#[tokio::test]
async fn a_reply_that_does_not_wait_for_the_body_closes_the_connection() {
    let world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send(request("/unread", &vec![b'x'; 3 * MB])).await;
    let answer = client.answer().await;
    assert_eq!((answer.body.as_slice(), answer.header("connection")), (&b"not read"[..], Some("close")));
    client.half_close().await;
    client.closed().await;
    world.finish().await;
}
