use std::os::unix::fs::FileExt;

use crate::world::{Server, id, run};

/// A server with one queue, and the lease of its only item as it was printed.
fn leased(produce: &[&str], lease: &[&str]) -> (Server, String) {
    let server = Server::with_queue("mail", &["--retry-initial", "1h"]);
    server.run(&[&["produce", "mail"], produce].concat()).ok();
    let table = server.run(&[&["lease", "mail"], lease].concat()).ok();
    let held = table.lines().nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    (server, held)
}

/// Cells of a row.
fn last_two(row: &str) -> [&str; 2] {
    let mut cells = row.split_whitespace().rev();
    let last = cells.next().unwrap();
    [cells.next().unwrap(), last]
}

#[test]
fn what_lease_prints_can_be_completed() {
    let (server, held) = leased(&["{\"to\": \"ada\"}", "--kind", "greeting", "--header", "trace=1"], &[]);
    let item = server.run(&["item", "get", id(&held)]).ok();
    assert!(item.contains("state       leased\n") && item.contains("header      trace=1\n"), "{item}");
    assert_eq!(server.run(&["complete", "mail", &held, "--result", "done"]).ok(), "1 item completed\n");
    let item = server.run(&["item", "get", id(&held), "--json"]).json();
    assert_eq!(item["item"]["state"], "completed");
    assert_eq!(item["item"]["result"]["utf8"], "done");
}

#[test]
fn items_that_fail_are_told_one_by_one() {
    let (server, held) = leased(&["1"], &[]);
    server.run(&["complete", "mail", &held, "--result", "1"]).ok();
    let again = server.run(&["complete", "mail", &held]);
    assert_eq!(again.out, "0 items completed\n");
    assert!(again.failed(1).contains(&format!("{held}: ")));
    let document = server.run(&["complete", "mail", &held, "--json"]);
    assert_eq!((document.code, document.err.as_str()), (Some(1), ""));
    let reply: serde_json::Value = serde_json::from_str(&document.out).unwrap();
    assert_eq!(reply["failed"][0]["code"], "lease_lost");
}

#[test]
fn a_failed_attempt_can_be_tried_again_or_be_the_last() {
    let (server, held) = leased(&["1"], &[]);
    let retried =
        server.run(&["retry", "mail", &held, "--delay", "0s", "--error", "full", "--code", "quota"]).ok();
    assert_eq!(retried, "1 item will be tried again, 0 failed for good\n");
    let lease = server.run(&["lease", "mail", "--json"]).json();
    assert_eq!(lease["items"][0]["attempts"], 2);
    let held = format!("{}:{}", id(&held), lease["items"][0]["permit"]);
    let dead = server.run(&["retry", "mail", &held, "--dead", "--error", "no such address"]).ok();
    assert_eq!(dead, "0 items will be tried again, 1 failed for good\n");
    let item = server.run(&["item", "get", id(&held)]).ok();
    assert!(item.contains("state     failed\n") && item.contains("error     no such address\n"), "{item}");
}

#[test]
fn a_lease_is_extended_and_given_back() {
    let (server, held) = leased(&["1"], &["--lease-timeout", "10m"]);
    let extended = server.run(&["extend", "mail", &held, "--lease-timeout", "2h", "--json"]).json();
    assert_eq!(extended["items"][0]["id"], id(&held));
    assert!(server.run(&["extend", "mail", &held]).ok().contains("in 1h 59m"));
    assert_eq!(server.run(&["release", "mail", &held]).ok(), "1 item released\n");
    assert_eq!(server.run(&["lease", "mail", "--json"]).json()["items"][0]["attempts"], 1);
}

#[test]
fn a_cancelled_item_that_is_leased_waits_for_its_worker() {
    let (server, held) = leased(&["1"], &[]);
    let item = server.run(&["item", "cancel", id(&held)]).ok();
    assert!(item.contains("cancel      requested\n"), "{item}");
    assert!(server.run(&["extend", "mail", &held]).ok().contains("give it up"));
}

