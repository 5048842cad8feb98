//! Web pages that try to read or change a server of this machine, against the real program with its default settings.

use serde_json::{Value, json};
use windlass_client::QueueClient;
use windlass_client::api::items::NewItem;

use crate::raw_http::RawReply;
use crate::server_process::ServerProcess;

/// Headers of a request, with `PORT` for the server's port, and `details` of the refusal.
const FOREIGN: [(&str, (&str, &str)); 4] = [
    ("host: rebound.example:PORT\r\n", ("host", "rebound.example")),
    // A page whose name was made to lead to this machine is of the same origin as the server, as browsers see it.
    (
        "host: rebound.example:PORT\r\norigin: http://rebound.example:PORT\r\nsec-fetch-site: same-origin\r\n",
        ("host", "rebound.example"),
    ),
    ("host: localhost:PORT\r\norigin: http://elsewhere.example\r\n", ("origin", "http://elsewhere.example")),
    ("host: 127.0.0.1:PORT\r\nsec-fetch-site: cross-site\r\n", ("origin", "cross-site")),
];

/// Headers of requests that the server takes without any setting.
const OWN: [&str; 4] = [
    "host: localhost:PORT\r\n",
    "host: localhost\r\n",
    "host: 127.0.0.1:PORT\r\n",
    "host: localhost:PORT\r\norigin: http://localhost:PORT\r\nsec-fetch-site: same-origin\r\n",
];

/// A request without its headers.
struct Line {
    method: &'static str,
    target: String,
    body: &'static str,
}

impl Line {
    fn get(target: impl Into<String>) -> Self {
        Self { method: "GET", target: target.into(), body: "" }
    }

    async fn ask(&self, server: &ServerProcess, headers: &str) -> RawReply {
        let Self { method, target, body } = self;
        let (_, port) = server.address().rsplit_once(':').expect("an address with a port");
        let headers = headers.replace("PORT", port);
        let length = body.len();
        let request =
            format!("{method} {target} HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n{body}");
        RawReply::ask(server.address(), &request).await
    }
}

/// A page, the metrics, a call by `GET` that shows the item, and a call by `POST` that produces an item.
fn lines(item: &str) -> [Line; 4] {
    let body = r#"{"queue": "work", "items": [{"utf8": "by a page"}]}"#;
    [
        Line::get("/"),
        Line::get("/metrics"),
        Line::get(format!("/v1/item.events?id={item}")),
        Line { method: "POST", target: "/v1/queue.produce".to_owned(), body },
    ]
}

async fn waiting(queue: &QueueClient) -> u64 {
    queue.stats().await.expect("the queue is there").counts.waiting
}

#[tokio::test]
async fn requests_of_foreign_hosts_and_pages_are_refused_and_those_of_this_machine_are_taken() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = ServerProcess::start(directory.path()).await;
    let queue = server.client().queue("work");
    queue.create().await.expect("created");
    let item = NewItem { utf8: Some("secret".to_owned()), ..NewItem::default() };
    let item = queue.produce([item]).await.expect("produced").remove(0).id.expect("it is new");

    for line in lines(&item) {
        for (headers, (name, value)) in FOREIGN {
            let place = format!("{} {} with {headers:?}", line.method, line.target);
            let reply = line.ask(&server, headers).await;
            assert_eq!(reply.status(), 403, "{place}");
            let body: Value = serde_json::from_str(&reply.body().await).expect("an error");
            assert_eq!(body["error"]["code"], "permission_denied", "{place}: {body}");
            assert_eq!(body["error"]["details"], json!({ name: value }), "{place}: {body}");
        }
    }
    assert_eq!(waiting(&queue).await, 1, "a refused call produces nothing");

    for line in lines(&item) {
        for headers in OWN {
            let status = line.ask(&server, headers).await.status();
            assert_eq!(status, 200, "{} {} with {headers:?}", line.method, line.target);
        }
    }
    assert_eq!(waiting(&queue).await, 1 + OWN.len() as u64);
    server.kill().await;
}
