//! Pausing, blocking, explaining, and watching all of it.

use rustix::process::Signal;

use crate::world::Server;

#[test]
fn a_queue_is_paused_and_blocked_listed_and_let_go() {
    let server = Server::with_queue("mail", &[]);
    server.run(&["produce", "mail", "1"]).ok();
    assert_eq!(server.run(&["rules"]).ok(), "");
    let paused = server.run(&["queue", "pause", "mail", "--reason", "a deploy", "--until", "1h"]).ok();
    assert!(paused.contains("a deploy") && paused.contains("in 59m"), "{paused}");
    server.run(&["queue", "block", "mail", "--kind", "default"]).ok();
    let rules = server.run(&["rules", "mail"]).ok();
    let words: Vec<Vec<&str>> = rules.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["RULE", "QUEUE", "KIND", "SINCE", "UNTIL", "REASON"]);
    assert_eq!(
        (words[1][..3].to_vec(), words[2][..3].to_vec()),
        (vec!["pause", "mail", "(all)"], vec!["block", "mail", "default"])
    );
    assert_eq!(server.run(&["rules", "--json"]).json()["rules"][1]["rule"], "block");
    let stats = server.run(&["queue", "stats", "mail"]).ok();
    assert!(stats.contains("1: the queue is paused"), "{stats}");

    assert_eq!(server.run(&["queue", "resume", "mail"]).ok(), "queue mail is not paused\n");
    let stats = server.run(&["queue", "stats", "mail"]).ok();
    assert!(stats.contains("1 of them, by rules on their kinds"), "{stats}");
    let unblocked = server.run(&["queue", "unblock", "mail", "--kind", "default"]).ok();
    assert_eq!(unblocked, "kind default of queue mail is not blocked\n");
    assert!(server.run(&["lease", "mail", "--ids"]).ok().contains(':'));
    assert!(server.run(&["queue", "pause", "letters"]).failed(1).contains("no queue `letters`"));
    assert!(server.run(&["rules", "letters"]).failed(1).contains("no queue `letters`"));
    assert!(
        server.run(&["queue", "pause", "mail", "--until", "yesterday"]).failed(2).contains("neither a time")
    );
}

#[test]
fn an_item_tells_why_it_is_not_running() {
    let server = Server::with_queue("mail", &[]);
    let made = server.run(&["produce", "mail", "1", "--json"]).json();
    let id = made["items"][0]["id"].as_str().expect("an id").to_owned();
    server.run(&["queue", "pause", "mail", "--reason", "a deploy"]).ok();
    let why = server.run(&["item", "explain", &id]).ok();
    let named: Vec<&str> = why.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(named, ["state", "paused", "no_worker"]);
    assert!(why.contains("(a deploy)"), "{why}");
    let codes = server.run(&["item", "explain", &id, "--json"]).json();
    assert_eq!(codes["reasons"][0]["code"], "paused");
    assert!(server.run(&["item", "explain", "no"]).failed(1).contains("UUID"));
}

#[test]
fn top_shows_every_queue_once_or_again_and_again() {
    let server = Server::with_queue("mail", &[]);
    server.run(&["queue", "create", "reports"]).ok();
    server.run(&["produce", "mail", "1"]).ok();
    server.run(&["queue", "pause", "mail"]).ok();
    server.run(&["queue", "block", "reports", "--kind", "monthly"]).ok();
    let once = server.run(&["top", "--once"]).ok();
    let lines: Vec<&str> = once.lines().collect();
    assert!(lines[0].starts_with("2 queues, 1 waiting, 0 leased, 2 rules"), "{once}");
    let mail: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!((mail[0], mail[1], mail[2], mail[11]), ("mail", "1", "1", "paused"));
    assert!(lines[3].ends_with("monthly blocked"), "{once}");
    let json = server.run(&["top", "--once", "--json"]).json();
    assert_eq!(json["queues"][0]["activity"]["stopped"], 1);
    assert!(server.run(&["top", "--interval", "1ms"]).failed(2).contains("at least 100ms"));

    let mut watching = server.begin(&["top", "--interval", "100ms"]);
    // Without a terminal, one table after the other; from the second on there are rates.
    let mut seen = Vec::new();
    while seen.len() < 8 {
        seen.push(watching.line());
    }
    assert!(seen[4].is_empty() && seen[5].starts_with("2 queues"), "{seen:?}");
    assert_eq!(seen[7].split_whitespace().nth(6), Some("0.0"), "{seen:?}");
    watching.signal(Signal::INT);
    assert_eq!(watching.end().code, Some(0));
}
