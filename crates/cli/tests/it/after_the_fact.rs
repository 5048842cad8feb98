//! Items after they were produced: found, changed, rerun, and what became of them.

use serde_json::json;

use crate::fake_server;
use crate::world::{Server, id, run, says};

/// A server whose queue `mail` has these items that failed, by kind; nothing else is there.
fn with_failed(kinds: &[&str], flags: &[&str]) -> Server {
    let server = Server::with_queue("mail", flags);
    for kind in kinds {
        let payload = format!("payload of {kind}");
        server.produce("mail", &[&payload, "--kind", kind, "--header", &format!("customer={kind}")]);
        fail(&server, "smtp_refused");
    }
    server
}

/// Leases the next item of `mail`, and has it fail for good.
fn fail(server: &Server, code: &str) -> String {
    let held = server.lease("mail");
    server.run(&["retry", "mail", &held, "--dead", "--error", "no such address", "--code", code]).ok();
    id(&held).to_owned()
}

/// The ids in the first column.
fn ids(table: &str) -> Vec<String> {
    table.lines().skip(1).map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn items_are_found_by_what_they_show() {
    let server = with_failed(&["invoice", "letter"], &[]);
    server.produce("mail", &["waits", "--kind", "invoice"]);
    let failed = server.run(&["items", "find", "mail", "--state", "failed"]).ok();
    assert_eq!(ids(&failed).len(), 2, "{failed}");
    assert!(failed.contains("smtp_refused: no such address") && !failed.contains("payload of"), "{failed}");
    let one = ["items", "find", "mail", "--state", "failed,expired", "--header", "customer=letter"];
    let found = server.run(&[&one[..], &["--payloads", "--changed-after", "1h"]].concat()).ok();
    assert!(ids(&found).len() == 1 && found.contains("payload of letter"), "{found}");
    let none = server.run(&[&one[..], &["--created-before", "1h"]].concat());
    assert_eq!((none.out.as_str(), none.err.as_str()), ("", "nothing was found\n"), "{none:?}");
    let invoices = server.run(&["items", "find", "mail", "--kind", "invoice", "--json"]).json();
    let states: Vec<_> = invoices["items"].as_array().unwrap().iter().map(|item| &item["state"]).collect();
    assert_eq!(states, ["waiting", "failed"], "the newest first");
    assert!(server.run(&["items", "find", "mail", "--state", "lost"]).failed(2).contains("possible values"));
}

#[test]
fn find_says_when_there_may_be_more_and_all_shows_everything() {
    let server = Server::with_queue("mail", &[]);
    let lines = "{\"json\": 1}\n{\"json\": 2}\n{\"json\": 3}\n";
    server.run_with(&["produce", "mail"], lines).ok();
    let two = server.run(&["items", "find", "mail", "--limit", "2", "--oldest", "--payloads"]);
    assert!(two.err.contains("there may be more"), "{two:?}");
    let shown = two.ok();
    let payloads: Vec<_> = shown.lines().map(|line| line.split_whitespace().last().unwrap()).collect();
    assert_eq!(payloads, ["PAYLOAD", "1", "2"]);
    let all = server.run(&["items", "find", "mail", "--all"]);
    assert_eq!((ids(&all.out).len(), all.err.as_str()), (3, ""), "{all:?}");
    assert!(server.run(&["items", "find", "mail", "--all", "--limit", "2"]).failed(2).contains("--limit"));
}

#[test]
fn failed_items_of_all_queues_are_found_with_their_queues() {
    let server = with_failed(&["invoice"], &[]);
    server.run(&["queue", "create", "other"]).ok();
    let found = server.run(&["items", "find", "--state", "failed"]).ok();
    let row: Vec<_> = found.lines().nth(1).unwrap().split_whitespace().skip(1).take(2).collect();
    assert_eq!(row, ["mail", "failed"], "{found}");
    assert!(server.run(&["items", "find", "--state", "waiting"]).failed(2).contains("name a QUEUE"));
}

#[test]
fn a_search_of_all_queues_says_where_it_was_cut() {
    let server = with_failed(&["invoice", "letter"], &[]);
    let find = |flags: &[&str]| server.run(&[&["items", "find", "--state", "failed"], flags].concat());
    assert_eq!(find(&["--limit", "3"]).err, "");
    assert_eq!(find(&["--limit", "2"]).err, "only the newest 2 are shown: name a queue for all\n");
    assert!(find(&["--all"]).failed(2).contains("--all needs a QUEUE"));
}

/// A page without items, because the only partition with more does not serve.
fn only_missing() -> String {
    json!({"items": [], "scanned": 0, "missing": [1], "pivot": "p"}).to_string()
}

#[test]
fn a_partial_search_ends_where_only_missing_partitions_are_left() {
    let item = json!({"id": "00000000-0000-8080-8000-000000000001", "state": "failed"});
    let first = json!({"items": [item], "scanned": 1, "missing": [1], "pivot": "o"}).to_string();
    let url = fake_server::answer_in_turn(vec![("200 OK", first), ("200 OK", only_missing())]);
    let found = run(&["items", "find", "mail", "--partial", "--json", "--url", &url]).json();
    assert_eq!((found["items"].as_array().unwrap().len(), &found["scanned"]), (1, &json!(1)), "{found}");
    assert_eq!((&found["missing"], &found["pivot"]), (&json!([1]), &json!("p")), "{found}");
    let url = fake_server::answer("200 OK", only_missing());
    let none = run(&["items", "find", "mail", "--partial", "--all", "--url", &url]);
    let told = "nothing was found\nnot looked at, because they do not serve: partitions 1\n";
    assert_eq!((none.code, none.err.as_str()), (Some(0), told), "{none:?}");
}

#[test]
fn a_header_is_not_given_twice() {
    let twice = ["--header", "a=1", "--header", "a=2", "--url", "http://127.0.0.1:9"];
    for command in [
        ["items", "find", "mail"].as_slice(),
        &["item", "update", "00000000-0000-8080-8000-000000000001"],
        &["produce", "mail", "1"],
        &["cron", "create", "nightly", "mail", "@daily", "1"],
    ] {
        let wrong = run(&[command, &twice].concat()).failed(2);
        assert!(wrong.contains("`a` is given twice"), "{command:?}: {wrong}");
    }
}

#[test]
fn all_queues_are_searched_for_three_states_only() {
    let find = |flags: &[&str]| run(&[&["items", "find", "--url", "http://127.0.0.1:9"], flags].concat());
    for flags in [[].as_slice(), &["--state", "waiting"], &["--state", "failed,completed"]] {
        let wrong = find(flags).failed(2);
        assert!(wrong.contains("name a QUEUE, or --state with suspended, failed or expired"), "{wrong}");
    }
    find(&["--state", "suspended,failed,expired"]).failed(3);
}

#[test]
fn each_filter_finds_its_item() {
    let server = Server::with_queue("mail", &["--keep", "all", "--retain-payload", "all"]);
    server.run(&["group", "create", "mail", "letter", "--item", "\"member\""]).ok();
    server.produce("mail", &["\"at an address\"", "--address", "a", "--delay", "1h"]);
    server.produce("mail", &["\"for reference\"", "--reference", "order 7", "--delay", "1h"]);
    server.run(&["cron", "create", "nightly", "mail", "@daily", "\"by the cron\""]).ok();
    server.run(&["cron", "trigger", "nightly"]).ok();
    server.run(&["lease", "mail", "--client-id", "worker-7"]).ok();
    let found = |filter: &[&str]| {
        let find = ["items", "find", "mail", "--payloads", "--json"];
        let reply = server.run(&[&find, filter].concat()).json();
        let items = reply["items"].as_array().expect("items").iter();
        items.map(|item| item["json"].as_str().expect("a payload").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&["--group", "letter"]), ["member"]);
    assert_eq!(found(&["--address", "a"]), ["at an address"]);
    assert_eq!(found(&["--reference", "order 7"]), ["for reference"]);
    assert_eq!(found(&["--cron", "nightly"]), ["by the cron"]);
    assert_eq!(found(&["--client-id", "worker-7"]), ["by the cron"]);
    assert_eq!(found(&["--created-after", "1h"]).len(), 4);
    assert_eq!(found(&["--created-after", "2999-01-01T00:00:00Z"]).len(), 0);
    assert_eq!(found(&["--changed-before", "2999-01-01T00:00:00Z"]).len(), 4);
    assert_eq!(found(&["--changed-before", "1h"]).len(), 0);
}

#[test]
fn a_limit_above_a_page_is_found_in_several() {
    let server = Server::with_queue("mail", &[]);
    server.run_with(&["produce", "mail"], &"{\"json\": 1}\n".repeat(2200)).ok();
    let found = server.run(&["items", "find", "mail", "--limit", "2100"]);
    assert_eq!((ids(&found.out).len(), found.err.contains("there may be more")), (2100, true));
    let mut all = ids(&server.run(&["items", "find", "mail", "--all"]).ok());
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 2200);
}

