//! Items that are changed while nobody works on them.

use bytes::Bytes;
use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::item::{Item, Phase, State};
use windlass_core::limits::{BATCH_MAX, Invalid};
use windlass_core::news::News;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Part};
use windlass_core::settings::{Keep, Requeue, Settings};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Clear, Filter, List, NewItem, StartGroup, Update, UpdateItem, Updated};

use crate::damaged::take_without_payload;
use crate::script::{START, Script, again, at_once, item, items, kinds, member, open_group};

fn update(script: &mut Script, update: UpdateItem) -> Result<Item, Refusal> {
    let updated = script.apply(Update(vec![update])).unwrap().pop().unwrap();
    updated.map(|Updated { item, .. }| item)
}

fn of(number: ItemNumber) -> UpdateItem {
    UpdateItem::new(number)
}

fn after(number: ItemNumber, secs: u64) -> UpdateItem {
    UpdateItem { delay: Some(Span::from_secs(secs)), ..of(number) }
}

fn at(number: ItemNumber, at: Timestamp) -> UpdateItem {
    UpdateItem { enqueue_at: Some(at), ..of(number) }
}

fn prior(number: ItemNumber, priority: u8) -> UpdateItem {
    UpdateItem { priority: Some(priority), ..of(number) }
}

fn record(number: ItemNumber, body: &'static str, facts: Option<&'static str>) -> UpdateItem {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    UpdateItem { record: Some((bytes(body), facts.map(bytes))), ..of(number) }
}

fn wrong(phase: Phase) -> Result<Item, Refusal> {
    Err(Refusal::WrongPhase { phase })
}

fn scheduled_for(script: &mut Script, secs: u64) -> ItemNumber {
    let delay = Some(Span::from_secs(secs));
    script.produce([NewItem { delay, ..item("default") }])[0]
}

fn due_at(item: &Item) -> Option<Timestamp> {
    match item.state {
        State::Scheduled { due_at } => Some(due_at),
        _ => None,
    }
}

#[test]
fn an_update_of_nothing_leaves_the_item_as_it_is() {
    let mut script = Script::new();
    let number = script.produce_one();
    let before = script.get(number);
    script.pass(Span::from_secs(1));
    assert_eq!(update(&mut script, of(number)), Ok(before));
}

#[test]
fn an_update_changes_only_what_is_given() {
    let mut script = Script::new();
    let address = Some("here".into());
    let number = script.produce([NewItem { address, max_attempts: Some(3), ..item("mail") }])[0];
    let before = script.get(number);
    let mut expected = before.clone();
    expected.priority = 7;
    assert_eq!(update(&mut script, prior(number, 7)), Ok(expected.clone()));
    expected.extras.as_mut().unwrap().max_attempts = Some(9);
    assert_eq!(update(&mut script, UpdateItem { max_attempts: Some(9), ..of(number) }), Ok(expected.clone()));
    expected.extras.as_mut().unwrap().dead_timeout = Some(Span::from_secs(60));
    let dead_timeout = Some(Span::from_secs(60));
    assert_eq!(update(&mut script, UpdateItem { dead_timeout, ..of(number) }), Ok(expected.clone()));
    expected.extras.as_mut().unwrap().dead_timeout = None;
    let dead_timeout = Some(Span::ZERO);
    assert_eq!(update(&mut script, UpdateItem { dead_timeout, ..of(number) }), Ok(expected));
}

#[test]
fn a_priority_puts_an_item_at_its_own_place_among_those_of_that_priority() {
    let mut script = Script::new();
    let numbers = script.produce(items(4));
    update(&mut script, prior(numbers[3], 5)).unwrap();
    update(&mut script, prior(numbers[1], 5)).unwrap();
    assert_eq!(script.partition.waiting_by_priority(), [(0, 2), (5, 2)].into());
    assert_eq!(script.order(), [numbers[0], numbers[2], numbers[1], numbers[3]]);
}

#[test]
fn a_scheduled_item_whose_time_is_past_waits_at_once_at_the_tail() {
    let mut script = Script::new();
    let soon = scheduled_for(&mut script, 60);
    let past = scheduled_for(&mut script, 60);
    let other = script.produce_one();
    script.pass(Span::from_secs(1));
    assert_eq!(update(&mut script, after(soon, 0)).unwrap().state, State::Waiting { since: script.now });
    assert_eq!(script.news, [News::Available]);
    assert_eq!(update(&mut script, at(past, START)).unwrap().changed_at(), script.now);
    assert_eq!(script.get(soon).extras, None);
    assert_eq!(script.order(), [other, soon, past]);
}

