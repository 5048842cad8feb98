//! Streams of items as the client follows them.

use std::time::Duration;

use serde_json::json;
use windlass_client::api::Code;
use windlass_client::api::events::EmitRequest;
use windlass_client::api::items::LeasedItem;
use windlass_client::{
    Client, ClientError, CloseMode, Events, Frame, Lease, LeasedItemExt, Outcome, PayloadExt, Retries,
    new_event, new_item,
};

use crate::real_server::RealServer;
use crate::relay::Relay;
use crate::script::{Act, Answer, Server};
use crate::world::{client_without_retries, within};

async fn next(events: &mut Events) -> Option<Result<Frame, ClientError>> {
    within(events.next()).await
}

async fn leased(client: &Client) -> LeasedItem {
    let queue = client.queue("work");
    queue.create().await.unwrap();
    queue.produce([new_item(&"hello").unwrap()]).await.unwrap();
    let lease = Lease { lease_timeout: Some(Duration::from_secs(3600)), ..Lease::new("test") };
    queue.lease(&lease).await.unwrap().remove(0)
}

async fn emit(client: &Client, item: &LeasedItem, numbers: std::ops::RangeInclusive<u64>) {
    let events = numbers.map(|number| new_event("count", &number).unwrap()).collect();
    let (id, permit) = (item.id.clone(), item.permit);
    client.emit(EmitRequest { id, permit, after: None, events }).await.unwrap();
}

/// Reads on until that event, and tells the numbers of all that came.
async fn until(events: &mut Events, last: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.last() != Some(&last) {
        if let Frame::Event(event) = next(events).await.expect("it goes on").unwrap() {
            assert_eq!(event.parse::<u64>().unwrap(), event.seq);
            numbers.push(event.seq);
        }
    }
    numbers
}

#[tokio::test]
async fn an_item_is_watched_from_now_to_its_end() {
    let server = RealServer::start().await;
    let client = server.client();
    let item = leased(&client).await;
    emit(&client, &item, 1..=2).await;
    let mut events = client.events(&item.id);
    let Some(Ok(Frame::Snapshot { item: shown, last_seq: 2 })) = next(&mut events).await else {
        panic!("the item as it is comes first");
    };
    assert_eq!((&shown.id, shown.state.as_str()), (&item.id, "leased"));
    emit(&client, &item, 3..=3).await;
    assert_eq!(until(&mut events, 3).await, [3]);
    client.queue("work").complete([item.done()]).await.unwrap();
    let Some(Ok(Frame::State(state))) = next(&mut events).await else { panic!("the state changed") };
    let Some(Ok(Frame::End(end))) = next(&mut events).await else { panic!("the item has ended") };
    assert_eq!(
        (state.state.as_str(), end.state.as_str(), end.reason.as_str()),
        ("completed", "completed", "final")
    );
    assert!(next(&mut events).await.is_none());
    server.stop().await;
}

#[tokio::test]
async fn a_stream_goes_on_over_cuts_closes_and_restarts_with_every_event_once() {
    let server = RealServer::start().await;
    let relay = Relay::start(server.address()).await;
    let client = server.client();
    let item = leased(&client).await;
    let mut events = Client::new(&relay.url).unwrap().events(&item.id).after(0);
    emit(&client, &item, 1..=50).await;
    let mut seen = until(&mut events, 20).await;
    relay.cut();
    emit(&client, &item, 51..=100).await;
    seen.extend(until(&mut events, 100).await);
    assert_eq!(client.close_streams(&item.id, CloseMode::Immediate).await.unwrap(), 1);
    emit(&client, &item, 101..=150).await;
    seen.extend(until(&mut events, 120).await);
    let server = server.restart().await;
    relay.lead_to(server.address());
    let client = server.client();
    emit(&client, &item, 151..=200).await;
    seen.extend(until(&mut events, 180).await);
    client.queue("work").complete([item.done()]).await.unwrap();
    seen.extend(until(&mut events, 200).await);
    assert_eq!(seen, (1..=200).collect::<Vec<_>>());
    // The last states of all lives are told, and the final one last.
    let mut last = None;
    while let Some(frame) = next(&mut events).await {
        let state = last.replace(frame.unwrap());
        assert!(state.is_none_or(|frame| matches!(frame, Frame::State(_))));
    }
    assert!(matches!(last, Some(Frame::End(end)) if end.reason == "final"));
    server.stop().await;
}

