use rustix::process::Signal;
use serde_json::Value;

use crate::support::Server;

fn server() -> Server {
    let server = Server::start();
    server.run(&["queue", "create", "mail", "--lease-timeout", "1s", "--retry-initial", "1h"]).ok();
    server
}

fn item(server: &Server, id: &str) -> Value {
    server.run(&["item", "get", id, "--json"]).json()["item"].clone()
}

fn produce(server: &Server, args: &[&str]) -> String {
    server.run(&[&["produce", "mail"], args].concat()).ok().trim().to_owned()
}

#[test]
fn a_command_gets_the_payload_and_the_facts() {
    let server = server();
    let id = produce(
        &server,
        &["{\"a\":1}", "--kind", "k", "--priority", "3", "--reference", "r", "--header", "h=v"],
    );
    let command = "cat; echo; echo $WINDLASS_ITEM_ID $WINDLASS_QUEUE $WINDLASS_KIND $WINDLASS_PRIORITY \
                   $WINDLASS_ATTEMPTS $WINDLASS_REFERENCE $WINDLASS_HEADERS $WINDLASS_URL";
    let out = server.run(&["work", "mail", "--exec", command, "--once"]).ok();
    let facts = format!("{id} mail k 3 1 r {{\"h\":\"v\"}} {}", server.url);
    assert_eq!(out, format!("{{\"a\":1}}\n{facts}\n1 item completed\n"));
}

#[test]
fn what_a_command_prints_can_be_the_result() {
    let server = server();
    let id = produce(&server, &["hello"]);
    server.run(&["work", "mail", "--exec", "tr a-z A-Z", "--result", "utf8", "--once"]).ok();
    assert_eq!(item(&server, &id)["result"]["utf8"], "HELLO");
    let id = produce(&server, &["2"]);
    server
        .run(&["work", "mail", "--exec", "echo '{\"n\":'; cat; echo '}'", "--result", "json", "--once"])
        .ok();
    assert_eq!(item(&server, &id)["result"]["json"]["n"], 2);
}

#[test]
fn a_result_that_cannot_be_kept_fails_the_attempt() {
    let server = server();
    let id = produce(&server, &["1"]);
    server.run(&["work", "mail", "--exec", "echo no json", "--result", "json", "--once"]).failed(1);
    let item = item(&server, &id);
    assert_eq!(item["state"], "scheduled");
    assert_eq!(item["error"]["code"], "bad_result");
}

#[test]
fn a_command_that_fails_is_tried_again_with_what_it_said() {
    let server = server();
    let id = produce(&server, &["1"]);
    let ended = server.run(&["work", "mail", "--exec", "echo oops >&2; exit 3", "--once", "--json"]);
    let tally: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&tally["completed"], &tally["retried"]), (&0.into(), &1.into()));
    assert!(ended.failed(1).contains("oops\n"));
    let item = item(&server, &id);
    assert_eq!(item["state"], "scheduled");
    assert_eq!(item["error"]["code"], "exit_3");
    assert_eq!(item["error"]["message"], "exit code 3: oops");
}

#[test]
fn exit_code_100_is_the_end_of_an_item() {
    let server = server();
    let id = produce(&server, &["1"]);
    let ended = server.run(&["work", "mail", "--exec", "exit 100", "--once"]);
    assert_eq!(ended.out, "0 items completed, 1 failed for good\n");
    assert_eq!(item(&server, &id)["state"], "failed");
}

#[test]
fn a_drain_ends_when_nothing_waits() {
    let server = server();
    (0..7).for_each(|number| drop(produce(&server, &[&number.to_string()])));
    let out =
        server.run(&["work", "mail", "--exec", "cat > /dev/null", "--drain", "--concurrency", "3"]).ok();
    assert_eq!(out, "7 items completed\n");
}

