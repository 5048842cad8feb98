//! Commands that tell how it goes, and ask.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::world::{Going, Server, run};

/// With leases that no heartbeat looks after while a test runs.
fn server(queue: &str) -> Server {
    Server::with_queue(queue, &["--lease-timeout", "1h", "--retry-initial", "1h"])
}

/// Where `windlass` is, for a shell.
fn path() -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap();
    format!("{}:{}", program.display(), std::env::var("PATH").unwrap())
}

/// Of what `work` says of itself.
fn example_that_asks() -> String {
    let help = run(&["work", "--help"]).ok();
    let start = help.find("  windlass work invoices").unwrap_or_else(|| panic!("no example: {help}"));
    let quoted = help[start..].splitn(3, '\'').collect::<Vec<_>>();
    format!("{}'{}'", quoted[0].trim_start(), quoted[1])
}

fn until_state(watch: &mut Going, state: &str) {
    loop {
        let line = watch.line();
        let frame: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        if frame["event"] == "state" && frame["data"]["state"] == state {
            return;
        }
    }
}

#[test]
fn the_example_tells_how_it_goes_asks_and_goes_on_with_the_answer() {
    let server = server("invoices");
    let directory = tempfile::TempDir::new().unwrap();
    let id = server.run(&["produce", "invoices", "{\"total\": 7}"]).ok().trim().to_owned();
    let mut watch = server.begin(&["item", "watch", &id, "--json"]);
    assert!(watch.line().contains("snapshot"));
    // What the example takes to be there.
    let book = directory.path().join("book");
    std::fs::write(&book, "#!/bin/sh\necho \"booked $1\"\n").unwrap();
    std::fs::set_permissions(&book, Permissions::from_mode(0o755)).unwrap();
    let (example, place) = (example_that_asks(), directory.path().display());
    let going = server.begin_shell(&format!("cd '{place}'; export PATH='{}'; exec {example}", path()));
    until_state(&mut watch, "suspended");
    let asked = server.item(&id);
    assert_eq!((&asked["attempts"], &asked["event_count"]), (&json!(0), &json!(1)));
    assert_eq!(asked["reason"], "to be approved");
    server.run(&["item", "resume", &id, "by ada"]).ok();
    until_state(&mut watch, "completed");
    let events = server.run(&["item", "watch", &id, "--after", "0", "--json"]).ok();
    let progress: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    assert_eq!(progress["event"], "progress");
    assert_eq!(progress["data"]["json"], json!({"done": 1, "total": 2}));
    going.signal(Signal::TERM);
    let ended = going.end();
    assert!(ended.out.contains("booked by ada\n"), "{ended:?}");
    assert!(!ended.err.contains("could not be told"), "{ended:?}");
    assert!(ended.ok().ends_with("1 item completed, 1 waiting for an answer\n"));
}

#[test]
fn a_command_whose_item_was_never_asked_about_has_no_answer() {
    let server = server("mail");
    server.run(&["produce", "mail", "1"]).ok();
    let mut worker = server.command();
    // Of the worker's own it is told nothing.
    worker.env("WINDLASS_INPUT", "x");
    let told = "echo ${WINDLASS_INPUT-none}";
    let output = worker.args(["work", "mail", "--once", "--exec", told]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "none\n1 item completed\n");
}

/// The id of an item that was answered.
fn answered(server: &Server, answer: &str) -> String {
    let id = server.run(&["produce", "mail", "1"]).ok().trim().to_owned();
    let held = server.run(&["lease", "mail", "--ids"]).ok();
    server.run(&["item", "suspend", "mail", held.trim()]).ok();
    server.run(&["item", "resume", &id, answer]).ok();
    id
}

#[test]
fn an_answer_is_told_whole_or_the_item_fails() {
    let server = server("mail");
    let largest = "x".repeat(120 << 10);
    let id = answered(&server, &largest);
    let count =
        ["work", "mail", "--once", "--result", "json", "--exec", "printf %s \"$WINDLASS_INPUT\" | wc -c"];
    server.run(&count).ok();
    assert_eq!(server.item(&id)["result"]["json"], largest.len());
    let id = answered(&server, &format!("{largest}x"));
    let ended = server.run(&count);
    assert_eq!(ended.out, "0 items completed, 1 failed for good\n");
    assert!(ended.failed(1).contains("WINDLASS_INPUT at most 122880"));
    let failed = server.item(&id);
    assert_eq!((&failed["state"], &failed["error"]["code"]), (&json!("failed"), &json!("bad_input")));
}
