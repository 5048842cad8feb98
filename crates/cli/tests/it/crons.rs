use crate::world::{Server, says};

#[test]
fn a_cron_is_made_shown_changed_stopped_triggered_and_deleted() {
    let server = Server::with_queue("reports", &[]);
    let create = ["cron", "create", "nightly", "reports", "30 2 * * *", "{\"run\": 1}"];
    let flags = ["--timezone", "Europe/Berlin", "--kind", "build", "--catch-up", "one", "--overlap", "skip"];
    let made = server.run(&[&create[..], &flags].concat()).ok();
    assert!(says(&made, "schedule", "30 2 * * *") && says(&made, "timezone", "Europe/Berlin"), "{made}");
    assert!(says(&made, "payload", "{\"run\": 1}") && says(&made, "kind", "build"), "{made}");
    assert!(
        says(&made, "catch-up", "one") && says(&made, "overlap", "skip") && says(&made, "last", "-"),
        "{made}"
    );
    let by_its_clocks = |line: &&str| line.contains(" 02:30:00 CE") && line.contains("T (in ");
    assert_eq!(made.lines().filter(by_its_clocks).count(), 10, "{made}");
    assert!(server.run(&create).failed(1).contains("(already_exists)"));
    let spaced = ["cron", "create", "nightly", "reports", "30 2 * * *", "{\"run\":1.0}", "--exists-ok"];
    let there = server.run(&[&spaced[..], &flags].concat()).ok();
    assert!(says(&there, "payload", "{\"run\": 1}"), "{there}");
    let other = server.run(&[&spaced[..], &["--kind", "other"]].concat()).failed(1);
    assert!(other.contains("`item`") && other.contains("(already_exists)"), "{other}");

    let list = server.run(&["cron", "list"]).ok();
    let row = list.lines().nth(1).expect("one cron");
    assert!(row.starts_with("nightly  reports  30 2 * * *  Europe/Berlin  20"), "{list}");
    assert!(row.contains(" 02:30:00 CE") && row.contains("T (in "), "{list}");
    let changed = server.run(&["cron", "update", "nightly", "--schedule", "@every 1h", "--json"]).json();
    assert_eq!(
        (&changed["cron"]["schedule"], &changed["cron"]["item"]["kind"]),
        (&"@every 1h".into(), &"build".into())
    );
    let alone = server.run(&["cron", "update", "nightly", "--kind", "other"]).failed(2);
    assert!(alone.contains("--payload"), "{alone}");
    let delayed = server.run(&["cron", "update", "nightly", "--payload", "text", "--delay", "1h"]).ok();
    assert!(says(&delayed, "delay", "1h"), "{delayed}");
    let changed = server.run(&["cron", "update", "nightly", "--payload", "text", "--address", "here"]).ok();
    assert!(says(&changed, "payload", "\"text\"") && says(&changed, "address", "here"), "{changed}");

    assert!(says(&server.run(&["cron", "pause", "nightly"]).ok(), "paused", "yes"));
    assert!(server.run(&["cron", "list"]).ok().contains("paused"));
    let id = server.run(&["cron", "trigger", "nightly"]).ok();
    assert!(server.run(&["cron", "trigger", "nightly"]).failed(1).contains("(duplicate_address)"));
    let info = server.run(&["cron", "info", "nightly"]).ok();
    assert!(
        says(&info.replace("last item", "last-item"), "last-item", &format!("{}, waiting", id.trim())),
        "{info}"
    );
    let item = server.run(&["item", "get", id.trim(), "--json"]).json();
    assert_eq!((&item["item"]["utf8"], &item["item"]["address"]), (&"text".into(), &"here".into()));
    assert_eq!(server.run(&["cron", "resume", "nightly"]).ok(), "cron nightly is resumed\n");
    assert!(says(&server.run(&["cron", "info", "nightly"]).ok(), "paused", "no"));
    assert_eq!(server.run(&["cron", "delete", "nightly"]).ok(), "cron nightly is deleted\n");
    assert_eq!(server.run(&["cron", "list"]).ok(), "");
    assert!(server.run(&["cron", "info", "nightly"]).failed(1).contains("(not_found)"));
}

#[test]
fn the_last_item_of_a_cron_is_shown_as_gone_once_it_is_forgotten() {
    let server = Server::with_queue("reports", &[]);
    server.run(&["cron", "create", "nightly", "reports", "30 2 * * *", "1"]).ok();
    let id = server.run(&["cron", "trigger", "nightly"]).ok();
    let held = server.lease("reports");
    server.run(&["complete", "reports", &held]).ok();
    let info = server.run(&["cron", "info", "nightly"]).ok();
    assert!(info.contains(&format!("{}, not kept any more\n", id.trim())), "{info}");
    let list = server.run(&["cron", "list"]).ok();
    assert!(list.contains(id.trim()) && !list.contains("not kept"), "{list}");
}

#[test]
fn a_bad_schedule_is_refused_with_what_is_wrong() {
    let server = Server::with_queue("reports", &[]);
    let said = server.run(&["cron", "create", "nightly", "reports", "0 25 * * *", "1"]).failed(1);
    assert!(said.contains("`schedule` has `25` as hour, which must be 0 to 23"), "{said}");
    let said =
        server.run(&["cron", "create", "nightly", "reports", "@daily", "1", "--timezone", "Mars"]).failed(1);
    assert!(said.contains("`timezone` must be") && said.contains("Mars"), "{said}");
}
