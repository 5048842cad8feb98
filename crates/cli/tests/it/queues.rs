use crate::support::Server;

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
    let server = Server::start();
    server.run(&["queue", "create", "mail"]).ok();
    server.run(&["produce", "mail", "1"]).ok();
    assert!(server.run(&["queue", "delete", "mail"]).failed(1).contains("(not_empty)"));
    server.run(&["queue", "delete", "mail", "--force"]).ok();
}

#[test]
fn a_clear_takes_what_it_is_told() {
    let server = Server::start();
    server.run(&["queue", "create", "mail"]).ok();
    server.run(&["produce", "mail", "1"]).ok();
    server.run(&["produce", "mail", "2", "--enqueue-at", "1h", "--kind", "later"]).ok();
    let stats = server.run(&["queue", "stats", "mail"]).ok();
    assert!(stats.contains("waiting           1\n") && stats.contains("scheduled         1\n"), "{stats}");
    assert!(stats.lines().any(|line| line.split_whitespace().eq(["later", "0", "1", "0"])), "{stats}");
    assert_eq!(server.run(&["queue", "clear", "mail", "--scheduled"]).ok(), "1 item cancelled\n");
    assert_eq!(server.run(&["queue", "clear", "mail"]).ok(), "1 item cancelled\n");
}

#[test]
fn both_encodings_say_the_same() {
    let server = Server::start();
    server.run(&["queue", "create", "mail"]).ok();
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