#[test]
fn a_long_command_keeps_its_lease() {
    let server = server();
    let id = produce(&server, &["1"]);
    // It goes on until its lease has been extended past where it would have ended.
    let command = r#"
        deadline() { "$WINDLASS" item get "$WINDLASS_ITEM_ID" --json | sed 's/.*"lease_deadline":"\([^"]*\)".*/\1/'; }
        first=$(deadline)
        until [ "$(deadline)" != "$first" ]; do :; done
        now=$(deadline)
        until [ "$(deadline)" != "$now" ]; do :; done"#;
    let mut worker = server.command();
    worker
        .env("WINDLASS", env!("CARGO_BIN_EXE_windlass"))
        .args(["work", "mail", "--once", "--exec", command]);
    let output = worker.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1 item completed\n", "{id}");
}

#[test]
fn a_cancelled_item_ends_its_command_and_all_it_has_started() {
    let server = server();
    let id = produce(&server, &["1"]);
    let command = "sleep 1000 & echo started; wait";
    let mut going = server.begin(&["work", "mail", "--exec", command, "--once"]);
    assert_eq!(going.line(), "started");
    server.run(&["item", "cancel", &id]).ok();
    let ended = going.end();
    assert_eq!(ended.out, "0 items completed, 1 released\n");
    assert!(ended.failed(1).contains("to be cancelled"));
    assert_eq!(server.run(&["queue", "stats", "mail", "--json"]).json()["counts"]["leased"], 0);
}

#[test]
fn a_lost_lease_ends_the_command_even_if_it_will_not_listen() {
    let server = server();
    produce(&server, &["1"]);
    let command = "trap '' TERM; echo started; sleep 1000";
    let mut going = server.begin(&["work", "mail", "--exec", command, "--once", "--kill-after", "10ms"]);
    assert_eq!(going.line(), "started");
    server.run(&["queue", "clear", "mail", "--leased"]).ok();
    let ended = going.end();
    assert_eq!(ended.out, "0 items completed, 1 lost\n");
    assert!(ended.failed(1).contains("its lease is lost"));
}

#[test]
fn a_worker_that_is_stopped_releases_what_does_not_finish() {
    let server = server();
    let id = produce(&server, &["1"]);
    let command = "echo started; exec sleep 1000";
    let mut going = server.begin(&["work", "mail", "--exec", command, "--grace", "10ms"]);
    assert_eq!(going.line(), "started");
    going.signal(Signal::TERM);
    assert_eq!(going.end().ok(), "0 items completed, 1 released\n");
    let item = item(&server, &id);
    assert_eq!((&item["state"], &item["attempts"]), (&"waiting".into(), &0.into()));
}

#[test]
fn a_worker_that_is_stopped_lets_its_command_finish() {
    let server = server();
    produce(&server, &["1"]);
    let fifo = tempfile::TempDir::new().unwrap();
    let path = fifo.path().join("go");
    let command = format!("mkfifo {0}; echo started; cat {0}", path.display());
    let mut going = server.begin(&["work", "mail", "--exec", &command]);
    assert_eq!(going.line(), "started");
    going.signal(Signal::INT);
    std::fs::write(&path, "went on\n").unwrap();
    let ended = going.end();
    assert_eq!(ended.out, "went on\n1 item completed\n");
    assert!(ended.failed(130).contains("stopping: 1 command"));
}

#[test]
fn a_second_signal_ends_commands_at_once() {
    let server = server();
    produce(&server, &["1"]);
    let mut going = server.begin(&["work", "mail", "--exec", "echo started; exec sleep 1000"]);
    assert_eq!(going.line(), "started");
    going.signal(Signal::TERM);
    // Signals of one kind are not counted: another kind cannot get lost.
    going.signal(Signal::INT);
    assert!(going.end().out.contains("1 released"));
}

#[test]
fn a_queue_that_is_not_there_is_told_at_once() {
    let server = server();
    assert!(server.run(&["work", "nowhere", "--exec", "true"]).failed(1).contains("(not_found)"));
}
