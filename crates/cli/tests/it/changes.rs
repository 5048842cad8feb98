//! `windlass items change`: the question, interruptions and refusals.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fake_server;
use crate::world::{Ended, Server, run};

/// A page of `items.change`.
fn page(matched: u64, changed: u64, pivot: Option<&str>) -> (&'static str, String) {
    ("200 OK", json!({"matched": matched, "changed": changed, "failed": [], "pivot": pivot}).to_string())
}

fn unavailable() -> (&'static str, String) {
    let details = json!({"outcome": "not_applied"});
    let error = json!({"error": {"code": "unavailable", "message": "loading", "details": details}});
    ("503 Service Unavailable", error.to_string())
}

/// The failure of `failed` items of a page, for one and the same reason.
fn refused(failed: usize, of: u64) -> (&'static str, String) {
    let id = |number| format!("00000000-0000-8080-8000-{number:012}");
    let one = |number| json!({"id": id(number), "code": "wrong_state", "message": "it is leased"});
    let failed: Vec<Value> = (0..failed).map(one).collect();
    ("200 OK", json!({"matched": of, "changed": 0, "failed": failed}).to_string())
}

fn change(action: &[&str], answers: Vec<(&'static str, String)>) -> Ended {
    let url = fake_server::answer_in_turn(answers);
    run(&[&["items", "change", "mail"], action, &["--url", &url]].concat())
}

/// Exit code and output of a cancel after `typed` at its question; if that is empty, the input ends there.
fn answered(typed: &str, flags: &str) -> (i32, String) {
    let server = Server::with_queue("mail", &[]);
    server.run_with(&["produce", "mail"], "{\"json\": 1}\n{\"json\": 2}\n").ok();
    let mut going = server.begin_on_terminal(80, &format!("items change mail cancel {flags}"));
    let question = going.seen("[y/N] ");
    assert!(question.contains("cancel 2 items? "), "{question}");
    going.say(typed);
    if typed.is_empty() {
        going.hush();
    }
    let ended = going.end();
    let waiting = server.stats("mail")["counts"]["waiting"].clone();
    let changed = ended.out.contains("2 items cancelled") || ended.out.contains("\"changed\":2");
    assert_eq!(waiting, if changed { 0 } else { 2 }, "{ended:?}");
    (ended.code.expect("a status"), ended.out)
}

#[test]
fn the_question_takes_yes_in_any_case() {
    for typed in ["y\n", "YES\n", "Yes\n"] {
        let (code, out) = answered(typed, "");
        assert!(code == 0 && out.contains("2 items cancelled"), "{typed:?}: {out}");
    }
    let (code, out) = answered("y\n", "--json");
    assert!(code == 0 && out.contains("\"changed\":2"), "{out}");
}

#[test]
fn without_a_yes_nothing_is_changed() {
    for typed in ["n\n", "No\n", "\n", ""] {
        let (code, out) = answered(typed, "");
        assert!(code == 1 && out.contains("nothing was changed"), "{typed:?}: {out}");
    }
    assert_eq!(answered("\u{3}", "").0, 130, "Ctrl-C");
}

#[test]
fn another_answer_is_asked_again() {
    let (code, out) = answered("of course\ny\n", "");
    assert!(code == 0 && out.contains("say yes or no") && out.contains("2 items cancelled"), "{out}");
}

#[test]
fn a_deletion_asks_on_a_terminal_unless_told_not_to() {
    let server = Server::with_queue("mail", &[]);
    server.produce("mail", &["1"]);
    let mut asked = server.begin_on_terminal(80, "items change mail delete");
    assert!(asked.seen("[y/N] ").contains("delete 1 item? "));
    asked.say("n\n");
    assert_eq!(asked.end().code, Some(1));
    let dry = server.begin_on_terminal(80, "items change mail delete --dry-run").end();
    assert_eq!((dry.code, dry.out.trim_end()), (Some(0), "1 item matches"));
    let done = server.begin_on_terminal(80, "items change mail delete --yes").end();
    assert_eq!((done.code, done.out.trim_end()), (Some(0), "1 item deleted"));
}

#[test]
fn an_interrupted_change_tells_how_many_items_were_changed() {
    for json in [[].as_slice(), &["--json"]] {
        let (url, asked) = fake_server::answer_and_hang(vec![page(2000, 2000, Some("p"))]);
        let server = Server::start();
        let args = [["items", "change", "mail", "cancel", "--yes"].as_slice(), json].concat();
        let change = server.begin_by(&url, &args);
        asked.recv().expect("the second page is asked for");
        change.signal(Signal::INT);
        let ended = change.end();
        let told = "stopped: 2,000 items cancelled so far, the page under way not counted; run it again for the rest";
        assert!(ended.code == Some(130) && ended.err.contains(told), "{ended:?}");
        assert!(json.is_empty() == ended.out.is_empty(), "{ended:?}");
    }
}

#[test]
fn ctrl_c_does_not_wait_for_the_hint_after_a_change() {
    let (url, asked) = fake_server::answer_and_hang(vec![page(0, 0, None)]);
    let server = Server::start();
    let change = server.begin_by(&url, &["items", "change", "mail", "rerun", "--yes"]);
    asked.recv().expect("the queue is asked for");
    change.signal(Signal::INT);
    let ended = change.end();
    let told = (ended.code, ended.out.as_str(), ended.err.as_str());
    assert_eq!(told, (Some(0), "0 items rerun\n", ""), "the change was complete");
}

#[test]
fn only_the_first_page_of_a_change_fails_at_once() {
    let failed = change(&["cancel", "--yes"], vec![unavailable(), page(1, 1, None)]);
    assert_eq!(failed.failed(3), "error: loading (unavailable)\n");
    let pages = vec![page(2, 2, Some("p")), unavailable(), unavailable(), page(1, 1, None)];
    let done = change(&["cancel", "--yes"], pages);
    assert_eq!((done.code, done.out.as_str()), (Some(0), "3 items cancelled\n"), "{done:?}");
    assert_eq!(done.err, "trying again: loading (unavailable)\n");
}

#[test]
fn a_lost_connection_is_told_with_what_to_do() {
    let (url, asked) = fake_server::answer_and_hang(vec![page(2, 2, Some("p"))]);
    let server = Server::start();
    let proxy = crate::proxy::Proxy::before_url(&url);
    let change = server.begin_by(&proxy.url(), &["items", "change", "mail", "cancel", "--yes"]);
    asked.recv().expect("the second page is asked for");
    proxy.go_away();
    let ended = change.end();
    let told = "run it again: items already cancelled no longer match\n";
    assert!(ended.code == Some(4) && ended.err.ends_with(told), "{ended:?}");
    assert_eq!(ended.out, "2 items cancelled\n");
}

#[test]
fn many_refusals_for_one_reason_share_a_line() {
    let few = change(&["cancel", "--yes"], vec![refused(3, 3)]);
    assert_eq!((few.code, few.err.lines().count()), (Some(1), 3), "{few:?}");
    let id = |number| format!("00000000-0000-8080-8000-{number:012}");
    let told = format!(
        "100 items: it is leased (wrong_state): {}, {}, {} and 97 more\nand 400 items more that failed\n",
        id(0),
        id(1),
        id(2)
    );
    let many = change(&["cancel", "--yes"], vec![refused(100, 500)]);
    assert_eq!((many.code, many.err.as_str()), (Some(1), told.as_str()));
    let dry = change(&["cancel", "--dry-run"], vec![refused(100, 500)]);
    assert_eq!((dry.code, dry.err.as_str()), (Some(0), told.as_str()));
    assert_eq!(dry.out, "500 items match, and 0 of them can be cancelled\n");
}

#[test]
fn items_of_a_real_queue_that_cannot_be_rerun_are_counted() {
    let server = Server::with_queue("kept", &["--keep", "all", "--retain-payload", "none"]);
    server.run_with(&["produce", "kept"], &"{\"json\": 1}\n".repeat(150)).ok();
    let held = server.run(&["lease", "kept", "--ids", "--batch-size", "150"]).ok();
    server.run(&[&["complete", "kept"], held.lines().collect::<Vec<_>>().as_slice()].concat()).ok();
    let ended = server.run(&["items", "change", "kept", "rerun", "--state", "completed", "--yes"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), "0 items rerun\n"));
    assert_eq!(ended.err.lines().count(), 2, "{ended:?}");
    assert!(ended.err.starts_with("100 items: ") && ended.err.ends_with("and 50 items more that failed\n"));
}

