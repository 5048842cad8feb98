use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{Server, json_lines, run};

fn server(queues: &[&str]) -> Server {
    let server = Server::start();
    queues.iter().for_each(|queue| drop(server.run(&["queue", "create", queue]).ok()));
    server
}

/// So many items, each longer than the share it has of a pipe.
fn numbered(count: usize) -> String {
    let mut input = String::new();
    let filler = "x".repeat(200);
    (0..count).for_each(|number| writeln!(input, "{{\"json\":[{number},\"{filler}\"]}}").unwrap());
    input
}

fn numbers(items: &[Value]) -> Vec<u64> {
    items.iter().map(|item| item["json"][0].as_u64().unwrap()).collect()
}

fn produce_in_order(server: &Server, queue: &str, count: usize) {
    server.run_with(&["produce", queue, "-", "--in-flight", "1"], &numbered(count)).ok();
}

/// A queue with something of everything that an item can be.
fn varied() -> Server {
    let server = server(&["mail"]);
    fill(&server);
    server
}

fn fill(server: &Server) {
    server.run(&["queue", "create", "first", "--dead-queue", "mail"]).ok();
    server.run(&["produce", "first", "moved", "--reference", "from first"]).ok();
    server.run(&["retry", "first", &server.lease("first"), "--dead", "--error", "no", "--code", "bad"]).ok();
    // Once it can be leased it has arrived.
    server.run(&["release", "mail", &server.lease("mail")]).ok();
    server.run(&["produce", "mail", "tried", "--kind", "tried"]).ok();
    let held = server.run(&["lease", "mail", "--kinds", "tried", "--ids"]).ok();
    server.run(&["retry", "mail", held.trim(), "--delay", "0s", "--error", "busy"]).ok();
    let flags = ["--kind", "greeting", "--priority", "5", "--reference", "r", "--header", "trace=1"];
    let limits = ["--dead-timeout", "7d", "--max-attempts", "9"];
    server.run(&[&["produce", "mail", "{\"to\": \"ada\"}"], &flags[..], &limits].concat()).ok();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [0xff, 0x00]).unwrap();
    server.run(&["produce", "mail", "--payload-file", file.path().to_str().unwrap()]).ok();
    server.run(&["produce", "mail", "later", "--delay", "2h"]).ok();
    server.run(&["produce", "mail", "sooner", "--delay", "1h", "--priority", "200"]).ok();
    server.run(&["produce", "mail", "in work", "--kind", "leased"]).ok();
    server.run(&["lease", "mail", "--kinds", "leased"]).ok();
}

/// What must be the same wherever an item is.
fn kept(mut item: Value) -> Value {
    let fields = item.as_object_mut().unwrap();
    let of_its_place = ["id", "partition", "changed_at"];
    let of_leases = ["permit", "client_id", "started_at", "leased_at", "lease_deadline", "cancel_requested"];
    for gone in of_its_place.iter().chain(&of_leases) {
        fields.remove(*gone);
    }
    if fields["state"] == "leased" {
        fields["state"] = json!("waiting");
    }
    item
}

#[test]
fn an_export_of_one_server_is_imported_into_another_as_it_was() {
    let (from, to) = (varied(), server(&["mail"]));
    let export = from.run(&["storage", "export", "mail"]);
    assert_eq!(export.err, "7 items exported\n");
    let export = export.ok();
    let exported: Vec<Value> = json_lines(&export).into_iter().map(kept).collect();
    let payloads: Vec<&Value> = exported.iter().map(|item| &item["utf8"]).collect();
    assert_eq!(payloads[..3], ["sooner", "later", "moved"]);
    assert_eq!(exported[2]["origin"]["error"], json!({"code": "bad", "message": "no"}));
    assert_eq!((&exported[3]["attempts"], &exported[3]["error"]["message"]), (&json!(1), &json!("busy")));
    assert_eq!(exported[6]["dead_timeout"], "7d");
    let said = to.run_with(&["storage", "import", "mail"], &export).ok();
    assert!(said.starts_with("7 items imported in "), "{said}");
    let arrived = to.run(&["storage", "export", "mail"]).json_lines();
    assert_eq!(arrived.into_iter().map(kept).collect::<Vec<_>>(), exported);
}