#[test]
fn a_suspended_item_shows_what_it_waits_for_and_its_next_lease_the_answer() {
    let (server, held) = leased(&["1"], &[]);
    let item = server.run(&["item", "get", id(&held)]).ok();
    assert!(!item.contains("\nreason ") && !item.contains("\nevents "), "{item}");
    server.run(&["item", "emit", &held, "is it right?"]).ok();
    assert!(!server.run(&["queue", "stats", "mail"]).ok().contains("suspended"));
    server.run(&["item", "suspend", "mail", &held, "--reason", "to be approved"]).ok();
    let stats = server.run(&["queue", "stats", "mail"]).ok();
    assert!(stats.lines().any(|line| line.split_whitespace().eq(["suspended", "1"])), "{stats}");
    let item = server.run(&["item", "get", id(&held)]).ok();
    assert!(item.contains("\nreason    to be approved\n") && item.contains("\nevents    1\n"), "{item}");
    server.run(&["item", "resume", id(&held), "{\"approved\":true}"]).ok();
    server.run(&["produce", "mail", "2"]).ok();
    let table = server.run(&["lease", "mail", "--batch-size", "2"]).ok();
    let ends: Vec<[&str; 2]> = table.lines().map(last_two).collect();
    assert_eq!(ends, [["INPUT", "PAYLOAD"], ["{\"approved\":true}", "1"], ["-", "2"]], "{table}");
}

#[test]
fn a_lease_without_answers_shows_none() {
    let server = Server::with_queue("mail", &[]);
    server.run(&["produce", "mail", "1"]).ok();
    let table = server.run(&["lease", "mail"]).ok();
    assert_eq!(last_two(table.lines().next().unwrap()), ["ENDS", "PAYLOAD"], "{table}");
}

#[test]
fn nothing_to_lease_prints_nothing() {
    let server = Server::with_queue("mail", &[]);
    let lease = server.run(&["lease", "mail", "--wait", "0s"]);
    assert!(lease.err.contains("nothing to lease"), "{lease:?}");
    assert_eq!(lease.ok(), "");
}

#[test]
fn only_kinds_and_priorities_that_are_wanted_are_leased() {
    let server = Server::with_queue("mail", &[]);
    server.run(&["produce", "mail", "1", "--kind", "a", "--priority", "5"]).ok();
    server.run(&["produce", "mail", "2", "--kind", "b"]).ok();
    let lease =
        |args: &[&str]| server.run(&[&["lease", "mail", "--json", "--wait", "0s"], args].concat()).json();
    assert_eq!(lease(&["--kinds", "c"])["items"].as_array().unwrap().len(), 0);
    assert_eq!(lease(&["--kinds", "a,c", "--max-priority", "4"])["items"].as_array().unwrap().len(), 0);
    assert_eq!(lease(&["--kinds", "a,c"])["items"][0]["json"], 1);
}

#[test]
fn a_backup_is_a_data_directory() {
    let (server, _) = leased(&["1"], &[]);
    let backup = server.run(&["backup", "one", "--json"]).json();
    assert_eq!(backup["backup"], "one");
    let copy = Server::start_on(std::path::Path::new(backup["path"].as_str().unwrap()));
    assert_eq!(copy.run(&["queue", "list", "--json"]).json()["queues"][0]["counts"]["leased"], 1);
}

#[test]
fn a_backup_of_damaged_data_is_kept_and_told_with_exit_code_5() {
    let server = Server::with_queue("mail", &[]);
    let payload = b"a text that is found in a file";
    server.run(&["produce", "mail", "\"a text that is found in a file\""]).ok();
    server.run(&["produce", "mail", "2"]).ok();
    assert!(server.run(&["backup", "sound"]).ok().contains("damage  none"));
    let segment = server.data().join("00000001.seg");
    let bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(payload.len()).position(|window| window == payload).unwrap();
    let file = std::fs::File::options().write(true).open(&segment).unwrap();
    file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
    let ended = server.run(&["backup", "damaged"]);
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.out.contains("1 place") && ended.out.contains("00000001.seg, byte "), "{ended:?}");
    let data = server.data().with_file_name("data-backups").join("damaged");
    assert_eq!(run(&["inspect", data.to_str().unwrap()]).code, Some(5));
}

#[test]
fn a_permit_is_listed_and_taken_away() {
    let (server, held) = leased(&["1", "--kind", "greeting"], &["--client-id", "w1"]);
    let table = server.run(&["queue", "permits", "mail"]).ok();
    let row = table.lines().nth(1).unwrap();
    assert!(row.starts_with(&held) && row.contains("greeting") && row.contains("w1"), "{table}");
    let permits = server.run(&["queue", "permits", "mail", "--json"]).json();
    assert_eq!(permits["permits"][0]["id"], id(&held));
    assert_eq!(server.run(&["queue", "revoke", "mail", &held]).ok(), "1 item revoked\n");
    let again = server.run(&["queue", "revoke", "mail", &held]);
    assert!(again.failed(1).contains("lease_lost, revoked"));
    assert_eq!(server.run(&["queue", "permits", "mail"]).ok(), "");
    assert_eq!(server.run(&["lease", "mail", "--json"]).json()["items"][0]["attempts"], 2);
}