#[test]
fn a_later_page_of_a_find_is_tried_again_and_that_is_told() {
    let item = json!({"id": "00000000-0000-8080-8000-000000000001", "state": "failed"});
    let page = |pivot: Option<&str>| {
        ("200 OK", json!({"items": [&item], "scanned": u64::MAX, "missing": [], "pivot": pivot}).to_string())
    };
    let loading = json!({"error": {"code": "unavailable", "message": "loading", "details": {"outcome": "not_applied"}}});
    let loading = ("503 Service Unavailable", loading.to_string());
    let answers = vec![page(Some("p")), loading.clone(), loading.clone(), page(None)];
    let url = fake_server::answer_in_turn(answers);
    let found = run(&["items", "find", "mail", "--url", &url]);
    assert_eq!((found.code, found.err.as_str()), (Some(0), "trying again: loading (unavailable)\n"));
    assert_eq!(ids(&found.out).len(), 2);
    let url = fake_server::answer_in_turn(vec![loading, page(None)]);
    assert_eq!(run(&["items", "find", "mail", "--url", &url]).failed(3), "error: loading (unavailable)\n");
}

#[test]
fn a_change_of_nothing_ends_after_the_count() {
    let matched = |matched: u64| json!({"matched": matched, "changed": matched, "failed": []}).to_string();
    let url = fake_server::answer_in_turn(vec![("200 OK", matched(0)), ("200 OK", matched(5))]);
    let ended = run(&["items", "change", "mail", "cancel", "--url", &url]);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("0 items cancelled\n", ""), "{ended:?}");
}

