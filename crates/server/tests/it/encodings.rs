//! JSON and protobuf agree: one script of requests runs in both encodings, and what comes back is the same.

use bytes::Bytes;
use serde_json::Value;
use windlass_api::items::{
    CancelItemRequest, CompleteRequest, Completion, ExtendRequest, GetItemRequest, Held, ItemError, Kinds,
    LeaseReply, LeaseRequest, NewItem, ProduceRequest, ReleaseRequest, Retry, RetryRequest,
};
use windlass_api::payload::Payload;
use windlass_api::queues::{
    ClearQueueRequest, CreateQueueRequest, DeleteQueueRequest, HeaderNames, ListQueuesRequest,
    QueueInfoRequest, QueueStatsRequest, RetryPolicyChange, UpdateQueueRequest,
};
use windlass_api::{Call, JSON, PROTOBUF, Span, Time};

use crate::http::Http;
use crate::world::TestServer;

/// Speaks one encoding, and writes down what was answered.
struct Speaker {
    http: Http,
    encoding: &'static str,
    heard: Vec<(String, Value)>,
    /// Ids in the order in which they were first seen: those of two servers differ.
    ids: Vec<String>,
}

impl Speaker {
    async fn say<C: Call>(&mut self, request: C) -> Option<C::Reply> {
        let answer = self.http.call(self.encoding, &request).await;
        let (mut value, reply) = match answer {
            Ok(reply) => (serde_json::to_value(&reply).expect("it serialises"), Some(reply)),
            Err(error) => (serde_json::to_value(&error).expect("it serialises"), None),
        };
        self.mask(&mut value);
        self.heard.push((C::NAME.to_owned(), value));
        reply
    }

