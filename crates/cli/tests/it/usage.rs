//! What is said to who only asks, or asks wrongly: no server needed.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::world::{run, windlass};

/// All commands that do something, as the reference names them.
fn commands() -> Vec<Vec<String>> {
    let page = run(&["reference"]).ok();
    let headings = page.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(" windlass "));
    let commands = headings.map(|heading| heading.split(' ').map(str::to_owned).collect());
    let commands: Vec<Vec<String>> = commands.collect();
    let is_alone = |command: &&Vec<String>| {
        !commands.iter().any(|other| other.len() > command.len() && other.starts_with(command))
    };
    commands.iter().filter(is_alone).cloned().collect()
}

#[test]
fn every_command_shows_an_example() {
    let commands = commands();
    assert!(commands.contains(&vec!["cron".into(), "info".into()]) && commands.len() > 60, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = run(&[&words[..], &["--help"]].concat()).ok();
        let example = format!("  windlass {}", command.join(" "));
        assert!(help.contains("Example") && help.contains(&example), "{command:?}: {help}");
    }
}

#[test]
fn an_item_is_named_in_one_of_two_ways() {
    let id = "00000000-0000-8080-8000-000000000001";
    for verb in ["get", "wait", "watch", "update", "run-now", "rerun", "cancel", "explain"] {
        for name in [[].as_slice(), &["--queue", "mail"], &["--address", "a"]] {
            let wrong = run(&[&["item", verb], name].concat()).failed(2);
            assert!(wrong.contains("ID, or --queue with --address"), "{verb} {name:?}: {wrong}");
        }
        let both = run(&["item", verb, id, "--queue", "mail", "--address", "a"]).failed(2);
        assert!(both.contains("not by both"), "{verb}: {both}");
    }
}

#[test]
fn help_tells_the_exit_codes() {
    let help = run(&["--help"]).ok();
    assert!(help.contains("Exit codes:") && help.contains("130  interrupted"), "{help}");
}

#[test]
fn nothing_said_is_wrong_usage() {
    assert!(run(&[]).failed(2).contains("Usage: windlass"));
    assert!(run(&["qeue"]).failed(2).contains("queue"));
}

#[test]
fn a_variable_for_the_server_changes_nothing_of_what_is_said_of_usage() {
    let mut bare = windlass();
    let bare = bare.env("WINDLASS_URL", "http://127.0.0.1:9").output().unwrap();
    assert_eq!(String::from_utf8(bare.stderr).unwrap(), run(&[]).err);
    let mut wrong = windlass();
    let wrong = wrong.env("WINDLASS_URL", "http://127.0.0.1:9").args(["queue", "info"]).output().unwrap();
    assert_eq!(String::from_utf8(wrong.stderr).unwrap(), run(&["queue", "info"]).err);
}

#[test]
fn what_writes_the_reference_shows_up_nowhere() {
    assert!(!run(&["--help"]).ok().contains("reference"));
    assert!(!run(&["referenc"]).failed(2).contains("'reference'"));
    assert!(!run(&["completions", "bash"]).ok().contains("windlass__reference"));
}

#[test]
fn a_server_that_is_not_there_is_told_with_what_to_do() {
    // Port 9 of this machine: nobody has it.
    let err = run(&["queue", "list", "--url", "http://127.0.0.1:9"]).failed(3);
    assert!(err.contains("cannot reach http://127.0.0.1:9"), "{err}");
    assert!(err.contains("windlass serve") && err.contains("--url"), "{err}");
}

#[test]
fn a_failure_is_one_json_document_for_programs() {
    let err = run(&["queue", "list", "--json", "--url", "http://127.0.0.1:9"]).failed(3);
    let document: serde_json::Value = serde_json::from_str(&err).unwrap();
    assert_eq!(document["error"]["code"], "unavailable");
    assert_eq!(document["error"]["details"]["outcome"], "not_applied");
}

#[test]
fn an_address_that_cannot_be_used_is_wrong_usage() {
    let err = run(&["queue", "list", "--url", "https://localhost"]).failed(2);
    assert!(err.contains("https"), "{err}");
}

#[test]
fn a_payload_that_is_nearly_json_is_not_sent() {
    let err = run(&["produce", "mail", "{a: 1}"]).failed(2);
    assert!(err.contains("not valid JSON") && err.contains("--as utf8"), "{err}");
}

#[test]
fn an_item_without_a_permit_is_not_sent() {
    let err = run(&["complete", "mail", "33026d08-bd35-8980-8000-000000000001"]).failed(2);
    assert!(err.contains("windlass lease"), "{err}");
}

#[test]
fn shells_get_their_completions() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completions", shell]).ok().contains("windlass"));
    }
}

#[test]
fn the_configuration_tells_where_each_value_comes_from() {
    let shown = run(&["config", "--limits-connections", "77", "--insecure"]).ok();
    assert!(shown.contains("# From: flag --limits-connections\nconnections = 77\n"), "{shown}");
    let document = run(&["config", "--limits-connections", "77", "--insecure", "--json"]).json();
    assert_eq!(document["limits.connections"]["value"], 77);
    assert_eq!(document["limits.connections"]["from"], "flag --limits-connections");
    assert_eq!(document["insecure"]["value"], true);
    assert_eq!(document["listen"]["from"], "default");
}

#[test]
fn a_wrong_setting_is_wrong_usage() {
    let err = run(&["serve", "--durability", "sometimes"]).failed(2);
    assert!(err.contains("always") && err.contains("--durability"), "{err}");
    let err = run(&["serve", "--listen", "0.0.0.0:0"]).failed(2);
    assert!(err.contains("--insecure"), "{err}");
}

#[test]
fn a_server_of_ones_own_is_not_measured_where_another_is_named() {
    let err = run(&["bench", "--engine", "--url", "http://127.0.0.1:9"]).failed(2);
    assert!(err.contains("--engine") && err.contains("--url"), "{err}");
}

/// Takes one connection, reads what is asked, and says this.
fn stand_in(answer: &'static str) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut asked = [0; 8192];
        let read = connection.read(&mut asked).unwrap();
        assert!(read > 0);
        connection.write_all(answer.as_bytes()).unwrap();
    });
    (url, answering)
}

#[test]
fn an_answer_that_never_comes_leaves_the_outcome_unknown() {
    let (url, answering) = stand_in("");
    let err = run(&["produce", "mail", "1", "--url", &url]).failed(4);
    assert!(err.contains("may have been done"), "{err}");
    answering.join().unwrap();
}

#[test]
fn a_server_that_cannot_serve_now_has_done_nothing() {
    let body = r#"{"error":{"code":"unavailable","message":"loading","details":{"outcome":"not_applied"}}}"#;
    let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let (url, answering) = stand_in(answer.leak());
    let err = run(&["produce", "mail", "1", "--url", &url]).failed(3);
    assert_eq!(err, "error: loading (unavailable)\n");
    answering.join().unwrap();
}

#[test]
fn a_foreign_server_has_done_nothing_to_who_only_asked() {
    for asked in [["queue", "list"].as_slice(), &["queue", "info", "mail"]] {
        let head = "HTTP/1.1 501 Not Implemented\r\ncontent-type: text/html\r\nconnection: close\r\n";
        let answer = format!("{head}content-length: 4\r\n\r\n<p>?");
        let (url, answering) = stand_in(answer.leak());
        let err = run(&[asked, &["--url", &url]].concat()).failed(3);
        assert!(err.contains("not Windlass's (status 501)") && !err.contains("may have been"), "{err}");
        answering.join().unwrap();
    }
}
