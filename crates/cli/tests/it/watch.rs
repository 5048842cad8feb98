use serde_json::{Value, json};

use crate::fake_server;
use crate::proxy::Proxy;
use crate::world::{Going, Server, id, run};

/// A server with one queue and one item, and its lease as it was printed.
fn leased() -> (Server, String) {
    let server = Server::with_queue("mail", &[]);
    server.run(&["produce", "mail", "hello"]).ok();
    let held = server.lease("mail");
    (server, held)
}

/// The next line without its time.
fn line(watch: &mut Going) -> String {
    let line = watch.line();
    line.split_once("  ").map_or(line.clone(), |(_, rest)| rest.to_owned())
}

#[test]
fn an_item_is_watched_until_it_ends() {
    let (server, held) = leased();
    assert_eq!(server.run(&["item", "emit", &held, "it begins"]).ok(), "event 1\n");
    let mut watch = server.begin(&["item", "watch", id(&held)]);
    assert_eq!(watch.heard("so far").trim_end(), format!("{} is leased, 1 event so far", id(&held)));
    server
        .run(&["item", "emit", &held, "{\"done\":1,\"total\":2}", "--type", "progress", "--after", "1"])
        .ok();
    assert_eq!(line(&mut watch), "2  progress  {\"done\":1,\"total\":2}");
    server.run(&["item", "emit", &held, "bell \u{7}"]).ok();
    assert_eq!(line(&mut watch), "3  message  \"bell \\u{7}\"");
    server.run(&["complete", "mail", &held]).ok();
    assert_eq!(line(&mut watch), "-  state  completed");
    assert_eq!(watch.end().ok(), "");
}

