//! What is no HTTP/1.1.

use windlass_api::error::ErrorReply;
use windlass_server::listener::Limits;

use super::world::{World, request};

const TLS_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03aaaaaaaaaaaaaaaaaaaaaaaa";

#[tokio::test]
async fn what_is_no_request_is_told_so() {
    let world = World::new(Limits::default()).await;
    let garbage: [&[u8]; 7] = [
        TLS_HELLO,
        b"hello\r\n\r\n",
        b"GET / HTTP/3.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"\0\0\0\0\0\0\0\0",
    ];
    for bytes in garbage {
        let mut client = world.client().await;
        client.send(bytes).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.header("connection")), (400, Some("close")));
        assert!(answer.header("windlass-request-id").is_some());
        let said: ErrorReply = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(said.error.code, "invalid_argument");
        client.half_close().await;
        client.closed().await;
    }
    world.finish().await;
}

#[tokio::test]
async fn garbage_of_any_kind_harms_nobody() {
    let world = World::new(Limits::default()).await;
    let mut state = 42_u64;
    for _ in 0..50 {
        let bytes: Vec<u8> = (0..1000).map(|_| next(&mut state)).collect();
        let mut client = world.client().await;
        client.shout(&bytes).await;
        client.half_close().await;
        let _refused_or_closed = client.try_answer().await;
    }
    world.finish().await;
}

/// Repeatable, and random enough.
fn next(state: &mut u64) -> u8 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 56) as u8
}

#[tokio::test]
async fn garbage_after_a_request_does_not_spoil_its_answer() {
    let world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send([request("/echo", b"hello"), TLS_HELLO.to_vec()].concat()).await;
    assert_eq!(client.answer().await.body, b"hello");
    assert_eq!(client.answer().await.status, 400);
    client.half_close().await;
    client.closed().await;
    world.finish().await;
}
