use unicode_width::UnicodeWidthStr;
use windlass_api::Time;
use windlass_api::items::{Item, ItemError, Origin};

use super::shown::{Place, table};

fn now() -> Time {
    "2026-01-31T12:00:00Z".parse().unwrap()
}

fn failed(kind: &str) -> Item {
    let at = "2026-01-31T11:48:00Z".parse().unwrap();
    let message = "the server of the address did not answer within a minute".to_owned();
    Item {
        id: "00000000-0000-8080-8000-000000000001".to_owned(),
        state: "failed".to_owned(),
        kind: kind.to_owned(),
        created_at: at,
        changed_at: at,
        error: Some(ItemError { message, ..ItemError::default() }),
        ..Item::default()
    }
}

/// Fills every column.
fn busy() -> Item {
    let error =
        ItemError { code: Some("smtp_refused".to_owned()), message: "no such address at all".repeat(9) };
    let origin = Origin { queue: "mail-for-customers".to_owned(), ..Origin::default() };
    Item {
        queue: "reports".to_owned(),
        state: "scheduled".to_owned(),
        partition: 3,
        priority: 7,
        attempts: 2,
        enqueue_at: Some("2026-02-01T23:00:00Z".parse().expect("a time")),
        address: Some("customers/4711/2026-q1".to_owned()),
        origin: Some(origin),
        error: Some(error),
        ..failed("発送のお知らせ")
    }
}

fn headings(shown: &str) -> Vec<&str> {
    shown.lines().next().expect("headings").split_whitespace().collect()
}

fn width(shown: &str) -> usize {
    shown.lines().map(|line| line.width()).max().expect("lines")
}

#[test]
fn a_table_of_items_fits_80_columns_and_shows_the_error() {
    for place in [Place::Nothing, Place::Partition] {
        for items in [vec![failed("k")], vec![busy()], vec![failed("k"), busy()]] {
            let shown = table(&items, now(), place, Some(80));
            assert!(width(&shown) <= 80, "{place:?}\n{shown}");
            let (heading, at) = (shown.lines().next().expect("headings"), "ERROR");
            let room = 80 - heading.find(at).expect("a column of errors");
            assert!(room >= 30 && headings(&shown).starts_with(&["ID", "STATE"]), "{place:?}\n{shown}");
        }
    }
    let all = table(&[failed("k"), busy()], now(), Place::Queue, Some(80));
    assert_eq!(headings(&all), ["ID", "QUEUE", "STATE", "ERROR"]);
    assert!(width(&all) <= 80 && all.contains("smtp_refused: "), "{all}");
}

#[test]
fn columns_are_left_out_by_rank() {
    let left = |width| {
        let shown = table(&[Item { error: None, ..busy() }], now(), Place::Nothing, width);
        headings(&shown).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = ["ID", "STATE", "KIND", "PRIORITY", "ATTEMPTS", "CREATED", "CHANGED", "DUE", "ADDRESS", "FROM"];
    assert_eq!(left(None), all);
    assert_eq!(left(Some(1000)), all);
    assert_eq!(left(Some(110)), ["ID", "STATE", "KIND", "PRIORITY", "ATTEMPTS", "DUE", "ADDRESS", "FROM"]);
    assert_eq!(left(Some(80)), ["ID", "STATE", "DUE", "ADDRESS", "FROM"]);
    assert_eq!(left(Some(40)), ["ID", "STATE"], "which is wider than 40 columns");
}

#[test]
fn payloads_that_were_asked_for_are_not_left_out() {
    let item = Item { json: Some("{\"to\": \"ada@example.com\"}".repeat(9)), ..busy() };
    let shown = table(std::slice::from_ref(&item), now(), Place::Nothing, Some(80));
    assert_eq!(headings(&shown), ["ID", "STATE", "ERROR", "PAYLOAD"]);
    assert!(width(&shown) <= 80, "{shown}");
    let listed = table(&[item], now(), Place::Partition, Some(80));
    assert_eq!(headings(&listed), ["ID", "STATE", "ERROR"]);
}

#[test]
fn priority_and_attempts_are_left_out_where_no_item_has_any() {
    let heading = |items: &[Item]| {
        let shown = table(items, now(), Place::Nothing, None);
        shown.lines().next().unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = failed("k");
    assert_eq!(heading(std::slice::from_ref(&plain)), ["ID", "STATE", "KIND", "CREATED", "CHANGED", "ERROR"]);
    let tried = Item { attempts: 1, ..plain.clone() };
    assert!(heading(&[plain.clone(), tried]).contains(&"ATTEMPTS".to_owned()));
    let urgent = Item { priority: 1, ..plain.clone() };
    assert!(heading(&[plain, urgent]).contains(&"PRIORITY".to_owned()));
}