#[test]
fn numbers_that_cannot_be_do_no_harm() {
    let odd = change(&["cancel", "--dry-run"], vec![page(1, 5, None)]);
    assert_eq!((odd.code, odd.out.as_str(), odd.err.as_str()), (Some(0), "1 item matches\n", ""));
    assert_eq!(change(&["cancel", "--yes"], vec![page(1, 5, None)]).ok(), "5 items cancelled\n");
    let huge = change(&["cancel", "--yes"], vec![page(u64::MAX, u64::MAX, Some("p")), page(1, 1, None)]);
    assert_eq!(huge.ok(), "18,446,744,073,709,551,615 items cancelled\n");
}

#[test]
fn each_action_tells_what_was_done() {
    for (action, told) in [
        (["run-now"].as_slice(), ["1 item is due now\n", "2 items are due now\n"]),
        (
            &["set-priority", "--priority", "3"],
            ["1 item has priority 3 now\n", "2 items have priority 3 now\n"],
        ),
        (&["rerun"], ["1 item rerun\n", "2 items rerun\n"]),
    ] {
        let shown =
            [1, 2].map(|items| change(&[action, &["--yes"]].concat(), vec![page(items, items, None)]).ok());
        assert_eq!(shown, told);
    }
}

#[test]
fn scheduled_items_are_run_now() {
    let server = Server::with_queue("mail", &[]);
    server.produce("mail", &["later", "--delay", "1h"]);
    let done = server.run(&["items", "change", "mail", "run-now"]);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("1 item is due now\n", "1 item matches\n"));
    assert_eq!(server.stats("mail")["counts"]["waiting"], 1);
}

