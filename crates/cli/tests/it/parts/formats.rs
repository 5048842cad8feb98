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

/// Two items with an error.
fn errors() -> Table {
    let mut table = Table::new(&[("ID", Left), ("KIND", Left), ("ERROR", Left), ("AGE", Right)]);
    table.row(["1234567890".into(), "greetings".into(), "no such address".into(), "5m".into()]);
    table.row(["1".into(), "k".into(), "late".into(), "1h".into()]);
    table
}

/// The first row.
fn first(table: Table, width: Option<usize>, cut: &[(&str, usize)], dropped: &[&str]) -> String {
    table.show_within(width, cut, dropped).lines().nth(1).expect("a row").to_owned()
}

#[test]
fn the_widest_columns_that_can_be_cut_are_narrowed_until_a_table_fits() {
    let within = |width| first(errors(), width, &[("KIND", 0), ("ERROR", 0)], &[]);
    assert_eq!(within(None), "1234567890  greetings  no such address   5m");
    assert_eq!(within(Some(43)), within(None));
    assert_eq!(within(Some(42)), "1234567890  greetings  no such addre…   5m");
    assert_eq!(within(Some(35)), "1234567890  greetin…  no such…   5m");
    assert_eq!(within(Some(3)), "1234567890  gre…  no s…   5m", "no column is narrower than its heading");
}

#[test]
fn columns_are_left_out_before_others_become_narrower_than_their_least_width() {
    let within = |width| first(errors(), Some(width), &[("KIND", 6), ("ERROR", 12)], &["AGE", "KIND"]);
    assert_eq!(within(43), "1234567890  greetings  no such address   5m");
    assert_eq!(within(40), "1234567890  greetings  no such add…   5m");
    assert_eq!(within(37), "1234567890  greet…  no such add…   5m");
    assert_eq!(within(36), "1234567890  greetings  no such addr…");
    assert_eq!(within(31), "1234567890  no such address");
    assert_eq!(within(22), "1234567890  no such a…", "with nothing left to leave out it is cut further");
    assert_eq!(first(errors(), None, &[("ERROR", 12)], &["AGE"]).split_whitespace().count(), 6);
}

#[test]
fn wide_characters_take_two_columns() {
    let mut table = Table::new(&[("KIND", Left), ("N", Right)]);
    table.row(["発送".into(), "1".into()]);
    table.row(["e\u{301}te".into(), "2".into()]);
    assert_eq!(table.clone().show(), "KIND  N\n発送  1\ne\u{301}te   2\n");
    let mut long = Table::new(&[("KIND", Left), ("N", Right)]);
    long.row(["発送発送発送".into(), "1".into()]);
    assert_eq!(first(long, Some(10), &[("KIND", 0)], &[]), "発送発…  1");
    assert_eq!(excerpt("発送発", 5), "発送…");
    assert_eq!(excerpt("発送", 4), "発送");
}

#[test]
fn characters_without_width_are_cut_too() {
    let marks = format!("e{}", "\u{301}".repeat(1000));
    assert!(excerpt(&marks, 10).chars().count() < 100);
}

#[test]
fn facts_stand_in_line() {
    assert_eq!(facts(&[("id", "7".into()), ("state", "leased".into())]), "id     7\nstate  leased\n");
}