#[test]
fn a_later_time_makes_a_waiting_item_scheduled_and_an_earlier_one_nothing() {
    let mut script = Script::new();
    let number = script.produce_one();
    script.pass(Span::from_secs(1));
    assert_eq!(update(&mut script, at(number, START)).unwrap().state, State::Waiting { since: START });
    let scheduled_at = script.now;
    let updated = update(&mut script, after(number, 10)).unwrap();
    assert_eq!(
        (due_at(&updated), updated.changed_at()),
        (Some(script.now + Span::from_secs(10)), scheduled_at)
    );
    script.pass(Span::from_secs(2));
    let updated = update(&mut script, after(number, 20)).unwrap();
    assert_eq!(
        (due_at(&updated), updated.changed_at()),
        (Some(script.now + Span::from_secs(20)), scheduled_at)
    );
    let due_at = script.now + Span::from_secs(20);
    script.pass(Span::from_secs(25));
    script.sweep();
    assert_eq!((script.phase(number), script.get(number).changed_at()), (Some(Phase::Waiting), due_at));
}

#[test]
fn an_item_that_fell_due_has_no_extras_and_tells_when_it_was_due() {
    let mut script = Script::new();
    let number = scheduled_for(&mut script, 10);
    let due_at = script.now + Span::from_secs(10);
    script.pass(Span::from_secs(60));
    script.sweep();
    let item = script.get(number);
    assert_eq!((item.changed_at(), item.extras), (due_at, None));
}

#[test]
fn a_retried_item_that_is_run_now_goes_where_the_queue_sends_retried_ones() {
    for (requeue, keeps) in [(Requeue::Keep, true), (Requeue::Tail, false)] {
        let mut script = Script::with_settings(Settings { requeue, ..Settings::default() });
        let number = script.produce_one();
        let held = script.lease_one();
        script.retry(again(held)).unwrap();
        let other = script.produce_one();
        assert_eq!(script.phase(number), Some(Phase::Scheduled));
        update(&mut script, after(number, 0)).unwrap();
        assert_eq!(script.order(), if keeps { [number, other] } else { [other, number] });
    }
}

#[test]
fn a_scheduled_member_that_is_run_now_is_held_until_its_group_starts() {
    let mut script = Script::new();
    script.apply(open_group("g")).unwrap();
    let delay = Some(Span::from_secs(60));
    let number = script.produce([NewItem { delay, ..member("g") }])[0];
    let updated = script.apply(Update(vec![after(number, 0)])).unwrap().pop().unwrap().unwrap();
    assert!(updated.member.unwrap().held);
    assert!(script.news.is_empty(), "nobody can lease it");
    assert_eq!(update(&mut script, after(number, 0)), wrong(Phase::Held));
    assert_eq!(update(&mut script, after(number, 10)), wrong(Phase::Held));
    update(&mut script, prior(number, 3)).unwrap();
    script.apply(StartGroup("g".into())).unwrap();
    assert_eq!(script.order(), [number]);
}

#[test]
fn a_suspended_item_is_changed_but_for_its_time() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.suspend(held, Some("why")).unwrap();
    let suspended_at = script.now;
    script.pass(Span::from_secs(1));
    let refused = UpdateItem { priority: Some(9), ..after(number, 0) };
    assert_eq!(update(&mut script, refused), wrong(Phase::Suspended));
    assert_eq!(script.get(number).priority, 0, "all or nothing");
    let updated = update(&mut script, prior(number, 4)).unwrap();
    assert_eq!((updated.priority, updated.changed_at()), (4, suspended_at));
}

#[test]
fn leased_and_final_items_are_not_changed_and_each_of_a_batch_is_judged_by_itself() {
    let mut script = Script::with_settings(Settings { keep: Keep::All, ..Settings::default() });
    let numbers = script.produce(items(3));
    let held = script.lease_one();
    script.cancel(numbers[1]).unwrap();
    let never = ItemNumber(1);
    let batch = [numbers[0], numbers[1], never, numbers[2]].map(|number| prior(number, 1));
    let replies = script.apply(Update(batch.to_vec())).unwrap();
    let refusals: Vec<_> = replies.iter().map(|reply| reply.as_ref().err()).collect();
    let (leased, cancelled) = (Phase::Leased, Phase::Cancelled);
    let [leased, cancelled] = [leased, cancelled].map(|phase| Refusal::WrongPhase { phase });
    assert_eq!(refusals, [Some(&leased), Some(&cancelled), Some(&Refusal::NotFound), None]);
    script.release(held).unwrap();
    assert_eq!(script.order(), [numbers[0], numbers[2]]);
}

#[test]
fn an_item_that_was_cleared_is_not_changed_before_the_sweep_either() {
    let mut script = Script::new();
    let address = Some("here".into());
    let number = script.produce([NewItem { address, ..item("default") }])[0];
    let plain = script.produce_one();
    let (waiting, scheduled, leased, suspended) = (true, false, false, false);
    script.clear(Clear { waiting, scheduled, leased, suspended });
    assert_eq!(update(&mut script, prior(number, 1)), wrong(Phase::Cancelled));
    assert_eq!(update(&mut script, prior(plain, 1)), Err(Refusal::NotFound));
}

