use rustix::process::Signal;
use serde_json::Value;

use crate::proxy::Proxy;
use crate::world::Server;

fn server() -> Server {
    Server::with_queue("mail", &["--lease-timeout", "3s", "--retry-initial", "1h"])
}

#[test]
fn a_command_gets_the_payload_and_the_facts() {
    let server = server();
    let id = server.produce(
        "mail",
        &["{\"a\":1}", "--kind", "k", "--priority", "3", "--reference", "r", "--header", "h=v"],
    );
    let command = "cat; echo; echo $WINDLASS_ITEM_ID $WINDLASS_QUEUE $WINDLASS_KIND $WINDLASS_PRIORITY \
                   $WINDLASS_ATTEMPTS $WINDLASS_REFERENCE $WINDLASS_HEADERS $WINDLASS_URL";
    let out = server.run(&["work", "mail", "--exec", command, "--once"]).ok();
    let facts = format!("{id} mail k 3 1 r {{\"h\":\"v\"}} {}", server.url);
    assert_eq!(out, format!("{{\"a\":1}}\n{facts}\n1 item completed\n"));
}

#[test]
fn a_command_is_told_of_the_address_and_the_group_if_there_are_any() {
    let server = server();
    server.run(&["group", "create", "mail", "letters", "--start", "--item", "1"]).ok();
    server.produce("mail", &["2", "--address", "ada", "--group", "letters"]);
    server.produce("mail", &["3"]);
    let command = "echo ${WINDLASS_ADDRESS-none} ${WINDLASS_GROUP-none}";
    let mut worker = server.command();
    // Of the worker's own it is told nothing.
    worker.env("WINDLASS_ADDRESS", "x").env("WINDLASS_GROUP", "x");
    let output = worker.args(["work", "mail", "--drain", "--exec", command]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told, "none letters\nada letters\nnone none\n3 items completed\n");
}

#[test]
fn what_a_command_prints_can_be_the_result() {
    let server = server();
    let id = server.produce("mail", &["hello"]);
    server.run(&["work", "mail", "--exec", "tr a-z A-Z", "--result", "utf8", "--once"]).ok();
    assert_eq!(server.item(&id)["result"]["utf8"], "HELLO");
    let id = server.produce("mail", &["2"]);
    server
        .run(&["work", "mail", "--exec", "echo '{\"n\":'; cat; echo '}'", "--result", "json", "--once"])
        .ok();
    assert_eq!(server.item(&id)["result"]["json"]["n"], 2);
}

#[test]
fn a_result_that_cannot_be_kept_fails_the_attempt() {
    let server = server();
    let id = server.produce("mail", &["1"]);
    server.run(&["work", "mail", "--exec", "echo no json", "--result", "json", "--once"]).failed(1);
    let item = server.item(&id);
    assert_eq!(item["state"], "scheduled");
    assert_eq!(item["error"]["code"], "bad_result");
}

#[test]
fn a_command_that_fails_is_tried_again_with_what_it_said() {
    let server = server();
    let id = server.produce("mail", &["1"]);
    let ended = server.run(&["work", "mail", "--exec", "echo oops >&2; exit 3", "--once", "--json"]);
    let tally: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&tally["completed"], &tally["retried"]), (&0.into(), &1.into()));
    assert!(ended.failed(1).contains("oops\n"));
    let item = server.item(&id);
    assert_eq!(item["state"], "scheduled");
    assert_eq!(item["error"]["code"], "exit_3");
    assert_eq!(item["error"]["message"], "exit code 3: oops");
}

#[test]
fn exit_code_100_is_the_end_of_an_item() {
    let server = server();
    let id = server.produce("mail", &["1"]);
    let ended = server.run(&["work", "mail", "--exec", "exit 100", "--once"]);
    assert_eq!(ended.out, "0 items completed, 1 failed for good\n");
    assert_eq!(server.item(&id)["state"], "failed");
}

#[test]
fn a_drain_ends_when_nothing_waits() {
    let server = server();
    (0..7).for_each(|number| drop(server.produce("mail", &[&number.to_string()])));
    let out =
        server.run(&["work", "mail", "--exec", "cat > /dev/null", "--drain", "--concurrency", "3"]).ok();
    assert_eq!(out, "7 items completed\n");
}