#[test]
fn an_imported_item_still_tells_which_cron_made_it() {
    let (from, to) = (server(&["reports"]), server(&["reports"]));
    from.run(&["cron", "create", "nightly", "reports", "30 2 * * *", "1"]).ok();
    from.run(&["cron", "trigger", "nightly"]).ok();
    let export = from.run(&["storage", "export", "reports"]).ok();
    to.run_with(&["storage", "import", "reports"], &export).ok();
    let arrived = to.run(&["storage", "export", "reports"]).json_lines();
    let exported = json_lines(&export);
    assert_eq!((arrived.len(), &arrived[0]["cron"]), (1, &json!("nightly")));
    assert_eq!(arrived[0]["scheduled_at"], exported[0]["scheduled_at"]);
    assert!(arrived[0]["scheduled_at"].is_string(), "{}", arrived[0]);
}

#[test]
fn a_partition_of_a_stopped_servers_data_is_imported_as_it_was() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let from = Server::start_on(&data);
    from.run(&["queue", "create", "other"]).ok();
    from.run(&["produce", "other", "stays behind"]).ok();
    from.run(&["queue", "create", "mail"]).ok();
    fill(&from);
    let mut expected: Vec<Value> =
        from.run(&["storage", "export", "mail"]).json_lines().into_iter().map(kept).collect();
    from.run(&["produce", "mail", "done", "--kind", "done"]).ok();
    let held = from.run(&["lease", "mail", "--kinds", "done", "--ids"]).ok();
    from.run(&["item", "emit", held.trim(), "half of it"]).ok();
    from.run(&["complete", "mail", held.trim(), "--result", "yes"]).ok();
    from.run(&["group", "create", "mail", "empty"]).ok();
    let stats = from.stats("mail");
    let partition = stats["partitions"][0]["partition"].to_string();
    assert_eq!(from.stop(), Some(0));

    let data = data.to_str().unwrap();
    let export = run(&["inspect", data, "--export", "--partition", &partition]).ok();
    assert!(!export.contains("stays behind") && !export.contains("{\"queue\":{"), "{export}");
    let to = server(&["mail"]);
    let said = to.run_with(&["storage", "import", "mail"], &export).ok();
    assert!(said.starts_with("7 items imported in "), "{said}");
    assert!(said.ends_with("\npassed over: 1 group, 1 event, 1 ended item\n"), "{said}");
    let mut arrived: Vec<Value> =
        to.run(&["storage", "export", "mail"]).json_lines().into_iter().map(kept).collect();
    arrived.sort_by_key(ToString::to_string);
    expected.sort_by_key(ToString::to_string);
    assert_eq!(arrived, expected);

    let all = run(&["inspect", data, "--export"]).ok();
    let told = to.run_with(&["storage", "import", "mail", "--json"], &all).json();
    assert_eq!(told["imported"], 8);
    // One of the two items that ended was dead-lettered from another queue.
    assert_eq!(told["passed_over"], json!({"queues": 3, "groups": 1, "events": 1, "ended_items": 2}));
}

#[test]
fn a_wrong_field_within_an_exported_item_ends_an_import() {
    let server = server(&["mail"]);
    let input = "{\"item\":{\"json\":1}}\n{\"item\":{\"jsn\":1}}\n";
    let err = server.run_with(&["storage", "import", "mail"], input).failed(2);
    assert!(err.contains("line 2: ") && err.contains("unknown field `jsn`"), "{err}");
    let err = server.run_with(&["storage", "import", "mail"], "{\"itm\":{}}\n").failed(2);
    assert!(err.contains("unknown field `itm`"), "{err}");
}

