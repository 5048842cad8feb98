//! `windlass serve` while nobody reads its log.

use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{ChildStderr, Command};
use tokio::time::timeout;

use crate::full_pipe::FullPipe;
use crate::raw_http::RawReply;
use crate::server_process::{Metrics, PATIENCE, ServerProcess};
use crate::world::windlass;

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

/// A client chooses the path of its request, and whoever reads the log may do so in a terminal.
#[tokio::test]
async fn the_path_of_a_request_is_escaped_in_the_log() {
    let directory = TempDir::new().unwrap();
    let (server, log) = start(&directory).await;
    let request = "GET /\u{9b}31m HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(RawReply::ask(server.address(), request).await.status(), 404);
    let mut lines = BufReader::new(log).lines();
    let line = loop {
        let line = timeout(PATIENCE, lines.next_line()).await.expect("the request is logged");
        let line = line.expect("the pipe can be read").expect("the server runs");
        if line.contains("status=404") {
            break line;
        }
    };
    assert!(line.contains(r#"path="/\u{9b}31m""#), "{line}");
}

/// The status of `windlass serve` with a full, unread pipe as its stderr.
async fn status_of_start(flags: &[&str]) -> Option<i32> {
    let stderr = FullPipe::new();
    let mut command = Command::from(windlass());
    command.arg("serve").args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.stdio());
    let mut child = command.kill_on_drop(true).spawn().expect("the program starts");
    let ended = timeout(PATIENCE, child.wait()).await;
    ended
        .unwrap_or_else(|_| panic!("{flags:?} does not end"))
        .expect("our own child can be waited for")
        .code()
}

#[tokio::test]
async fn a_start_that_fails_ends_with_its_status_while_nobody_reads() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let data = data.to_str().expect("a path of letters");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = taken.local_addr().expect("bound").to_string();
    assert_eq!(status_of_start(&["--data", data, "--listen", &taken]).await, Some(1));
    assert_eq!(status_of_start(&["--data", data, "--limits-memory", "much"]).await, Some(2));
    assert_eq!(status_of_start(&["--nosuch-flag"]).await, Some(2));
}

/// A free port of an address that no other test uses, so that the port is still free when the server takes it.
fn address_of_this_test() -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{middle}.{low}:0", high | 0x80);
    TcpListener::bind(address).and_then(|listener| listener.local_addr()).expect("a loopback address")
}

#[tokio::test]
async fn a_server_whose_stdout_and_stderr_are_one_full_pipe_serves_and_ends_by_sigterm() {
    let directory = TempDir::new().unwrap();
    let (address, full) = (address_of_this_test(), FullPipe::new());
    let flags = ["--log-level".into(), "debug".into()];
    let server = ServerProcess::start_unheard(&directory.path().join("data"), address, &full, &flags).await;
    flood(&server).await;
    assert!(Metrics::of(&server.client()).await.sum("windlass_log_lines_dropped_total") > 0);
    server.signal(Signal::TERM);
    assert_eq!(server.ended().await.code(), Some(0));
}
