//! Tables on terminals of 80 and 40 columns.

use unicode_width::UnicodeWidthStr;

use crate::world::Server;

/// The output of a command on a terminal with so many columns.
fn shown(server: &Server, columns: u32, command: &str) -> String {
    server.begin_on_terminal(columns, command).end().ok().replace('\r', "")
}

fn width(shown: &str) -> usize {
    shown.lines().map(UnicodeWidthStr::width).max().expect("lines")
}

/// Items of several states, kinds, priorities and attempts, some with addresses, errors and due times.
fn busy() -> Server {
    let server = Server::with_queue("dead", &[]);
    server.run(&["queue", "create", "mail", "--dead-queue", "dead"]).ok();
    server.produce("mail", &["1", "--kind", "invoice-for-customers", "--priority", "0"]);
    let held = server.lease("mail");
    let message = "the server of the address did not answer within a minute";
    server.run(&["retry", "mail", &held, "--dead", "--error", message, "--code", "smtp_refused"]).ok();
    server.produce("mail", &["2", "--kind", "発送のお知らせ", "--address", "customers/4711/2026-q1"]);
    server.produce("mail", &["3", "--delay", "23h", "--priority", "9"]);
    // Once it can be leased it has arrived.
    let dead = server.lease("dead");
    server.run(&["release", "dead", &dead]).ok();
    server
}

#[test]
fn tables_of_items_fit_a_terminal_of_80_columns() {
    let server = busy();
    for command in [
        "items find mail",
        "items find mail --state failed",
        "items find --state failed",
        "storage list dead",
    ] {
        let shown = shown(&server, 80, command);
        assert!(width(&shown) <= 80 && shown.contains("smtp_refused: the"), "{command}\n{shown}");
    }
    let waiting = shown(&server, 80, "items find mail --state waiting,scheduled");
    assert!(width(&waiting) <= 80 && waiting.contains("ADDRESS"), "{waiting}");
    let errors = shown(&server, 80, "queue errors mail");
    assert!(width(&errors) <= 80 && errors.contains("did not answer"), "{errors}");
    let narrow = shown(&server, 40, "items find mail");
    assert!(narrow.starts_with("ID") && width(&narrow) < 60, "{narrow}");
    let piped = server.run(&["items", "find", "mail"]).ok();
    let headings: Vec<_> = piped.lines().next().expect("headings").split_whitespace().collect();
    let all =
        ["ID", "STATE", "KIND", "PRIORITY", "ATTEMPTS", "CREATED", "CHANGED", "DUE", "ADDRESS", "ERROR"];
    assert_eq!(headings, all);
}

#[test]
fn other_tables_fit_a_terminal_of_80_columns() {
    let server = busy();
    let create = ["cron", "create", "nightly-reports", "mail", "30 2 * * *", "1"];
    server.run(&[&create[..], &["--timezone", "America/Argentina/Buenos_Aires"]].concat()).ok();
    server.run(&["cron", "trigger", "nightly-reports"]).ok();
    server.run(&["queue", "create", &"a-queue-with-a-long-name".repeat(3), "--dead-queue", "dead"]).ok();
    for (columns, command, told) in [
        (80, "cron list", "NEXT"),
        (40, "queue list", "WAITING"),
        (80, "queue list --order oldest", "OLDEST"),
        (60, "queue history mail", "PRODUCED"),
    ] {
        let shown = shown(&server, columns, command);
        assert!(width(&shown) <= columns as usize && shown.contains(told), "{command}\n{shown}");
    }
    assert!(server.run(&["cron", "list"]).ok().contains("LAST ITEM"));
}

#[test]
fn what_is_said_of_a_table_stands_behind_it() {
    let server = Server::with_queue("mail", &[]);
    server.run_with(&["produce", "mail"], "{\"json\": 1}\n{\"json\": 2}\n").ok();
    let more = shown(&server, 80, "items find mail --limit 1");
    assert!(
        more.starts_with("ID") && more.ends_with("there may be more: name another --limit, or show --all\n")
    );
}