#[tokio::test]
async fn a_refusal_ends_the_stream() {
    let server = RealServer::start().await;
    let client = server.client();
    let item = leased(&client).await;
    let unknown = "00000000-0000-8080-8000-0000000000ff";
    let cases = [
        (client.events(unknown), Code::NotFound),
        (client.events(&item.id).after(7), Code::InvalidArgument),
        (client.events("no id & none?"), Code::InvalidArgument),
    ];
    for (mut events, code) in cases {
        let refusal = next(&mut events).await.expect("it is told").unwrap_err();
        assert_eq!(refusal.code(), Some(code), "{refusal}");
        assert!(next(&mut events).await.is_none());
    }
    server.stop().await;
}

fn stream(frames: &[(Option<u64>, &str, serde_json::Value)]) -> Act {
    let frame = |(id, event, data): &(Option<u64>, &str, serde_json::Value)| {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        format!("{id}event: {event}\ndata: {data}\n\n")
    };
    let body: String = frames.iter().map(frame).collect();
    Act::AnswerAndClose(Answer::new(200, "text/event-stream", body))
}

fn event(seq: u64) -> (Option<u64>, &'static str, serde_json::Value) {
    (Some(seq), "message", json!({"seq": seq, "type": "message", "at": "2026-01-01T00:00:00Z", "utf8": "x"}))
}

fn completed() -> (Option<u64>, &'static str, serde_json::Value) {
    (None, "state", json!({"state": "completed", "at": "2026-01-01T00:00:00Z"}))
}

fn end(reason: &str) -> (Option<u64>, &'static str, serde_json::Value) {
    (None, "end", json!({"reason": reason, "state": "completed"}))
}

fn impatient(server: &Server) -> Client {
    let retries = Retries { delay_initial: Duration::from_millis(1), ..Retries::default() };
    Client::builder(&server.url).retries(retries).build().unwrap()
}

/// Each frame in a word.
fn words(frame: Frame) -> String {
    match frame {
        Frame::Snapshot { last_seq, .. } => format!("snapshot {last_seq}"),
        Frame::Event(event) => format!("event {}", event.seq),
        Frame::State(state) => state.state,
        Frame::Gap(gap) => format!("gap {}-{}", gap.from, gap.to),
        Frame::End(end) => format!("end {}", end.reason),
    }
}

#[tokio::test]
async fn it_comes_back_by_number_and_nothing_is_told_twice() {
    let busy = json!({"error": {"code": "unavailable", "message": "loading"}}).to_string();
    let gap = (None, "gap", json!({"from": 5, "to": 8}));
    let server = Server::start([
        Act::Cut,
        stream(&[(Some(3), "snapshot", json!({"item": {}})), event(4)]),
        Act::Answer(Answer::json(503, &busy)),
        stream(&[gap, event(9), end("lagged")]),
        stream(&[event(9), event(10), completed()]),
        stream(&[completed(), end("final")]),
    ])
    .await;
    let mut events = impatient(&server).events("i");
    let mut told = Vec::new();
    while let Some(frame) = next(&mut events).await {
        told.push(words(frame.unwrap()));
    }
    let expected = ["snapshot 3", "event 4", "gap 5-8", "event 9", "event 10", "completed", "end final"];
    assert_eq!(told, expected);
    let asked: Vec<String> = server.seen().into_iter().map(|seen| seen.line).collect();
    let expected = ["", "", "&after=4", "&after=4", "&after=9", "&after=10"];
    assert_eq!(asked, expected.map(|after| format!("get /v1/item.events?id=i{after} http/1.1")));
}