#[test]
fn a_file_holds_all_partitions_and_keeps_their_order() {
    let server = server(&["copy"]);
    server.run(&["queue", "create", "mail", "--partitions", "2"]).ok();
    produce_in_order(&server, "mail", 2500);
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("mail.ndjson");
    let path = file.to_str().unwrap();
    let said = server.run(&["storage", "export", "mail", "--output", path]).ok();
    assert_eq!(said, format!("2,500 items exported to {path}\n"));
    let exported = json_lines(&std::fs::read_to_string(&file).unwrap());
    let partitions: BTreeSet<u64> = exported.iter().map(|item| item["partition"].as_u64().unwrap()).collect();
    assert_eq!(partitions.len(), 2);
    let document = server.run(&["storage", "import", "copy", path, "--json"]).json();
    assert_eq!(document["imported"], 2500);
    let copied = server.run(&["storage", "export", "copy"]).json_lines();
    assert_eq!(numbers(&copied), numbers(&exported));
    let said = server.run(&["storage", "export", "nowhere", "--output", path]).failed(1);
    assert!(said.contains("no queue `nowhere`"), "{said}");
    assert_eq!(directory.path().read_dir().unwrap().count(), 1, "what was begun is gone");
    assert_eq!(json_lines(&std::fs::read_to_string(&file).unwrap()).len(), 2500);
}

