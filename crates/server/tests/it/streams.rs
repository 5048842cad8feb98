//! Streams of items over HTTP, as a browser reads them.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use windlass_api::events::{
    CloseStreamsRequest, EmitRequest, NewEvent, ResumeItemRequest, Suspend, SuspendRequest,
};
use windlass_api::{JSON, PROTOBUF};

use crate::http::Http;
use crate::world::{TestServer, held, with};

/// An open stream.
pub(crate) struct Events {
    http: Http,
    text: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Events {
    pub(crate) async fn open(server: &TestServer, query: &str, headers: &[(&str, &str)]) -> Self {
        let mut http = server.connect().await;
        http.send("GET", &format!("/v1/item.events?{query}"), headers, b"").await;
        let head = http.receive_head().await;
        assert_eq!(head.status, 200);
        assert_eq!(head.headers["content-type"], "text/event-stream");
        assert!(head.headers.contains_key("windlass-request-id"));
        Self { http, text: String::new() }
    }

    /// `None` after the end of the response.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.text = rest;
                if !frame.starts_with(':') {
                    return Some(parsed(&frame));
                }
                continue;
            }
            let piece = self.http.receive_chunk().await?;
            self.text.push_str(std::str::from_utf8(&piece).expect("a text"));
        }
    }

    pub(crate) async fn rest(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}

fn parsed(text: &str) -> Frame {
    let field = |name: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    let id = Some(field("id")).filter(|id| !id.is_empty()).map(|id| id.parse().expect("a number"));
    let data = serde_json::from_str(&field("data")).unwrap_or_else(|error| panic!("{error}: {text}"));
    Frame { id, event: field("event"), data }
}

/// In short: what sort, and what tells it from others.
fn said(frame: &Frame) -> String {
    let data = &frame.data;
    match frame.event.as_str() {
        "snapshot" => format!("snapshot {} {}", data["item"]["state"].as_str().expect("a state"), id(frame)),
        "state" => format!("state {}", data["state"].as_str().expect("a state")),
        "gap" => format!("gap {} {}", data["from"], data["to"]),
        "end" => format!(
            "end {} {}",
            data["reason"].as_str().expect("text"),
            data["state"].as_str().expect("text")
        ),
        other => format!("{other} {}", id(frame)),
    }
}

fn id(frame: &Frame) -> u64 {
    frame.id.expect("it has an id")
}

fn all_said(frames: &[Frame]) -> Vec<String> {
    frames.iter().map(said).collect()
}

/// A server with one item in the queue `q`, and the id of the item.
async fn with_item() -> (TestServer, Http, String) {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let id = produce_one(&mut http).await;
    (server, http, id)
}

async fn produce_one(http: &mut Http) -> String {
    let ids = http.produce("q", json!([{"utf8": "work"}])).await;
    ids[0].as_str().expect("an id").to_owned()
}

async fn lease_one(http: &mut Http) -> Value {
    http.lease("q", 1).await.remove(0)
}

async fn emit(http: &mut Http, leased: &Value, events: Value) -> Value {
    http.ok("item.emit", with(held(leased), json!({"events": events}))).await
}

pub(crate) async fn subscribers(http: &mut Http) -> usize {
    http.metric("windlass_subscribers").await
}

async fn until_subscribers(http: &mut Http, count: usize) {
    http.until(async |http| subscribers(http).await == count).await;
}

#[tokio::test]
async fn a_stream_tells_the_item_its_events_its_states_and_its_end() {
    let (server, mut http, item) = with_item().await;
    let mut stream = Events::open(&server, &format!("id={item}"), &[]).await;
    let snapshot = stream.next().await.expect("a frame");
    assert_eq!((snapshot.event.as_str(), snapshot.id), ("snapshot", Some(0)));
    let shown = http.ok("item.get", json!({"id": item})).await;
    let item_shown = with(snapshot.data["item"].clone(), json!({"attempt_log": []}));
    assert_eq!(json!({"item": item_shown}), shown);
    let leased = lease_one(&mut http).await;
    let state = stream.next().await.expect("a frame");
    assert_eq!((state.event.as_str(), state.id, &state.data["state"]), ("state", None, &json!("leased")));
    assert!(state.data["at"].is_string() && state.data.get("reason").is_none());
    let events = json!([{"utf8": "hello"}, {"type": "progress", "json": {"done": 1}}, {"bytes": "AAE="}]);
    let emitted = emit(&mut http, &leased, events).await;
    assert_eq!(emitted, json!({"first_seq": 1, "last_seq": 3, "cancel_requested": false}));
    let message = stream.next().await.expect("a frame");
    assert_eq!((message.event.as_str(), message.id), ("message", Some(1)));
    let at = message.data["at"].clone();
    assert_eq!(message.data, json!({"seq": 1, "type": "message", "at": at, "utf8": "hello"}));
    let progress = stream.next().await.expect("a frame");
    assert_eq!(progress.data, json!({"seq": 2, "type": "progress", "at": at, "json": {"done": 1}}));
    let bytes = stream.next().await.expect("a frame");
    assert_eq!(bytes.data["bytes"], "AAE=");
    http.complete("q", [&leased]).await;
    assert_eq!(all_said(&stream.rest().await), ["state completed", "end final completed"]);
    assert_eq!(http.item(&item).await["event_count"], 3);
    until_subscribers(&mut http, 0).await;
}

