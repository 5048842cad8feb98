//! Lists, imports and deletions: what an operator sees and does.

use proptest::prelude::*;
use windlass_core::id::{ItemId, ItemNumber, Permit};
use windlass_core::item::{CronRun, Item, MoveReason, Origin, Phase, State};
use windlass_core::limits::Invalid;
use windlass_core::partition::Partition;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Part};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Clear, Delete, DeleteAny, Held, Import, ImportItem, LeaseItems, List, NewItem};

use crate::history::{History, Step, settings, steps};
use crate::script::{RetryItem, START, Script, again, error, import_item, item, items};

fn numbers(script: &Script, list: List) -> Vec<ItemNumber> {
    let listed = script.partition.list(list, None, 1000).unwrap();
    listed.into_iter().map(|item| item.number).collect()
}

/// A whole list, so many at a time.
fn paged(partition: &Partition, list: List, limit: usize) -> Vec<Item> {
    let mut all: Vec<Item> = Vec::new();
    loop {
        let pivot = all.last().map(|item| item.number);
        let page = partition.list(list, pivot, limit).unwrap();
        assert!(page.len() <= limit);
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

fn origin() -> Origin {
    Origin {
        queue: "mails".into(),
        id: None,
        group: None,
        address: Some("there".into()),
        attempts: Some(3),
        reason: MoveReason::Attempts,
        error: Some(error("it broke there")),
        moved_at: START,
        unknown: Vec::new(),
    }
}

fn import(script: &mut Script, items: Vec<ImportItem>) -> Vec<ItemNumber> {
    let imported = script.apply(Import { items }).unwrap();
    imported.into_iter().map(|item| item.unwrap().number).collect()
}

fn delete(script: &mut Script, numbers: &[ItemNumber]) -> Vec<Result<(), Refusal>> {
    script.apply(Delete(numbers.to_vec())).unwrap()
}

#[test]
fn a_list_shows_leased_items_at_their_own_places_among_those_that_wait() {
    let mut script = Script::new();
    let made = script.produce(items(4));
    script.lease(2);
    let urgent = script.produce([item("mail"), NewItem { priority: 1, ..item("mail") }]);
    assert_eq!(numbers(&script, List::Queue), [made.clone(), urgent].concat());
    let listed = script.partition.list(List::Queue, Some(made[0]), 2).unwrap();
    let phases: Vec<_> = listed.iter().map(|item| (item.number, item.state.phase())).collect();
    assert_eq!(phases, [(made[1], Phase::Leased), (made[2], Phase::Waiting)]);
}

#[test]
fn scheduled_items_are_listed_by_time_and_then_as_they_were_produced() {
    let mut script = Script::new();
    let later = |secs| NewItem { enqueue_at: Some(START + Span::from_secs(secs)), ..item("default") };
    let made = script.produce([later(9), later(3), NewItem { kind: "mail".into(), ..later(9) }, later(3)]);
    assert_eq!(numbers(&script, List::Scheduled), [made[1], made[3], made[0], made[2]]);
    assert_eq!(numbers(&script, List::Queue), []);
    assert_eq!(script.partition.list(List::Scheduled, Some(made[0]), 9).unwrap()[0].number, made[2]);
}

#[test]
fn a_pivot_that_is_not_in_the_list_is_refused() {
    let mut script = Script::new();
    let waiting = script.produce_one();
    let due_at = START + Span::from_secs(9);
    let scheduled = script.produce([NewItem { enqueue_at: Some(due_at), ..item("default") }])[0];
    let refused = Err(Refusal::NoSuchPivot);
    assert_eq!(script.partition.list(List::Scheduled, Some(waiting), 1), refused);
    assert_eq!(script.partition.list(List::Queue, Some(scheduled), 1), refused);
    assert_eq!(script.partition.list(List::Queue, Some(ItemNumber(5)), 1), refused);
    script.cancel(waiting).unwrap();
    assert_eq!(script.partition.list(List::Queue, Some(waiting), 1), refused);
}

#[test]
fn what_was_cleared_is_in_no_list_also_before_the_sweep() {
    let mut script = Script::new();
    script.produce(items(3));
    script.lease(1);
    script.clear(Clear { waiting: true, scheduled: false, leased: true, suspended: false });
    assert_eq!(numbers(&script, List::Queue), []);
    let made = script.produce(items(2));
    script.lease(1);
    assert_eq!(numbers(&script, List::Queue), made);
}

#[test]
fn an_import_keeps_everything_but_the_number_and_stands_behind_all_there_is() {
    let mut script = Script::new();
    let first = script.produce_one();
    let created_at = Some(Timestamp(START.0 - 1_000_000));
    let run = CronRun { name: "nightly".into(), scheduled_at: Timestamp(5) };
    let (changed_at, started_at) = (Timestamp(START.0 - 5), Timestamp(START.0 - 500));
    let full = ImportItem {
        created_at,
        changed_at: Some(changed_at),
        started: Some((started_at, "worker there".into())),
        attempts: 2,
        max_attempts: Some(7),
        dead_timeout: Some(Span::from_secs(3600)),
        origin: Some(Box::new(origin())),
        cron: Some(Box::new(run.clone())),
        error: Some(error("it broke")),
        facts: Some("facts".into()),
        ..import_item("mail")
    };
    let imported = import(&mut script, vec![full, import_item("default")]);
    for (part, body) in [(Part::Payload, "payload"), (Part::Facts, "facts")] {
        let put = Change::PutBody { number: imported[0], part, body: body.into() };
        assert!(script.changes.contains(&put), "{body}");
    }
    let item = script.get(imported[0]);
    assert_eq!((item.changed_at(), item.started()), (changed_at, Some((started_at, &"worker there".into()))));
    assert_eq!((Some(item.created_at), item.attempts, &*item.kind), (created_at, 2, "mail"));
    let extras = item.extras.unwrap();
    assert_eq!(extras.facts_bytes, 5);
    assert_eq!(extras.cron, Some(Box::new(run)));
    assert_eq!((extras.max_attempts, extras.error), (Some(7), Some(error("it broke"))));
    assert_eq!((extras.dead_timeout, extras.origin), (Some(Span::from_secs(3600)), Some(Box::new(origin()))));
    assert_eq!(script.get(imported[1]).created_at, script.now);
    let last = script.produce_one();
    assert_eq!(script.order(), [first, imported[0], imported[1], last]);
}

#[test]
fn an_item_is_imported_with_its_past_in_every_state() {
    let mut script = Script::new();
    let (created_at, changed_at) = (Timestamp(START.0 - 9_000), Timestamp(START.0 - 5_000));
    let past = || ImportItem {
        created_at: Some(created_at),
        changed_at: Some(changed_at),
        started: Some((Timestamp(START.0 - 7_000), "worker there".into())),
        attempts: 1,
        ..import_item("default")
    };
    let later = ImportItem { due_at: Some(START + Span::from_secs(9)), ..past() };
    let suspended = ImportItem { suspended: Some(Box::default()), ..past() };
    let too_early = ImportItem { changed_at: Some(Timestamp(5)), ..past() };
    let to_come = ImportItem { changed_at: Some(START + Span::from_secs(9)), ..past() };
    let changed = [changed_at, changed_at, changed_at, created_at, script.now];
    let imported = import(&mut script, vec![past(), later, suspended, too_early, to_come]);
    for (number, changed_at) in imported.into_iter().zip(changed) {
        let item = script.get(number);
        assert_eq!(item.changed_at(), changed_at);
        assert_eq!(item.started().map(|(at, _)| at), Some(Timestamp(START.0 - 7_000)));
        let held = Held { id: ItemId { number, partition: script.partition.id() }, permit: Permit(0) };
        assert_eq!(script.complete(held, None), Err(Refusal::LeaseLost { reason: None }), "never given");
    }
}

#[test]
fn an_imported_schedule_counts_also_where_its_time_has_come() {
    let mut script = Script::new();
    let at = |due_at| ImportItem { due_at: Some(due_at), ..import_item("default") };
    let (past, future) = (Timestamp(START.0 - 5), START + Span::from_secs(5));
    let imported = import(&mut script, vec![at(future), at(past)]);
    assert_eq!(numbers(&script, List::Scheduled), [imported[1], imported[0]]);
    script.sweep();
    assert_eq!(script.order(), [imported[1]]);
    script.pass(Span::from_secs(5));
    script.sweep();
    assert_eq!(script.order(), [imported[0]]);
}

#[test]
fn an_import_expires_by_its_own_age_alone() {
    let dead_timeout = Span::from_secs(10);
    let mut script = Script::with_settings(Settings { dead_timeout, ..Settings::default() });
    let old = ImportItem {
        created_at: Some(Timestamp(START.0 - 5_000_000)),
        dead_timeout: Some(dead_timeout),
        ..import_item("default")
    };
    let imported = import(&mut script, vec![old, import_item("default")]);
    script.pass(Span::from_secs(5));
    script.sweep();
    assert_eq!(script.get(imported[0]).state.phase(), Phase::Expired);
    script.pass(Span::from_secs(3600));
    script.sweep();
    assert_eq!(script.order(), [imported[1]]);
}

#[test]
fn a_deleted_item_does_not_expire_any_more() {
    let mut script =
        Script::with_settings(Settings { dead_timeout: Span::from_secs(10), ..Settings::default() });
    let number = script.produce_one();
    assert_eq!(delete(&mut script, &[number]), [Ok(())]);
    assert_eq!(script.partition.next_due(), None);
}

#[test]
fn an_import_is_held_to_the_rules_of_items() {
    let mut script = Script::new();
    let refused = |script: &mut Script, items| script.apply(Import { items }).unwrap_err();
    let rule = "1 to 1000 items";
    assert_eq!(refused(&mut script, Vec::new()), Refusal::Invalid(Invalid { field: "items", rule }));
    assert!(matches!(
        refused(&mut script, vec![import_item("default"), import_item("")]),
        Refusal::Invalid(Invalid { field: "kind", .. })
    ));
    assert_eq!(script.partition.counts().live(), 0);
}

#[test]
fn a_deleted_item_is_gone_whatever_it_was_and_nothing_of_it_is_kept() {
    let mut script = Script::new();
    let made = script.produce(items(2));
    let due_at = Some(START + Span::from_secs(9));
    let scheduled = script.produce([NewItem { enqueue_at: due_at, ..item("default") }])[0];
    let held = script.lease_one();
    let deleted = delete(&mut script, &[made[0], made[1], scheduled, made[1], ItemNumber(3)]);
    let gone = Err(Refusal::NotFound);
    assert_eq!(deleted, [Ok(()), Ok(()), Ok(()), gone.clone(), gone.clone()]);
    assert_eq!(script.complete(held, None), gone);
    assert_eq!((script.partition.counts().live(), script.partition.retained()), (0, 0));
    assert_eq!(script.totals.cancelled, 3);
}

#[test]
fn what_has_ended_is_deleted_only_where_any_item_may_be() {
    let mut script =
        Script::with_settings(Settings { dead_queue: Some("dead".into()), ..Settings::default() });
    let address = || Some("here".into());
    let cleared = script.produce([NewItem { address: address(), ..item("default") }])[0];
    script.clear(Clear { waiting: true, scheduled: false, leased: false, suspended: false });
    let completed = script.produce([NewItem { address: address(), ..item("default") }])[0];
    let held = script.lease_one();
    script.complete(held, Some("done")).unwrap();
    let moving = script.produce_one();
    let held = script.lease_one();
    script.retry(RetryItem { dead: true, ..again(held) }).unwrap();
    let live = script.produce_one();
    let all = [cleared, completed, moving, live];
    assert_eq!(delete(&mut script, &all[..3]), vec![Err(Refusal::Ended); 3]);
    assert_eq!(script.apply(DeleteAny(all.to_vec())), Ok(vec![Ok(()); 4]));
    assert_eq!(all.map(|number| script.partition.get(number)), [const { None }; 4]);
    assert_eq!(script.partition.moving(), 1, "it arrives all the same");
    assert_eq!(script.apply(DeleteAny(all.to_vec())), Ok(vec![Err(Refusal::NotFound); 4]));
    assert_eq!(script.partition.retained(), 0);
}

#[test]
fn what_has_ended_is_not_deleted() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    script.complete(held, Some("a result")).unwrap();
    assert_eq!(delete(&mut script, &[held.id.number]), [Err(Refusal::Ended)]);
    assert_eq!(script.phase(held.id.number), Some(Phase::Completed));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn pages_of_a_random_history_are_what_a_scan_finds_and_a_lease_gives(
        settings in settings(), steps in steps(120), limit in 1..7usize,
    ) {
        let mut history = History::new(settings);
        steps.iter().for_each(|step| history.step(step));
        // What is overdue is listed until then, and leased no more.
        history.step(&Step::Sweep(1000));
        let listed = paged(&history.partition, List::Queue, limit);
        let mut found: Vec<Item> = history.items().into_values().collect();
        found.retain(|item| matches!(item.state, State::Waiting { .. } | State::Leased(_) | State::Suspended(_)));
        found.sort_by_key(|item| (item.priority, item.place));
        prop_assert_eq!(&listed, &found);

        let mut scheduled: Vec<Item> = history.items().into_values().collect();
        scheduled.retain(|item| matches!(item.state, State::Scheduled { .. }));
        scheduled.sort_by_key(|item| match item.state {
            State::Scheduled { due_at } => (due_at, item.number),
            _ => unreachable!("only those were kept"),
        });
        prop_assert_eq!(paged(&history.partition, List::Scheduled, limit), scheduled);

        let can_be_had = |item: &&Item| history.is_waiting(item) && !history.is_stopped(&item.kind);
        let waiting: Vec<_> = listed.iter().filter(can_be_had).map(|item| item.number).collect();
        let lease = LeaseItems {
            client_id: "worker".into(),
            batch_size: 1000,
            lease_timeout: None,
            filter: windlass_core::verbs::Filter::ANY,
        };
        let applied = history.partition.apply(history.now, lease);
        let leased = applied.reply.expect("a lease is never refused");
        prop_assert_eq!(waiting, leased.iter().map(|item| item.id.number).collect::<Vec<_>>());
        // Once all are in somebody's hands they still stand where they stood.
        let numbers = |items: &[Item]| items.iter().map(|item| item.number).collect::<Vec<_>>();
        prop_assert_eq!(numbers(&paged(&history.partition, List::Queue, limit)), numbers(&listed));
    }
}
