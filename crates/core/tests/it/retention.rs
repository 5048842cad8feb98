use windlass_core::item::Phase;
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::Configure;

use crate::script::{START, Script};

fn finish_one(script: &mut Script, result: &'static str) -> windlass_core::id::ItemNumber {
    let number = script.produce_one();
    let held = script.lease_one();
    script.complete(held, Some(result)).unwrap();
    script.pass(Span::from_secs(1));
    number
}

#[test]
fn a_finished_item_is_kept_for_the_retention_and_not_longer() {
    let mut script =
        Script::with_settings(Settings { retention: Span::from_secs(10), ..Settings::default() });
    let number = finish_one(&mut script, "result");
    assert_eq!(script.partition.next_due(), Some(START + Span::from_secs(10)));
    script.now = Timestamp(START.0 + 9_999_999);
    assert_eq!((script.sweep(), script.phase(number)), (0, Some(Phase::Completed)));
    script.pass(Span::from_micros(1));
    assert_eq!((script.sweep(), script.phase(number)), (1, None));
    assert_eq!((script.partition.retained(), script.partition.next_due()), (0, None));
}

#[test]
fn above_the_most_items_the_oldest_go_first() {
    let mut script = Script::with_settings(Settings { retention_max_items: 2, ..Settings::default() });
    let made: Vec<_> = (0..2).map(|_| finish_one(&mut script, "r")).collect();
    assert_eq!(script.sweep(), 0);
    let third = finish_one(&mut script, "r");
    assert_eq!(script.partition.next_due(), Some(Timestamp(0)));
    assert_eq!(script.sweep(), 1);
    assert_eq!(script.phase(made[0]), None);
    assert_eq!(
        (script.phase(made[1]), script.phase(third)),
        (Some(Phase::Completed), Some(Phase::Completed))
    );
}

#[test]
fn above_the_most_bytes_the_oldest_go_first() {
    let mut script = Script::with_settings(Settings { retention_max_bytes: 10, ..Settings::default() });
    let first = finish_one(&mut script, "12345");
    let second = finish_one(&mut script, "12345");
    assert_eq!(script.sweep(), 0);
    let third = finish_one(&mut script, "1");
    assert_eq!(script.sweep(), 1);
    let phases = [first, second, third].map(|number| script.phase(number));
    assert_eq!(phases, [None, Some(Phase::Completed), Some(Phase::Completed)]);
}

#[test]
fn a_retention_without_end_never_comes_due() {
    let mut script = Script::with_settings(Settings { retention: Span(u64::MAX), ..Settings::default() });
    finish_one(&mut script, "result");
    script.now = Timestamp(u64::MAX - 1);
    assert_eq!(script.sweep(), 0);
}

#[test]
fn settings_of_another_version_replace_those_there_are_even_if_they_are_older() {
    let mut script = Script::new();
    let of = |version, max_attempts| Configure(Settings { version, max_attempts, ..Settings::default() });
    script.apply(of(2, 20)).unwrap();
    script.apply(of(2, 99)).unwrap();
    assert_eq!(script.changes, []);
    assert_eq!(script.partition.settings().max_attempts, 20);
    for (version, max_attempts) in [(3, 30), (1, 10)] {
        script.apply(of(version, max_attempts)).unwrap();
        assert_eq!(script.partition.settings().max_attempts, max_attempts);
    }
}
