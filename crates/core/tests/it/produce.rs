use windlass_core::id::{ItemNumber, NUMBER_MAX};
use windlass_core::item::{ItemError, Phase, State};
use windlass_core::limits::{BATCH_MAX, KINDS_MAX};
use windlass_core::news::News;
use windlass_core::partition::Counts;
use windlass_core::refusal::{Limit, Refusal};
use windlass_core::row::{Change, Numbers, Part, Row};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Produce, Retry, RetryItem};

use crate::script::{START, Script, item, items};

#[test]
fn items_are_numbered_by_the_clock_and_one_by_one_within_a_moment() {
    let mut script = Script::new();
    assert_eq!(script.produce(items(2)), [ItemNumber(START.0), ItemNumber(START.0 + 1)]);
    script.pass(Span::from_micros(1));
    assert_eq!(script.produce(items(2)), [ItemNumber(START.0 + 2), ItemNumber(START.0 + 3)]);
    script.pass(Span::from_secs(1));
    assert_eq!(script.produce(items(1)), [ItemNumber(START.0 + 1_000_001)]);
}

#[test]
fn a_clock_that_stands_far_back_does_not_bring_numbers_back() {
    let mut script = Script::new();
    let first = script.produce_one();
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    script.now = Timestamp(5);
    assert!(script.produce_one() > first);
    assert!(script.lease_one().permit > held.permit);
}

#[test]
fn an_item_is_one_row_one_body_and_the_command_one_row_of_numbers() {
    let mut script = Script::new();
    let numbers = script.produce(items(2));
    let shapes: Vec<_> = script.changes.iter().map(shape).collect();
    let (one, two) = (numbers[0].0, numbers[1].0);
    assert_eq!(shapes, [("item", one), ("payload", one), ("item", two), ("payload", two), ("numbers", two)]);
}

fn shape(change: &Change) -> (&'static str, u64) {
    match change {
        Change::Put(Row::Item(item)) => ("item", item.number.0),
        Change::Put(Row::Numbers(numbers)) => ("numbers", numbers.item),
        Change::PutBody { number, part: Part::Payload, .. } => ("payload", number.0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_item_is_scheduled_only_if_its_time_is_still_to_come() {
    let mut script = Script::new();
    let mut at =
        |at| script.produced([windlass_core::verbs::NewItem { enqueue_at: Some(at), ..item("default") }]);
    assert_eq!(at(Timestamp(START.0 - 1))[0].phase, Phase::Waiting);
    assert_eq!(at(START)[0].phase, Phase::Waiting);
    let later = at(Timestamp(START.0 + 1))[0];
    assert_eq!(later.phase, Phase::Scheduled);
    assert_eq!(script.get(later.number).state, State::Scheduled { due_at: Timestamp(START.0 + 1) });
    assert_eq!(
        script.partition.counts(),
        Counts { held: 0, scheduled: 1, waiting: 2, leased: 0, suspended: 0 }
    );
}

#[test]
fn only_something_to_lease_is_news() {
    let mut script = Script::new();
    let later = windlass_core::verbs::NewItem { enqueue_at: Some(Timestamp(u64::MAX)), ..item("default") };
    script.produce([later.clone()]);
    assert_eq!(script.news, []);
    script.produce([later, item("default"), item("default")]);
    assert_eq!(script.news, [News::Available]);
}

#[test]
fn what_breaks_a_limit_is_refused_and_changes_nothing() {
    let mut script = Script::new();
    let produce = |items| Produce { items };
    let long = "k".repeat(129);
    for items in [vec![], vec![item("default"); 1001], vec![item("default"), item("")], vec![item(&long)]] {
        assert!(matches!(script.apply(produce(items)), Err(Refusal::Invalid(_))));
        assert_eq!((script.news.len(), script.changes.len()), (0, 0));
    }
    script.produce_one();
    let mine = script.lease_one();
    let message = "m".repeat(4097).into();
    let error = Some(ItemError { code: None, message });
    let retry = RetryItem { held: mine, retry_at: None, delay: None, dead: false, error };
    assert!(matches!(script.apply(Retry(vec![retry])), Err(Refusal::Invalid(_))));
}

#[test]
fn a_kind_too_many_is_refused_and_known_ones_still_work() {
    let mut script = Script::new();
    let mut full = windlass_core::partition::Partition::new(script.partition.id(), START);
    let named: Vec<_> = (0..KINDS_MAX).map(|number| item(&format!("kind-{number}"))).collect();
    for items in named.chunks(BATCH_MAX) {
        full.apply(START, Produce { items: items.to_vec() }).reply.unwrap();
    }
    script.partition = full;
    let refused = Err(Refusal::TooMany { what: "kinds in a partition", max: KINDS_MAX });
    let before = script.partition.counts();
    let batch = vec![item("kind-3"), item("one too many")];
    let applied = script.partition.apply(START, Produce { items: batch });
    assert_eq!(applied.reply, refused);
    assert_eq!(script.partition.counts(), before);
    let known = script.partition.apply(START, Produce { items: vec![item("kind-3")] });
    assert!(known.reply.is_ok());
}

#[test]
fn a_kind_is_forgotten_with_its_last_item_and_makes_room() {
    let mut script = Script::new();
    for number in 0..5 {
        script.produce([item(&format!("kind-{number}")), item("steady")]);
        let gone = script.lease_with(1, crate::script::kinds(&[&format!("kind-{number}")]));
        script.complete(gone[0].held(), None).unwrap();
    }
    assert_eq!(script.partition.kind_counts().keys().map(|name| &**name).collect::<Vec<_>>(), ["steady"]);
}

#[test]
fn when_numbers_run_out_producing_is_refused_and_the_rest_goes_on() {
    let mut script = Script::new();
    let number = script.produce_one();
    script.partition.put(Row::Numbers(Numbers {
        item: NUMBER_MAX,
        permit: NUMBER_MAX,
        ..Numbers::default()
    }));
    let refused = script.apply(Produce { items: items(1) });
    assert!(matches!(refused, Err(Refusal::AtLimit { limit: Limit::ItemNumbers, .. })));
    assert_eq!(script.lease(1), []);
    assert_eq!(script.cancel(number), Ok(Phase::Cancelled));
}

#[test]
fn a_clock_beyond_all_numbers_still_counts_on() {
    let mut script = Script::new();
    let first = script.produce_one();
    script.now = Timestamp(u64::MAX);
    assert_eq!(script.produce_one().0, first.0 + 1);
}