#[test]
fn what_was_changed_before_a_failure_is_told() {
    let failed = json!({"id": "00000000-0000-8080-8000-000000000001", "code": "wrong_state", "message": "it is leased"});
    let page = json!({"matched": 3, "changed": 2, "failed": [failed], "pivot": "p"}).to_string();
    let refusal =
        json!({"error": {"code": "not_found", "message": "no queue", "details": {"queue": "mail"}}});
    let answers = vec![("200 OK", page), ("404 Not Found", refusal.to_string())];
    let url = fake_server::answer_in_turn(answers.clone());
    let ended = run(&["items", "change", "mail", "cancel", "--yes", "--url", &url]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), "2 items cancelled\n"), "{ended:?}");
    assert!(ended.err.contains("it is leased") && ended.err.contains("no queue `mail`"), "{ended:?}");
    let url = fake_server::answer_in_turn(answers);
    let ended = run(&["items", "change", "mail", "cancel", "--yes", "--json", "--url", &url]);
    let reply: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((ended.code, &reply["changed"]), (Some(1), &json!(2)), "{ended:?}");
}

#[test]
fn a_change_tells_first_how_many_items_match_and_changes_them() {
    let server = with_failed(&["invoice", "letter"], &[]);
    let rerun = ["items", "change", "mail", "rerun", "--state", "failed"];
    let dry = server.run(&[&rerun[..], &["--dry-run"]].concat());
    assert_eq!((dry.out.as_str(), dry.err.as_str()), ("2 items match\n", ""), "{dry:?}");
    assert_eq!(server.stats("mail")["counts"]["waiting"], 0);
    let done = server.run(&[&rerun[..], &["--kind", "letter"]].concat());
    assert_eq!((done.out.as_str(), done.err.as_str()), ("1 item rerun\n", "1 item matches\n"));
    assert_eq!(server.run(&[&rerun[..], &["--yes", "--json"]].concat()).json()["changed"], 1);
    assert_eq!(server.stats("mail")["counts"]["waiting"], 2);
    let first = ["items", "change", "mail", "set-priority"];
    assert!(server.run(&first).failed(2).contains("--priority"));
    server.run(&[&first[..], &["--kind", "letter", "--priority", "7"]].concat()).ok();
    let letters = ["items", "find", "mail", "--state", "waiting", "--kind", "letter", "--json"];
    assert_eq!(server.run(&letters).json()["items"][0]["priority"], 7);
    let wrong = server.run(&["items", "change", "mail", "cancel", "--priority", "7"]).failed(2);
    assert!(wrong.contains("--priority is for set-priority"), "{wrong}");
    let cancelled = server.run(&["items", "change", "mail", "cancel", "--kind", "letter"]).ok();
    assert_eq!(cancelled, "1 item cancelled\n");
}

