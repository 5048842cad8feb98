//! Items that grow too old.

use windlass_core::item::{MoveReason, Phase};
use windlass_core::news::News;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{Clear, NewItem, Retried};

use crate::script::{Script, again, at_once, error, item, items};

fn mortal(secs: u64) -> NewItem {
    NewItem { dead_timeout: Some(Span::from_secs(secs)), ..item("default") }
}

fn code(script: &Script, number: windlass_core::id::ItemNumber) -> Option<String> {
    script.get(number).extras?.error?.code.map(|code| code.to_string())
}

#[test]
fn an_item_without_a_dead_timeout_keeps_nothing_of_it() {
    let mut script = Script::new();
    let made = script.produce([item("default"), mortal(0), mortal(7)]);
    assert_eq!(script.get(made[0]).extras, None);
    assert_eq!(script.get(made[1]).extras, None);
    assert_eq!(script.get(made[2]).extras.unwrap().dead_timeout, Some(Span::from_secs(7)));
}

#[test]
fn the_next_dead_deadline_is_due_unless_the_item_is_held() {
    let mut script = Script::new();
    script.produce([mortal(7)]);
    assert_eq!(script.partition.next_due(), Some(script.now + Span::from_secs(7)));
    let held = script.lease_one();
    assert_eq!(script.partition.next_due(), Some(script.now + Span::from_secs(60)));
    script.release(held).unwrap();
    assert_eq!(script.partition.next_due(), Some(script.now + Span::from_secs(7)));
}

#[test]
fn an_expired_item_is_told_and_kept() {
    let mut script = Script::new();
    let number = script.produce([mortal(7)])[0];
    script.pass(Span::from_micros(6_999_999));
    assert_eq!(script.sweep(), 0);
    script.pass(Span::from_micros(1));
    assert_eq!(script.sweep(), 1);
    let [News::Died(died)] = &script.news[..] else { panic!("{:?}", script.news) };
    assert_eq!((died.number, died.attempts, died.reason), (number, 0, MoveReason::Expired));
    assert_eq!(
        (script.phase(number), code(&script, number).as_deref()),
        (Some(Phase::Expired), Some("dead_timeout"))
    );
    assert_eq!((script.totals.expired, script.totals.failed), (1, 0));
    assert!(script.get(number).extras.unwrap().error.unwrap().message.contains("7s"));
}

#[test]
fn a_million_that_expire_at_once_do_so_in_slices() {
    let mut script = Script::new();
    script.produce(vec![mortal(7); 1000]);
    script.pass(Span::from_secs(7));
    assert_eq!(script.sweep_some(250), 250);
    assert_eq!(script.partition.counts().waiting, 750);
}

#[test]
fn what_was_cleared_does_not_expire() {
    let mut script = Script::new();
    script.produce([mortal(7)]);
    script.clear(Clear { waiting: true, scheduled: true, leased: true, suspended: false });
    script.pass(Span::from_secs(7));
    script.sweep();
    assert_eq!((script.totals.expired, script.totals.cancelled), (0, 1));
    assert!(script.partition.rows().all(|row| !matches!(row, windlass_core::row::Row::Item(_))));
}

#[test]
fn a_lease_passes_over_what_is_overdue_and_ends_it() {
    let mut script = Script::new();
    let made = script.produce([mortal(7), item("default")]);
    script.pass(Span::from_secs(7));
    assert_eq!(script.order(), [made[1]]);
    assert_eq!(script.phase(made[0]), Some(Phase::Expired));
}

#[test]
fn a_lease_ends_only_so_many_overdue_items() {
    let mut script = Script::new();
    script.produce(vec![mortal(7); 1000]);
    script.produce(items(1));
    script.pass(Span::from_secs(7));
    assert!(script.lease(1).is_empty());
    let ended = script.totals.expired;
    assert!(ended > 0 && ended < 1000, "{ended}");
    script.sweep();
    assert_eq!(script.lease(1).len(), 1);
}

#[test]
fn the_last_attempt_comes_before_the_age() {
    let mut script = Script::with_settings(Settings { max_attempts: 1, ..Settings::default() });
    let made = script.produce([mortal(60), mortal(60)]);
    let (one, two) = (script.lease_one(), script.lease_one());
    script.pass(Span::from_secs(59));
    assert_eq!(script.retry(again(one)), Ok(Retried::Ended(Phase::Failed)));
    script.pass(Span::from_secs(1));
    script.sweep();
    assert_eq!(
        (script.phase(two.id.number), code(&script, two.id.number).as_deref()),
        (Some(Phase::Failed), Some("lease_expired"))
    );
    assert_eq!(script.phase(made[0]), Some(Phase::Failed));
}

#[test]
fn a_retry_after_its_time_ends_the_item_with_the_workers_word() {
    let mut script =
        Script::with_settings(Settings { lease_timeout: Span::from_secs(60), ..Settings::default() });
    let number = script.produce([mortal(7)])[0];
    let held = script.lease_one();
    script.pass(Span::from_secs(7));
    let mut retry = at_once(held);
    retry.error = Some(error("too hard"));
    assert_eq!(script.retry(retry), Ok(Retried::Ended(Phase::Expired)));
    assert_eq!(code(&script, number).as_deref(), Some("broken"));
    assert_eq!(script.totals.retried, 0);
}

#[test]
fn a_retry_that_comes_due_too_late_expires_meanwhile() {
    let mut script = Script::new();
    let number = script.produce([mortal(7)])[0];
    let held = script.lease_one();
    let later = Some(script.now + Span::from_secs(100));
    script.retry(crate::script::RetryItem { retry_at: later, ..again(held) }).unwrap();
    script.pass(Span::from_secs(7));
    script.sweep_some(10);
    assert_eq!(script.phase(number), Some(Phase::Expired));
}
