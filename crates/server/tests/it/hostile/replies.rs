//! Replies that nobody takes.

use windlass_server::listener::{Limits, Timeout};

use super::world::{SHORT, Seen, World};

#[tokio::test]
async fn a_client_that_does_not_take_its_reply_is_cut_off() {
    let mut world = World::new(Limits { stall_timeout: SHORT, ..Limits::default() }).await;
    let mut client = world.client().await;
    client.send("GET /large HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, Seen::Arrived("/large".into()));
    assert_eq!(world.saw().await, Seen::Undelivered("/large".into()));
    assert_eq!(world.traffic.closed_by(Timeout::Reply), 1);
    world.finish().await;
}

#[tokio::test]
async fn a_client_that_leaves_in_mid_reply_is_noticed() {
    let mut world = World::new(Limits::default()).await;
    let mut client = world.client().await;
    client.send("GET /large HTTP/1.1\r\n\r\n").await;
    assert_eq!(world.saw().await, Seen::Arrived("/large".into()));
    drop(client);
    assert_eq!(world.saw().await, Seen::Undelivered("/large".into()));
    world.finish().await;
}

#[tokio::test]
async fn a_large_reply_is_delivered_whole() {
    let mut world = World::new(Limits { stall_timeout: SHORT, ..Limits::default() }).await;
    let mut client = world.client().await;
    let answer = client.get("/large").await;
    assert!(answer.body.len() == 64 << 20 && answer.body.iter().all(|byte| *byte == b'x'));
    assert_eq!(world.saw().await, Seen::Arrived("/large".into()));
    assert_eq!(world.saw().await, Seen::Delivered("/large".into()));
    world.finish().await;
}

#[tokio::test]
async fn who_pipelines_without_reading_is_cut_off() {
    let mut world = World::new(Limits { stall_timeout: SHORT, ..Limits::default() }).await;
    let mut client = world.client().await;
    client.shout("GET /large HTTP/1.1\r\n\r\n".repeat(1000)).await;
    assert_eq!(world.saw().await, Seen::Arrived("/large".into()));
    assert_eq!(world.saw().await, Seen::Undelivered("/large".into()));
    world.finish().await;
}
