//! What becomes of the items of a worker that is killed, or stopped: real processes, on a real server.

use std::collections::BTreeMap;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::world::{Going, Server};

const ITEMS: usize = 3;

fn server(lease_timeout: &str) -> (Server, Vec<String>) {
    let server = Server::with_queue("mail", &["--lease-timeout", lease_timeout]);
    let ids = (0..ITEMS).map(|number| server.produce("mail", &[&number.to_string()])).collect();
    (server, ids)
}

/// One that has all items, and whose commands end neither by themselves nor with a terminal. Each leaves its number, and
/// that of a process it has started, in a file named after its item.
fn busy_worker(server: &Server, pids: &TempDir, args: &[&str]) -> Going {
    let pids = pids.path().display();
    let command = format!(
        "trap '' HUP INT QUIT; sleep 1000 & echo $$ $! > {pids}/$WINDLASS_ITEM_ID; echo started; exec sleep 1000"
    );
    let mut worker =
        server.begin(&[&["work", "mail", "--concurrency", "3", "--exec", &command], args].concat());
    (0..ITEMS).for_each(|_| assert_eq!(worker.line(), "started"));
    worker
}

/// One that waits, and shows each item as it is when its command runs, if the one before is gone.
fn waiting_worker(server: &Server, pids: &TempDir) -> Going {
    let (windlass, pids) = (env!("CARGO_BIN_EXE_windlass"), pids.path().display());
    let command = format!(
        "for pid in $(cat {pids}/$WINDLASS_ITEM_ID); do kill -0 $pid && echo $WINDLASS_ITEM_ID runs twice; done; \
         '{windlass}' item get $WINDLASS_ITEM_ID --json"
    );
    let worker = server.begin(&["work", "mail", "--concurrency", "3", "--exec", &command]);
    while server.stats("mail")["lease_waiters"] != 1 {}
    worker
}

/// What it shows of the items, by id.
fn shown(worker: &mut Going) -> BTreeMap<String, Value> {
    let shown = (0..ITEMS).map(|_| {
        let line = worker.line();
        let shown: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        shown["item"].clone()
    });
    shown.map(|item| (item["id"].as_str().unwrap().to_owned(), item)).collect()
}

#[test]
fn the_items_of_a_killed_worker_run_elsewhere_after_their_leases_and_not_before() {
    let (server, ids) = server("2s");
    let pids = TempDir::new().unwrap();
    let killed = busy_worker(&server, &pids, &[]);
    let mut other = waiting_worker(&server, &pids);
    killed.signal(Signal::KILL);
    let deadline = |id: &String| server.item(id)["lease_deadline"].as_str().unwrap().to_owned();
    let deadlines: Vec<String> = ids.iter().map(deadline).collect();
    let again = shown(&mut other);
    for (id, deadline) in ids.iter().zip(deadlines) {
        let item = &again[id];
        assert_eq!((&item["state"], &item["attempts"]), (&"leased".into(), &2.into()), "{item}");
        let leased_at = item["leased_at"].as_str().unwrap();
        assert!(leased_at >= deadline.as_str(), "two had it at {leased_at}: the first until {deadline}");
    }
    other.signal(Signal::TERM);
    assert_eq!(other.end().ok(), "3 items completed\n");
}

#[test]
fn the_items_of_a_stopped_worker_run_elsewhere_at_once_and_uncharged() {
    // Nothing comes back by itself while this test runs.
    let (server, ids) = server("1h");
    let pids = TempDir::new().unwrap();
    let stopped = busy_worker(&server, &pids, &["--grace", "0s"]);
    let mut other = waiting_worker(&server, &pids);
    stopped.signal(Signal::TERM);
    let again = shown(&mut other);
    for id in &ids {
        assert_eq!(again[id]["attempts"], 1, "{}", again[id]);
    }
    assert_eq!(stopped.end().ok(), "0 items completed, 3 released\n");
    other.signal(Signal::TERM);
    assert_eq!(other.end().ok(), "3 items completed\n");
}

#[test]
fn a_worker_that_is_stopped_while_work_comes_keeps_none_of_it() {
    let (server, ids) = server("1h");
    server.run(&["work", "mail", "--drain", "--exec", "true"]).ok();
    assert_eq!(ids.len(), ITEMS);
    for number in 0..10 {
        let worker = server.begin(&[
            "work",
            "mail",
            "--concurrency",
            "20",
            "--grace",
            "0s",
            "--exec",
            "exec sleep 1000",
        ]);
        while server.stats("mail")["lease_waiters"] != 1 {}
        let producer = server.begin(&["produce", "mail", &number.to_string()]);
        worker.signal(Signal::TERM);
        producer.end().ok();
        assert!(worker.end().ok().starts_with("0 items completed"));
    }
    let counts = server.stats("mail")["counts"].clone();
    assert_eq!((&counts["leased"], &counts["waiting"]), (&0.into(), &10.into()), "{counts}");
}

#[test]
fn all_that_a_killed_worker_has_started_ends_with_it() {
    let (server, _) = server("1h");
    let killed = busy_worker(&server, &TempDir::new().unwrap(), &[]);
    killed.signal(Signal::KILL);
    // Not before everybody has let go of its stdout.
    assert_eq!(killed.end().code, None);
}

#[test]
fn a_command_whose_supervisor_is_killed_ends_too() {
    let (server, ids) = server("1h");
    // The payload comes after the worker was told which processes these are.
    let command = "cat > /dev/null; sleep 1000 & echo $PPID; exec sleep 1000";
    let mut worker = server.begin(&["work", "mail", "--once", "--exec", command]);
    let supervisor = Pid::from_raw(worker.line().parse().unwrap()).unwrap();
    kill_process(supervisor, Signal::KILL).unwrap();
    assert_eq!(worker.end().out, "0 items completed, 1 to be tried again\n");
    assert_eq!(server.item(&ids[0])["error"]["code"], "killed");
}

#[test]
fn an_orphan_that_has_ended_does_not_count_as_running() {
    let (server, _) = server("1h");
    let command = "(sleep 1000 &); echo started; exec sleep 1000";
    let mut worker =
        server.begin(&["work", "mail", "--exec", command, "--grace", "0s", "--kill-after", "1h"]);
    assert_eq!(worker.line(), "started");
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().ok(), "0 items completed, 1 released\n");
}

#[test]
fn a_signal_to_everybody_at_once_stops_a_worker_like_one_to_itself() {
    let (server, ids) = server("1h");
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("go");
    let command = format!("trap '' TERM; mkfifo {0}; echo $PPID; cat {0}", path.display());
    let mut worker = server.begin(&["work", "mail", "--exec", &command]);
    let supervisor = Pid::from_raw(worker.line().parse().unwrap()).unwrap();
    kill_process(supervisor, Signal::TERM).unwrap();
    worker.signal(Signal::TERM);
    std::fs::write(&path, "went on\n").unwrap();
    assert_eq!(worker.end().ok(), "went on\n1 item completed\n");
    assert_eq!(ids.len(), ITEMS);
}
