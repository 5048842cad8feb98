use windlass_core::partition::Totals;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::Clear;

use crate::script::{RetryItem, Script, again, at_once, items};

#[test]
fn every_deed_is_counted_once_for_each_item() {
    let mut script = Script::new();
    script.produce(items(6));
    let held = [(); 5].map(|()| script.lease_one());
    script.extend(held[0], None).unwrap();
    script.complete(held[0], None).unwrap();
    script.complete(held[1], Some("with a result")).unwrap();
    script.retry(at_once(held[2])).unwrap();
    script.retry(RetryItem { dead: true, ..again(held[3]) }).unwrap();
    script.release(held[4]).unwrap();
    let so_far = Totals {
        produced: 6,
        leased: 5,
        extended: 1,
        completed: 2,
        retried: 1,
        failed: 1,
        released: 1,
        ..Totals::default()
    };
    assert_eq!(script.totals, so_far);
    assert_eq!(script.clear(Clear { waiting: true, scheduled: false, leased: false, suspended: false }), 3);
    script.sweep();
    assert_eq!(script.totals, Totals { cancelled: 3, ..so_far });
}

#[test]
fn a_refusal_counts_as_nothing() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    let before = script.totals;
    script.complete(held, None).unwrap_err();
    script.release(held).unwrap_err();
    script.extend(held, None).unwrap_err();
    script.retry(again(held)).unwrap_err();
    script.cancel(held.id.number).unwrap_err();
    assert_eq!(script.totals, before);
}

#[test]
fn a_lease_that_ends_counts_beside_what_becomes_of_its_item() {
    let mut script = Script::with_settings(Settings { max_attempts: 2, ..Settings::default() });
    let numbers = script.produce(items(2));
    script.lease(2);
    script.cancel(numbers[0]).unwrap();
    assert_eq!(script.totals.cancelled, 0, "only asked for so far");
    for _ in 0..2 {
        script.pass(Span::from_secs(60));
        script.sweep();
        script.lease(1);
    }
    let totals =
        Totals { produced: 2, leased: 3, lease_expired: 3, failed: 1, cancelled: 1, ..Totals::default() };
    assert_eq!(script.totals, totals);
}

#[test]
fn what_was_cancelled_and_then_released_counts_as_both() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.cancel(number).unwrap();
    script.release(held).unwrap();
    let totals = Totals { produced: 1, leased: 1, released: 1, cancelled: 1, ..Totals::default() };
    assert_eq!(script.totals, totals);
}
