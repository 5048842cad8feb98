//! Requests that the gate refuses, on every path there is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::asking::{Line, all_lines, ask};
use crate::http::Got;
use crate::world::TestServer;

const PREFLIGHT: &str = "access-control-request-method: POST\n";

/// A head, and the refusal that it gets everywhere.
struct Attack {
    head: &'static str,
    status: u16,
    code: &'static str,
    details: Value,
}

fn denied(head: &'static str, details: Value) -> Attack {
    Attack { head, status: 403, code: "permission_denied", details }
}

fn bad(head: &'static str) -> Attack {
    Attack { head, status: 400, code: "invalid_argument", details: Value::Null }
}

fn attacks() -> [Attack; 12] {
    let rebound = || json!({"host": "rebound.example"});
    [
        denied("host: rebound.example:PORT\n", rebound()),
        denied(
            "host: rebound.example:PORT\norigin: http://rebound.example:PORT\nsec-fetch-site: same-origin\n",
            rebound(),
        ),
        denied("host: rebound.example\nforwarded: for=192.0.2.1\n", rebound()),
        denied(
            "host: localhost:PORT\norigin: http://elsewhere.example\n",
            json!({"origin": "http://elsewhere.example"}),
        ),
        denied("host: localhost:PORT\norigin: null\n", json!({"origin": "null"})),
        denied(
            "host: localhost:PORT\nsec-fetch-site: cross-site\nsec-fetch-mode: no-cors\n",
            json!({"origin": "cross-site"}),
        ),
        denied("host: localhost:PORT\nx-forwarded-for: 192.0.2.1\n", Value::Null),
        denied("host: localhost:PORT\nforwarded: for=192.0.2.1\n", Value::Null),
        bad(""),
        bad("host: localhost:PORT\nhost: localhost:PORT\n"),
        bad("host: \n"),
        bad("host: local host\norigin: http://elsewhere.example\n"),
    ]
}

fn check(line: &Line, attack: &Attack, got: &Got) {
    let place = format!("{} {} with {:?}", line.method, line.target, attack.head);
    assert_eq!(got.status, attack.status, "{place}");
    assert_eq!(got.headers.get("access-control-allow-origin"), None, "{place}");
    if line.method != "HEAD" {
        let error = got.json()["error"].clone();
        assert_eq!(error["code"], attack.code, "{place}");
        assert_eq!(error["details"], attack.details, "{place}: {error}");
        assert_eq!(got.json().as_object().map(serde_json::Map::len), Some(1), "{place}");
    }
}

#[tokio::test]
async fn a_request_that_should_not_come_is_refused_on_every_path() {
    let server = TestServer::start().await;
    let mut refused: BTreeMap<(String, u16), u64> = BTreeMap::new();
    for line in all_lines() {
        for attack in attacks() {
            let head = format!("{}{PREFLIGHT}", attack.head);
            let got = ask(&server, &line, &head).await;
            check(&line, &attack, &got);
            *refused.entry((line.call().to_owned(), attack.status)).or_default() += 1;
        }
    }
    let mut http = server.connect().await;
    assert_eq!(http.ok("queues.list", json!({})).await["queues"], json!([]), "nothing was made");
    let metrics = http.metrics().await;
    for ((call, code), count) in refused {
        let sample = format!("windlass_http_requests_total{{call=\"{call}\",code=\"{code}\"}} {count}\n");
        assert!(metrics.contains(&sample), "{sample}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_gate_comes_in_the_encoding_of_the_request() {
    use windlass_api::PROTOBUF;
    use windlass_api::error::ErrorReply;

    let server = TestServer::start().await;
    let line = Line::new("POST", "/v1/queues.list");
    let head = "host: rebound.example\ncontent-type: application/protobuf\n";
    let got = ask(&server, &line, head).await;
    assert_eq!((got.status, got.headers["content-type"].as_str()), (403, PROTOBUF));
    let reply: ErrorReply = crate::http::decode(PROTOBUF, &got.body);
    assert_eq!(reply.error.code, "permission_denied");
    assert_eq!(reply.error.details.and_then(|details| details.host).as_deref(), Some("rebound.example"));
}