#[test]
fn items_that_cannot_be_changed_are_told_one_by_one() {
    let server = Server::with_queue("mail", &[]);
    server.produce("mail", &["hello"]);
    let held = server.lease("mail");
    server.run(&["complete", "mail", &held, "--result", "1"]).ok();
    let ended = server.run(&["items", "change", "mail", "rerun", "--state", "completed", "--yes"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), "0 items rerun\n"), "{ended:?}");
    assert!(ended.err.contains(id(&held)) && ended.err.contains("(wrong_state"), "{ended:?}");
}

#[test]
fn delete_without_a_terminal_needs_yes() {
    // Nobody has port 9 of this machine: the refusal is this program's.
    let delete = ["items", "change", "mail", "delete", "--url", "http://127.0.0.1:9"];
    assert!(run(&delete).failed(2).contains("say --yes"));
    let server = with_failed(&["invoice", "letter"], &[]);
    let invoices = ["items", "change", "mail", "delete", "--kind", "invoice", "--yes"];
    assert_eq!(server.run(&invoices).ok(), "1 item deleted\n");
    let left = server.run(&["items", "find", "mail", "--json"]).json();
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

#[test]
fn an_item_is_updated_and_run_now() {
    let server = Server::with_queue("mail", &[]);
    let id = server.produce("mail", &["hello", "--delay", "1h", "--header", "a=1", "--reference", "note"]);
    let update = ["item", "update", &id, "--priority", "3", "--header", "b=2", "--reference", ""];
    let shown =
        server.run(&[&update[..], &["--payload", "{\"to\": \"ada\"}", "--max-attempts", "9"]].concat()).ok();
    assert!(says(&shown, "priority", "3") && says(&shown, "header", "b=2"), "{shown}");
    assert!(!shown.contains("a=1") && !shown.contains("reference") && shown.contains("0 of 9"), "{shown}");
    assert!(says(&shown, "payload", "{\"to\": \"ada\"}") && says(&shown, "state", "scheduled"), "{shown}");
    assert!(!server.run(&["item", "update", &id, "--no-headers"]).ok().contains("header"));
    assert!(server.run(&["item", "update", &id]).failed(2).contains("what is to change"));
    assert!(says(&server.run(&["item", "run-now", &id]).ok(), "state", "waiting"));
    server.lease("mail");
    assert!(server.run(&["item", "run-now", &id]).failed(1).contains("(wrong_state)"));
}

#[test]
fn an_update_sets_when_an_item_is_due_and_expires() {
    let server = Server::with_queue("mail", &[]);
    let id = server.produce("mail", &["hello", "--address", "a"]);
    let update = |flags: &[&str]| server.run(&[&["item", "update", &id], flags].concat()).ok();
    let later = update(&["--enqueue-at", "2999-01-01T00:00:00Z", "--dead-timeout", "7d"]);
    assert!(later.contains("2999-01-01 00:00:00 UTC") && says(&later, "state", "scheduled"), "{later}");
    assert!(later.contains("\nexpires "), "{later}");
    let bytes = update(&["--delay", "1h", "--payload", "{}", "--as", "utf8"]);
    assert!(says(&bytes, "state", "scheduled") && !bytes.contains("2999-"), "{bytes}");
    assert_eq!(server.item(&id)["utf8"], "{}");
    let now = server.run(&["item", "run-now", "--queue", "mail", "--address", "a"]).ok();
    assert!(says(&now, "state", "waiting"), "{now}");
    assert!(says(&update(&["--dead-timeout", "1ms"]), "state", "expired"));
}

#[test]
fn a_wait_follows_an_item_to_the_latest_of_its_chain() {
    let server = with_failed(&["invoice"], &[]);
    let old = ids(&server.run(&["items", "find", "mail"]).ok())[0].clone();
    let new = server.run(&["item", "rerun", &old]).ok().trim().to_owned();
    let mut wait = server.begin(&["item", "wait", &old, "--follow", "--exit-status"]);
    let held = server.lease("mail");
    server.run(&["complete", "mail", &held, "--result", "1"]).ok();
    assert!(wait.line().ends_with(&new));
    assert!(says(&wait.end().ok(), "state", "completed"));
    assert!(says(&server.run(&["item", "wait", &old]).ok(), "state", "failed"));
}

#[test]
fn an_item_that_failed_is_rerun_and_leads_to_the_new_one() {
    let server = with_failed(&[], &["--retry-initial", "0s"]);
    let old = server.produce("mail", &["hello", "--kind", "letter"]);
    let held = server.lease("mail");
    server.run(&["retry", "mail", &held, "--error", "busy", "--code", "again"]).ok();
    assert_eq!(fail(&server, "never"), old);
    let shown = server.run(&["item", "get", &old]).ok();
    let attempts: Vec<_> = shown.lines().filter(|line| line.starts_with("attempt ")).collect();
    assert!(attempts[0].contains("1, retried ") && attempts[0].contains("again: busy"), "{shown}");
    assert!(attempts[1].contains("2, dead ") && attempts.len() == 2, "{shown}");
    assert!(
        shown.contains("\nclient ") && shown.contains("\nstarted ") && shown.contains("\nchanged "),
        "{shown}"
    );
    let new = server.run(&["item", "rerun", &old]).ok().trim().to_owned();
    let left = server.run(&["item", "get", &old]).ok();
    assert!(left.contains(&format!("went on as  mail, {new}\n")), "{left}");
    let latest = server.run(&["item", "get", &old, "--follow", "--json"]).json();
    assert_eq!(latest["item"]["id"], new.as_str());
    assert_eq!(latest["item"]["origin"]["reason"], "rerun");
    assert!(server.run(&["item", "rerun", &old]).failed(1).contains("(wrong_state)"));
}

#[test]
fn exit_status_tells_whether_the_item_completed() {
    let server = Server::with_queue("mail", &[]);
    server.produce("mail", &["fails"]);
    let failed = fail(&server, "never");
    server.produce("mail", &["is done"]);
    let held = server.lease("mail");
    server.run(&["complete", "mail", &held, "--result", "{\"sent\": true}"]).ok();
    for verb in [&["wait"][..], &["watch", "--after", "0"]] {
        let ended = |id: &str, flags: &[&str]| server.run(&[&["item"], verb, &[id], flags].concat());
        assert!(ended(id(&held), &["--exit-status"]).ok().contains("{\"sent\": true}"));
        assert!(ended(&failed, &[]).ok().contains("never: no such address"));
        assert_eq!(ended(&failed, &["--exit-status"]).code, Some(1));
    }
    server.produce("mail", &["waits", "--address", "here"]);
    let late = ["item", "wait", "--queue", "mail", "--address", "here", "--timeout", "0s", "--exit-status"];
    assert!(server.run(&late).failed(1).contains("has not ended"));
    let alone = server.run(&["produce", "mail", "x", "--exit-status"]).failed(2);
    assert!(alone.contains("--watch"), "{alone}");
}

#[test]
fn what_is_produced_and_watched_ends_with_the_exit_status_of_the_item() {
    let server = Server::with_queue("mail", &[]);
    let mut watch = server.begin(&["produce", "mail", "hello", "--watch", "--exit-status"]);
    let produced = watch.line();
    assert_eq!(fail(&server, "never"), produced);
    let ended = watch.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.ends_with("-  -  error  never: no such address\n"), "{ended:?}");
}

