//! Words of a server and of those who produce never reach a terminal as commands to it.

use serde_json::Value;

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
    let body = serde_json::json!({"error": {"code": WORDS, "message": message}}).to_string();
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
    let item = serde_json::json!({
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