#[tokio::test]
async fn a_stream_is_resumed_by_number_and_the_header_goes_before_the_address() {
    let (server, mut http, item) = with_item().await;
    let leased = lease_one(&mut http).await;
    emit(&mut http, &leased, json!([{"utf8": "a"}, {"utf8": "b"}, {"utf8": "c"}])).await;
    let mut live = Events::open(&server, &format!("id={item}&after=2"), &[]).await;
    assert_eq!(said(&live.next().await.expect("a frame")), "message 3");
    emit(&mut http, &leased, json!([{"utf8": "d"}])).await;
    assert_eq!(said(&live.next().await.expect("a frame")), "message 4");
    http.complete("q", [&leased]).await;
    let end = ["state completed", "end final completed"];
    let whole = Events::open(&server, &format!("after=0&id={item}"), &[]).await.rest().await;
    assert_eq!(all_said(&whole), [&["message 1", "message 2", "message 3", "message 4"][..], &end].concat());
    let header = [("Last-Event-ID", "3")];
    let again = Events::open(&server, &format!("id={item}&after=0"), &header).await.rest().await;
    assert_eq!(all_said(&again), [&["message 4"][..], &end].concat());
    let shown = Events::open(&server, &format!("id={item}"), &[]).await.rest().await;
    assert_eq!(all_said(&shown), [&["snapshot completed 4"][..], &end].concat());
}

#[tokio::test]
async fn what_cannot_be_streamed_is_refused_as_any_other_call() {
    let (_server, mut http, item) = with_item().await;
    for (query, status, code) in [
        (format!("id={item}&after=1"), 400, "invalid_argument"),
        (format!("id={item}&after=-1"), 400, "invalid_argument"),
        (format!("id={item}&after="), 400, "invalid_argument"),
        (format!("id={item}&from=1"), 400, "invalid_argument"),
        ("after=1".to_owned(), 400, "invalid_argument"),
        ("id=7".to_owned(), 400, "invalid_argument"),
        ("id=01980f7e-0000-7000-8000-000000000007".to_owned(), 404, "not_found"),
    ] {
        let got = http.get(&format!("/v1/item.events?{query}")).await;
        assert_eq!((got.status, got.code().as_str()), (status, code), "{query}");
    }
    let path = format!("/v1/item.events?id={item}");
    let got = http.request("GET", &path, &[("last-event-id", "soon")], b"").await;
    assert_eq!(got.code(), "invalid_argument");
    let got = http.request("POST", &path, &[], b"").await;
    assert_eq!((got.status, got.headers["allow"].as_str()), (405, "GET"));
    let got = http.request("GET", &path, &[("origin", "http://elsewhere.example")], b"").await;
    assert_eq!(got.status, 403);
    assert_eq!(subscribers(&mut http).await, 0);
}

#[tokio::test]
async fn a_percent_encoded_query_is_decoded() {
    let (server, mut http, item) = with_item().await;
    let leased = lease_one(&mut http).await;
    emit(&mut http, &leased, json!([{"utf8": "a"}])).await;
    let encoded: String = item.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut stream = Events::open(&server, &format!("%69d={encoded}&%61fter=%30"), &[]).await;
    assert_eq!(said(&stream.next().await.expect("a frame")), "message 1");
    for query in [format!("id={item}%"), format!("id={item}%4"), format!("id={item}%zz"), "id=%ff".to_owned()]
    {
        let got = http.get(&format!("/v1/item.events?{query}")).await;
        assert_eq!((got.status, got.code().as_str()), (400, "invalid_argument"), "{query}");
        assert!(got.message().contains("percent"), "{query}: {}", got.message());
    }
}

