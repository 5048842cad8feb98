//! The moments that schedules stand for, in places whose clocks are put forward and back.

use jiff::Timestamp as Moment;
use proptest::prelude::*;
use windlass_core::cron::Schedule;
use windlass_core::time::{Span, Timestamp};

fn at(text: &str) -> Timestamp {
    let moment: Moment = text.parse().unwrap();
    Timestamp(u64::try_from(moment.as_microsecond()).unwrap())
}

fn shown(at: Timestamp) -> String {
    Moment::from_microsecond(i64::try_from(at.0).unwrap()).unwrap().to_string()
}

fn schedule(text: &str, zone: &str, from: &str) -> Schedule {
    Schedule::parse(text, zone, at(from)).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The first times after a moment, in UTC.
fn times(text: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    schedule(text, zone, from).times_after(at(from)).take(count).map(shown).collect()
}

#[track_caller]
fn assert_times(text: &str, zone: &str, from: &str, expected: &[&str]) {
    assert_eq!(times(text, zone, from, expected.len()), expected, "{text} in {zone}");
}

#[test]
fn five_fields_six_fields_and_words_mean_what_they_mean_to_cron() {
    let from = "2026-02-27T10:07:30Z";
    assert_times("*/15 * * * *", "UTC", from, &["2026-02-27T10:15:00Z", "2026-02-27T10:30:00Z"]);
    assert_times(
        "30 9-17/4 * * MON-FRI",
        "UTC",
        from,
        &["2026-02-27T13:30:00Z", "2026-02-27T17:30:00Z", "2026-03-02T09:30:00Z"],
    );
    assert_times("*/20 * * * * *", "UTC", from, &["2026-02-27T10:07:40Z", "2026-02-27T10:08:00Z"]);
    assert_times("0 0 1,15 * *", "UTC", from, &["2026-03-01T00:00:00Z", "2026-03-15T00:00:00Z"]);
    // Both days given: either will do.
    assert_times(
        "0 0 13 * FRI",
        "UTC",
        from,
        &["2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z", "2026-03-20T00:00:00Z"],
    );
    assert_times("0 0 29 2 *", "UTC", from, &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]);
    assert_times("0 12 L * *", "UTC", from, &["2026-02-28T12:00:00Z", "2026-03-31T12:00:00Z"]);
    assert_times("0 0 * * 7", "UTC", from, &["2026-03-01T00:00:00Z"]);
    assert_times("@yearly", "UTC", from, &["2027-01-01T00:00:00Z"]);
    assert_times("@annually", "UTC", from, &["2027-01-01T00:00:00Z"]);
    assert_times("@monthly", "UTC", from, &["2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"]);
    assert_times("@weekly", "UTC", from, &["2026-03-01T00:00:00Z", "2026-03-08T00:00:00Z"]);
    assert_times("@daily", "UTC", from, &["2026-02-28T00:00:00Z"]);
    assert_times("@midnight", "Europe/Berlin", from, &["2026-02-27T23:00:00Z"]);
    assert_times("@hourly", "UTC", from, &["2026-02-27T11:00:00Z", "2026-02-27T12:00:00Z"]);
}

#[test]
fn every_counts_from_the_making() {
    let from = "2026-02-27T10:07:30.25Z";
    assert_times("@every 90s", "UTC", from, &["2026-02-27T10:09:00.25Z", "2026-02-27T10:10:30.25Z"]);
    assert_times("@every 1h30m", "Europe/Berlin", from, &["2026-02-27T11:37:30.25Z"]);
    let schedule = schedule("@every 90s", "UTC", from);
    assert_eq!(schedule.next_after(at("2026-02-27T10:09:00.25Z")), Some(at("2026-02-27T10:10:30.25Z")));
    assert_eq!(schedule.next_after(at("2026-02-27T10:10:30Z")), Some(at("2026-02-27T10:10:30.25Z")));
    assert_eq!(schedule.next_after(Timestamp(0)), Some(at("2026-02-27T10:09:00.25Z")));
}

#[test]
fn a_time_that_does_not_exist_runs_once_when_the_gap_ends() {
    // Berlin goes from 02:00 to 03:00 at 01:00 UTC.
    assert_times(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
    );
    // Several times in one gap, and the one that the gap ends with, are one.
    assert_times(
        "*/15 * * * *",
        "Europe/Berlin",
        "2026-03-29T00:40:00Z",
        &["2026-03-29T00:45:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z"],
    );
    assert_times(
        "0 3 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"],
    );
    // New York goes from 02:00 to 03:00 at 07:00 UTC.
    assert_times(
        "0 2 * * *",
        "America/New_York",
        "2026-03-08T00:00:00Z",
        &["2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z"],
    );
    // Lord Howe goes half an hour forward, from 02:00 to 02:30 at 15:30 UTC the day before.
    assert_times(
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T00:00:00Z",
        &["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
    );
    assert_times(
        "30 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T00:00:00Z",
        &["2026-10-03T15:30:00Z", "2026-10-04T15:30:00Z"],
    );
    // Apia left out a whole day.
    assert_times(
        "0 12 30 12 *",
        "Pacific/Apia",
        "2011-12-01T00:00:00Z",
        &["2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"],
    );
}

