//! Words of a server and of those who produce never reach a terminal as commands to it.

use serde_json::{Value, json};

use crate::fake_server;
use crate::world::{Server, run};

/// Clears a screen, rings, ends a line for a VT220, and turns the direction of reading.
const WORDS: &str = "a\u{1b}[2J\u{7}\u{9b}\u{7f}\u{202e}b";

fn is_safe(text: &str) -> bool {
    !text.chars().any(|letter| (letter.is_control() && letter != '\n') || letter == '\u{202e}')
}

#[test]
fn an_error_is_told_escaped_and_on_one_line() {
    let message = format!("{WORDS}\nerror: all is lost");
    let body = json!({"error": {"code": WORDS, "message": message}}).to_string();
    // JSON escapes some of them by itself: a hostile server does not.
    let body = body.replace("\\u009b", "\u{9b}").replace("\\u007f", "\u{7f}");
    let url = fake_server::answer("409 Conflict", body);
    let err = run(&["queue", "info", "mail", "--url", &url]).failed(1);
    assert!(is_safe(&err) && err.contains("\\u{1b}[2J") && err.lines().count() == 1, "{err:?}");
    let err = run(&["queue", "info", "mail", "--url", &url, "--json"]).failed(1);
    assert!(is_safe(&err), "{err:?}");
    let document: Value = serde_json::from_str(&err).unwrap();
    assert_eq!(document["error"]["message"], message);
}

#[test]
fn items_are_shown_escaped() {
    let server = Server::with_queue("mail", &[]);
    let item = json!({
        "utf8": WORDS, "kind": "k\u{9b}", "address": WORDS, "reference": WORDS, "headers": {WORDS: WORDS},
    });
    let produced = server.run_with(&["produce", "mail", "--json"], &format!("{item}\n"));
    assert_eq!(produced.code, Some(0), "{produced:?}");
    let leased = server.run(&["lease", "mail", "--json"]);
    assert!(is_safe(&leased.out), "{:?}", leased.out);
    let leased = leased.json();
    let (id, permit) = (leased["items"][0]["id"].as_str().unwrap(), &leased["items"][0]["permit"]);
    assert_eq!(
        (&leased["items"][0]["utf8"], &leased["items"][0]["kind"]),
        (&WORDS.into(), &"k\u{9b}".into())
    );
    let held = format!("{id}:{permit}");
    server.run(&["item", "emit", &held, WORDS]).ok();
    server.run(&["retry", "mail", &held, "--dead", "--error", WORDS]).ok();
    for args in [
        ["item", "get", id].as_slice(),
        &["item", "watch", id, "--after", "0"],
        &["item", "explain", id],
        &["item", "get", "--queue", "mail", "--address", WORDS],
        &["queue", "stats", "mail"],
        &["queue", "errors", "mail"],
        &["items", "find", "mail", "--payloads"],
        &["items", "find", "--state", "failed"],
        &["queue", "info", WORDS],
    ] {
        for json in [[].as_slice(), &["--json"]] {
            let ended = server.run(&[args, json].concat());
            assert!(is_safe(&ended.out) && is_safe(&ended.err), "{args:?} {json:?}: {ended:?}");
            assert!(
                json.is_empty() || !ended.out.contains('\n') || is_json_lines(&ended.out),
                "{args:?}: {ended:?}"
            );
        }
    }
}

