use proptest::prelude::*;
use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::item::{LeaseEnd, Phase, State};
use windlass_core::limits::ERROR_BYTES_MAX;
use windlass_core::partition::Counts;
use windlass_core::refusal::Refusal;
use windlass_core::retry::delay;
use windlass_core::settings::{Requeue, RetryPolicy, RetryStrategy, Settings};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Configure, NewItem, Retried};

use crate::script::{RetryItem, START, Script, again, at_once, error, item, items};

#[test]
fn a_retry_waits_as_the_policy_says_and_then_has_its_place_again() {
    let retry = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
    let mut script = Script::with_settings(Settings { retry, ..Settings::default() });
    let made = script.produce(items(2));
    let first = script.lease_one();
    let due_at = START + Span::from_secs(1);
    assert_eq!(script.retry(again(first)), Ok(Retried::Again { due_at }));
    assert_eq!(script.phase(made[0]), Some(Phase::Scheduled));
    assert_eq!(
        script.partition.counts(),
        Counts { held: 0, scheduled: 1, waiting: 1, leased: 0, suspended: 0 }
    );
    assert_eq!(script.partition.next_due(), Some(due_at));
    script.now = due_at;
    assert_eq!(script.sweep(), 1);
    let second = script.lease_one();
    assert_eq!(second.id.number, made[0]);
    assert_eq!(script.retry(again(second)), Ok(Retried::Again { due_at: script.now + Span::from_secs(2) }));
}

#[test]
fn a_retry_in_the_past_is_at_once() {
    let mut script = Script::new();
    let made = script.produce(items(2));
    let held = script.lease_one();
    assert_eq!(script.retry(at_once(held)), Ok(Retried::Again { due_at: START }));
    assert_eq!(script.order(), made);
}

#[test]
fn with_requeue_tail_an_item_goes_behind_all_that_wait_now() {
    let mut script = Script::with_settings(Settings { requeue: Requeue::Tail, ..Settings::default() });
    let made = script.produce(items(3));
    let held = script.lease_one();
    script.retry(at_once(held)).unwrap();
    let held = script.lease_one();
    script.retry(RetryItem { retry_at: Some(START + Span::from_secs(2)), ..again(held) }).unwrap();
    script.pass(Span::from_secs(1));
    let newer = script.produce_one();
    script.pass(Span::from_secs(1));
    script.sweep();
    let newest = script.produce_one();
    assert_eq!(script.order(), [made[2], made[0], newer, made[1], newest]);
}

#[test]
fn with_requeue_tail_ended_leases_go_to_the_tail_too_but_released_items_do_not() {
    let mut script = Script::with_settings(Settings { requeue: Requeue::Tail, ..Settings::default() });
    let made = script.produce(items(3));
    script.lease_one();
    script.pass(Span::from_secs(60));
    script.sweep();
    let released = script.lease_one();
    script.release(released).unwrap();
    assert_eq!(script.order(), [made[1], made[2], made[0]]);
}

#[test]
fn the_workers_error_stays_with_the_item() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.retry(RetryItem { error: Some(error("first")), ..at_once(held) }).unwrap();
    assert_eq!(script.get(number).extras.unwrap().error, Some(error("first")));
    let held = script.lease_one();
    script.retry(at_once(held)).unwrap();
    assert_eq!(script.get(number).extras.unwrap().error, Some(error("first")));
}

#[test]
fn at_the_last_attempt_an_item_fails_with_the_workers_error_or_the_servers() {
    let mut script = Script::with_settings(Settings { max_attempts: 1, ..Settings::default() });
    let made = script.produce(items(2));
    let held = script.lease_one();
    let ended = Ok(Retried::Ended(Phase::Failed));
    assert_eq!(script.retry(RetryItem { error: Some(error("told")), ..again(held) }), ended);
    let held = script.lease_one();
    assert_eq!(script.retry(again(held)), ended);
    assert_eq!(script.get(made[0]).extras.unwrap().error, Some(error("told")));
    let servers = script.get(made[1]).extras.unwrap().error.unwrap();
    assert_eq!(servers.code.as_deref(), Some("max_attempts"));
    let State::Final(outcome) = script.get(made[1]).state else { panic!("it failed") };
    let item = script.get(made[1]);
    let besides = item.payload_size.bytes() + u64::from(item.extras.unwrap().attempt_bytes);
    assert_eq!(outcome.kept_bytes, ("max_attempts".len() + servers.message.len()) as u64 + besides);
}