#[test]
fn an_item_is_waited_for_until_it_has_ended_or_the_time_is_over() {
    let (server, held) = leased(&["1"], &[]);
    let early = server.run(&["item", "wait", id(&held), "--timeout", "0s"]);
    assert!(early.out.contains("state       leased\n"), "{early:?}");
    assert!(early.failed(1).contains("has not ended within 0s"));
    std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| server.run(&["item", "wait", id(&held), "--timeout", "10m", "--json"]).json());
        server.run(&["complete", "mail", &held, "--result", "done"]).ok();
        let item = waiting.join().unwrap();
        assert_eq!(
            (&item["item"]["state"], &item["item"]["result"]["utf8"]),
            (&"completed".into(), &"done".into())
        );
    });
}

#[test]
fn an_item_is_shown_and_cancelled_by_its_address() {
    let server = Server::with_queue("reports", &["--partitions", "3"]);
    let id = server.run(&["produce", "reports", "make it", "--address", "2026-q1"]).ok();
    let again = server.run(&["produce", "reports", "make it", "--address", "2026-q1"]);
    assert!(again.failed(1).contains(&format!("(duplicate_address, {})", id.trim())));
    let by_address = ["--queue", "reports", "--address", "2026-q1"];
    let item = server.run(&[&["item", "get"][..], &by_address].concat()).ok();
    assert!(item.contains(id.trim()) && item.contains("address   2026-q1\n"), "{item}");
    let explained = server.run(&[&["item", "explain", "--json"][..], &by_address].concat()).json();
    assert_eq!(explained["id"].as_str(), Some(id.trim()));
    let cancelled = server.run(&[&["item", "cancel", "--json"][..], &by_address].concat()).json();
    assert_eq!(
        (cancelled["item"]["id"].as_str(), &cancelled["item"]["state"]),
        (Some(id.trim()), &"cancelled".into())
    );
    for half in [&by_address[..2], &by_address[2..], &[]] {
        server.run(&[&["item", "get"][..], half].concat()).failed(2);
    }
}

#[test]
fn a_call_with_an_idempotency_key_produces_once() {
    let server = Server::with_queue("mail", &[]);
    let produce = |payload| server.run(&["produce", "mail", payload, "--idempotency-key", "order 7"]);
    let first = produce("hello").ok();
    assert_eq!(produce("hello").ok(), first);
    assert!(produce("goodbye").failed(1).contains("already_exists"));
    let later = ["produce", "mail", "hello", "--idempotency-key", "order 8", "--delay", "10m"];
    let first = server.run(&later).ok();
    assert_eq!(server.run(&later).ok(), first);
}

#[test]
fn items_are_delayed_by_the_servers_clock() {
    let server = Server::with_queue("mail", &[]);
    let id = server.run(&["produce", "mail", "later", "--delay", "1h"]).ok();
    let item = server.run(&["item", "get", id.trim(), "--json"]).json();
    assert_eq!(item["item"]["state"], "scheduled");
    let lines = "{\"utf8\": \"a\"}\n{\"utf8\": \"b\", \"enqueue_at\": \"2020-01-01T00:00:00Z\"}\n";
    server.run_with(&["produce", "mail", "--delay", "1h"], lines).ok();
    let counts = server.stats("mail")["counts"].clone();
    assert_eq!((&counts["scheduled"], &counts["waiting"]), (&2.into(), &1.into()));
    let both = ["produce", "mail", "x", "--delay", "1h", "--enqueue-at", "2999-01-01T00:00:00Z"];
    assert!(server.run(&both).failed(2).contains("--delay"));
    assert!(server.run(&["produce", "mail", "x", "--enqueue-at", "1h"]).failed(2).contains("not a time"));
    let held = server.run(&["lease", "mail", "--json"]).json()["items"][0].clone();
    let held = format!("{}:{}", held["id"].as_str().unwrap(), held["permit"]);
    let retried = server.run(&["retry", "mail", &held, "--delay", "1h"]).ok();
    assert!(retried.starts_with("1 item will be tried again"), "{retried}");
    let counts = server.stats("mail")["counts"].clone();
    assert_eq!(counts["scheduled"], 3);
}