#[tokio::test]
async fn a_hole_without_a_gap_is_an_error() {
    let server = Server::start([stream(&[event(1), event(3)])]).await;
    let mut events = impatient(&server).events("i").after(0);
    assert!(matches!(next(&mut events).await, Some(Ok(Frame::Event(_)))));
    assert!(matches!(next(&mut events).await, Some(Err(ClientError::BadReply { .. }))));
    assert!(next(&mut events).await.is_none());
}

#[tokio::test]
async fn without_retries_every_failure_is_the_callers() {
    let server = Server::start([stream(&[event(1), end("closed")])]).await;
    let client = client_without_retries(&server.url);
    let mut events = client.events("i").after(0);
    assert!(matches!(next(&mut events).await, Some(Ok(Frame::Event(_)))));
    let error = next(&mut events).await.expect("it is told").unwrap_err();
    let told =
        format!("the stream from {} ended before the item did: the server ended it (closed)", server.url);
    assert_eq!((error.to_string(), error.outcome()), (told, Outcome::NotApplied));
}

#[tokio::test]
async fn who_asks_again_after_a_trouble_of_the_moment_goes_on_where_it_was() {
    let server = Server::start([
        stream(&[event(1), end("closed")]),
        Act::Cut,
        Act::Cut,
        stream(&[event(1), event(2), completed(), end("final")]),
    ])
    .await;
    let retries =
        Retries { delay_initial: Duration::from_millis(1), total_max: Duration::ZERO, ..Retries::default() };
    let mut events = Client::builder(&server.url).retries(retries).build().unwrap().events("i").after(0);
    let mut told = Vec::new();
    while let Some(frame) = next(&mut events).await {
        told.push(frame.map_or_else(|error| format!("may pass: {}", error.may_pass()), words));
    }
    let trouble = "may pass: true";
    assert_eq!(told, ["event 1", trouble, trouble, trouble, "event 2", "completed", "end final"]);
}

/// A stream whose snapshot is of another item, which was found along `moved_to`.
fn moved(last_seq: u64) -> (Option<u64>, &'static str, serde_json::Value) {
    (Some(last_seq), "snapshot", json!({"item": {"id": "j"}}))
}

#[tokio::test]
async fn a_follower_stays_with_the_item_that_it_was_led_to() {
    let server = Server::start([
        Act::Cut,
        stream(&[moved(3), event(4)]),
        stream(&[event(5), completed(), end("final")]),
    ])
    .await;
    let mut events = impatient(&server).events("i").follow();
    let mut told = Vec::new();
    while let Some(frame) = next(&mut events).await {
        told.push(words(frame.unwrap()));
    }
    assert_eq!(told, ["snapshot 3", "event 4", "event 5", "completed", "end final"]);
    let asked: Vec<String> = server.seen().into_iter().map(|seen| seen.line).collect();
    let expected = ["id=i&follow=true", "id=i&follow=true", "id=j&after=4"];
    assert_eq!(asked, expected.map(|query| format!("get /v1/item.events?{query} http/1.1")));
}

#[tokio::test]
async fn a_follower_from_a_number_on_comes_back_without_following() {
    let moved_to = json!({"reason": "final", "state": "failed", "moved_to": {"queue": "dead", "id": "j"}});
    let server =
        Server::start([stream(&[event(1)]), stream(&[event(2), completed(), (None, "end", moved_to)])]).await;
    let mut events = impatient(&server).events("i").after(0).follow();
    let mut last = None;
    while let Some(frame) = next(&mut events).await {
        last = Some(frame.unwrap());
    }
    let Some(Frame::End(end)) = last else { panic!("the end is told last: {last:?}") };
    assert_eq!(end.moved_to.map(|to| to.id).as_deref(), Some("j"));
    let asked: Vec<String> = server.seen().into_iter().map(|seen| seen.line).collect();
    let expected = ["id=i&after=0&follow=true", "id=i&after=1"];
    assert_eq!(asked, expected.map(|query| format!("get /v1/item.events?{query} http/1.1")));
}