#[test]
fn a_time_that_exists_twice_runs_the_first_time() {
    // Berlin goes from 03:00 back to 02:00 at 01:00 UTC.
    assert_times(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00:00Z",
        &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
    );
    assert_times(
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-25T00:00:00Z",
        &["2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z", "2026-10-25T02:30:00Z"],
    );
    // Whoever asks while the clock shows the times for the second time is told what comes after them.
    assert_times("*/30 * * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", &["2026-10-25T02:00:00Z"]);
    assert_times(
        "* * * * * *",
        "Europe/Berlin",
        "2026-10-25T01:00:00Z",
        &["2026-10-25T02:00:00Z", "2026-10-25T02:00:01Z"],
    );
    assert_times(
        "* * * * * *",
        "Europe/Berlin",
        "2026-10-25T00:59:58.5Z",
        &["2026-10-25T00:59:59Z", "2026-10-25T02:00:00Z"],
    );
    // New York goes from 02:00 back to 01:00 at 06:00 UTC.
    assert_times(
        "30 1 * * *",
        "America/New_York",
        "2026-11-01T00:00:00Z",
        &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
    );
    // Lord Howe goes half an hour back, from 02:00 to 01:30 at 15:00 UTC the day before.
    assert_times(
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T00:00:00Z",
        &["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"],
    );
}

#[test]
fn what_is_wrong_is_said_with_the_field_and_the_value() {
    let says = |text: &str, zone: &str| {
        Schedule::parse(text, zone, at("2026-01-01T00:00:00Z")).unwrap_err().to_string()
    };
    let cases = [
        ("0 25 * * *", "`schedule` has `25` as hour, which must be 0 to 23"),
        ("60 * * * *", "`schedule` has `60` as minute, which must be 0 to 59"),
        ("61 * * * * *", "`schedule` has `61` as second, which must be 0 to 59"),
        ("* * 0 * *", "`schedule` has `0` as day of the month, which must be 1 to 31"),
        ("* * * 13 *", "`schedule` has `13` as month, which must be 1 to 12 or JAN to DEC"),
        ("* * * * MOO", "`schedule` has `MOO` as day of the week, which must be 0 to 7 or SUN to SAT"),
        ("*/0 * * * *", "`schedule` has `*/0` as minute"),
        ("5-1 * * * *", "`schedule` has `5-1` as minute"),
        ("\u{e9} * * * *", "`schedule` has `\u{e9}` as minute"),
        ("* * * *", "must have five fields"),
        ("* * * * * * *", "`* * * * * * *` has 7"),
        ("", "must have five fields"),
        ("@sometimes", "has the word `@sometimes`; there are @yearly,"),
        ("@every 500ms", "must be every 1s or more, not `@every 500ms`"),
        ("@every soon", "not `@every soon`"),
        ("@every -5s", "not `@every -5s`"),
        ("@every", "has the word `@every`"),
        ("0 0 30 2 *", "`0 0 30 2 *` never comes"),
    ];
    for (text, expected) in cases {
        let said = says(text, "UTC");
        assert!(said.contains(expected), "{text}: {said}");
    }
    assert_eq!(
        says("* * * * *", "Mars/Olympus"),
        "`timezone` must be a name of the IANA time zone database like Europe/Berlin, not `Mars/Olympus`"
    );
    assert!(says("@every 5s", "Etc/Unknown").starts_with("`timezone`"));
    assert!(says(&"1,".repeat(200), "UTC").contains("at most 256 bytes"));
}

/// What clocks show at a moment, looked at second by second.
fn by_looking(
    zone: &str,
    from: Timestamp,
    seconds: u64,
    matches: impl Fn(jiff::civil::DateTime) -> bool,
) -> Vec<Timestamp> {
    let zone = jiff::tz::TimeZoneDatabase::bundled().get(zone).unwrap();
    let mut shown_before = std::collections::BTreeSet::new();
    let mut runs = Vec::new();
    let second = |at: u64| zone.to_datetime(Moment::from_second(i64::try_from(at).unwrap()).unwrap());
    let first = from.0 / 1_000_000;
    for at in first - 7200..=first + seconds {
        let (before, now) = (second(at - 1), second(at));
        // Everything that the clock passed over since the last second, and what it shows now unless it did before.
        let mut passed = before.checked_add(jiff::SignedDuration::from_secs(1)).unwrap();
        let mut runs_now = false;
        while passed <= now {
            runs_now |= shown_before.insert(passed) && matches(passed);
            passed = passed.checked_add(jiff::SignedDuration::from_secs(1)).unwrap();
        }
        if runs_now && at > first {
            runs.push(Timestamp(at * 1_000_000));
        }
    }
    runs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn around_every_change_of_clocks_the_times_are_those_seen_by_looking(
        change in prop::sample::select(vec![
            ("Europe/Berlin", "2026-03-29T01:00:00Z"),
            ("Europe/Berlin", "2026-10-25T01:00:00Z"),
            ("America/New_York", "2026-03-08T07:00:00Z"),
            ("America/New_York", "2026-11-01T06:00:00Z"),
            ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
            ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
            ("America/St_Johns", "2026-11-01T04:30:00Z"),
        ]),
        before in 0..5400u64,
        step in 1..31u32,
        second in prop::sample::select(vec![0, 7, 59u32]),
    ) {
        let (zone, change) = change;
        let from = Timestamp(at(change).0 - before * 1_000_000);
        let text = format!("{second} */{step} * * * *");
        let schedule = Schedule::parse(&text, zone, from).unwrap();
        let matches = |time: jiff::civil::DateTime| {
            u32::try_from(time.second()).unwrap() == second && u32::try_from(time.minute()).unwrap() % step == 0
        };
        let end = from + Span::from_secs(10_000);
        let expected = by_looking(zone, from, 10_000, matches);
        let found: Vec<_> = schedule.times_after(from).take_while(|at| *at <= end).collect();
        prop_assert_eq!(&found, &expected, "{} in {}", text, zone);
        // The last one before a moment is the last one of them.
        if let (Some(first), Some(last)) = (found.first(), found.last()) {
            prop_assert_eq!(schedule.last_before(Timestamp(last.0 + 1), *first), *last);
            prop_assert_eq!(schedule.last_before(end, *first), *found.iter().rfind(|at| **at < end).unwrap());
        }
    }
}
