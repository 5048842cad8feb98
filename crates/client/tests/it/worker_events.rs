//! What handlers say while they work, and items that wait for an answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::timeout;
use windlass_client::api::Span;
use windlass_client::api::payload::Payload;
use windlass_client::api::queues::CreateQueueRequest;
use windlass_client::worker::{EmitError, Failure, Reason, Until, Work, Worker};
use windlass_client::{Client, Encoding, Frame, PayloadExt, new_item};

use crate::real_server::{RealServer, SAFETY_NET};
use crate::script::{Act, Answer, Server};

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
    timeout(SAFETY_NET, worker.build().unwrap().run()).await.expect("it ends in time").unwrap();
}

/// The whole stream of an item that has ended: types and payloads.
async fn story(client: &Client, id: &str) -> Vec<(String, Value)> {
    let mut events = client.events(id).after(0);
    let mut story = Vec::new();
    while let Some(frame) = timeout(SAFETY_NET, events.next()).await.expect("it comes in time") {
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
            let reason = timeout(SAFETY_NET, work.cancellation().cancelled()).await;
            assert_eq!(reason, Ok(Reason::CancelRequested));
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

#[tokio::test]
async fn events_whose_answer_was_lost_are_sent_again_and_are_there_once() {
    let answer = |status, body: Value| Act::Answer(Answer::json(status, &body.to_string()));
    let at = "2026-01-01T00:00:00Z";
    let item = json!({"id": "i", "permit": 5, "kind": "default", "json": "x", "lease_deadline": at, "created_at": at, "event_count": 3});
    let known = json!({"code": "wrong_state", "message": "it is 4", "details": {"last_seq": 4}});
    let server = Server::start([
        answer(200, json!({"items": [item]})),
        // Done, as it turns out.
        Act::Cut,
        answer(409, json!({"error": known})),
        answer(200, json!({"first_seq": 5, "last_seq": 5})),
        answer(200, json!({"completed": 1})),
    ])
    .await;
    let client = Client::builder(&server.url).encoding(Encoding::Json).build().unwrap();
    let worker = Worker::builder(client, "work").until(Until::Once).lease_timeout(Duration::from_secs(3600));
    let worker = worker.handle("default", |work: Work<String>| async move {
        work.emit("note", &"first").await?;
        work.flush().await?;
        work.emit("note", &"second").await?;
        Ok::<_, Failure>(())
    });
    timeout(SAFETY_NET, worker.build().unwrap().run()).await.expect("it ends in time").unwrap();
    let bodies: Vec<Value> =
        server.seen()[1..4].iter().map(|seen| serde_json::from_slice(&seen.body).unwrap()).collect();
    let emit = |after, payload| json!({"id": "i", "permit": 5, "after": after, "events": [{"type": "note", "json": payload}]});
    assert_eq!(bodies, [emit(3, "first"), emit(3, "first"), emit(4, "second")]);
    assert_eq!(server.left(), 0);
}
