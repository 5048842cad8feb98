use std::time::Duration;

use windlass_api::Time;

use super::human::{bytes, count, counted, excerpt, length, moment, relative};
use super::table::Align::{Left, Right};
use super::table::{Table, facts};

#[test]
fn large_numbers_are_grouped() {
    let shown: Vec<String> = [0, 12, 999, 1000, 12_345, 1_234_567].into_iter().map(count).collect();
    assert_eq!(shown, ["0", "12", "999", "1,000", "12,345", "1,234,567"]);
}

#[test]
fn one_thing_is_not_plural() {
    assert_eq!(
        [counted(0, "item"), counted(1, "item"), counted(2000, "item")],
        ["0 items", "1 item", "2,000 items"]
    );
}

#[test]
fn sizes_have_the_unit_that_fits() {
    let sizes = [0, 1023, 1024, 1536, 5 << 20, 3 << 40, u64::MAX];
    let shown = sizes.map(bytes);
    assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.0 TiB", "16777216.0 TiB"]);
}

#[test]
fn lengths_show_their_two_largest_units() {
    let lengths = [0, 250, 12_000, 60_000, 61_500, 3_600_000, 15_120_000, 90_061_000, 86_405_000];
    let shown = lengths.map(|millis| length(Duration::from_millis(millis)));
    assert_eq!(shown, ["0ms", "250ms", "12s", "1m", "1m 1s", "1h", "4h 12m", "1d 1h", "1d"]);
}

#[test]
fn moments_are_told_from_now() {
    let now: Time = "2026-01-31T12:00:00Z".parse().unwrap();
    let shown = |text: &str| relative(text.parse().unwrap(), now);
    assert_eq!(shown("2026-01-31T11:55:00Z"), "5m ago");
    assert_eq!(shown("2026-01-31T12:00:30Z"), "in 30s");
    assert_eq!(shown("2026-01-31T12:00:00.4Z"), "now");
    assert_eq!(
        moment("2026-01-31T11:55:00.123Z".parse().unwrap(), now),
        "2026-01-31 11:55:00 UTC (4m 59s ago)"
    );
}

#[test]
fn what_others_wrote_cannot_steer_the_terminal() {
    assert_eq!(excerpt("a\u{1b}[31mb\nc", 100), "a\\u{1b}[31mb\\nc");
    assert_eq!(excerpt("a\u{202e}b\u{2069}", 100), "a\\u{202e}b\\u{2069}");
    assert_eq!(excerpt("äöü and more", 3), "äöü…");
}

#[test]
fn columns_stand_in_line() {
    let mut table = Table::new(&[("QUEUE", Left), ("WAITING", Right), ("NOTE", Left)]);
    table.row(["mail".into(), "1,000".into(), "é".into()]);
    table.row(["thumbnails".into(), "7".into(), String::new()]);
    assert_eq!(table.show(), "QUEUE       WAITING  NOTE\nmail          1,000  é\nthumbnails        7\n");
}

#[test]
fn the_widest_columns_that_can_be_cut_are_narrowed_until_a_table_fits() {
    let mut table = Table::new(&[("ID", Left), ("KIND", Left), ("ERROR", Left), ("AGE", Right)]);
    table.row(["1234567890".into(), "greetings".into(), "no such address".into(), "5m".into()]);
    table.row(["1".into(), "k".into(), "late".into(), "1h".into()]);
    let within =
        |width| table.clone().show_within(width, &["KIND", "ERROR"]).lines().nth(1).unwrap().to_owned();
    assert_eq!(within(None), "1234567890  greetings  no such address   5m");
    assert_eq!(within(Some(43)), within(None));
    assert_eq!(within(Some(42)), "1234567890  greetings  no such addre…   5m");
    assert_eq!(within(Some(35)), "1234567890  greetin…  no such…   5m");
    assert_eq!(within(Some(3)), "1234567890  gre…  no s…   5m", "no column is narrower than its heading");
}

#[test]
fn facts_stand_in_line() {
    assert_eq!(facts(&[("id", "7".into()), ("state", "leased".into())]), "id     7\nstate  leased\n");
}
