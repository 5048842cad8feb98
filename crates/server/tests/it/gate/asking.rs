//! Requests with a head of one's own.

use tokio::io::AsyncWriteExt;
use windlass_api::call::{Call, EachCall, for_each_call};

use crate::http::Got;
use crate::world::TestServer;

pub(super) const EVENTS: &str = "/v1/item.events?id=00000000-0000-8000-8000-000000000001";

/// A request line and its body.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) method: &'static str,
    pub(super) target: String,
    pub(super) body: &'static str,
}

impl Line {
    pub(super) fn new(method: &'static str, target: &str) -> Self {
        Self { method, target: target.to_owned(), body: "" }
    }

    /// The label `call` of the metrics.
    pub(super) fn call(&self) -> &str {
        let path = self.target.split('?').next().unwrap_or_default();
        let call = path.strip_prefix("/v1/").filter(|call| *call != "nothing" && *call != "item.events");
        call.unwrap_or("other")
    }
}

/// Every page, every call, the stream, paths that are none, and preflights.
pub(super) fn all_lines() -> Vec<Line> {
    let pages = ["/", "/health", "/ready", "/metrics", "/openapi.json", "/nothing", EVENTS];
    let mut lines: Vec<Line> = pages.into_iter().map(|page| Line::new("GET", page)).collect();
    lines.extend(["/", "/v1/nothing", "/v1/queues.list"].map(|path| Line::new("OPTIONS", path)));
    lines.push(Line::new("HEAD", "/metrics"));
    lines.push(Line::new("POST", "/v1/nothing"));
    let mut calls = Calls(lines);
    for_each_call(&mut calls);
    calls.0
}

struct Calls(Vec<Line>);

impl EachCall for Calls {
    fn visit<C: Call>(&mut self) {
        let target = format!("/v1/{}", C::NAME);
        // Enough for `queues.create`: the others would be told of a field that they do not have.
        self.0.push(Line { method: "POST", target, body: r#"{"queue": "made"}"# });
    }
}

/// Sends `head`, lines that end in `\n`, on a connection of its own. `PORT` stands for the port of the server.
pub(super) async fn ask(server: &TestServer, line: &Line, head: &str) -> Got {
    let Line { method, target, body } = line;
    let length = body.len();
    let head = head.replace("PORT", &server.address().port().to_string()).replace('\n', "\r\n");
    let request = format!("{method} {target} HTTP/1.1\r\ncontent-length: {length}\r\n{head}\r\n{body}");
    let mut http = server.connect().await;
    http.stream_mut().write_all(request.as_bytes()).await.expect("the request is sent");
    if *method == "HEAD" { http.receive_head().await } else { http.receive().await }
}

pub(super) async fn get(server: &TestServer, target: &str, head: &str) -> Got {
    ask(server, &Line::new("GET", target), head).await
}