#[tokio::test]
async fn an_emit_is_held_to_its_rules() {
    let (_server, mut http, item) = with_item().await;
    let leased = lease_one(&mut http).await;
    let (id, permit) = (leased["id"].clone(), leased["permit"].clone());
    for (events, field) in [
        (json!([]), "events"),
        (json!([{"utf8": "a", "type": "state"}]), "events[0].type"),
        (json!([{"utf8": "a"}, {"utf8": "b", "type": "a b"}]), "events[1].type"),
        (json!([{"type": "x"}]), "events[0]"),
        (json!([{"utf8": "a", "json": 1}]), "events[0]"),
        (json!([{"utf8": "a", "kind": "x"}]), "kind"),
    ] {
        let body = json!({"id": id, "permit": permit, "events": events}).to_string();
        let got = http.post("item.emit", &body).await;
        assert_eq!((got.status, got.code().as_str()), (400, "invalid_argument"), "{body}");
        assert!(got.message().contains(field), "{}", got.message());
    }
    let large = json!({"id": id, "permit": permit, "events": [{"utf8": "x".repeat((1 << 20) + 1)}]});
    assert_eq!(http.post("item.emit", &large.to_string()).await.status, 413);
    let after = |after: u64| {
        json!({"id": id, "permit": permit, "after": after, "events": [{"utf8": "a"}]}).to_string()
    };
    let got = http.post("item.emit", &after(0)).await;
    assert_eq!((got.status, &got.json()["last_seq"]), (200, &json!(1)));
    assert!(got.headers.contains_key("windlass-commit"));
    let got = http.post("item.emit", &after(0)).await;
    assert_eq!((got.status, got.code().as_str()), (409, "wrong_state"));
    assert_eq!(got.json()["error"]["details"]["last_seq"], 1);
    let stranger = json!({"id": id, "permit": 7, "events": [{"utf8": "a"}]}).to_string();
    let got = http.post("item.emit", &stranger).await;
    assert_eq!((got.status, got.code().as_str()), (409, "lease_lost"));
    assert!(got.json()["error"]["details"].get("reason").is_none());
    http.complete("q", [&leased]).await;
    let got = http.post("item.emit", &after(1)).await;
    assert_eq!(
        (got.code().as_str(), &got.json()["error"]["details"]["reason"]),
        ("lease_lost", &json!("completed"))
    );
    assert_eq!(http.item(&item).await["event_count"], 1);
}

#[tokio::test]
async fn a_worker_hears_of_a_cancel_with_its_emit() {
    let (_server, mut http, item) = with_item().await;
    let leased = lease_one(&mut http).await;
    http.ok("item.cancel", json!({"id": item})).await;
    assert_eq!(emit(&mut http, &leased, json!([{"utf8": "a"}])).await["cancel_requested"], true);
}

#[tokio::test]
async fn line_ends_within_json_do_not_tear_a_frame() {
    let (server, mut http, item) = with_item().await;
    let leased = lease_one(&mut http).await;
    let body = format!(
        "{{\"id\": {}, \"permit\": {}, \"events\": [{{\"json\": {{\n\"a\":\r\n[1,\n\n2]}}}}, {{\"utf8\": \"x\\n\\ny\"}}]}}",
        leased["id"], leased["permit"]
    );
    assert_eq!(http.post("item.emit", &body).await.status, 200);
    let mut stream = Events::open(&server, &format!("id={item}&after=0"), &[]).await;
    assert_eq!(stream.next().await.expect("a frame").data["json"], json!({"a": [1, 2]}));
    assert_eq!(stream.next().await.expect("a frame").data["utf8"], "x\n\ny");
}

#[tokio::test]
async fn an_item_keeps_its_newest_ten_thousand_events() {
    let (server, mut http, item) = with_item().await;
    let leased = lease_one(&mut http).await;
    let mut slow = Events::open(&server, &format!("id={item}&after=0"), &[]).await;
    for batch in 0..11 {
        let count = if batch == 10 { 500 } else { 1000 };
        emit(&mut http, &leased, Value::Array(vec![json!({"json": batch}); count])).await;
    }
    http.complete("q", [&leased]).await;
    assert_eq!(http.item(&item).await["event_count"], 10_500);
    let frames = Events::open(&server, &format!("id={item}&after=0"), &[]).await.rest().await;
    assert_eq!(frames[0].data, json!({"from": 1, "to": 500}));
    assert_eq!((frames[0].event.as_str(), frames[0].id), ("gap", None));
    let numbers: Vec<u64> = frames[1..frames.len() - 2].iter().map(id).collect();
    assert_eq!(numbers, (501..=10_500).collect::<Vec<_>>());
    // Who was there all the time has seen all, or was told what not.
    let mut next = 1;
    while let Some(frame) = slow.next().await {
        match frame.event.as_str() {
            "gap" => {
                assert_eq!(frame.data["from"], next);
                next = frame.data["to"].as_u64().expect("a number") + 1;
            }
            "state" | "end" => assert_eq!(next, 10_501),
            _ => {
                assert_eq!(id(&frame), next);
                next += 1;
            }
        }
    }
}

