//! Panics of a process that has a server's log: each is one line of the log. The process is this test binary, started anew
//! for one of its own tests, because the hook for panics belongs to the whole process.

use std::process::Stdio;
use std::thread;

use tokio::process::Command;
use tokio::time::timeout;
use windlass_server::config::{self, RawConfig};
use windlass_server::telemetry;

use crate::full_pipe::FullPipe;
use crate::server_process::PATIENCE;

/// Set for the process that is to panic, to the format of its log.
const FORMAT: &str = "PANIC_LOG_FORMAT";
/// Set for the process that is to panic, to the level of its log.
const LEVEL: &str = "PANIC_LOG_LEVEL";
const MESSAGE: &str = "first line\nsecond \u{1b}[2J line";

/// Runs a test of this file in a process of its own, for [`panic_if_asked`].
fn process_of(test: &str, format: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test binary"));
    command.args(["--exact", &format!("panics::{test}"), "--nocapture"]);
    command.env(FORMAT, format).env("RUST_BACKTRACE", "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// In the process that is to panic: a thread panics, and `true` is returned.
fn panic_if_asked() -> bool {
    let Ok(format) = std::env::var(FORMAT) else { return false };
    let log_level = std::env::var(LEVEL).ok().map(Into::into);
    let raw = RawConfig { log_format: Some(format.into()), log_level, ..RawConfig::default() };
    let config = config::load(raw, None, std::iter::empty()).expect("a good configuration");
    let _log = telemetry::init(&config).expect("nothing has set up a log before");
    let thread = thread::Builder::new().name("doomed".to_owned()).spawn(|| panic!("{MESSAGE}"));
    thread.expect("a thread").join().expect_err("the thread panics");
    true
}

async fn log_of(test: &str, format: &str) -> String {
    let ended = timeout(PATIENCE, process_of(test, format).output()).await.expect("the process ends");
    let ended = ended.expect("our own child can be waited for");
    assert_eq!(ended.status.code(), Some(0));
    String::from_utf8(ended.stderr).expect("text")
}

#[tokio::test]
async fn a_panic_is_one_line_of_text() {
    if panic_if_asked() {
        return;
    }
    let log = log_of("a_panic_is_one_line_of_text", "text").await;
    assert_eq!(log.lines().count(), 1, "{log}");
    let place = format!("place=\"{}:", file!());
    for part in [" ERROR ", "thread=\"doomed\"", &place, &format!("panic={MESSAGE:?}"), "backtrace=\""] {
        assert!(log.contains(part), "{part} in {log}");
    }
}

#[tokio::test]
async fn a_panic_is_one_line_of_json() {
    if panic_if_asked() {
        return;
    }
    let log = log_of("a_panic_is_one_line_of_json", "json").await;
    assert_eq!(log.lines().count(), 1, "{log}");
    let line: serde_json::Value = serde_json::from_str(&log).expect("a document");
    assert_eq!((&line["level"], &line["thread"]), (&"ERROR".into(), &"doomed".into()));
    assert_eq!(line["panic"], MESSAGE);
}

#[tokio::test]
async fn a_panic_is_logged_whatever_the_level() {
    if panic_if_asked() {
        return;
    }
    for level in ["off", "windlass_engine=debug"] {
        let mut process = process_of("a_panic_is_logged_whatever_the_level", "text");
        let ended = timeout(PATIENCE, process.env(LEVEL, level).output()).await.expect("the process ends");
        let log = String::from_utf8(ended.expect("our own child can be waited for").stderr).expect("text");
        assert!(log.contains("a thread panicked"), "{level}: {log}");
    }
}

#[tokio::test]
async fn a_panic_does_not_wait_for_a_reader_of_the_log() {
    if panic_if_asked() {
        return;
    }
    let stderr = FullPipe::new();
    let mut process = process_of("a_panic_does_not_wait_for_a_reader_of_the_log", "text");
    let mut process = process.stderr(stderr.stdio()).spawn().expect("the process starts");
    let ended = timeout(PATIENCE, process.wait()).await.expect("the process ends");
    assert_eq!(ended.expect("our own child can be waited for").code(), Some(0));
}