    /// What differs between any two runs is replaced by what must not.
    fn mask(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    match name.as_str() {
                        "id" => {
                            let id = field.as_str().expect("ids are texts").to_owned();
                            let known = self.ids.iter().position(|seen| *seen == id);
                            let index = known.unwrap_or_else(|| {
                                self.ids.push(id);
                                self.ids.len() - 1
                            });
                            *field = Value::from(index);
                        }
                        "permit" | "oldest_waiting_age" => *field = Value::from("masked"),
                        name if name.ends_with("_at") || name.ends_with("_deadline") => {
                            let time: Time =
                                field.as_str().and_then(|text| text.parse().ok()).expect("a time");
                            *field = Value::from(time > Time::default());
                        }
                        _ => self.mask(field),
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.mask(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    async fn lease(&mut self, batch_size: u32, more: impl FnOnce(&mut LeaseRequest)) -> LeaseReply {
        let mut request = LeaseRequest {
            queue: "q".into(),
            client_id: "worker".into(),
            batch_size,
            request_timeout: Some(Span::ZERO),
            ..LeaseRequest::default()
        };
        more(&mut request);
        self.say(request).await.unwrap_or_default()
    }
}

async fn script(speaker: &mut Speaker) {
    queues(speaker).await;
    items(speaker).await;
    refusals(speaker).await;
    speaker.say(ListQueuesRequest { counts: true, ..ListQueuesRequest::default() }).await;
    speaker
        .say(ClearQueueRequest { queue: "q".into(), leased: Some(true), ..ClearQueueRequest::default() })
        .await;
    speaker.say(ClearQueueRequest { queue: "q".into(), ..ClearQueueRequest::default() }).await;
    speaker.say(QueueStatsRequest { queue: "q".into() }).await;
    speaker.say(DeleteQueueRequest { queue: "q".into(), force: false }).await;
    speaker.say(ListQueuesRequest::default()).await;
}

async fn queues(speaker: &mut Speaker) {
    let retry = RetryPolicyChange {
        strategy: Some("fixed".into()),
        initial: Some(Span::from_millis(1500)),
        factor: Some(1.5),
        ..RetryPolicyChange::default()
    };
    let create = CreateQueueRequest {
        queue: "q".into(),
        partitions: Some(1),
        lease_timeout: Some(Span::from_secs(5400)),
        max_attempts: Some(2),
        dead_timeout: Some(Span::from_secs(86_400)),
        dead_queue: Some("dead".into()),
        retry: Some(retry),
        requeue: Some("tail".into()),
        retention: Some(Span::from_secs(3600)),
        retention_max_items: Some(10),
        retention_max_bytes: Some(1 << 40),
        retain_payload: Some("all".into()),
        keep: Some("all".into()),
        indexed_headers: Some(HeaderNames { names: vec!["tenant".into()] }),
        max_items: Some(5000),
        reference: Some("for the test".into()),
        meta: Some(r#"{"for":"the test"}"#.into()),
        exists_ok: false,
    };
    speaker.say(create.clone()).await.expect("made");
    speaker.say(create).await;
    speaker.say(QueueInfoRequest { queue: "q".into() }).await.expect("there");
    let update = UpdateQueueRequest {
        queue: "q".into(),
        dead_queue: Some(String::new()),
        reference: Some(String::new()),
        retry: Some(RetryPolicyChange { jitter: Some(0.0), ..RetryPolicyChange::default() }),
        ..UpdateQueueRequest::default()
    };
    speaker.say(update).await.expect("changed");
}

async fn items(speaker: &mut Speaker) {
    let headers = [("traceparent".to_owned(), "00-aa".to_owned())].into();
    let items = vec![
        NewItem { json: Some(r#"{"b":1,"a":[null,1.50,"ü"]}"#.into()), headers, ..NewItem::default() },
        NewItem { json: Some("null".into()), priority: Some(7), ..NewItem::default() },
        NewItem { utf8: Some("text \u{0} with everything \u{1F980}".into()), ..NewItem::default() },
        NewItem { utf8: Some(String::new()), kind: Some("empty".into()), ..NewItem::default() },
        NewItem {
            bytes: Some(Bytes::from_static(&[0, 255, 128])),
            reference: Some("r".into()),
            ..NewItem::default()
        },
        NewItem { bytes: Some(Bytes::new()), max_attempts: Some(0), ..NewItem::default() },
        NewItem {
            utf8: Some("later".into()),
            enqueue_at: Some("2999-12-31T23:00:00+01:00".parse().unwrap()),
            ..NewItem::default()
        },
        NewItem {
            utf8: Some("long past".into()),
            enqueue_at: Some(Time::from_micros(-1)),
            ..NewItem::default()
        },
    ];
    let produced =
        speaker.say(ProduceRequest { queue: "q".into(), items, ..ProduceRequest::default() }).await;
    let produced = produced.expect("produced").items;
    speaker.say(QueueStatsRequest { queue: "q".into() }).await;
    for item in &produced {
        speaker.say(GetItemRequest::of(item.id.clone().expect("an id"))).await;
    }
    speaker.lease(10, |lease| lease.kinds = Some(Kinds::default())).await;
    speaker.lease(10, |lease| lease.kinds = Some(Kinds { kinds: vec!["empty".into()] })).await;
    let leased = speaker.lease(10, |lease| lease.max_priority = Some(6)).await.items;
    let held: Vec<Held> =
        leased.iter().map(|item| Held { id: item.id.clone(), permit: item.permit }).collect();
    speaker
        .say(ExtendRequest {
            queue: "q".into(),
            lease_timeout: Some(Span::from_secs(7)),
            items: held.clone(),
        })
        .await;
    let complete = |held: &Held, result| Completion { id: held.id.clone(), permit: held.permit, result };
    let completions = vec![
        complete(&held[0], Some(Payload::from_utf8("done"))),
        complete(&held[1], Some(Payload { json: Some("[1, 2]".into()), ..Payload::default() })),
        complete(&held[1], None),
    ];
    speaker
        .say(CompleteRequest { queue: "q".into(), items: completions, ..CompleteRequest::default() })
        .await;
    speaker.say(GetItemRequest::of(held[0].id.clone())).await.expect("kept");
    speaker.say(ReleaseRequest { queue: "q".into(), items: vec![held[2].clone()] }).await;
    let error = Some(ItemError { code: Some("E42".into()), message: "it did not work".into() });
    let again =
        Retry { id: held[3].id.clone(), permit: held[3].permit, dead: true, error, ..Retry::default() };
    speaker.say(RetryRequest { queue: "q".into(), items: vec![again.clone(), again] }).await;
    speaker.say(GetItemRequest::of(held[3].id.clone())).await.expect("kept");
    speaker.say(CancelItemRequest::of(produced[6].id.clone().expect("an id"))).await.expect("cancelled");
}

async fn refusals(speaker: &mut Speaker) {
    let produce = |item| ProduceRequest { queue: "q".into(), items: vec![item], ..ProduceRequest::default() };
    speaker.say(produce(NewItem::default())).await;
    speaker.say(produce(NewItem { utf8: Some("x".into()), priority: Some(300), ..NewItem::default() })).await;
    speaker.say(produce(NewItem { utf8: Some("x".repeat((1 << 20) + 1)), ..NewItem::default() })).await;
    speaker.say(ProduceRequest::default()).await;
    speaker
        .say(ProduceRequest {
            queue: "none".into(),
            items: vec![NewItem { utf8: Some("x".into()), ..NewItem::default() }],
            ..ProduceRequest::default()
        })
        .await;
    speaker.lease(0, |_| {}).await;
    speaker.lease(1, |lease| lease.request_timeout = Some(Span::from_secs(901))).await;
    speaker.say(GetItemRequest::of("not one")).await;
    speaker.say(QueueStatsRequest { queue: "..".into() }).await;
    speaker.say(DeleteQueueRequest { queue: "q".into(), force: false }).await;
    speaker.say(ExtendRequest { queue: "q".into(), ..ExtendRequest::default() }).await;
}

async fn run(encoding: &'static str) -> Vec<(String, Value)> {
    let server = TestServer::start().await;
    let mut speaker = Speaker { http: server.connect().await, encoding, heard: Vec::new(), ids: Vec::new() };
    script(&mut speaker).await;
    speaker.heard
}

#[tokio::test]
async fn the_same_requests_are_answered_alike_in_both_encodings() {
    let (json, protobuf) = (run(JSON).await, run(PROTOBUF).await);
    assert_eq!(json.len(), protobuf.len());
    for (json, protobuf) in json.into_iter().zip(protobuf) {
        assert_eq!(json, protobuf);
    }
}

#[tokio::test]
async fn the_answer_is_in_the_encoding_that_accept_names() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    let table = [
        (JSON, "*/*", JSON),
        (JSON, "application/protobuf", PROTOBUF),
        (PROTOBUF, "application/json", JSON),
        (PROTOBUF, "text/html, application/json;q=0.9", JSON),
        (PROTOBUF, "text/html", PROTOBUF),
        (PROTOBUF, "application/protobuf;q=0.1, application/json", JSON),
        (JSON, "application/protobuf;q=0", JSON),
    ];
    for (content, accept, expected) in table {
        let headers = [("content-type", content), ("accept", accept)];
        let got = http.request("POST", "/v1/queues.list", &headers, b"").await;
        assert_eq!(got.headers["content-type"], expected, "{content} accepting {accept}");
        let got = http.request("POST", "/v1/queues.info", &headers, b"").await;
        assert_eq!((got.status, got.headers["content-type"].as_str()), (400, expected), "an error too");
    }
}

#[tokio::test]
async fn json_in_protobuf_must_be_json() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    http.call(PROTOBUF, &CreateQueueRequest { queue: "q".into(), ..CreateQueueRequest::default() })
        .await
        .expect("made");
    let item = NewItem { json: Some("{not json".into()), ..NewItem::default() };
    let request = ProduceRequest { queue: "q".into(), items: vec![item], ..ProduceRequest::default() };
    let refused = http.call(PROTOBUF, &request).await.expect_err("refused");
    assert_eq!(refused.error.code, "invalid_argument");
    assert!(refused.error.message.contains("items[0].json"), "{refused:?}");
}
