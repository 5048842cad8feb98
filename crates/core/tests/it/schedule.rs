use windlass_core::item::Phase;
use windlass_core::news::News;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::NewItem;

use crate::script::{START, Script, item};

fn due(secs: u64) -> NewItem {
    NewItem { enqueue_at: Some(START + Span::from_secs(secs)), ..item("default") }
}

#[test]
fn nothing_scheduled_starts_early() {
    let mut script = Script::new();
    let number = script.produce([due(5)])[0];
    assert_eq!(script.partition.next_due(), Some(START + Span::from_secs(5)));
    script.now = Timestamp(START.0 + 4_999_999);
    assert_eq!(script.sweep(), 0);
    assert_eq!(script.lease(1), []);
    script.pass(Span::from_micros(1));
    assert_eq!(script.sweep(), 1);
    assert_eq!(script.news, [News::Available]);
    assert_eq!(script.phase(number), Some(Phase::Waiting));
}

#[test]
fn items_that_fall_due_join_at_the_tail_by_time_and_then_by_number() {
    let mut script = Script::new();
    let made = script.produce([due(5), item("default"), due(3), due(3)]);
    script.pass(Span::from_secs(4));
    let between = script.produce_one();
    script.pass(Span::from_secs(4));
    script.sweep();
    let last = script.produce_one();
    assert_eq!(script.order(), [made[1], between, made[2], made[3], made[0], last]);
}

#[test]
fn a_sweep_keeps_to_its_limit_and_serves_every_duty() {
    let mut script = Script::new();
    script.produce(vec![due(60); 40]);
    script.produce(vec![item("default"); 80]);
    script.lease(40);
    script.clear(windlass_core::verbs::Clear {
        waiting: true,
        scheduled: false,
        leased: false,
        suspended: false,
    });
    script.pass(Span::from_secs(60));
    assert_eq!(script.sweep_some(20), 20);
    let counts = script.partition.counts();
    assert!(counts.leased < 40, "no lease was ended");
    assert!(counts.scheduled < 40, "no item was started");
    assert!(script.partition.rows().count() < 120 + 2, "no cleared item was removed");
    assert_eq!(script.sweep_some(1000), 100);
    assert_eq!(script.sweep_some(1000), 0);
}