#[test]
fn a_watch_follows_an_item_to_the_latest_of_its_chain() {
    let server = with_failed(&["invoice"], &[]);
    let old = ids(&server.run(&["items", "find", "mail"]).ok())[0].clone();
    let new = server.run(&["item", "rerun", &old]).ok().trim().to_owned();
    let mut watch = server.begin(&["item", "watch", &old, "--follow", "--exit-status"]);
    assert!(watch.heard("so far").starts_with(&new));
    let held = server.lease("mail");
    server.run(&["complete", "mail", &held, "--result", "1"]).ok();
    assert!(watch.end().ok().ends_with("-  -  result  1\n"));
    let both = server.run(&["item", "watch", &old, "--follow", "--after", "0"]);
    assert!(both.failed(1).contains("(invalid_argument)"));
    let old = server.run(&["item", "watch", &old, "--after", "0"]).ok();
    assert!(old.contains(&format!("-  -  went on as  mail, {new}\n")), "{old}");
}

#[test]
fn what_is_kept_of_items_is_set_and_shown() {
    let flags = ["--retain-payload", "all", "--keep", "all", "--indexed-header", "customer"];
    let server = Server::with_queue("mail", &[&flags[..], &["--indexed-header", "reference"]].concat());
    let shown = server.run(&["queue", "info", "mail"]).ok();
    assert!(says(&shown, "keep", "all") && says(&shown, "indexed", "customer, reference"), "{shown}");
    assert!(shown.contains("payloads kept  all\n"), "{shown}");
    let update = ["queue", "update", "mail", "--retain-payload", "none", "--indexed-header", "", "--json"];
    let changed = &server.run(&update).json()["queue"];
    assert_eq!((&changed["retain_payload"], &changed["keep"]), (&json!("none"), &json!("all")));
    assert_eq!(changed["indexed_headers"], json!([]));
    server.produce("mail", &["hello"]);
    let held = server.lease("mail");
    server.run(&["complete", "mail", &held]).ok();
    assert_eq!(server.item(id(&held))["state"], "completed", "kept with nothing to show");
}

