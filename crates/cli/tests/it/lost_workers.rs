//! What becomes of the items of a worker that is killed, or stopped: real processes, on a real server.

use std::collections::BTreeMap;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Going, Server};

const ITEMS: usize = 3;

fn server(lease_timeout: &str) -> (Server, Vec<String>) {
    let server = Server::start();
    server.run(&["queue", "create", "mail", "--lease-timeout", lease_timeout]).ok();
    let produce =
        |number: usize| server.run(&["produce", "mail", &number.to_string()]).ok().trim().to_owned();
    let ids = (0..ITEMS).map(produce).collect();
    (server, ids)
}

fn item(server: &Server, id: &str) -> Value {
    server.run(&["item", "get", id, "--json"]).json()["item"].clone()
}

/// One that has all items and will not come to an end; and its commands.
fn busy_worker(server: &Server, args: &[&str]) -> (Going, Vec<Pid>) {
    let command = "echo $$; exec sleep 1000";
    let mut worker =
        server.begin(&[&["work", "mail", "--concurrency", "3", "--exec", command], args].concat());
    let commands = (0..ITEMS).map(|_| Pid::from_raw(worker.line().parse().unwrap()).unwrap()).collect();
    (worker, commands)
}

/// One that waits, and shows each item as it is when its command runs.
fn waiting_worker(server: &Server) -> Going {
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let command = format!("'{windlass}' item get $WINDLASS_ITEM_ID --json");
    let worker = server.begin(&["work", "mail", "--concurrency", "3", "--exec", &command]);
    while server.run(&["queue", "stats", "mail", "--json"]).json()["lease_waiters"] != 1 {}
    worker
}

/// What it shows of the items, by id.
fn shown(worker: &mut Going) -> BTreeMap<String, Value> {
    let shown = (0..ITEMS).map(|_| serde_json::from_str::<Value>(&worker.line()).unwrap()["item"].clone());
    shown.map(|item| (item["id"].as_str().unwrap().to_owned(), item)).collect()
}

#[test]
fn the_items_of_a_killed_worker_run_elsewhere_after_their_leases_and_not_before() {
    let (server, ids) = server("2s");
    let (killed, commands) = busy_worker(&server, &[]);
    let mut other = waiting_worker(&server);
    killed.signal(Signal::KILL);
    // As on a machine that went down: the commands are gone too.
    commands.iter().for_each(|command| kill_process(*command, Signal::KILL).unwrap());
    drop(killed);
    let deadline = |id: &String| item(&server, id)["lease_deadline"].as_str().unwrap().to_owned();
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
    let (stopped, _) = busy_worker(&server, &["--grace", "0s"]);
    let mut other = waiting_worker(&server);
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
        while server.run(&["queue", "stats", "mail", "--json"]).json()["lease_waiters"] != 1 {}
        let producer = server.begin(&["produce", "mail", &number.to_string()]);
        worker.signal(Signal::TERM);
        producer.end().ok();
        assert!(worker.end().ok().starts_with("0 items completed"));
    }
    let counts = server.run(&["queue", "stats", "mail", "--json"]).json()["counts"].clone();
    assert_eq!((&counts["leased"], &counts["waiting"]), (&0.into(), &10.into()), "{counts}");
}
