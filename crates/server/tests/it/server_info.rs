//! What a server tells of itself.

use serde_json::json;
use windlass_api::PROTOBUF;
use windlass_server::config::RawLimits;

use crate::world::TestServer;

#[tokio::test]
async fn a_server_tells_its_version_its_stores_and_its_limits() {
    let limits = RawLimits { queues: Some(7.into()), memory: Some("4GiB".into()), ..RawLimits::default() };
    let server = TestServer::with(limits).await;
    let mut http = server.connect().await;
    let mut info = http.ok("server.info", json!({})).await;
    let started_at = info["server"]["started_at"].take();
    let queue = http.ok("queues.create", json!({"queue": "q"})).await;
    assert!(started_at.as_str().is_some_and(|time| time.ends_with('Z')), "{started_at} {queue}");
    let bytes_free = info["server"]["stores"][0]["bytes_free"].take();
    assert!(bytes_free.as_u64().is_some_and(|bytes| bytes > 0), "{bytes_free}");
    let expected = json!({"server": {
        "version": env!("CARGO_PKG_VERSION"),
        "started_at": null,
        "stores": [{"store": "default", "kind": "log", "state": "open", "bytes_free": null}],
        "limits": {
            "connections": 16384, "waiting_requests": 16384, "payload_bytes": 1 << 20, "body_bytes": 16 << 20,
            "bytes_in_flight": 256 << 20, "queues": 7, "partitions": 100_000, "memory": 4_u64 << 30,
        },
    }});
    assert_eq!(info, expected);
    assert_eq!(http.ok("server.info", json!({})).await["server"]["started_at"], started_at, "it stays");
}

#[tokio::test]
async fn a_limit_that_is_off_is_left_out() {
    let server = TestServer::start().await;
    let mut http = server.connect().await;
    let info = http.ok("server.info", json!({})).await;
    assert_eq!(info["server"]["limits"].get("memory"), None);
    assert_eq!(info["server"].get("node"), None);
    let got = http.request("POST", "/v1/server.info", &[("content-type", PROTOBUF)], b"").await;
    assert_eq!(got.status, 200);
}
