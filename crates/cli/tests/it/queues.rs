use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fake_server;
use crate::world::{Server, run};

#[test]
fn a_queue_is_made_changed_shown_and_deleted() {
    let server = Server::start();
    let made = server.run(&["queue", "create", "mail", "--retry-initial", "5s", "--partitions", "2"]).ok();
    assert!(made.contains("partitions     2\n") && made.contains("5s, then × 2 up to 1h"), "{made}");
    let args = ["queue", "update", "mail", "--max-attempts", "0", "--reference", "note", "--json"];
    let changed = server.run(&args).json();
    assert_eq!(changed["queue"]["max_attempts"], 0);
    assert_eq!(changed["queue"]["retry"]["initial"], "5s");
    let shown = server.run(&["queue", "info", "mail"]).ok();
    assert!(
        shown.contains("max attempts   no limit\n") && shown.contains("reference      note\n"),
        "{shown}"
    );
    assert_eq!(server.run(&["queue", "delete", "mail"]).ok(), "queue mail is deleted\n");
    let err = server.run(&["queue", "info", "mail"]).failed(1);
    assert!(err.starts_with("error: ") && err.contains("(not_found)"), "{err}");
}

#[test]
fn a_queue_that_may_be_there_is_made_once_and_must_be_the_same() {
    let server = Server::start();
    let create =
        ["queue", "create", "mail", "--max-attempts", "5", "--meta", "{\"team\": \"post\"}", "--exists-ok"];
    let made = server.run(&create).ok();
    assert_eq!(server.run(&create).ok().lines().next(), made.lines().next());
    let other = server.run(&["queue", "create", "mail", "--max-attempts", "6", "--exists-ok"]).failed(1);
    assert!(other.contains("`max_attempts`") && other.contains("(already_exists)"), "{other}");
    assert!(server.run(&["queue", "create", "mail"]).failed(1).contains("(already_exists)"));
}

#[test]
fn meta_and_times_of_a_queue_are_shown() {
    let server = Server::start();
    let made = server.run(&["queue", "create", "mail", "--meta", "{\"team\": \"post\"}"]).ok();
    assert!(made.contains("meta           {\"team\": \"post\"}\n"), "{made}");
    let shown = server.run(&["queue", "info", "mail"]).ok();
    assert!(shown.contains("\ncreated        20") && shown.contains("\nupdated        20"), "{shown}");
    let document = server.run(&["queue", "info", "mail", "--json"]).json();
    assert_eq!(document["queue"]["meta"]["team"], "post");
    assert_eq!(document["queue"]["created_at"], document["queue"]["updated_at"]);
    let changed = server.run(&["queue", "update", "mail", "--meta", "null"]).ok();
    assert!(!changed.contains("meta"), "{changed}");
    let wrong = server.run(&["queue", "update", "mail", "--meta", "{team"]).failed(2);
    assert!(wrong.contains("--meta") && wrong.contains("not JSON"), "{wrong}");
    assert!(server.run(&["queue", "update", "mail", "--meta", "[]"]).failed(1).contains("a JSON object"));
}

#[test]
fn a_list_shows_what_is_in_each_queue() {
    let server = Server::start();
    let none = server.run(&["queue", "list"]);
    assert!(none.err.contains("windlass queue create"), "{none:?}");
    assert_eq!(none.ok(), "");
    server.run(&["queue", "create", "b"]).ok();
    server.run(&["queue", "create", "a"]).ok();
    server.run(&["produce", "b", "1"]).ok();
    let list = server.run(&["queue", "list"]).ok();
    let lines: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(lines[0], ["QUEUE", "WAITING", "SCHEDULED", "LEASED"]);
    assert_eq!(lines[1..], [["a", "0", "0", "0"], ["b", "1", "0", "0"]]);
    let document = server.run(&["queue", "list", "--json"]).json();
    assert_eq!(document["queues"][1]["counts"]["waiting"], 1);
}

#[test]
fn a_queue_with_items_is_deleted_only_by_force() {
    let server = Server::with_queue("mail", &[]);
    server.run(&["produce", "mail", "1"]).ok();
    assert!(server.run(&["queue", "delete", "mail"]).failed(1).contains("(not_empty)"));
    server.run(&["queue", "delete", "mail", "--force"]).ok();
}

#[test]
fn a_clear_takes_what_it_is_told() {
    let server = Server::with_queue("mail", &[]);
    server.run(&["produce", "mail", "1"]).ok();
    server.run(&["produce", "mail", "2", "--delay", "1h", "--kind", "later"]).ok();
    let stats = server.run(&["queue", "stats", "mail"]).ok();
    assert!(stats.contains("waiting           1\n") && stats.contains("scheduled         1\n"), "{stats}");
    assert!(stats.lines().any(|line| line.split_whitespace().eq(["later", "0", "1", "0"])), "{stats}");
    assert_eq!(server.run(&["queue", "clear", "mail", "--scheduled"]).ok(), "1 item cancelled\n");
    assert_eq!(server.run(&["queue", "clear", "mail"]).ok(), "1 item cancelled\n");
}