#[test]
fn a_dead_queue_that_is_missing_is_warned_of() {
    let server = Server::start();
    let made = server.run(&["queue", "create", "mail", "--dead-queue", "dead"]);
    assert!(made.err.starts_with("warning: ") && made.err.contains("dead"), "{made:?}");
    for asked in [&["queue", "info", "mail"][..], &["queue", "update", "mail", "--max-items", "9"]] {
        assert!(server.run(asked).err.starts_with("warning: "));
    }
    assert_eq!(server.run(&["queue", "info", "mail", "--json"]).err, "");
    assert_eq!(server.run(&["queue", "create", "dead"]).err, "");
    assert_eq!(server.run(&["queue", "info", "mail"]).err, "");
}

#[test]
fn dead_letters_show_their_error_and_a_taken_address_is_skipped() {
    let server = Server::with_queue("dead", &[]);
    server.run(&["queue", "create", "mail", "--dead-queue", "dead"]).ok();
    server.produce("mail", &["first", "--address", "a"]);
    fail(&server, "never");
    // Once it can be leased it has arrived.
    let held = server.lease("dead");
    server.run(&["release", "dead", &held]).ok();
    let listed = server.run(&["storage", "list", "dead"]).ok();
    let heading: Vec<_> = listed.lines().next().unwrap().split_whitespace().collect();
    assert!(heading.ends_with(&["FROM", "ERROR", "PAYLOAD"]), "{listed}");
    assert!(listed.contains("  mail  never: no such address  \"first\""), "{listed}");
    server.produce("mail", &["second", "--address", "a"]);
    let skipped = server.run(&["queue", "redrive", "dead"]).ok();
    assert_eq!(skipped, "0 items moved, 1 skipped: the addresses that they had are taken\n");
}