#[test]
fn an_export_goes_on_though_its_place_in_the_list_is_gone() {
    for gone in [999..1000, 990..1000, 0..1000] {
        let server = server(&["mail"]);
        produce_in_order(&server, "mail", 2500);
        let listed = server.run(&["storage", "list", "mail", "--limit", "1000", "--json"]).json();
        let items = listed["items"].as_array().unwrap();
        let ids: Vec<&str> = items[gone].iter().map(|item| item["id"].as_str().unwrap()).collect();
        let mut export = server.begin(&["storage", "export", "mail"]);
        // The first page is more than a pipe holds: the export waits in the midst of it.
        let mut text = export.line() + "\n";
        let deleted = server.run(&[&["storage", "delete", "mail"], &ids[..]].concat()).ok();
        assert_eq!(deleted, format!("{} deleted\n", crate::human::counted(ids.len() as u64, "item")));
        text.push_str(&export.end().ok());
        assert_eq!(numbers(&json_lines(&text)), (0..2500).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_larger_than_one_request_is_imported_in_several() {
    let server = server(&["mail"]);
    let line = format!("{{\"utf8\":\"{}\"}}\n", "x".repeat(1_000_000));
    let said = server.run_with(&["storage", "import", "mail"], &line.repeat(20)).ok();
    assert!(said.starts_with("20 items imported in "), "{said}");
}

#[test]
fn an_item_that_cannot_come_in_is_told_with_its_line_and_the_others_come_in() {
    let server = server(&["mail"]);
    let input = "{\"json\":1}\n\n{\"json\":2,\"state\":\"failed\"}\n{\"json\":3}\n";
    let ended = server.run_with(&["storage", "import", "mail", "-"], input);
    assert_eq!(ended.out, "");
    let err = ended.failed(1);
    assert!(err.starts_with("error: line 3: `state` is `failed`"), "{err}");
    assert!(
        err.ends_with("not imported: lines 2 to 3\nall lines were sent\nimported in all: 2 items\n"),
        "{err}"
    );
    let ended = server.run_with(&["storage", "import", "mail", "--json"], input);
    let fates = r#""not_imported":[{"from":2,"to":3}],"unknown":[],"sent_to_line":4"#;
    assert_eq!((ended.code, ended.out), (Some(1), format!("{{\"imported\":2,{fates}}}\n")));
}

#[test]
fn of_many_items_that_cannot_come_in_not_all_are_told_why() {
    let server = server(&["mail"]);
    let err =
        server.run_with(&["storage", "import", "mail"], &"{\"json\":1,\"state\":\"failed\"}\n".repeat(1500));
    let err = err.failed(1);
    assert!(err.contains("line 100: ") && !err.contains("line 101: "), "{err}");
    assert!(err.contains("\n1,400 items more refused\nnot imported: lines 1 to 1500\n"), "{err}");
}

#[test]
fn a_line_that_is_no_item_ends_an_import() {
    let server = server(&["mail"]);
    let input = "{\"json\":1}\n{\"json\":1,\"state\":\"failed\"}\n{\"jsn\":1}\n{\"json\":2}\n";
    let err = server.run_with(&["storage", "import", "mail"], input).failed(2);
    assert!(
        err.starts_with("error: line 2: `state` is") && err.contains("\nline 3: unknown field `jsn`"),
        "{err}"
    );
    let end = "not imported: line 2\nnothing after line 2 was sent\nimported before it stopped: 1 item\n";
    assert!(err.ends_with(&format!("imported: line 1\n{end}")), "{err}");
    let err = server.run(&["storage", "import", "mail", "/nowhere/at/all"]).failed(1);
    assert!(err.contains("cannot read /nowhere/at/all"), "{err}");
}

#[test]
fn a_list_shows_what_waits_and_what_is_due_later() {
    let server = varied();
    let table = server.run(&["storage", "list", "mail"]).ok();
    assert!(table.starts_with("ID ") && table.lines().count() == 6, "{table}");
    assert!(table.contains("leased") && table.contains("\"in work\"") && !table.contains("later"), "{table}");
    let later = server.run(&["storage", "list", "mail", "--scheduled", "--limit", "1"]).ok();
    assert!(later.contains("in 59m") && later.contains("sooner") && !later.contains("later"), "{later}");
    let stats = server.stats("mail");
    let partition = stats["partitions"][0]["partition"].to_string();
    let one = server.run(&["storage", "list", "mail", "--partition", &partition, "--json"]).json();
    assert_eq!(one["items"].as_array().unwrap().len(), 5);
    assert!(server.run(&["storage", "list", "mail", "--partition", "77"]).failed(1).contains("no partition"));
    let none = server.run(&["storage", "list", "first"]);
    assert_eq!((none.out.as_str(), none.err.as_str()), ("", "nothing is waiting or leased in first\n"));
}

#[test]
fn an_item_that_cannot_be_deleted_is_told() {
    let server = server(&["mail"]);
    let id = server.run(&["produce", "mail", "1"]).ok();
    let id = id.trim();
    assert_eq!(server.run(&["storage", "delete", "mail", id]).ok(), "1 item deleted\n");
    let again = server.run(&["storage", "delete", "mail", id]);
    assert_eq!(again.out, "0 items deleted\n");
    let err = again.failed(1);
    assert!(err.starts_with(&format!("{id}: ")) && err.ends_with("(not_found)\n"), "{err}");
}

/// Exit code 5 warns before the queue is deleted: a payload that is not in the export would be lost for good.
#[test]
fn an_export_tells_items_without_payload_and_ends_with_5() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let server = Server::start_on(&data);
    server.run(&["queue", "create", "mail"]).ok();
    for payload in ["sound", "this payload rots"] {
        server.run(&["produce", "mail", payload]).ok();
    }
    assert_eq!(server.stop(), Some(0));
    let rotten = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).find(|path| {
        let mut bytes = std::fs::read(path).unwrap();
        let found = bytes.windows(17).position(|window| window == b"this payload rots");
        let Some(at) = found else { return false };
        bytes[at] ^= 1;
        std::fs::write(path, bytes).unwrap();
        true
    });
    assert!(rotten.is_some());
    let server = Server::start_on(&data);
    let file = directory.path().join("mail.ndjson");
    let err = server.run(&["storage", "export", "mail", "--output", file.to_str().unwrap()]).failed(5);
    assert!(err.contains("1 item exported without payload"), "{err}");
    assert_eq!(json_lines(&std::fs::read_to_string(&file).unwrap()).len(), 2);
}