#[tokio::test]
async fn streams_are_closed_by_a_call_and_by_the_server_and_can_be_opened_again() {
    let (mut server, mut http, item) = with_item().await;
    let leased = lease_one(&mut http).await;
    emit(&mut http, &leased, json!([{"utf8": "a"}])).await;
    let graceful = Events::open(&server, &format!("id={item}&after=0"), &[]).await;
    let close = |mode: &str| json!({"id": item, "mode": mode});
    assert_eq!(http.ok("item.close_streams", close("graceful")).await["closed"], 1);
    assert_eq!(all_said(&graceful.rest().await), ["message 1", "end closed leased"]);
    let immediate = Events::open(&server, &format!("id={item}&after=1"), &[]).await;
    assert_eq!(http.ok("item.close_streams", close("immediate")).await["closed"], 1);
    assert_eq!(all_said(&immediate.rest().await), ["end closed leased"]);
    assert_eq!(http.post("item.close_streams", &close("now").to_string()).await.code(), "invalid_argument");
    let unknown = json!({"id": "01980f7e-0000-7000-8000-000000000007", "mode": "graceful"});
    assert_eq!(http.post("item.close_streams", &unknown.to_string()).await.code(), "not_found");
    let stopped = Events::open(&server, &format!("id={item}&after=1"), &[]).await;
    server.restart().await;
    assert_eq!(all_said(&stopped.rest().await), ["end closed leased"]);
    let mut http = server.connect().await;
    http.complete("q", [&leased]).await;
    let whole = Events::open(&server, &format!("id={item}&after=0"), &[]).await.rest().await;
    assert_eq!(all_said(&whole), ["message 1", "state completed", "end final completed"]);
}

/// Both ends are in this process, which has raised its limit of open files: a server does.
#[tokio::test]
async fn a_thousand_clients_that_vanish_leave_nothing_behind() {
    let (server, mut http, item) = with_item().await;
    let mut streams = Vec::new();
    for _ in 0..1000 {
        streams.push(Events::open(&server, &format!("id={item}"), &[]).await);
    }
    assert_eq!(subscribers(&mut http).await, 1000);
    drop(streams);
    until_subscribers(&mut http, 0).await;
}

#[tokio::test]
async fn who_does_not_read_holds_up_neither_the_worker_nor_other_readers() {
    let (server, mut http, item) = with_item().await;
    let leased = lease_one(&mut http).await;
    let lazy = Events::open(&server, &format!("id={item}&after=0"), &[]).await;
    let eager = Events::open(&server, &format!("id={item}&after=0"), &[]).await;
    let text = "x".repeat(100_000);
    for _ in 0..100 {
        emit(&mut http, &leased, json!([{"utf8": text}])).await;
    }
    http.complete("q", [&leased]).await;
    assert_eq!(eager.rest().await.len(), 102);
    assert_eq!(lazy.rest().await.len(), 102, "what waited for it is still there");
}

#[tokio::test]
async fn a_suspended_item_is_shown_counted_and_answered() {
    let (server, mut http, item) = with_item().await;
    let leased = lease_one(&mut http).await;
    let mut stream = Events::open(&server, &format!("id={item}&after=0"), &[]).await;
    let held = with(held(&leased), json!({"reason": "which colour?"}));
    let suspended = http.ok("queue.suspend", json!({"queue": "q", "items": [held]})).await;
    assert_eq!(suspended, json!({"suspended": 1, "failed": []}));
    let frame = stream.next().await.expect("a frame");
    assert_eq!((said(&frame).as_str(), &frame.data["reason"]), ("state suspended", &json!("which colour?")));
    let shown = http.item(&item).await;
    assert_eq!((&shown["state"], &shown["reason"]), (&json!("suspended"), &json!("which colour?")));
    assert_eq!(shown["attempts"], 0);
    let stats = http.stats("q").await;
    assert_eq!((&stats["counts"]["suspended"], &stats["counts"]["waiting"]), (&json!(1), &json!(0)));
    let partition = leased["partition"].clone();
    let listed = http.ok("storage/items.list", json!({"queue": "q", "partition": partition})).await;
    assert_eq!(listed["items"][0]["state"], "suspended");
    let again = http.ok("queue.suspend", json!({"queue": "q", "items": [held]})).await;
    assert_eq!(again["failed"][0]["details"]["reason"], "suspended");
    let resumed = http.ok("item.resume", json!({"id": item, "json": {"colour": "blue"}})).await;
    assert_eq!(resumed, json!({}));
    let got = http.post("item.resume", &json!({"id": item}).to_string()).await;
    assert_eq!((got.status, got.code().as_str()), (409, "wrong_state"));
    let input = stream.next().await.expect("a frame");
    assert_eq!((said(&input).as_str(), &input.data["json"]), ("input 1", &json!({"colour": "blue"})));
    let leased = lease_one(&mut http).await;
    assert_eq!((&leased["input"], &leased["attempts"]), (&json!({"json": {"colour": "blue"}}), &json!(1)));
    assert_eq!(leased["event_count"], 1);
    http.complete("q", [&leased]).await;
    let rest = all_said(&stream.rest().await);
    assert_eq!(rest, ["state waiting", "state leased", "state completed", "end final completed"]);
}