#[test]
fn error_codes_of_kept_items_are_counted() {
    let server = with_failed(&["a", "b"], &[]);
    server.produce("mail", &["c"]);
    let latest = fail(&server, "timeout");
    let table = server.run(&["queue", "errors", "mail"]).ok();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(rows, [["CODE", "ITEMS"], ["smtp_refused", "2"], ["timeout", "1"]], "{table}");
    assert!(table.lines().nth(2).unwrap().contains(&latest), "{table}");
    server.run(&["queue", "create", "other"]).ok();
    let none = server.run(&["queue", "errors", "other"]);
    assert!(none.out.is_empty() && none.err.contains("no kept item"), "{none:?}");
}

#[test]
fn queues_are_listed_in_the_order_that_is_asked_for() {
    let server = with_failed(&["a"], &[]);
    server.run(&["queue", "create", "later"]).ok();
    for queue in ["mail", "later", "later"] {
        server.produce(queue, &["1"]);
    }
    let order = |order: &str| ids(&server.run(&["queue", "list", "--order", order]).ok());
    assert_eq!(order("name"), ["later", "mail"]);
    assert_eq!(order("waiting"), ["later", "mail"]);
    assert_eq!(order("failed"), ["mail", "later"]);
    assert_eq!(order("oldest"), ["mail", "later"]);
    let oldest = server.run(&["queue", "list", "--order", "oldest"]).ok();
    let headings: Vec<_> = oldest.split_whitespace().take(3).collect();
    assert_eq!(headings, ["QUEUE", "WAITING", "OLDEST"]);
    let ages = oldest.lines().skip(1).filter_map(|row| row.split_whitespace().nth(2));
    assert!(ages.clone().count() == 2 && ages.clone().all(|age| age != "-"), "{oldest}");
    assert!(!server.run(&["queue", "list"]).ok().contains("OLDEST"));
}

#[test]
fn what_went_on_in_a_queue_is_shown_by_stretches_of_time() {
    let server = with_failed(&["a"], &[]);
    let table = server.run(&["queue", "history", "mail", "--span", "24h"]).ok();
    assert!(
        table.starts_with("FROM ")
            && table.lines().next().is_some_and(|line| line.ends_with("WAITED 50%  WAITED 99%"))
    );
    let busy: Vec<_> = table.lines().skip(1).filter(|row| !row.ends_with('-')).collect();
    let cells: Vec<_> = busy[0].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!((busy.len(), &cells[1..5]), (1, ["1", "0", "1", "0"].as_slice()), "{table}");
    let history = server.run(&["queue", "history", "mail", "--json"]).json();
    let buckets = history["queues"][0]["buckets"].as_array().unwrap();
    let total = |name: &str| buckets.iter().map(|bucket| bucket[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((total("produced"), total("failed"), total("completed")), (1, 1, 0));
    assert!(server.run(&["queue", "history", "mail", "--span", "25h"]).failed(1).contains("`span`"));
}
