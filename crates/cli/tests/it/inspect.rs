use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::world::{Server, run};

/// A directory whose server has stopped, with two queues and some items.
fn data() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let server = Server::start_on(&data);
    server.run(&["queue", "create", "mail"]).ok();
    server.run(&["queue", "create", "other", "--max-attempts", "9", "--meta", "{\"team\":\"post\"}"]).ok();
    server.run(&["produce", "mail", "gone"]).ok();
    server.run(&["queue", "clear", "mail"]).ok();
    server.run(&["produce", "mail", "{\"n\":1}", "--reference", "r", "--header", "h=v", "--kind", "k"]).ok();
    server.run(&["produce", "other", "x", "--delay", "1h"]).ok();
    server.run(&["produce", "other", "y"]).ok();
    let lease = server.run(&["lease", "other", "--json"]).json();
    let held = format!("{}:{}", lease["items"][0]["id"].as_str().unwrap(), lease["items"][0]["permit"]);
    server.run(&["complete", "other", &held, "--result", "done"]).ok();
    assert_eq!(server.stop(), Some(0));
    (directory, data)
}

#[test]
fn sound_data_is_told_to_be_sound() {
    let (_directory, data) = data();
    let shown = run(&["inspect", data.to_str().unwrap()]).ok();
    assert!(shown.contains("damage: none\n") && shown.contains("00000001.seg"), "{shown}");
    let document = run(&["inspect", data.to_str().unwrap(), "--check", "--json"]).json();
    assert_eq!(document["damage"], Value::Array(Vec::new()));
    assert_eq!(document["partitions"].as_array().unwrap().len(), 3);
}

#[test]
fn an_export_shows_queues_and_items_as_the_api_does() {
    let (_directory, data) = data();
    let exported = run(&["inspect", data.to_str().unwrap(), "--export"]).json_lines();
    let server = Server::start_on(&data);
    let queues: Vec<&Value> = exported.iter().filter_map(|line| line.get("queue")).collect();
    assert_eq!(queues.len(), 2);
    assert!(queues.iter().any(|queue| queue["meta"]["team"] == "post"), "{queues:?}");
    for queue in queues {
        let shown = server.run(&["queue", "info", queue["queue"].as_str().unwrap(), "--json"]).json();
        assert_eq!(&shown["queue"], queue);
    }
    let items: Vec<&Value> = exported.iter().filter_map(|line| line.get("item")).collect();
    assert_eq!(items.len(), 3, "{items:?}");
    for item in items {
        assert_eq!(&shown(&server, item), item);
    }
}

/// An item as a server shows it in lists: only `item.get` tells the attempts.
fn shown(server: &Server, item: &Value) -> Value {
    let mut shown = server.item(item["id"].as_str().unwrap());
    assert_eq!(shown.as_object_mut().unwrap().remove("attempt_log"), Some(Value::Array(Vec::new())));
    shown
}

#[test]
fn an_export_of_a_partition_that_is_not_there_is_refused() {
    let (_directory, data) = data();
    let data = data.to_str().unwrap();
    let err = run(&["inspect", data, "--export", "--partition", "1", "--partition", "77"]).failed(1);
    assert!(err.contains("there is no partition 77 in "), "{err}");
    run(&["inspect", data, "--partition", "1"]).failed(2);
}

#[test]
fn an_export_shows_groups_and_their_members_as_the_api_does() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let server = Server::start_on(&data);
    server.run(&["queue", "create", "mail", "--partitions", "3"]).ok();
    let members = ["--item", "1", "--item", "2", "--end", "\"sent\"", "--abort", "\"stopped\""];
    for (group, start) in [("open", None), ("started", Some("--start")), ("done", Some("--start"))] {
        let members = if group == "done" { &members[4..] } else { &members[..] };
        let create = [&["group", "create", "mail", group], members, start.as_slice()].concat();
        server.run(&create).ok();
    }
    let lease = server.run(&["lease", "mail", "--batch-size", "9", "--json"]).json();
    let leased = lease["items"].as_array().unwrap();
    let member = leased.iter().find(|item| item["group"] == "started").unwrap();
    let held = format!("{}:{}", member["id"].as_str().unwrap(), member["permit"]);
    server.run(&["complete", "mail", &held, "--result", "done"]).ok();
    assert_eq!(server.stop(), Some(0));

    let exported = run(&["inspect", data.to_str().unwrap(), "--export"]).json_lines();
    let server = Server::start_on(&data);
    let groups: BTreeMap<&str, &Value> = exported
        .iter()
        .filter_map(|line| line.get("group"))
        .map(|group| (group["group"].as_str().unwrap(), group))
        .collect();
    assert_eq!(groups.keys().collect::<Vec<_>>(), [&"done", &"open", &"started"]);
    for (name, group) in &groups {
        let shown = server.run(&["group", "info", "mail", name, "--json"]).json();
        assert_eq!(&&shown["group"], group);
    }
    let counted = &groups["started"]["members"];
    assert_eq!((&counted["completed"], &counted["leased"]), (&1.into(), &1.into()), "{counted}");
    let items: Vec<&Value> = exported.iter().filter_map(|line| line.get("item")).collect();
    for item in &items {
        assert_eq!(&&shown(&server, item), item);
    }
    let held = items.iter().filter(|item| item["group"] == "open" && item["state"] == "held");
    assert_eq!((items.len(), held.count()), (5, 2), "{items:?}");
}