#[tokio::test]
async fn a_suspended_item_is_exported_and_comes_in_as_such() {
    let (_server, mut http, _) = with_item().await;
    let leased = lease_one(&mut http).await;
    let held = with(held(&leased), json!({"reason": "why?"}));
    http.ok("queue.suspend", json!({"queue": "q", "items": [held]})).await;
    let listing = json!({"queue": "q", "partition": leased["partition"]});
    let listed = http.ok("storage/items.list", listing).await["items"].clone();
    http.ok("queues.create", json!({"queue": "other"})).await;
    let imported = http.ok("storage/items.import", json!({"queue": "other", "items": listed})).await;
    let shown = http.item(&imported["items"][0]["id"]).await;
    assert_eq!((&shown["state"], &shown["reason"]), (&json!("suspended"), &json!("why?")));
    assert_eq!(http.ok("queue.clear", json!({"queue": "other"})).await["cleared"], 0);
    assert_eq!(http.ok("queue.clear", json!({"queue": "other", "suspended": true})).await["cleared"], 1);
}

#[tokio::test]
async fn every_call_on_events_speaks_both_encodings() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    for encoding in [JSON, PROTOBUF] {
        let id = produce_one(&mut http).await;
        let leased = lease_one(&mut http).await;
        let permit = leased["permit"].as_u64().expect("a number");
        let event = NewEvent { utf8: Some("a".to_owned()), ..NewEvent::default() };
        let emit = EmitRequest { id: id.clone(), permit, after: Some(0), events: vec![event] };
        assert_eq!(http.call(encoding, &emit).await.expect("emitted").last_seq, 1);
        let refused = http.call(encoding, &emit).await.expect_err("it is not the last");
        assert_eq!(refused.error.details.expect("details").last_seq, Some(1));
        let suspend = Suspend { id: id.clone(), permit, reason: None };
        let suspend = SuspendRequest { queue: "q".to_owned(), items: vec![suspend] };
        assert_eq!(http.call(encoding, &suspend).await.expect("judged").suspended, 1);
        let close =
            CloseStreamsRequest { id: Some(id.clone()), mode: "graceful".to_owned(), ..Default::default() };
        assert_eq!(http.call(encoding, &close).await.expect("closed").closed, 0);
        let resume = ResumeItemRequest { id: Some(id), utf8: Some("b".to_owned()), ..Default::default() };
        http.call(encoding, &resume).await.expect("resumed");
        let leased = lease_one(&mut http).await;
        assert_eq!(leased["input"], json!({"utf8": "b"}));
        http.complete("q", [&leased]).await;
    }
}

#[tokio::test]
async fn a_stream_on_a_connection_that_was_used_before_and_is_used_again() {
    let (_server, mut http, item) = with_item().await;
    http.ok("item.cancel", json!({"id": item})).await;
    let item = produce_one(&mut http).await;
    let leased = lease_one(&mut http).await;
    emit(&mut http, &leased, json!([{"utf8": "a"}])).await;
    http.complete("q", [&leased]).await;
    http.send("GET", &format!("/v1/item.events?id={item}&after=0"), &[], b"").await;
    http.receive_head().await;
    let mut pieces = 0;
    while http.receive_chunk().await.is_some() {
        pieces += 1;
    }
    assert!(pieces > 0);
    assert_eq!(http.get("/health").await.status, 200);
    http.stream_mut().shutdown().await.expect("it is open");
}
