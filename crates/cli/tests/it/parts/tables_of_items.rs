use windlass_api::Time;
use windlass_api::items::{Item, ItemError};

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

#[test]
fn a_table_of_items_fits_80_columns() {
    let items = [failed("greeting"), failed("a-kind-with-a-very-long-name-of-its-own")];
    let shown = table(&items, now(), Place::Nothing, Some(80));
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.lines().all(|line| line.split("  ").count() >= 6), "{shown}");
    let unbounded = table(&items, now(), Place::Nothing, None);
    assert!(unbounded.contains("within a minute") && unbounded.contains("of-its-own"), "{unbounded}");
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