#[test]
fn damaged_data_is_told_and_what_is_left_can_be_saved() {
    let (directory, data) = data();
    damage(&data);
    let data = data.to_str().unwrap();
    let check = run(&["inspect", data]);
    assert_eq!(check.code, Some(5), "{check:?}");
    assert!(check.out.contains("00000001.seg") && check.out.contains("damage: 1 place"), "{check:?}");
    let rescued = directory.path().join("rescued");
    let salvage = run(&["inspect", data, "--salvage", rescued.to_str().unwrap()]);
    assert_eq!(salvage.code, Some(5), "{salvage:?}");
    let server = Server::start_on(&rescued);
    assert_eq!(server.run(&["queue", "list", "--json"]).json()["queues"].as_array().unwrap().len(), 2);
}

/// Turns a byte of the first payload that is still wanted.
fn damage(data: &Path) {
    damage_at(data, b"{\"n\":1}");
}

/// Turns the first byte of what is found in the first segment.
fn damage_at(data: &Path, wanted: &[u8]) {
    let segment = data.join("00000001.seg");
    let mut bytes = std::fs::read(&segment).unwrap();
    let found = bytes.windows(wanted.len()).position(|window| window == wanted).unwrap();
    bytes[found] ^= 1;
    std::fs::write(segment, bytes).unwrap();
}

#[test]
fn a_lost_payload_is_told_with_its_queue() {
    let (directory, data) = data();
    damage(&data);
    let path = data.to_str().unwrap();
    let check = run(&["inspect", path]);
    assert!(check.out.contains("(queue mail): 1 item; lost: 1 payload\n"), "{check:?}");
    let rescued = directory.path().join("rescued");
    for ask in [vec!["inspect", path], vec!["inspect", path, "--salvage", rescued.to_str().unwrap()]] {
        let told = run(&[&ask[..], &["--json"]].concat());
        assert_eq!(told.code, Some(5), "{told:?}");
        let document: Value = serde_json::from_str(&told.out).unwrap();
        let items = &document["items"];
        assert_eq!((&items["kept"], &items["lost"]), (&3.into(), &0.into()), "{items}");
        assert_eq!(items["may_miss_more"], Value::Bool(false), "{items}");
        assert_eq!(items["payloads_lost"], 1, "{items}");
        assert_eq!(items["hurt"][0]["queue"], "mail", "{items}");
        assert_eq!(items["unclaimed"], Value::Array(Vec::new()), "{items}");
    }
}

#[test]
fn damage_to_a_payload_that_nobody_wants_is_harmless() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let server = Server::start_on(&data);
    server.run(&["queue", "create", "mail"]).ok();
    server.run(&["produce", "mail", "done-and-gone"]).ok();
    let lease = server.run(&["lease", "mail", "--json"]).json();
    let held = format!("{}:{}", lease["items"][0]["id"].as_str().unwrap(), lease["items"][0]["permit"]);
    server.run(&["complete", "mail", &held]).ok();
    assert_eq!(server.stop(), Some(0));
    damage_at(&data, b"done-and-gone");
    let path = data.to_str().unwrap();
    let shown = run(&["inspect", path]).ok();
    assert!(shown.contains("damage: none\n"), "{shown}");
    assert!(shown.contains("harmless damage, by which nothing is lost: 1 place"), "{shown}");
    let rescued = directory.path().join("rescued");
    let shown = run(&["inspect", path, "--salvage", rescued.to_str().unwrap()]).ok();
    assert!(shown.contains("lost: none\n") && shown.contains("harmless damage"), "{shown}");
}