#[test]
fn a_long_command_keeps_its_lease() {
    let server = server();
    let id = server.produce("mail", &["1"]);
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
    let id = server.produce("mail", &["1"]);
    let command = "sleep 1000 & echo started; wait";
    let mut going = server.begin(&["work", "mail", "--exec", command, "--once"]);
    assert_eq!(going.line(), "started");
    server.run(&["item", "cancel", &id]).ok();
    let ended = going.end();
    assert_eq!(ended.out, "0 items completed, 1 released\n");
    assert!(ended.failed(1).contains("to be cancelled"));
    assert_eq!(server.stats("mail")["counts"]["leased"], 0);
}

#[test]
fn a_lost_lease_ends_the_command_even_if_it_will_not_listen() {
    let server = server();
    server.produce("mail", &["1"]);
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
    let id = server.produce("mail", &["1"]);
    let command = "echo started; exec sleep 1000";
    let mut going = server.begin(&["work", "mail", "--exec", command, "--grace", "10ms"]);
    assert_eq!(going.line(), "started");
    going.signal(Signal::TERM);
    assert_eq!(going.end().ok(), "0 items completed, 1 released\n");
    let item = server.item(&id);
    assert_eq!((&item["state"], &item["attempts"]), (&"waiting".into(), &0.into()));
}

#[test]
fn a_worker_that_is_stopped_lets_its_command_finish() {
    let server = server();
    server.produce("mail", &["1"]);
    let fifo = tempfile::TempDir::new().unwrap();
    let path = fifo.path().join("go");
    let command = format!("mkfifo {0}; echo started; cat {0}", path.display());
    let mut going = server.begin(&["work", "mail", "--exec", &command]);
    assert_eq!(going.line(), "started");
    going.signal(Signal::INT);
    assert!(!going.heard("stopping: 1 command").is_empty());
    std::fs::write(&path, "went on\n").unwrap();
    let ended = going.end();
    assert_eq!(ended.out, "went on\n1 item completed\n");
    ended.failed(130);
}

#[test]
fn a_second_signal_ends_commands_at_once() {
    let server = server();
    server.produce("mail", &["1"]);
    // It would not listen to anything less.
    let command = "trap '' TERM; echo started; sleep 1000";
    let mut going = server.begin(&["work", "mail", "--exec", command, "--kill-after", "1h"]);
    assert_eq!(going.line(), "started");
    going.signal(Signal::TERM);
    // Signals of one kind are not counted: another kind cannot get lost.
    going.signal(Signal::INT);
    assert!(going.end().out.contains("1 released"));
}

#[test]
fn a_worker_whose_terminal_is_gone_takes_its_commands_with_it() {
    for signal in [Signal::HUP, Signal::QUIT] {
        let server = server();
        server.produce("mail", &["1"]);
        // Whoever runs the tests in the background may have these signals ignored.
        let mut going = server.begin_shell(&format!(
            "exec env --default-signal=HUP,QUIT '{}' work mail --exec 'echo started; exec sleep 1000' --grace 10ms",
            env!("CARGO_BIN_EXE_windlass")
        ));
        assert_eq!(going.line(), "started");
        going.signal(signal);
        assert_eq!(going.end().ok(), "0 items completed, 1 released\n");
    }
}

#[test]
fn a_worker_that_was_told_to_ignore_hangups_goes_on() {
    let server = server();
    server.produce("mail", &["1"]);
    let fifo = tempfile::TempDir::new().unwrap();
    let path = fifo.path().join("go");
    let command = format!("mkfifo {0}; echo started; cat {0}", path.display());
    let shell =
        format!("trap '' HUP; exec '{}' work mail --once --exec '{command}'", env!("CARGO_BIN_EXE_windlass"));
    let mut going = server.begin_shell(&shell);
    assert_eq!(going.line(), "started");
    going.signal(Signal::HUP);
    std::fs::write(&path, "went on\n").unwrap();
    let ended = going.end();
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("went on\n1 item completed\n", ""));
}

