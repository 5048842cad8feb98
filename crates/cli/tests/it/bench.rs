use std::path::Path;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::world::{Server, run};

const SMALL: [&str; 7] = ["bench", "--clients", "2", "--batch", "3", "--seconds", "1"];

fn is_empty(directory: &Path) -> bool {
    directory.read_dir().unwrap().next().is_none()
}

#[test]
fn a_server_is_started_measured_and_cleaned_up() {
    let parent = TempDir::new().unwrap();
    let place = ["--data-dir", parent.path().to_str().unwrap(), "--durability", "none"];
    let more = ["--backlog", "10", "--due", "1500", "--subscribers", "3", "--engine", "--json"];
    let ended = run(&[&SMALL[..], &place, &more].concat());
    assert!(ended.err.contains("started a server in this process"), "{ended:?}");
    let document = ended.json();
    for who in ["server", "engine"] {
        let phases: Vec<&str> = document[who]
            .as_array()
            .unwrap()
            .iter()
            .map(|figures| figures["phase"].as_str().unwrap())
            .collect();
        assert_eq!(phases[..4], ["produce", "lease", "complete", "cycle"]);
        let all_worked = document[who].as_array().unwrap().iter().all(|figures| figures["items"] != 0);
        assert!(all_worked, "{document}");
    }
    assert_eq!(document["ratios"].as_array().unwrap().len(), 4);
    assert_ne!(document["pickup"]["rounds"], 0);
    assert_eq!((&document["lateness"]["items"], &document["burst"]["left"]), (&100.into(), &0.into()));
    let watched = &document["watched"];
    let (delivered, p99) = (&watched["delivered"], &watched["followed"]["p99_us"]);
    assert!(delivered.as_u64() > Some(0) && p99.as_u64() > Some(0), "{watched}");
    assert_eq!(
        delivered.as_u64().unwrap() % (3 * 3),
        0,
        "each of three has every event of each batch of three"
    );
    assert_eq!(
        (&document["target"]["started_here"], &document["target"]["durability"]),
        (&true.into(), &"none".into())
    );
    assert!(is_empty(parent.path()));
}

#[test]
fn a_running_server_is_measured_and_left_as_it_was() {
    let server = Server::with_queue("mail", &[]);
    let shown = server.run(&[&SMALL[..], &["--encoding", "protobuf"]].concat()).ok();
    assert!(shown.contains("PHASE") && shown.contains("protobuf") && shown.contains("PICKUP"), "{shown}");
    let queues = server.run(&["queue", "list", "--json"]).json();
    assert_eq!(queues["queues"].as_array().unwrap().len(), 1);
}

#[test]
fn a_measurement_that_is_stopped_leaves_nothing_behind() {
    for how in [Signal::TERM, Signal::INT] {
        let server = Server::start();
        let mut going = server.begin(&["bench", "--seconds", "1000"]);
        assert!(!going.heard("full cycles").is_empty());
        going.signal(how);
        going.end().failed(130);
        let queues = server.run(&["queue", "list", "--json"]).json();
        assert_eq!(queues["queues"].as_array().unwrap().len(), 0);
    }
}
