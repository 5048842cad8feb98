//! JSON that readers of a whole reply fail at is refused, by every call that takes JSON and in both encodings.

use std::path::Path;
use std::sync::Arc;

use windlass_api::call::{EachCall, for_each_call};
use windlass_api::items::LeaseReply;
use windlass_api::{Call, JSON, PROTOBUF};
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::verbs::{CreateQueue, NewItem};
use windlass_engine::Engine;
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_server::http::record::Record;

use crate::http::{Got, Http, decode};
use crate::world::TestServer;

const ID: &str = "00000000-0000-8000-8000-000000000001";

/// Every place of a request that takes JSON: the call, its body with `JSON` for the payload, and the field to be named.
fn places() -> Vec<(&'static str, String, &'static str)> {
    let held = format!(r#""id": "{ID}", "permit": 1"#);
    let group = r#""queue": "q", "group": "g""#;
    let cron = r#""cron": "c", "queue": "q", "schedule": "* * * * *""#;
    vec![
        (
            "queue.produce",
            r#"{"queue": "q", "items": [{"utf8": ""}, {"json": JSON}]}"#.into(),
            "items[1].json",
        ),
        ("group.create", format!(r#"{{{group}, "items": [{{"json": JSON}}]}}"#), "items[0].json"),
        ("group.create", format!(r#"{{{group}, "end": {{"json": JSON}}}}"#), "end.json"),
        ("group.create", format!(r#"{{{group}, "abort": {{"json": JSON}}}}"#), "abort.json"),
        ("group.set_end", format!(r#"{{{group}, "end": {{"json": JSON}}}}"#), "end.json"),
        ("crons.create", format!(r#"{{{cron}, "item": {{"json": JSON}}}}"#), "item.json"),
        ("crons.update", r#"{"cron": "c", "item": {"json": JSON}}"#.into(), "item.json"),
        (
            "queue.complete",
            format!(r#"{{"queue": "q", "items": [{{{held}, "result": {{"json": JSON}}}}]}}"#),
            "items[0].result.json",
        ),
        ("item.emit", format!(r#"{{{held}, "events": [{{"json": JSON}}]}}"#), "events[0].json"),
        ("queues.create", r#"{"queue": "m", "meta": {"a": JSON}}"#.into(), "meta"),
        ("queues.update", r#"{"queue": "q", "meta": {"a": JSON}}"#.into(), "meta"),
        ("item.resume", format!(r#"{{"id": "{ID}", "json": JSON}}"#), "json"),
        ("storage/items.import", r#"{"queue": "q", "items": [{"json": JSON}]}"#.into(), "items[0].json"),
    ]
}

fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

fn nested_objects(levels: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
}

/// Texts that are JSON and refused, with a word of what the message says.
fn refused() -> Vec<(String, &'static str)> {
    let surrogates =
        [r#""\ud800""#, r#""\uDFFF""#, r#""a\ud83d\u0041""#, r#""\ud83d\ud83d""#, r#"{"\udc00": 1}"#];
    let surrogates = surrogates.map(|text| (text.to_owned(), "surrogate"));
    let others = [
        (nested(129), "128 levels"),
        (nested(10_000), "128 levels"),
        (nested_objects(129), "128 levels"),
        ("7".repeat(1001), "1000 digits"),
        (format!("[-1.{}e5]", "0".repeat(999)), "1000 digits"),
        (format!("1e{}", "0".repeat(1000)), "1000 digits"),
    ];
    surrogates.into_iter().chain(others).collect()
}

/// A JSON body of a call as the protobuf message it stands for.
fn in_protobuf(call: &str, body: &str) -> Vec<u8> {
    struct Encode<'a>(&'a str, &'a str, Option<Vec<u8>>);

    impl EachCall for Encode<'_> {
        fn visit<C: Call>(&mut self) {
            if C::NAME == self.0 {
                let request: C = serde_json::from_str(self.1).expect("the test's own request");
                self.2 = Some(request.encode_to_vec());
            }
        }
    }

    let mut encode = Encode(call, body, None);
    for_each_call(&mut encode);
    encode.2.expect("a call of the list")
}

async fn post(http: &mut Http, encoding: &str, call: &str, body: &str) -> Got {
    let body = if encoding == JSON { body.as_bytes().to_vec() } else { in_protobuf(call, body) };
    let headers = [("content-type", encoding), ("accept", JSON)];
    http.request("POST", &format!("/v1/{call}"), &headers, &body).await
}

#[tokio::test]
async fn json_that_poisons_a_batch_is_refused_by_every_call_that_takes_json() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    http.ok("queues.create", serde_json::json!({"queue": "q"})).await;
    for encoding in [JSON, PROTOBUF] {
        for (call, body, field) in places() {
            for (text, why) in refused() {
                let got = post(&mut http, encoding, call, &body.replace("JSON", &text)).await;
                let case = format!("{call} in {encoding}: {}", text.chars().take(40).collect::<String>());
                assert_eq!((got.status, got.code().as_str()), (400, "invalid_argument"), "{case}");
                let message = got.message();
                assert!(
                    message.contains(&format!("`{field}`")) && message.contains(why),
                    "{case}: {message}"
                );
            }
        }
    }
    let stats = http.ok("queue.stats", serde_json::json!({"queue": "q"})).await;
    assert_eq!(stats["counts"]["waiting"], 0, "nothing of a refused batch comes in");
}

#[tokio::test]
async fn json_at_the_bounds_comes_back_as_it_was_sent() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    http.ok("queues.create", serde_json::json!({"queue": "q"})).await;
    let texts = [
        nested(128),
        nested_objects(128),
        "7".repeat(1000),
        format!("[{0},{0}]", "7".repeat(1000)),
        format!("[{}]", vec!["[]"; 200].join(",")),
        r#""\ud83d\ude00 \\ud800 \u00fc""#.to_owned(),
        format!(r#"{{"[{}": "{}"}}"#, "[".repeat(200), "7".repeat(2000)),
    ];
    for encoding in [JSON, PROTOBUF] {
        for text in &texts {
            let body = format!(r#"{{"queue": "q", "items": [{{"json": {text}}}]}}"#);
            let got = post(&mut http, encoding, "queue.produce", &body).await;
            assert_eq!(got.status, 200, "{}", got.message());
        }
        assert_eq!(leased(&mut http).await, texts);
    }
}

/// The payloads of what waits, in its order.
async fn leased(http: &mut Http) -> Vec<String> {
    let body = br#"{"queue": "q", "client_id": "c", "batch_size": 100, "request_timeout": "0s"}"#;
    let got = http.request("POST", "/v1/queue.lease", &[("content-type", JSON)], body).await;
    let reply: LeaseReply = decode(JSON, &got.body);
    reply.items.into_iter().map(|item| item.json.expect("JSON")).collect()
}

/// Data with items that were stored before their payloads would have been refused.
async fn store(data: &Path, payloads: &[String]) {
    let (env, disk) = (Arc::new(TokioEnv::new()), Arc::new(RealDisk::new(data).expect("a directory")));
    let store = LogStore::open(env.clone(), disk, LogOptions::default()).await.expect("a log");
    let engine = Engine::open(env, Arc::new(store)).await.expect("it opens");
    let queue = QueueName { namespace: "default".into(), name: "q".into() };
    let create = CreateQueue::new(queue.clone(), Settings::default(), 1);
    engine.create_queue(create).await.expect("made");
    let stored = |json: &String| Record { json: Some(json.clone()), ..Record::default() }.to_stored();
    let items = payloads.iter().map(|json| NewItem::plain("default", stored(json))).collect();
    engine.produce(&queue, items).await.expect("produced");
    engine.close().await;
}

#[tokio::test]
async fn payloads_that_were_stored_before_they_were_refused_are_still_delivered() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let payloads: Vec<String> = refused().into_iter().map(|(text, _)| text).collect();
    store(directory.path(), &payloads).await;
    let server = TestServer::on(directory.path()).await;
    assert_eq!(leased(&mut server.connect().await).await, payloads);
}