#[test]
fn frames_are_shown_as_they_are() {
    let (server, held) = leased();
    server.run(&["item", "emit", &held, "[1]", "--type", "list"]).ok();
    server.run(&["complete", "mail", &held]).ok();
    let shown = server.run(&["item", "watch", id(&held), "--after", "0", "--json"]).ok();
    let frames: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = frames[..3].iter().map(|frame| frame["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["list", "state", "end"]);
    assert_eq!(frames[3], server.run(&["item", "get", id(&held), "--json"]).json(), "the outcome");
    assert_eq!(frames.len(), 4);
    assert_eq!((&frames[0]["id"], &frames[0]["data"]["json"]), (&json!(1), &json!([1])));
    assert_eq!(frames[2]["data"], json!({"reason": "final", "state": "completed"}));
    let refused = server.run(&["item", "watch", id(&held), "--after", "9"]);
    assert!(refused.failed(1).contains("invalid_argument"));
}

#[test]
fn what_is_produced_can_be_watched() {
    let server = Server::with_queue("mail", &[]);
    let mut watch = server.begin(&["produce", "mail", "hello", "--watch"]);
    let id = watch.line();
    let held = server.lease("mail");
    assert_eq!(held.split_once(':').unwrap().0, id);
    server.run(&["item", "emit", &held, "hi"]).ok();
    server.run(&["complete", "mail", &held]).ok();
    let shown = watch.end().ok();
    assert!(shown.contains("1  message  \"hi\"\n") && shown.ends_with("-  state  completed\n"), "{shown}");
    let many = server.run_with(&["produce", "mail", "--watch"], "{\"json\":1}\n");
    assert!(many.failed(2).contains("--watch is for a PAYLOAD"));
}

#[test]
fn a_watch_goes_on_when_the_server_is_back() {
    let (server, held) = leased();
    let proxy = Proxy::before(&server);
    let mut watch = server.begin_by(&proxy.url(), &["item", "watch", id(&held)]);
    watch.heard("so far");
    proxy.go_away();
    assert!(watch.heard("trying again").contains("the stream from"));
    server.run(&["item", "emit", &held, "hi"]).ok();
    proxy.come_back();
    assert_eq!(line(&mut watch), "1  message  \"hi\"");
    // Told anew: each loss is, and each once.
    proxy.go_away();
    watch.heard("trying again");
    server.run(&["complete", "mail", &held]).ok();
    proxy.come_back();
    assert_eq!(line(&mut watch), "-  state  completed");
    let ended = watch.end();
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}

/// The end of the message about an item that ended before the watch saw it, and is not kept.
const FORGOTTEN: &str =
    "and the queue keeps nothing of such items: set `windlass queue update mail --keep all`";

#[test]
fn an_item_that_is_forgotten_during_an_outage_has_an_unknown_final_state() {
    for verb in [["item", "watch"].as_slice(), &["produce", "mail", "hello", "--watch"]] {
        for (status, code) in [([].as_slice(), 0), (&["--exit-status"], 4)] {
            let server = Server::start();
            let proxy = Proxy::before(&server);
            server.run(&["queue", "create", "mail"]).ok();
            let known = (verb[0] == "item").then(|| server.produce("mail", &["hello"]));
            let args = [verb, known.as_deref().as_slice(), status].concat();
            let mut watch = server.begin_by(&proxy.url(), &args);
            if known.is_none() {
                watch.line();
            } else {
                watch.heard("so far");
            }
            proxy.go_away();
            let held = server.lease("mail");
            server.run(&["complete", "mail", &held]).ok();
            proxy.come_back();
            let ended = watch.end();
            assert!(ended.err.contains(id(&held)) && ended.err.contains(FORGOTTEN), "{ended:?}");
            assert_eq!(ended.code, Some(code), "{ended:?}");
        }
    }
}

#[test]
fn an_item_that_ends_before_its_watch_begins_has_an_unknown_final_state() {
    let item = "00000000-0000-8080-8000-000000000001";
    let produced = json!({"items": [{"id": item, "state": "waiting"}]}).to_string();
    let gone = json!({"error": {"code": "not_found", "message": "no item", "details": {"id": item}}});
    for (status, code) in [([].as_slice(), 0), (&["--exit-status"], 4)] {
        let answers = vec![("200 OK", produced.clone()), ("404 Not Found", gone.to_string())];
        let url = fake_server::answer_in_turn(answers);
        let ended = run(&[&["produce", "mail", "hello", "--watch", "--url", &url], status].concat());
        let told = format!("{item} ended before the watch began, {FORGOTTEN}");
        assert!(ended.code == Some(code) && ended.err.contains(&told), "{ended:?}");
    }
}

#[test]
fn an_item_that_never_was_cannot_be_watched() {
    let (server, _) = leased();
    let refused = server.run(&["item", "watch", "00000000-0000-8080-8000-0000000000ff"]);
    assert!(refused.failed(1).contains("not_found"));
}

#[test]
fn a_suspended_item_goes_on_with_the_answer() {
    let (server, held) = leased();
    let suspend = ["item", "suspend", "mail", &held, "--reason", "to be approved"];
    assert_eq!(server.run(&suspend).ok(), "1 item suspended\n");
    assert!(server.run(&suspend).failed(1).contains("lease_lost, suspended"));
    let answer = server.run(&["item", "resume", id(&held), "{\"approved\":true}"]).ok();
    assert_eq!(answer, format!("{} goes on\n", id(&held)));
    assert!(server.run(&["item", "resume", id(&held)]).failed(1).contains("wrong_state"));
    let item = server.run(&["lease", "mail", "--json"]).json();
    assert_eq!(item["items"][0]["input"], json!({"json": {"approved": true}}));
}

#[test]
fn an_item_is_watched_and_answered_by_its_address() {
    let server = Server::with_queue("mail", &[]);
    server.run(&["produce", "mail", "letter", "--address", "a/b"]).ok();
    let held = server.lease("mail");
    server.run(&["item", "suspend", "mail", &held]).ok();
    let by_address = ["--queue", "mail", "--address", "a/b"];
    let both = server.run(&[&["item", "resume", id(&held), "yes"][..], &by_address].concat()).failed(2);
    assert!(both.contains("not by both"), "{both}");
    assert_eq!(server.run(&[&["item", "resume", "yes"][..], &by_address].concat()).ok(), "a/b goes on\n");
    let held = server.lease("mail");
    server.run(&["complete", "mail", &held]).ok();
    let watched = server.run(&[&["item", "watch", "--after", "0"][..], &by_address].concat()).ok();
    assert!(watched.contains("input  \"yes\"") && watched.contains("state  completed"), "{watched}");
}