#[test]
fn the_heading_of_the_filters_is_over_filters_alone() {
    for (verb, others) in [
        ("change", ["--priority <N>", "--dry-run", "--yes"].as_slice()),
        ("find", &["--oldest", "--payloads", "--limit <N>", "--all", "--partial"]),
    ] {
        let help = run(&["items", verb, "--help"]).ok();
        let (before, rest) = help.split_once("Filters: all that are given must hold:").expect("filters");
        let filters = rest.split("\nEverywhere:").next().expect("filters");
        assert!(filters.contains("--state") && filters.contains("--changed-before"), "{help}");
        for other in others {
            assert!(before.contains(other) && !filters.contains(other), "{other}: {help}");
        }
    }
    let help = run(&["items", "change", "--help"]).ok();
    assert!(help.contains("set the priority") && help.contains("The queue"), "{help}");
}

/// The id of an item of `mail` that failed and went to `dead`.
fn dead(server: &Server) -> String {
    let id = server.produce("mail", &["1"]);
    let held = server.lease("mail");
    server.run(&["retry", "mail", &held, "--dead", "--error", "no such address"]).ok();
    while server.item(&id)["moved_to"].is_null() {}
    id
}

#[test]
fn items_that_went_to_a_dead_queue_are_pointed_at() {
    let server = Server::with_queue("dead", &[]);
    server.run(&["queue", "create", "mail", "--dead-queue", "dead"]).ok();
    let rerun = ["items", "change", "mail", "rerun", "--state", "failed"];
    assert_eq!(server.run(&rerun).err, "", "nothing failed");
    let id = dead(&server);
    for yes in [[].as_slice(), &["--yes"]] {
        let done = server.run(&[&rerun[..], yes].concat());
        assert_eq!((done.code, done.out.as_str()), (Some(0), "0 items rerun\n"));
        assert!(done.err.contains("`windlass queue redrive dead`"), "{done:?}");
    }
    let refused = server.run(&["item", "rerun", &id]).failed(1);
    assert!(refused.contains("`windlass queue redrive dead`"), "{refused}");
    let updated = server.run(&["item", "update", &id, "--priority", "1"]).failed(1);
    assert!(updated.contains(&format!("`windlass item rerun {id}`")), "{updated}");
}