#[test]
fn both_encodings_say_the_same() {
    let server = Server::with_queue("mail", &[]);
    let said = |encoding: &str| server.run(&["queue", "info", "mail", "--encoding", encoding, "--json"]).ok();
    assert_eq!(said("json"), said("protobuf"));
}

#[test]
fn nobody_is_told_when_nobody_listens() {
    let server = Server::start();
    (0..20).for_each(|number| drop(server.run(&["queue", "create", &format!("queue-{number}")]).ok()));
    let mut command = server.command();
    command.args(["queue", "list"]).stdout(closed_pipe()).stderr(std::process::Stdio::piped());
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

/// A pipe whose reader is gone, as after `| head`.
fn closed_pipe() -> std::io::PipeWriter {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer
}

/// A server whose queue `mail` has sent one item of each kind to its dead queue.
fn with_dead_letters() -> Server {
    let server = Server::with_queue("dead", &[]);
    server.run(&["queue", "create", "mail", "--dead-queue", "dead", "--dead-timeout", "7d"]).ok();
    for kind in ["a", "b"] {
        server.run(&["produce", "mail", kind, "--kind", kind]).ok();
        let held = server.run(&["lease", "mail", "--ids"]).ok();
        server.run(&["retry", "mail", held.trim(), "--dead", "--error", "no such address"]).ok();
        // Once it can be leased it has arrived.
        let held = server.run(&["lease", "dead", "--kinds", kind, "--ids"]).ok();
        server.run(&["release", "dead", held.trim()]).ok();
    }
    server
}

#[test]
fn a_dead_letter_tells_where_it_came_from_and_is_sent_back() {
    let server = with_dead_letters();
    let listed = server.run(&["storage", "list", "dead", "--json"]).json();
    let item = server.run(&["item", "get", listed["items"][0]["id"].as_str().unwrap()]).ok();
    let origin = listed["items"][0]["origin"]["id"].as_str().unwrap();
    assert!(item.contains(&format!("came from    mail, {origin}\n")), "{item}");
    assert!(item.contains("moved for    dead after 1 attempt\n"), "{item}");
    assert!(item.contains("error there  no such address\n"), "{item}");
    assert_eq!(server.run(&["queue", "redrive", "dead", "--kind", "b"]).ok(), "1 item moved\n");
    let back = server.run(&["lease", "mail", "--json"]).json();
    assert_eq!((&back["items"][0]["kind"], &back["items"][0]["attempts"]), (&"b".into(), &1.into()));
    let err = server.run(&["queue", "redrive", "dead", "--to", "nowhere"]).failed(1);
    assert_eq!(err, "error: no queue `nowhere`: make it with `windlass queue create nowhere` (not_found)\n");
    server.run(&["queue", "create", "elsewhere"]).ok();
    let moved =
        server.run(&["queue", "redrive", "dead", "--to", "elsewhere", "--limit", "5", "--json"]).json();
    assert_eq!(moved["moved"], 1);
    assert_eq!(server.run(&["lease", "elsewhere", "--json"]).json()["items"][0]["kind"], "a");
}

#[test]
fn a_dead_queue_and_a_dead_timeout_are_shown() {
    let server = Server::with_queue("mail", &["--dead-queue", "dead", "--dead-timeout", "7d"]);
    let shown = server.run(&["queue", "info", "mail"]).ok();
    assert!(shown.contains("dead timeout   7d\n") && shown.contains("dead queue     dead\n"), "{shown}");
    let list = server.run(&["queue", "list"]).ok();
    assert!(list.lines().nth(1).unwrap().ends_with("  dead"), "{list}");
    let id = server.run(&["produce", "mail", "1", "--dead-timeout", "1h"]).ok();
    let item = server.run(&["item", "get", id.trim()]).ok();
    let expires = item.lines().find(|line| line.starts_with("expires "));
    assert!(expires.is_some_and(|line| line.contains("(in 59m")), "{item}");
    // The dead queue is not there: what dies is on its way.
    let held = server.run(&["lease", "mail", "--ids"]).ok();
    server.run(&["retry", "mail", held.trim(), "--dead"]).ok();
    let stats = server.run(&["queue", "stats", "mail"]).ok();
    assert!(stats.contains("moving            1\n"), "{stats}");
    let plain = server.run(&["queue", "create", "plain"]).ok();
    assert!(plain.contains("dead timeout   never\n") && plain.contains("dead queue     none\n"), "{plain}");
}

fn says_that_nothing_was_done(words: &str) -> bool {
    words.contains("nothing was changed") && !words.contains("may")
}

#[test]
fn a_reload_whose_outcome_the_server_does_not_know_is_told_as_nothing_done() {
    let message = "it may or may not have been done";
    let error = json!({"code": "unavailable", "message": message, "details": {"outcome": "unknown"}});
    let url = fake_server::answer("503 Service Unavailable", json!({ "error": error }).to_string());
    let failed = run(&["queue", "reload", "mail", "--url", &url]).failed(3);
    assert!(says_that_nothing_was_done(&failed), "{failed}");
    let failed = run(&["queue", "reload", "mail", "--url", &url, "--json"]).failed(3);
    let error = &serde_json::from_str::<Value>(&failed).unwrap()["error"];
    assert_eq!(error["details"]["outcome"], "not_applied", "{error}");
    // The fake server answers a change in the same words, and these stay.
    let failed = run(&["queue", "create", "mail", "--url", &url]).failed(4);
    assert!(failed.contains(message), "{failed}");
}

#[test]
fn a_faulty_partition_is_shown_with_its_store_and_error_until_a_reload_brings_it_back() {
    let directory = TempDir::new().unwrap();
    let (data, other) = (directory.path().join("data"), directory.path().join("other"));
    let config = directory.path().join("windlass.toml");
    std::fs::write(&config, format!("[[stores]]\nname = \"other\"\ndata = {other:?}\n")).unwrap();
    let start = || Server::start_with(&data, &["--config", config.to_str().unwrap()]);
    let server = start();
    server.run(&["queue", "create", "mail", "--partitions", "2"]).ok();
    assert_eq!(server.run(&["queue", "reload", "mail"]).ok(), "queue mail is reloaded\n");
    assert_eq!(server.stop(), Some(0));
    let away = directory.path().join("away");
    std::fs::rename(&other, &away).unwrap();
    let server = start();
    let stats = server.run(&["queue", "stats", "mail"]).ok();
    let faulty = stats.lines().find(|line| line.contains("faulty: ")).unwrap_or_else(|| panic!("{stats}"));
    assert!(faulty.contains("  other  "), "{stats}");
    let failed = server.run(&["queue", "reload", "mail"]).failed(3);
    assert!(says_that_nothing_was_done(&failed), "{failed}");
    let failed = server.run(&["queue", "reload", "mail", "--json"]).failed(3);
    let error = &serde_json::from_str::<Value>(&failed).unwrap()["error"];
    assert_eq!(
        (&error["code"], &error["details"]["outcome"]),
        (&json!("unavailable"), &json!("not_applied"))
    );
    std::fs::rename(&away, &other).unwrap();
    server.run(&["queue", "reload", "mail"]).ok();
    assert!(!server.run(&["queue", "stats", "mail"]).ok().contains("faulty"));
}

#[test]
fn a_queue_gets_other_partitions_and_those_that_go_are_emptied() {
    let server = Server::with_queue("mail", &["--partitions", "2"]);
    let groups = ["a", "b", "c", "d", "e", "f", "g", "h"];
    groups.iter().for_each(|group| drop(server.run(&["group", "create", "mail", group, "--item", "1"]).ok()));
    let info = server.run(&["queue", "rebalance", "mail", "--partitions", "5"]).ok();
    assert!(info.contains("partitions     5\n"), "{info}");
    assert_eq!(server.run(&["queue", "rebalance", "mail", "--partitions", "5", "--wait"]).ok(), info);
    std::thread::scope(|scope| {
        let shrinking = scope
            .spawn(|| server.run(&["queue", "rebalance", "mail", "--partitions", "1", "--wait", "--json"]));
        let draining = loop {
            let stats = server.run(&["queue", "stats", "mail"]).ok();
            if stats.contains("draining") {
                break stats;
            }
        };
        assert!(draining.contains(" and ") && draining.contains(" left\n"), "{draining}");
        let refused = server.run(&["queue", "rebalance", "mail", "--partitions", "2"]).failed(1);
        assert!(refused.contains("(wrong_state)"), "{refused}");
        groups.iter().for_each(|group| drop(server.run(&["group", "start", "mail", group]).ok()));
        let leased = server.run(&["lease", "mail", "--batch-size", "8", "--ids"]).ok();
        assert_eq!(leased.lines().count(), 8);
        leased.lines().for_each(|held| drop(server.run(&["complete", "mail", held]).ok()));
        let reply = shrinking.join().unwrap().json();
        assert_eq!(reply["queue"]["partitions"], 1);
    });
    assert!(!server.run(&["queue", "stats", "mail"]).ok().contains("draining"));
    assert!(server.run(&["group", "info", "mail", "a"]).ok().contains("done"));
}
