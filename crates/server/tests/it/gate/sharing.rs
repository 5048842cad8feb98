//! Pages of `allowed_origins` in a browser: preflights, and replies that they may read (CORS).

use serde_json::json;
use windlass_server::config::RawConfig;

use super::asking::{EVENTS, Line, ask, get};
use crate::http::Got;
use crate::world::TestServer;

const OWN: &str = "host: localhost:PORT\n";
const APP: &str =
    "host: localhost:PORT\norigin: https://app.example\nsec-fetch-site: cross-site\nsec-fetch-mode: cors\n";

async fn sharing_server() -> TestServer {
    let allowed_origins = Some("https://other.example, https://app.example".into());
    TestServer::configured(RawConfig { allowed_origins, ..RawConfig::default() }).await
}

/// With `https://app.example`; else with nobody.
fn is_shared(got: &Got) -> bool {
    let header = |name: &str| got.headers.get(name).map(String::as_str);
    assert_eq!(header("access-control-allow-credentials"), None);
    match (header("access-control-allow-origin"), header("access-control-expose-headers")) {
        (Some("https://app.example"), Some("windlass-request-id, windlass-commit, retry-after")) => true,
        (None, None) => false,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_preflight_of_an_allowed_origin_is_answered_on_every_path() {
    let server = sharing_server().await;
    let head =
        format!("{APP}access-control-request-method: POST\naccess-control-request-headers: content-type\n");
    for path in ["/v1/queue.produce", "/v1/nothing", "/metrics", EVENTS, "/"] {
        let got = ask(&server, &Line::new("OPTIONS", path), &head).await;
        assert_eq!((got.status, got.body.len(), is_shared(&got)), (200, 0, true), "{path}");
        assert_eq!(got.headers["access-control-allow-methods"], "GET, POST");
        assert_eq!(got.headers["access-control-allow-headers"], "accept, content-type, last-event-id");
        assert_eq!(got.headers["vary"], "Origin");
    }
}

#[tokio::test]
async fn an_options_request_that_is_no_preflight_is_none_of_the_methods() {
    let server = sharing_server().await;
    let asks = "access-control-request-method: POST\n";
    let options = Line::new("OPTIONS", "/v1/queues.list");
    let own = format!("{OWN}origin: http://localhost:PORT\n{asks}");
    for head in [APP.to_owned(), format!("{OWN}{asks}"), own] {
        let got = ask(&server, &options, &head).await;
        assert_eq!(
            (got.status, got.headers.contains_key("access-control-allow-methods")),
            (405, false),
            "{head}"
        );
    }
}

#[tokio::test]
async fn replies_errors_and_streams_are_shared_with_an_allowed_origin() {
    let server = sharing_server().await;
    let mut http = server.connect().await;
    http.ok("queues.create", json!({"queue": "q"})).await;
    let made = http.ok("queue.produce", json!({"queue": "q", "items": [{"utf8": "x"}]})).await;
    let stream = format!("/v1/item.events?id={}", made["items"][0]["id"].as_str().expect("an id"));
    let call = |name: &str, body| Line { method: "POST", target: format!("/v1/{name}"), body };
    for (line, head, status) in [
        (call("queues.list", "{}"), "", 200),
        (call("queues.create", r#"{"queue": "q"}"#), "", 409),
        (call("queues.list", "["), "", 400),
        (call("nothing", "{}"), "", 404),
        (call("item.events", ""), "", 405),
        (call("queues.list", "{}"), "content-type: text/plain\n", 415),
        (call("queues.list", "{}"), "forwarded: for=192.0.2.1\n", 403),
        (Line::new("GET", "/metrics"), "", 200),
        (Line::new("GET", &stream), "", 200),
    ] {
        let got = ask(&server, &line, &format!("{APP}{head}")).await;
        assert_eq!((got.status, is_shared(&got)), (status, true), "{line:?}");
        assert_eq!(got.headers["vary"], "Origin", "{line:?}");
        assert!(got.headers.contains_key("windlass-request-id"), "{line:?}");
    }
}

#[tokio::test]
async fn replies_are_shared_with_nobody_else() {
    let server = sharing_server().await;
    for (head, status) in [
        ("", 200),
        ("origin: http://localhost:PORT\n", 200),
        ("origin: https://elsewhere.example\n", 403),
        ("origin: http://app.example\n", 403),
        ("origin: null\n", 403),
        ("origin: https://app.example\norigin: https://app.example\n", 403),
    ] {
        let got = get(&server, "/metrics", &format!("{OWN}{head}")).await;
        assert_eq!((got.status, is_shared(&got)), (status, false), "{head}");
        assert_eq!(got.headers["vary"], "Origin", "caches keep replies apart by origin: {head}");
    }
    let closed = TestServer::start().await;
    let got = get(&closed, "/metrics", OWN).await;
    assert_eq!(got.headers.get("vary"), None, "no reply differs by origin");
}

#[tokio::test]
async fn a_trusted_proxy_passes_on_requests_for_the_public_url() {
    let flags = |proxies: &str| RawConfig {
        public_url: Some("https://queue.example".into()),
        trusted_proxies: Some(proxies.into()),
        ..RawConfig::default()
    };
    let head = "host: queue.example\norigin: https://queue.example\nx-forwarded-for: 192.0.2.1\n";
    let line = Line { method: "POST", target: "/v1/queues.list".to_owned(), body: "{}" };
    let trusting = TestServer::configured(flags("10.0.0.0/8, 127.0.0.0/8")).await;
    assert_eq!(ask(&trusting, &line, head).await.status, 200);
    let other = TestServer::configured(flags("127.0.0.2")).await;
    let got = ask(&other, &line, head).await;
    assert_eq!((got.status, got.code().as_str()), (403, "permission_denied"));
    assert!(
        got.message().contains("(127.0.0.1)") && got.message().contains("`trusted_proxies`"),
        "{}",
        got.message()
    );
}
