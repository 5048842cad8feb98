//! `windlass serve` while nobody reads its log.

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::ChildStderr;
use tokio::time::timeout;

use crate::server_process::{Metrics, PATIENCE, ServerProcess};

/// A server that logs each request, and whose log is piped here.
async fn start(directory: &TempDir) -> (ServerProcess, ChildStderr) {
    let flags = ["--log-level".into(), "debug".into()];
    ServerProcess::start_piped(&directory.path().join("data"), &flags).await
}

/// Makes the server log more than the pipe and the server's own queue hold together: 400 lines of 8 KiB.
async fn flood(server: &ServerProcess) {
    let mut connection = TcpStream::connect(server.address()).await.expect("the server listens");
    let request = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(8 << 10));
    let mut reply = [0; 4096];
    for _ in 0..400 {
        connection.write_all(request.as_bytes()).await.expect("the server reads");
        let read = timeout(PATIENCE, connection.read(&mut reply)).await.expect("the server answers");
        assert!(reply[..read.expect("the connection stays")].starts_with(b"HTTP/1.1 404 "));
    }
}

#[tokio::test]
async fn a_server_whose_log_is_not_read_goes_on_and_ends_by_sigterm() {
    let directory = TempDir::new().unwrap();
    let (server, _unread) = start(&directory).await;
    flood(&server).await;
    assert!(Metrics::of(&server.client()).await.sum("windlass_log_lines_dropped_total") > 0);
    server.signal(Signal::TERM);
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_log_that_is_read_again_tells_how_many_lines_are_missing() {
    let directory = TempDir::new().unwrap();
    let (server, log) = start(&directory).await;
    flood(&server).await;
    let dropped = Metrics::of(&server.client()).await.sum("windlass_log_lines_dropped_total");
    let mut lines = BufReader::new(log).lines();
    let told = loop {
        let line = timeout(PATIENCE, lines.next_line()).await.expect("the notice comes");
        let line = line.expect("the pipe can be read").expect("the server runs");
        if let Some((_, told)) = line.split_once("dropped=") {
            break told.to_owned();
        }
    };
    // The scrape itself was logged too, and found the queue full as well.
    let told: u64 = told.parse().expect("a number");
    assert!((dropped..=dropped + 1).contains(&told), "{told} told, {dropped} counted");
}