#[test]
fn tables_and_lines_of_a_hostile_server_are_shown_escaped() {
    let payload = json!({"utf8": WORDS});
    let moved_to = json!({"queue": WORDS, "id": WORDS});
    let origin = json!({"queue": WORDS, "id": WORDS, "reason": WORDS, "error": {"message": WORDS}});
    let item = json!({
        "id": WORDS, "queue": WORDS, "state": WORDS, "kind": WORDS, "address": WORDS, "origin": origin, "moved_to": moved_to,
        "error": {"code": WORDS, "message": WORDS}, "result": payload, "utf8": WORDS,
    });
    let cron = json!({
        "cron": WORDS, "queue": WORDS, "schedule": WORDS, "timezone": WORDS, "item": payload, "catch_up": WORDS,
        "overlap": WORDS, "last_item": {"id": WORDS, "state": WORDS},
    });
    let failed: Vec<_> = (0..9).map(|_| json!({"id": WORDS, "code": WORDS, "message": WORDS})).collect();
    let counted = json!({"code": WORDS, "message": WORDS, "count": 1, "id": WORDS});
    let queue = json!({"queue": WORDS, "dead_queue": WORDS, "warnings": [WORDS], "indexed_headers": [WORDS]});
    for (command, reply) in [
        (["items", "find", "mail"].as_slice(), json!({"items": [item]})),
        (&["items", "find", "--state", "failed"], json!({"items": [item]})),
        (
            &["items", "change", "mail", "rerun", "--yes"],
            json!({"matched": 9, "changed": 0, "failed": failed}),
        ),
        (&["items", "change", "mail", "rerun", "--yes"], json!({"matched": 2, "failed": failed[..2]})),
        // The list goes on until it has as many items as it was to show.
        (&["storage", "list", "mail", "--partition", "0", "--limit", "1"], json!({"items": [item]})),
        (&["item", "get", "x"], json!({"item": item})),
        (&["queue", "errors", "mail"], json!({"errors": [counted]})),
        (&["queue", "info", "mail"], json!({"queue": queue})),
        (&["queue", "list"], json!({"queues": [queue]})),
        (&["cron", "info", "nightly"], json!({"cron": cron})),
    ] {
        let url = fake_server::answer("200 OK", raw(&reply));
        for json in [[].as_slice(), &["--json"]] {
            let ended = run(&[command, json, &["--url", &url]].concat());
            assert!(is_safe(&ended.out) && is_safe(&ended.err), "{command:?} {json:?}: {ended:?}");
            let shown = format!("{}{}", ended.out, ended.err);
            let bell = if json.is_empty() { "\\u{7}" } else { "\\u0007" };
            assert!(shown.contains(bell), "{command:?} {json:?}: {ended:?}");
            assert!(json.is_empty() || is_json_lines(&ended.out), "{command:?}: {ended:?}");
        }
    }
    // A list goes on until a page is empty.
    let pages = || vec![("200 OK", raw(&json!({"crons": [cron]}))), ("200 OK", raw(&json!({"crons": []})))];
    let listed = run(&["cron", "list", "--url", &fake_server::answer_in_turn(pages())]).ok();
    assert!(is_safe(&listed) && listed.contains("\\u{7}"), "{listed:?}");
}

/// JSON escapes some of the words by itself: a hostile server does not.
fn raw(document: &Value) -> String {
    document.to_string().replace("\\u009b", "\u{9b}").replace("\\u007f", "\u{7f}")
}

#[test]
fn where_an_item_went_on_is_shown_escaped() {
    let item = json!({"item": {"id": "x", "queue": "mail", "state": "failed"}}).to_string();
    let end = json!({"reason": "final", "state": "failed", "moved_to": {"queue": WORDS, "id": WORDS}});
    let state = json!({"state": WORDS, "at": "2026-01-31T12:00:00Z", "reason": WORDS});
    let frames = format!("event: state\ndata: {}\n\nevent: end\ndata: {}\n\n", raw(&state), raw(&end));
    let answers = vec![("200 OK", item.clone()), (fake_server::STREAM, frames), ("200 OK", item)];
    let url = fake_server::answer_in_turn(answers);
    let watched = run(&["item", "watch", "x", "--url", &url]).ok();
    assert!(is_safe(&watched) && watched.contains("went on as  a\\u{1b}[2J\\u{7}"), "{watched:?}");
}

fn is_json_lines(text: &str) -> bool {
    text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok())
}

#[test]
fn a_payload_of_several_lines_is_one_line_of_json() {
    let server = Server::with_queue("mail", &[]);
    let id =
        server.run(&["produce", "mail", "{\"a\":\n \"\u{9b}\"}", "--json"]).json()["items"][0]["id"].clone();
    let watched = server.run(&["item", "get", id.as_str().unwrap(), "--json"]).ok();
    assert!(is_json_lines(&watched) && is_safe(&watched) && watched.contains("\\u009b"), "{watched:?}");
}

#[test]
fn exported_items_are_bytes_for_another_program_and_escaped_on_a_terminal() {
    let server = Server::with_queue("mail", &[]);
    server.run(&["produce", "mail", "\"\u{9b}\u{202e}\""]).ok();
    let piped = server.run(&["storage", "export", "mail"]).ok();
    assert!(piped.contains("\"\u{9b}\u{202e}\"") && is_json_lines(&piped), "{piped:?}");
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let on_terminal = format!("script -qec \"'{windlass}' storage export mail\" /dev/null");
    let shown = server.begin_shell(&on_terminal).end().ok().replace('\r', "");
    assert!(is_safe(&shown) && shown.contains("\\u009b\\u202e"), "{shown:?}");
}
