//! What kept items failed with, by code.

use std::sync::Arc;

use windlass_core::effort::{Looked, looks};
use windlass_core::id::ItemNumber;
use windlass_core::item::ItemError;
use windlass_core::partition::Partition;
use windlass_core::partition::{ERROR_CODES_MAX, ErrorCode, OTHER_CODES};
use windlass_core::row::Key;
use windlass_core::settings::{Keep, Settings};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Cancel, Clear, Import, ImportItem};

use crate::script::{RetryItem, START, Script, again, at_once, error, import_item};

fn fail_with(script: &mut Script, code: Option<&str>) -> ItemNumber {
    script.produce_one();
    let held = script.lease_one();
    let error = Some(ItemError { code: code.map(Arc::from), ..error("no") });
    script.retry(RetryItem { dead: true, error, ..again(held) }).unwrap();
    held.id.number
}

fn code(code: &str, count: u64, latest: ItemNumber, latest_at: Timestamp) -> ErrorCode {
    ErrorCode { code: code.into(), count, latest, latest_at }
}

fn counts(script: &Script) -> Vec<(String, u64)> {
    let errors = script.partition.errors(usize::MAX);
    errors.into_iter().map(|error| (error.code.to_string(), error.count)).collect()
}

#[test]
fn errors_are_told_by_code_the_most_frequent_first() {
    let mut script = Script::new();
    fail_with(&mut script, Some("smtp"));
    fail_with(&mut script, None);
    script.pass(Span::from_secs(1));
    let latest = fail_with(&mut script, Some("smtp"));
    let at = script.now;
    script.pass(Span::from_secs(1));
    let dns = fail_with(&mut script, Some("dns"));
    let errors = script.partition.errors(2);
    assert_eq!(errors[0], code("smtp", 2, latest, at));
    assert_eq!(counts(&script), [("smtp".into(), 2), (String::new(), 1), ("dns".into(), 1)]);
    assert_eq!(script.partition.errors(usize::MAX)[2], code("dns", 1, dns, script.now));
    assert_eq!(errors.len(), 2);
}

#[test]
fn an_error_goes_with_its_item() {
    let mut script = Script::new();
    fail_with(&mut script, Some("smtp"));
    script.pass(Span::from_secs(1));
    fail_with(&mut script, Some("smtp"));
    script.pass(Span(Settings::default().retention.0 - 1_000_000));
    script.sweep();
    assert_eq!(counts(&script), [("smtp".into(), 1)]);
    script.pass(Span::from_secs(1));
    script.sweep();
    assert_eq!(counts(&script), []);
}

#[test]
fn the_latest_of_a_code_is_the_one_before_once_it_is_gone() {
    let mut script = Script::new();
    let first = fail_with(&mut script, Some("smtp"));
    script.pass(Span::from_secs(1));
    let second = fail_with(&mut script, Some("smtp"));
    fail_with(&mut script, Some("dns"));
    script.partition.remove(&Key::Item(second));
    assert_eq!(script.partition.errors(9)[1], code("smtp", 1, first, START));
    script.partition.audit().unwrap();
}

#[test]
fn errors_of_items_that_are_not_final_do_not_count() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    script.retry(RetryItem { error: Some(error("no")), ..at_once(held) }).unwrap();
    assert_eq!(counts(&script), []);
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    assert_eq!(counts(&script), [("broken".into(), 1)], "a final item tells its error whatever its end");
}

#[test]
fn the_error_of_a_cleared_item_counts_once_the_sweep_has_come_by() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    script.retry(RetryItem { error: Some(error("no")), ..at_once(held) }).unwrap();
    script.clear(Clear { waiting: true, scheduled: true, leased: true, suspended: true });
    assert_eq!(counts(&script), []);
    script.sweep();
    assert_eq!(counts(&script), [("broken".into(), 1)]);
}

#[test]
fn the_error_of_an_item_on_its_way_elsewhere_counts() {
    let settings = Settings { dead_queue: Some("dead".into()), ..Settings::default() };
    let mut script = Script::with_settings(settings);
    fail_with(&mut script, Some("smtp"));
    assert_eq!((script.partition.moving(), counts(&script)), (1, vec![("smtp".into(), 1)]));
}

#[test]
fn beyond_a_thousand_codes_the_least_frequent_ones_count_as_other() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    // Not checked in full after each verb.
    let partition = &mut script.partition;
    let fail = |partition: &mut Partition, now, code: &str| {
        let error = ItemError { code: Some(code.into()), message: "no".into() };
        let items = vec![ImportItem { error: Some(error), ..import_item("default") }];
        let made = partition.apply(now, Import { items }).reply.unwrap();
        let number = made.into_iter().next().unwrap().unwrap().number;
        partition.apply(now, Cancel(number)).reply.unwrap();
        number
    };
    for at in 0..ERROR_CODES_MAX as u64 + 10 {
        let code = format!("code-{at:04}");
        fail(partition, START + Span::from_secs(at), &code);
    }
    let late = START + Span::from_secs(ERROR_CODES_MAX as u64 + 9);
    let often = fail(partition, late, "code-1009");
    let before = looks(Looked::Indexed);
    let errors = partition.errors(usize::MAX);
    assert!(looks(Looked::Indexed) - before <= 3 * ERROR_CODES_MAX as u64);
    assert_eq!(errors.len(), ERROR_CODES_MAX + 1);
    assert_eq!(errors[0], code(OTHER_CODES, 10, errors[0].latest, Timestamp(late.0 - 1_000_000)));
    assert_eq!(errors[1], code("code-1009", 2, often, late));
    partition.audit().unwrap();
    // A code that workers call so themselves joins the rest.
    fail(partition, late, OTHER_CODES);
    fail(partition, late, OTHER_CODES);
    let errors = partition.errors(2);
    assert_eq!((&*errors[0].code, errors[0].count), (OTHER_CODES, 13));
}

#[test]
fn a_code_that_comes_again_begins_anew() {
    let mut script = Script::new();
    fail_with(&mut script, Some("a"));
    script.pass(Settings::default().retention);
    script.sweep();
    fail_with(&mut script, Some("b"));
    fail_with(&mut script, Some("a"));
    assert_eq!(counts(&script), [("a".into(), 1), ("b".into(), 1)]);
}
