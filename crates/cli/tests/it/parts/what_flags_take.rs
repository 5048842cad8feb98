use windlass_api::items::Held;
use windlass_api::{Span, Time};

use super::values::{Since, When, header, held, json};

#[test]
fn a_time_can_be_given_as_such_or_from_now() {
    let now: Time = "2026-01-31T12:00:00Z".parse().unwrap();
    let when = |text: &str| text.parse::<When>().map(|when| when.from(now));
    assert_eq!(when("1h30m"), Ok("2026-01-31T13:30:00Z".parse().unwrap()));
    assert_eq!(when("2026-02-01T00:00:00+01:00"), Ok("2026-01-31T23:00:00Z".parse().unwrap()));
    assert_eq!("0s".parse(), Ok(When::In(Span::ZERO)));
    assert_eq!("2026-01-31T12:00:00Z".parse(), Ok(When::At(now)));
}

#[test]
fn a_time_in_the_past_can_be_given_by_how_long_it_is_ago() {
    let now: Time = "2026-01-31T12:00:00Z".parse().unwrap();
    let since = |text: &str| text.parse::<Since>().map(|since| since.from(now));
    assert_eq!(since("2h"), Ok("2026-01-31T10:00:00Z".parse().unwrap()));
    assert_eq!(since("2026-02-01T00:00:00+01:00"), Ok("2026-01-31T23:00:00Z".parse().unwrap()));
    let why = since("yesterday").unwrap_err();
    assert!(why.contains("2026-01-31T12:00:00Z") && why.contains("ago"), "{why}");
}

#[test]
fn what_is_no_time_is_told_both_forms() {
    let why = "tomorrow".parse::<When>().unwrap_err();
    assert!(why.contains("2026-01-31T12:00:00Z") && why.contains("30s"), "{why}");
}

#[test]
fn an_item_and_its_permit_are_split_at_the_last_colon() {
    assert_eq!(held("a-b:7"), Ok(Held { id: "a-b".into(), permit: 7 }));
    assert_eq!(held("urn:a:7"), Ok(Held { id: "urn:a".into(), permit: 7 }));
}

#[test]
fn an_item_without_its_permit_is_told_where_to_find_it() {
    assert!(held("a-b").unwrap_err().contains("windlass lease"));
    assert!(held(":7").unwrap_err().contains("windlass lease"));
    assert!(held("a-b:x").unwrap_err().contains("\"x\""));
}

#[test]
fn json_is_passed_on_as_it_is_written() {
    assert_eq!(json("{ \"a\":1}"), Ok("{ \"a\":1}".into()));
    assert!(json("{a}").unwrap_err().starts_with("not JSON: "));
}

#[test]
fn a_header_is_a_name_and_a_value() {
    assert_eq!(header("a=b=c"), Ok(("a".into(), "b=c".into())));
    assert!(header("a").is_err());
}
