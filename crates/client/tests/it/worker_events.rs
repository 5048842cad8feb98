//! What handlers say while they work, and items that wait for an answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use windlass_client::api::Span;
use windlass_client::api::events::NewEvent;
use windlass_client::api::payload::Payload;
use windlass_client::api::queues::CreateQueueRequest;
use windlass_client::worker::{Builder, EmitError, Event, Failure, Reason, Until, Work, Worker};
use windlass_client::{Client, Frame, PayloadExt, new_item};

use crate::real_server::RealServer;
use crate::script::{Act, Answer, Server};
use crate::world::{json_client, within};

/// A server with an item to work on. Its heart beats so seldom that no test hears it.
async fn start() -> (RealServer, Client, String) {
    let server = RealServer::start().await;
    let client = server.client();
    let queue = client.queue("work");
    let lease_timeout = Some(Span::from_secs(3600));
    queue.create_with(CreateQueueRequest { lease_timeout, ..Default::default() }).await.unwrap();
    let id = queue.produce([new_item(&"x").unwrap()]).await.unwrap().remove(0).id.unwrap();
    (server, client, id)
}

/// Works on one item.
async fn work<F>(client: &Client, handler: impl Fn(Work<String>) -> F + Send + Sync + 'static)
where
    F: Future<Output = Result<Value, Failure>> + Send + 'static,
{
    let worker = Worker::builder(client.clone(), "work").until(Until::Once).handle("default", handler);
    within(worker.build().unwrap().run()).await.unwrap();
}

/// The whole stream of an item that has ended: types and payloads.
async fn story(client: &Client, id: &str) -> Vec<(String, Value)> {
    let mut events = client.events(id).after(0);
    let mut story = Vec::new();
    while let Some(frame) = within(events.next()).await {
        if let Frame::Event(event) = frame.unwrap() {
            let payload = event.parse().unwrap();
            story.push((event.r#type, payload));
        }
    }
    story
}

#[tokio::test]
async fn what_a_handler_emits_is_in_the_stream_in_order_before_the_end() {
    let (server, client, id) = start().await;
    let watcher = client.clone();
    work(&client, move |work| {
        let watcher = watcher.clone();
        async move {
            for done in 0..2500 {
                work.progress(done, 2500).await?;
            }
            work.flush().await?;
            // What was flushed is there for everybody.
            let there = watcher.item(work.id()).await?.event_count;
            work.emit("note", &there).await?;
            Ok(json!(1))
        }
    })
    .await;
    let mut expected: Vec<(String, Value)> =
        (0..2500).map(|done| ("progress".to_owned(), json!({"done": done, "total": 2500}))).collect();
    expected.push(("note".to_owned(), json!(2500)));
    assert!(story(&client, &id).await == expected);
    let requests = client.metrics().await.unwrap();
    let requests =
        requests.lines().find(|line| line.contains("requests_total") && line.contains("item.emit"));
    let requests: u64 = requests.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(requests < 250, "{requests} requests for 2501 events");
    server.stop().await;
}

#[tokio::test]
async fn the_wish_to_cancel_is_heard_with_an_emit() {
    let (server, client, id) = start().await;
    let (begun, cancelled) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let asking = {
        let (begun, cancelled, client, id) = (begun.clone(), cancelled.clone(), client.clone(), id.clone());
        tokio::spawn(async move {
            begun.notified().await;
            client.cancel(id).await.unwrap();
            cancelled.notify_one();
        })
    };
    work(&client, move |work| {
        let (begun, cancelled) = (begun.clone(), cancelled.clone());
        async move {
            begun.notify_one();
            cancelled.notified().await;
            work.progress(1, 2).await?;
            assert_eq!(within(work.cancellation().cancelled()).await, Reason::CancelRequested);
            Err(Failure::new("given up"))
        }
    })
    .await;
    asking.await.unwrap();
    let item = client.item(&id).await.unwrap();
    assert_eq!((item.state.as_str(), item.event_count), ("cancelled", 1));
    server.stop().await;
}

#[tokio::test]
async fn a_suspended_item_goes_on_with_the_answer() {
    let (server, client, id) = start().await;
    let handler = |work: Work<String>| async move {
        let Some(answer) = work.input() else {
            work.emit("question", &"red or blue").await?;
            return Err(work.suspend("a colour is to be chosen"));
        };
        let colour: Value = answer.parse()?;
        Ok(colour)
    };
    work(&client, handler).await;
    let item = client.item(&id).await.unwrap();
    assert_eq!((item.state.as_str(), item.attempts), ("suspended", 0));
    client.resume_item(&id, Some(Payload::from_json(&"blue").unwrap())).await.unwrap();
    work(&client, handler).await;
    let item = client.wait(&id, Some(Duration::ZERO)).await.unwrap();
    assert_eq!(
        (item.state.as_str(), item.result.unwrap().parse::<String>().unwrap()),
        ("completed", "blue".into())
    );
    let expected = [("question".to_owned(), json!("red or blue")), ("input".to_owned(), json!("blue"))];
    assert_eq!(story(&client, &id).await, expected);
    server.stop().await;
}

#[tokio::test]
async fn a_refused_event_is_told_and_ends_nothing_but_the_events() {
    let (server, client, id) = start().await;
    work(&client, |work| async move {
        work.emit("note", &1).await?;
        work.flush().await?;
        work.emit("state", &2).await?;
        assert!(matches!(work.flush().await, Err(EmitError::Refused(_))));
        assert!(matches!(work.emit("note", &3).await, Err(EmitError::Refused(_))));
        Ok(json!("done"))
    })
    .await;
    assert_eq!(client.item(&id).await.unwrap().state, "completed");
    assert_eq!(story(&client, &id).await, [("note".to_owned(), json!(1))]);
    server.stop().await;
}

fn answer(status: u16, body: Value) -> Act {
    Act::Answer(Answer::json(status, &body.to_string()))
}

/// One item with three events.
fn leased() -> Act {
    let at = "2026-01-01T00:00:00Z";
    let item = json!({"id": "i", "permit": 5, "kind": "default", "json": "x", "lease_deadline": at, "created_at": at, "event_count": 3});
    answer(200, json!({"items": [item]}))
}

/// Of a scripted server, for one item, with a heart that beats so seldom that no script hears it.
fn worker(server: &Server) -> Builder {
    let client = json_client(&server.url);
    Worker::builder(client, "work").until(Until::Once).lease_timeout(Duration::from_secs(3600))
}

#[tokio::test]
async fn events_whose_answer_was_lost_are_sent_again_and_are_there_once() {
    let known = json!({"code": "wrong_state", "message": "it is 4", "details": {"last_seq": 4}});
    let server = Server::start([
        leased(),
        // Done, as it turns out.
        Act::Cut,
        answer(409, json!({"error": known})),
        answer(200, json!({"first_seq": 5, "last_seq": 5})),
        answer(200, json!({"completed": 1})),
    ])
    .await;
    let worker = worker(&server).handle("default", |work: Work<String>| async move {
        work.emit("note", &"first").await?;
        work.flush().await?;
        work.emit("note", &"second").await?;
        Ok::<_, Failure>(())
    });
    within(worker.build().unwrap().run()).await.unwrap();
    let bodies: Vec<Value> =
        server.seen()[1..4].iter().map(|seen| serde_json::from_slice(&seen.body).unwrap()).collect();
    let emit = |after, payload| json!({"id": "i", "permit": 5, "after": after, "events": [{"type": "note", "json": payload}]});
    assert_eq!(bodies, [emit(3, "first"), emit(3, "first"), emit(4, "second")]);
    assert_eq!(server.left(), 0);
}

/// A server without room for anything new: what ends or keeps an item is taken, and no event is.
async fn full_server() -> Server {
    Server::by_request(|asked| {
        let full = json!({"code": "unavailable", "message": "full", "details": {"outcome": "not_applied"}});
        let verb = asked.line.split_whitespace().nth(1).unwrap().trim_start_matches("/v1/");
        match verb {
            "queue.lease" => leased(),
            "queue.complete" => answer(200, json!({"completed": 1})),
            "item.emit" => answer(503, json!({"error": full})),
            verb => panic!("nobody is meant to ask for {verb}"),
        }
    })
    .await
}

/// What a worker tells of events that were not sent, and of the end of the item.
fn told(builder: Builder) -> (Builder, mpsc::UnboundedReceiver<String>) {
    let (tell, told) = mpsc::unbounded_channel();
    let builder = builder.observe(move |event| {
        if let Event::EmitFailed { error, .. } = event {
            tell.send(format!("not sent: {:?}", error.code())).unwrap();
        } else if let Event::Ended { fate, .. } = event {
            tell.send(format!("{fate:?}")).unwrap();
        }
    });
    (builder, told)
}

const GIVEN_UP: [&str; 2] = ["not sent: Some(Unavailable)", "Completed"];

async fn all(mut told: mpsc::UnboundedReceiver<String>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(word) = told.recv().await {
        all.push(word);
    }
    all
}

#[tokio::test]
async fn an_item_is_completed_although_its_events_are_not_taken() {
    let server = full_server().await;
    let (worker, told) = told(worker(&server).handle("default", |work: Work<String>| async move {
        work.progress(1, 2).await?;
        // From here on the clock moves by itself.
        tokio::time::pause();
        Ok::<_, Failure>("done")
    }));
    worker.build().unwrap().run().await.unwrap();
    assert_eq!(all(told).await, GIVEN_UP);
}

#[tokio::test]
async fn a_result_is_told_before_a_worker_stops_although_its_events_are_not_taken() {
    let server = full_server().await;
    let (worker, told) =
        told(worker(&server).grace(Duration::ZERO).handle("default", |work: Work<String>| async move {
            work.progress(1, 2).await?;
            work.cancellation().cancelled().await;
            Ok::<_, Failure>("done")
        }));
    let worker = worker.build().unwrap();
    let stopper = worker.stopper();
    let running = tokio::spawn(worker.run());
    server.until_seen(2).await;
    stopper.stop();
    running.await.unwrap().unwrap();
    assert_eq!(all(told).await, GIVEN_UP);
}

/// How many of these a handler can emit while the server takes none.
async fn taken(events: Vec<NewEvent>) -> usize {
    let server = Server::start([leased(), Act::Silence]).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = worker(&server).handle("default", move |work: Work<String>| {
        let (tell, events) = (tell.clone(), events.clone());
        async move {
            let mut taken = 0;
            for event in events {
                tokio::select! {
                    biased;
                    emitted = work.emit_raw(event) => emitted?,
                    () = std::future::ready(()) => break,
                }
                taken += 1;
            }
            tell.send(taken).unwrap();
            Ok::<_, Failure>(())
        }
    });
    tokio::select! {
        ended = worker.build().unwrap().run() => panic!("it cannot end: {ended:?}"),
        taken = within(told.recv()) => taken.unwrap(),
    }
}

fn event_of(bytes: usize) -> NewEvent {
    NewEvent { utf8: Some("x".repeat(bytes)), ..NewEvent::default() }
}

#[tokio::test]
async fn what_waits_to_be_sent_is_bounded_in_bytes() {
    assert_eq!(taken(vec![event_of(1 << 20); 20]).await, 8);
    // One that is larger than all that may wait can only wait alone.
    assert_eq!(taken(vec![event_of(9 << 20), event_of(1)]).await, 1);
    assert_eq!(taken(vec![event_of(1), event_of(9 << 20)]).await, 1);
}

#[tokio::test]
async fn an_event_larger_than_all_that_may_wait_is_sent() {
    let emitted = |seq| answer(200, json!({"first_seq": seq, "last_seq": seq}));
    let completed = answer(200, json!({"completed": 1}));
    let server = Server::start([leased(), emitted(4), emitted(5), emitted(6), completed]).await;
    let worker = worker(&server).handle("default", |work: Work<String>| async move {
        for bytes in [1, 9 << 20, 1] {
            work.emit_raw(event_of(bytes)).await?;
        }
        Ok::<_, Failure>(())
    });
    within(worker.build().unwrap().run()).await.unwrap();
    let lengths: Vec<bool> = server.seen()[1..4].iter().map(|seen| seen.body.len() > 9 << 20).collect();
    assert_eq!((lengths, server.left()), (vec![false, true, false], 0));
}