#[test]
fn as_many_attempts_as_were_made_leave_one_more() {
    let mut script = Script::new();
    let number = script.produce([NewItem { max_attempts: Some(9), ..item("default") }])[0];
    for _ in 0..3 {
        let held = script.lease_one();
        script.retry(at_once(held)).unwrap();
    }
    update(&mut script, UpdateItem { max_attempts: Some(2), ..of(number) }).unwrap();
    let held = script.lease_one();
    script.retry(at_once(held)).unwrap();
    assert_eq!((script.phase(number), script.get(number).attempts), (Some(Phase::Failed), 4));
}

#[test]
fn a_dead_timeout_shorter_than_the_age_expires_the_item_at_once() {
    let dead_timeout = Some(Span::from_secs(5));
    for dead_queue in [None, Some("dead".into())] {
        let mut script =
            Script::with_settings(Settings { dead_queue: dead_queue.clone(), ..Settings::default() });
        let number = script.produce_one();
        script.partition.watch(number);
        script.pass(Span::from_secs(6));
        let shorter = UpdateItem { dead_timeout, priority: Some(3), ..of(number) };
        let expired = update(&mut script, shorter).unwrap();
        assert_eq!((expired.state.phase(), expired.priority), (Phase::Expired, 3));
        assert_eq!(script.get(number), expired);
        assert_eq!(expired.state.outgoing().map(|outgoing| outgoing.to.clone()), dead_queue);
        assert_eq!(script.totals.expired, 1);
        assert!(script.news.iter().any(|news| matches!(news, News::Ended(_))));
    }
    let mut script = Script::new();
    let number = script.produce_one();
    update(&mut script, UpdateItem { dead_timeout, ..of(number) }).unwrap();
    assert_eq!(script.partition.next_due(), Some(START + Span::from_secs(5)));
}

#[test]
fn a_new_record_takes_the_place_of_payload_and_facts() {
    let mut script = Script::new();
    let number = script.produce_one();
    let updated = update(&mut script, record(number, "0123456789", Some("facts"))).unwrap();
    assert_eq!((updated.payload_size.bytes(), updated.extras.unwrap().facts_bytes), (10, 5));
    let puts =
        |part| move |change: &&Change| matches!(change, Change::PutBody { part: of, .. } if *of == part);
    assert_eq!(script.changes.iter().filter(puts(Part::Payload)).count(), 1);
    assert_eq!(script.changes.iter().filter(puts(Part::Facts)).count(), 1);
    let updated = update(&mut script, record(number, "0", None)).unwrap();
    assert_eq!((updated.payload_size.bytes(), updated.extras), (1, None));
    assert!(script.changes.contains(&Change::RemoveBody { number, part: Part::Facts }));
}

#[test]
fn a_new_record_mends_an_item_whose_payload_was_lost() {
    let mut script = Script::new();
    take_without_payload(&mut script, 1);
    let number = script.partition.list(List::Queue, None, 1).unwrap()[0].number;
    assert!(script.get(number).extras.unwrap().payload_lost);
    let updated = update(&mut script, record(number, "again", None)).unwrap();
    assert!(!updated.extras.unwrap().payload_lost);
    assert_eq!(script.order(), [number]);
}

#[test]
fn whoever_follows_an_item_hears_of_its_new_state_alone() {
    let mut script = Script::new();
    let number = script.produce_one();
    script.partition.follow(number);
    update(&mut script, prior(number, 1)).unwrap();
    assert_eq!(script.news, [News::Available]);
    update(&mut script, after(number, 10)).unwrap();
    let [News::Changed(changed)] = &script.news[..] else { panic!("{:?}", script.news) };
    assert_eq!((changed.phase, changed.shifted), (Phase::Scheduled, true));
}

#[test]
fn a_lease_that_takes_only_urgent_items_gets_one_that_became_urgent() {
    let mut script = Script::new();
    let numbers =
        script.produce([NewItem { priority: 9, ..item("mail") }, NewItem { priority: 9, ..item("mail") }]);
    script.partition.take_moved_kinds();
    update(&mut script, prior(numbers[1], 1)).unwrap();
    assert_eq!(script.partition.take_moved_kinds(), ["mail".into()]);
    let filter = Filter { max_priority: 1, ..kinds(&["mail"]) };
    assert_eq!(script.lease_with(2, filter)[0].id, ItemId { partition: PartitionId(7), number: numbers[1] });
}

#[test]
fn two_times_and_too_large_a_batch_are_refused() {
    let mut script = Script::new();
    let number = script.produce_one();
    let both = UpdateItem { enqueue_at: Some(START), ..after(number, 1) };
    let field = |reply: Result<_, Refusal>| match reply {
        Err(Refusal::Invalid(Invalid { field, .. })) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(script.apply(Update(vec![both]))), "delay");
    assert_eq!(field(script.apply(Update(vec![of(number); BATCH_MAX + 1]))), "ids");
}