#[test]
fn a_limit_lowered_meanwhile_counts_at_the_next_retry() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    let settings = Settings { version: 1, max_attempts: 1, ..Settings::default() };
    script.apply(Configure(settings)).unwrap();
    script.retry(again(held)).unwrap();
    assert_eq!(script.phase(number), Some(Phase::Failed));
}

#[test]
fn dead_is_the_end_whatever_attempts_are_left() {
    let mut script = Script::new();
    let number = script.produce([NewItem { max_attempts: Some(0), ..item("default") }])[0];
    let held = script.lease_one();
    let dead = RetryItem { dead: true, ..again(held) };
    assert_eq!(script.retry(dead.clone()), Ok(Retried::Ended(Phase::Failed)));
    assert!(script.get(number).extras.unwrap().error.is_some());
    assert_eq!(script.retry(dead), Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Retried) }));
}

#[test]
fn a_permit_is_void_after_a_retry_and_says_why() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    script.retry(at_once(held)).unwrap();
    assert_eq!(script.complete(held, None), Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Retried) }));
    let newer = script.lease_one();
    script.release(newer).unwrap();
    assert_eq!(script.complete(held, None), Err(Refusal::LeaseLost { reason: None }));
    assert_eq!(script.complete(newer, None), Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Released) }));
}

#[test]
fn items_with_long_errors_come_due_up_to_the_bytes_that_the_partition_may_come_to_by_itself() {
    let mut script = Script::new();
    script.produce(items(20));
    for leased in script.lease(20) {
        let delay = Some(Span::from_secs(1));
        let error = Some(error(&"x".repeat(ERROR_BYTES_MAX)));
        script.retry(RetryItem { delay, error, ..again(leased.held()) }).unwrap();
    }
    script.pass(Span::from_secs(1));
    script.partition.limit_own_bytes(3 * ERROR_BYTES_MAX as u64);
    let swept: Vec<_> = (0..8).map(|_| script.sweep_some(100)).collect();
    assert_eq!(swept, [3, 3, 3, 3, 3, 3, 2, 0]);
}

fn id(number: u64) -> ItemId {
    ItemId { number: ItemNumber(number), partition: PartitionId(3) }
}

#[test]
fn delays_grow_by_the_factor_up_to_the_maximum() {
    let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
    let secs: Vec<_> = (1..=14).map(|attempts| delay(&policy, attempts, id(1)).0 / 1_000_000).collect();
    assert_eq!(secs, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]);
    assert_eq!(delay(&policy, u32::MAX, id(1)), Span::from_secs(3600));
    let none = RetryPolicy { initial: Span::ZERO, ..policy };
    assert_eq!(delay(&none, 5000, id(1)), Span::ZERO, "nothing times anything");
    let fixed = RetryPolicy { strategy: RetryStrategy::Fixed, ..policy };
    assert_eq!(delay(&fixed, 9, id(1)), Span::from_secs(1));
}

#[test]
fn jitter_is_frozen_and_spreads_over_its_range() {
    let policy = RetryPolicy { strategy: RetryStrategy::Fixed, jitter: 0.5, ..RetryPolicy::default() };
    assert_eq!(delay(&policy, 1, id(1)), Span(500_167));
    assert_eq!(delay(&policy, 2, id(1)), Span(698_389));
    let delays: Vec<_> = (0..1000).map(|number| delay(&policy, 1, id(number)).0).collect();
    assert!(delays.iter().all(|delay| (500_000..=1_500_000).contains(delay)));
    for tenth in 5..15 {
        let within = delays.iter().filter(|&&delay| delay / 100_000 == tenth).count();
        assert!((60..140).contains(&within), "{within} of 1000 delays within 0.{tenth} s");
    }
}

proptest! {
    #[test]
    fn any_policy_gives_a_delay_within_its_bounds(
        fixed in any::<bool>(), initial in any::<u64>(), max in any::<u64>(),
        factor in any::<f64>(), jitter in any::<f64>(), attempts in any::<u32>(), number in any::<u32>(),
    ) {
        let strategy = if fixed { RetryStrategy::Fixed } else { RetryStrategy::Exponential };
        let policy = RetryPolicy { strategy, initial: Span(initial), factor, max: Span(max), jitter };
        let bound = if fixed { initial } else { max };
        let delay = delay(&policy, attempts, id(number.into()));
        prop_assert!(delay.0 as f64 <= bound as f64 * 2.0);
        prop_assert!(Timestamp(u64::MAX) >= START + delay);
    }
}
