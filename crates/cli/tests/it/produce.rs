use std::fmt::Write;

use rustix::process::Signal;

use crate::proxy::Proxy;
use crate::world::Server;

fn waiting(server: &Server) -> u64 {
    server.stats("mail")["counts"]["waiting"].as_u64().unwrap()
}

#[test]
fn the_id_of_an_item_is_printed() {
    let server = Server::with_queue("mail", &[]);
    let id = server.run(&["produce", "mail", "hello", "--reference", "r", "--max-attempts", "7"]).ok();
    let item = server.run(&["item", "get", id.trim(), "--json"]).json();
    assert_eq!(item["item"]["utf8"], "hello");
    assert_eq!(item["item"]["reference"], "r");
    assert_eq!(item["item"]["max_attempts"], 7);
}

#[test]
fn a_payload_can_come_from_a_file() {
    let server = Server::with_queue("mail", &[]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [0xff, 0x00]).unwrap();
    let id = server.run(&["produce", "mail", "--payload-file", file.path().to_str().unwrap()]).ok();
    assert_eq!(server.item(id.trim())["bytes"], "/wA=");
}

#[test]
fn every_line_of_stdin_is_an_item() {
    let server = Server::with_queue("mail", &[]);
    let mut input = String::new();
    (0..2500).for_each(|number| writeln!(input, "{{\"json\":{number}}}").unwrap());
    let said = server.run_with(&["produce", "mail", "--kind", "bulk"], &input).ok();
    assert!(said.starts_with("2,500 items produced in "), "{said}");
    assert_eq!(waiting(&server), 2500);
    let lease = server.run(&["lease", "mail", "--json"]).json();
    assert_eq!(lease["items"][0]["kind"], "bulk");
}

#[test]
fn one_request_at_a_time_keeps_the_order_of_the_lines() {
    let server = Server::with_queue("mail", &[]);
    let mut input = String::new();
    (0..500).for_each(|number| writeln!(input, "{{\"json\":{number}}}").unwrap());
    server.run_with(&["produce", "mail", "-", "--batch-size", "50", "--in-flight", "1"], &input).ok();
    let lease = server.run(&["lease", "mail", "--batch-size", "1000", "--json"]).json();
    let found: Vec<u64> =
        lease["items"].as_array().unwrap().iter().map(|item| item["json"].as_u64().unwrap()).collect();
    assert_eq!(found, (0..500).collect::<Vec<_>>());
}

#[test]
fn a_bad_line_is_told_with_its_number_and_what_was_sent() {
    let server = Server::with_queue("mail", &[]);
    let input = "{\"json\":1}\n{\"json\":2}\n{\"json\":3,\"knd\":\"x\"}\n{\"json\":4}\n";
    let ended = server.run_with(&["produce", "mail"], input);
    assert_eq!(ended.out, "");
    let err = ended.failed(2);
    assert!(err.contains("line 3: unknown field `knd`") && err.contains("2 items"), "{err}");
    assert!(err.contains("\nproduced: lines 1 to 2\nnothing after line 2 was sent\n"), "{err}");
    assert_eq!(waiting(&server), 2);
}

#[test]
fn a_line_that_the_server_refuses_is_told_with_its_number() {
    let server = Server::with_queue("mail", &[]);
    let ended =
        server.run_with(&["produce", "mail", "--json"], "{\"json\":1}\n\n{\"json\":2,\"priority\":256}\n");
    let fates = r#""not_produced":[{"from":1,"to":3}],"unknown":[],"sent_to_line":3"#;
    assert_eq!(ended.out, format!("{{\"produced\":0,{fates}}}\n"));
    let err = ended.failed(1);
    assert!(err.contains("lines 1 to 3, not produced: line 3: "), "{err}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&err).unwrap()["error"]["code"], "invalid_argument");
    assert_eq!(waiting(&server), 0);
}

#[test]
fn json_that_many_readers_fail_at_is_told_with_what_to_do_instead() {
    let server = Server::with_queue("mail", &[]);
    let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
    let err = server.run(&["produce", "mail", &deep]).failed(1);
    assert!(err.contains("`items[0].json` has more than 128 levels of brackets"), "{err}");
    assert!(err.contains("`utf8`"), "{err}");
    server.run(&["produce", "mail", &deep, "--as", "utf8"]).ok();
    let input = format!("{{\"json\":1}}\n{{\"json\":{deep}}}\n");
    let err = server.run_with(&["produce", "mail"], &input).failed(1);
    assert!(err.contains("line 2: ") && err.contains("128 levels"), "{err}");
    assert_eq!(waiting(&server), 1);
}

fn interrupted_by(how: Signal) {
    let server = Server::with_queue("mail", &[]);
    let mut going = server.begin(&["produce", "mail"]);
    let mut lease = server.begin(&["lease", "mail", "--wait", "1m"]);
    going.say("{\"json\":1}\n");
    // Once it can be leased it was sent, although the input has not ended.
    lease.line();
    going.signal(how);
    let err = going.end().failed(130);
    assert!(err.contains("interrupted") && err.contains("1 item"), "{err}");
    assert!(err.contains("\nproduced: line 1\nnothing after line 1 was sent\n"), "{err}");
}

#[test]
fn an_interrupted_stream_tells_how_far_it_came() {
    for how in [Signal::INT, Signal::TERM] {
        interrupted_by(how);
    }
}

#[test]
fn a_stream_whose_server_is_gone_tells_which_lines_may_be_lost() {
    let server = Server::with_queue("mail", &[]);
    let proxy = Proxy::before(&server);
    proxy.go_away();
    let url = proxy.url();
    let args = ["produce", "mail", "--json", "--url", &url];
    let ended = server.run_with(&args, "{\"json\":1}\n\n{\"json\":2}\n");
    let fates = r#""not_produced":[],"unknown":[{"from":1,"to":3}],"sent_to_line":3"#;
    assert_eq!(ended.out, format!("{{\"produced\":0,{fates}}}\n"));
    let err = ended.failed(4);
    assert!(err.contains("lines 1 to 3, may or may not be produced: "), "{err}");
}

#[test]
fn a_pipe_of_unknown_length_is_read_to_its_end() {
    let server = Server::with_queue("mail", &[]);
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let script = format!("seq 2500 | sed 's/.*/{{\"json\":&}}/' | '{windlass}' produce mail");
    let said = server.begin_shell(&script).end().ok();
    assert!(said.starts_with("2,500 items produced in "), "{said}");
    assert_eq!(waiting(&server), 2500);
}

#[test]
fn a_queue_that_is_not_there_is_refused() {
    let server = Server::with_queue("mail", &[]);
    let told = "no queue `nowhere`: make it with `windlass queue create nowhere` (not_found)\n";
    assert_eq!(server.run(&["produce", "nowhere", "1"]).failed(1), format!("error: {told}"));
    let err = server.run_with(&["produce", "nowhere"], "{\"json\":1}\n").failed(1);
    assert!(err.starts_with(&format!("error: line 1, not produced: {told}")), "{err}");
}
