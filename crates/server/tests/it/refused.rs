//! What the listener refuses before it is a request: counted, and named as every other reply.

use tokio::io::AsyncWriteExt;

use crate::http::Got;
use crate::world::TestServer;

async fn answer(server: &TestServer, bytes: &[u8]) -> Got {
    let mut http = server.connect().await;
    http.stream_mut().write_all(bytes).await.expect("sent");
    http.receive().await
}

#[tokio::test]
async fn refusals_of_the_listener_are_counted_among_the_requests() {
    let server = TestServer::start().await;
    let large = format!("GET /health HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(40_000));
    assert_eq!(answer(&server, large.as_bytes()).await.status, 431);
    for _ in 0..2 {
        assert_eq!(answer(&server, b"no request\r\n\r\n").await.status, 400);
    }
    let page = String::from_utf8(server.connect().await.get("/metrics").await.body).expect("text");
    for line in [
        "windlass_http_requests_total{call=\"refused\",code=\"400\"} 2",
        "windlass_http_requests_total{call=\"refused\",code=\"431\"} 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}: {page}");
    }
}

#[tokio::test]
async fn request_ids_have_one_form_and_none_comes_twice() {
    let server = TestServer::start().await;
    let mut ids = Vec::new();
    for bytes in [
        "no request\r\n\r\n",
        "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /nowhere HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "also no request\r\n\r\n",
        "POST /v1/queues.list HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}",
    ] {
        let got = answer(&server, bytes.as_bytes()).await;
        let id = got.headers["windlass-request-id"].clone();
        assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        ids.push(id);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}