#[test]
fn a_wrong_format_file_costs_nothing_but_a_salvage() {
    let (directory, data) = data();
    let format = data.join("format");
    let text = std::fs::read_to_string(&format).unwrap();
    let digit = text.find("log = ").unwrap() + 6;
    let mut wrong = text.clone().into_bytes();
    // In both of its copies.
    for at in [digit, text.len() / 2 + digit] {
        wrong[at] = if wrong[at] == b'0' { b'1' } else { b'0' };
    }
    std::fs::write(&format, wrong).unwrap();
    let path = data.to_str().unwrap();
    let check = run(&["inspect", path]);
    assert_eq!(check.code, Some(5), "{check:?}");
    assert!(
        check.out.contains("a server does not start on it") && check.out.contains("items: 3\n"),
        "{check:?}"
    );
    let rescued = directory.path().join("rescued");
    let shown = run(&["inspect", path, "--salvage", rescued.to_str().unwrap()]).ok();
    assert!(shown.contains("lost: none\n") && shown.contains("items       3\n"), "{shown}");
    let server = Server::start_on(&rescued);
    assert_eq!(server.run(&["queue", "list", "--json"]).json()["queues"].as_array().unwrap().len(), 2);
}

#[test]
fn a_directory_that_a_server_has_is_left_alone() {
    let server = Server::start();
    let err = run(&["inspect", server.data().to_str().unwrap()]).failed(1);
    assert!(err.contains("stop that server first"), "{err}");
}

#[test]
fn a_directory_that_is_not_there_does_not_come_into_being() {
    let directory = TempDir::new().unwrap();
    let missing = directory.path().join("missing");
    let err = run(&["inspect", missing.to_str().unwrap()]).failed(2);
    assert!(err.contains("is not a directory") && !missing.exists(), "{err}");
    let err = run(&["inspect", directory.path().to_str().unwrap()]).failed(1);
    assert!(err.contains("no log here"), "{err}");
    assert!(directory.path().read_dir().unwrap().next().is_none(), "looking made a file");
}

/// The files of a directory, with what is in them.
fn files(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = data.read_dir().unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn a_directory_that_may_only_be_read_can_be_inspected_and_stays_as_it_is() {
    let (_directory, data) = data();
    let before = files(&data);
    let allow = |mode| {
        for path in before.keys() {
            std::fs::set_permissions(path, Permissions::from_mode(mode & 0o666)).unwrap();
        }
        std::fs::set_permissions(&data, Permissions::from_mode(mode)).unwrap();
    };
    allow(0o555);
    for what in ["--check", "--export"] {
        run(&["inspect", data.to_str().unwrap(), what]).ok();
    }
    allow(0o777);
    assert_eq!(files(&data), before);
}

/// What `inspect` and the server say of it: both must see the damage.
fn refused_by_both(data: &Path) -> (String, String) {
    let path = data.to_str().unwrap();
    let check = run(&["inspect", path]);
    assert_eq!(check.code, Some(5), "{check:?}");
    run(&["inspect", path, "--export"]).failed(5);
    let serve = run(&["serve", "--data", path, "--listen", "127.0.0.1:0"]).failed(5);
    (check.out, serve)
}

#[test]
fn data_without_its_segments_is_refused_by_server_and_inspector_alike() {
    let (_directory, data) = data();
    for path in files(&data).into_keys().filter(|path| path.extension().is_some_and(|end| end == "seg")) {
        std::fs::remove_file(path).unwrap();
    }
    let (check, serve) = refused_by_both(&data);
    assert!(check.contains("there is no segment"), "{check}");
    assert!(serve.contains("there is no segment"), "{serve}");
}

#[test]
fn a_segment_that_was_cut_is_refused_by_server_and_inspector_alike() {
    let (_directory, data) = data();
    let segment = File::options().write(true).open(data.join("00000001.seg")).unwrap();
    segment.set_len(700_000).unwrap();
    let (check, serve) = refused_by_both(&data);
    assert!(check.contains("00000001.seg, byte 700,000: the file ends here"), "{check}");
    assert!(serve.contains("00000001.seg: damaged at byte 700000"), "{serve}");
}