#[test]
fn what_a_command_has_started_may_clear_up_too() {
    let server = server();
    server.produce("mail", &["1"]);
    // The shell ends at once, and its child takes its time.
    let command =
        "(trap 'sleep 0.3; echo cleared up; exit' TERM; echo started; while :; do sleep 0.1; done) & wait";
    let mut going =
        server.begin(&["work", "mail", "--exec", command, "--grace", "10ms", "--kill-after", "1m"]);
    assert_eq!(going.line(), "started");
    going.signal(Signal::TERM);
    assert_eq!(going.end().ok(), "cleared up\n0 items completed, 1 released\n");
}

#[test]
fn a_lease_is_kept_while_its_command_is_being_ended() {
    let server = server();
    let id = server.produce("mail", &["1"]);
    // The lease would end after three seconds.
    let command = "trap '' TERM; echo started; sleep 1000";
    let mut going =
        server.begin(&["work", "mail", "--exec", command, "--grace", "0s", "--kill-after", "3500ms"]);
    assert_eq!(going.line(), "started");
    going.signal(Signal::TERM);
    assert_eq!(going.end().ok(), "0 items completed, 1 released\n");
    assert_eq!(server.item(&id)["attempts"], 0);
}

#[test]
fn finished_work_is_kept_while_the_server_is_away() {
    let server = server();
    server.run(&["queue", "update", "mail", "--lease-timeout", "1m"]).ok();
    let id = server.produce("mail", &["1"]);
    let proxy = Proxy::before(&server);
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("go");
    let command = format!("mkfifo {0}; echo started >&2; cat {0}", path.display());
    let mut going =
        server.begin_by(&proxy.url(), &["work", "mail", "--once", "--result", "utf8", "--exec", &command]);
    going.heard("started");
    proxy.go_away();
    std::fs::write(&path, "the result").unwrap();
    assert!(!going.heard("telling it again").is_empty());
    assert_eq!(server.item(&id)["state"], "leased");
    proxy.come_back();
    assert_eq!(going.end().ok(), "1 item completed\n");
    assert_eq!(server.item(&id)["result"]["utf8"], "the result");
}

#[test]
fn finished_work_that_cannot_be_told_does_not_keep_a_worker_from_stopping() {
    let server = server();
    server.run(&["queue", "update", "mail", "--lease-timeout", "1h"]).ok();
    server.produce("mail", &["1"]);
    let proxy = Proxy::before(&server);
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("go");
    let command = format!("mkfifo {0}; echo started; cat {0}", path.display());
    let mut going = server.begin_by(&proxy.url(), &["work", "mail", "--exec", &command]);
    assert_eq!(going.line(), "started");
    proxy.go_away();
    std::fs::write(&path, "").unwrap();
    going.heard("telling it again");
    going.signal(Signal::TERM);
    going.signal(Signal::INT);
    let ended = going.end();
    assert_eq!(ended.out, "0 items completed, 1 lost\n");
    assert!(ended.err.contains("could not be told: this worker stops"), "{ended:?}");
}

#[test]
fn a_process_left_in_the_background_does_not_keep_an_item() {
    let server = server();
    let id = server.produce("mail", &["1"]);
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("go");
    // It has stdout and stderr open until the test lets it go.
    let command = format!("mkfifo {0}; echo first; echo said >&2; cat {0} & exit 0", path.display());
    let mut going = server.begin(&["work", "mail", "--once", "--result", "utf8", "--exec", &command]);
    assert_eq!(going.line(), "1 item completed");
    std::fs::write(&path, "second").unwrap();
    assert!(going.end().err.contains("said\n"));
    assert_eq!(server.item(&id)["result"]["utf8"], "first\n");
}

#[test]
fn a_queue_that_is_not_there_is_told_at_once() {
    let server = server();
    let err = server.run(&["work", "nowhere", "--exec", "true"]).failed(1);
    assert_eq!(err, "error: no queue `nowhere`: make it with `windlass queue create nowhere` (not_found)\n");
}
