use std::sync::Arc;

use bytes::Bytes;
use windlass_core::group::{Ended, GroupState, GroupView};
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item::{MoveReason, Phase, State};
use windlass_core::limits::{GROUPS_MAX, KINDS_MAX};
use windlass_core::news::News;
use windlass_core::partition::Counts;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Part, Row};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{
    CancelGroup, Clear, CreateGroup, Delete, DeleteGroup, Departing, DepartingItem, Departure, GroupCreated,
    Import, ImportItem, NewEnd, NewItem, Produce, Produced, SetGroupEnd, StartGroup,
};

use crate::script::{
    RetryItem, START, Script, again, arrived, at_once, error, import_item, item, items, kinds, member,
    open_group,
};

const TAKER: PartitionId = PartitionId(9);

fn item_of(departure: &Departure) -> &DepartingItem {
    match &departure.what {
        Departing::Item(item) => item,
        Departing::Cron(cron) => panic!("{cron:?}"),
    }
}

fn end_item(kind: &str) -> NewEnd {
    NewEnd { queue: None, item: item(kind) }
}

/// With an end item and an abort item.
fn with_ends(name: &str, members: usize) -> CreateGroup {
    CreateGroup {
        end: Some(end_item("end")),
        abort: Some(end_item("abort")),
        items: items(members),
        ..open_group(name)
    }
}

fn create_group(script: &mut Script, create: CreateGroup) -> (GroupView, Vec<Produced>) {
    let GroupCreated { group, items } = script.apply(create).unwrap();
    (group, items)
}

fn numbers(produced: &[Produced]) -> Vec<ItemNumber> {
    produced.iter().map(|produced| produced.number).collect()
}

fn start(script: &mut Script, name: &str) -> Result<GroupView, Refusal> {
    script.apply(StartGroup(name.into()))
}

fn cancel(script: &mut Script, name: &str) -> Result<GroupView, Refusal> {
    script.apply(CancelGroup(name.into()))
}

fn delete(script: &mut Script, name: &str) -> Result<GroupView, Refusal> {
    script.apply(DeleteGroup(name.into()))
}

fn group(script: &Script, name: &str) -> GroupView {
    script.partition.group(name).expect("the group is there")
}

fn state(script: &Script, name: &str) -> &'static str {
    group(script, name).state.name()
}

/// The items of a kind that can be leased, and leases them.
fn of_kind(script: &mut Script, kind: &str) -> usize {
    script.lease_with(100, kinds(&[kind])).len()
}

fn refusals(script: &mut Script, items: Vec<NewItem>) -> Vec<Option<Refusal>> {
    script.apply(Produce { items }).unwrap().into_iter().map(Result::err).collect()
}

#[test]
fn members_are_not_leased_before_the_start_and_then_in_order() {
    let mut script = Script::new();
    let (view, members) = create_group(&mut script, CreateGroup { items: items(3), ..open_group("g") });
    assert_eq!((view.state, view.live.held), (GroupState::Open, 3));
    assert!(members.iter().all(|member| member.phase == Phase::Held));
    assert!(!script.news.contains(&News::Available));
    let plain = script.produce_one();
    assert_eq!(script.partition.counts(), Counts { held: 3, waiting: 1, ..Counts::default() });
    assert_eq!(script.order(), [plain]);
    assert_eq!(script.partition.waiting_by_priority().get(&0), None);

    script.pass(Span::from_secs(60));
    let view = start(&mut script, "g").unwrap();
    assert_eq!((view.state, view.live.waiting), (GroupState::Started, 3));
    assert!(script.news.contains(&News::Available));
    assert_eq!(script.partition.waiting_by_priority()[&0], 3);
    let later = script.produce([member("g")])[0];
    let leased = script.lease(10);
    assert!(leased.iter().all(|leased| leased.group.as_deref() == Some("g")));
    assert_eq!(script.waited, [Span::ZERO; 4], "members wait from the start of their group on");
    let expected: Vec<_> = numbers(&members).into_iter().chain([later]).collect();
    assert_eq!(leased.iter().map(|leased| leased.id.number).collect::<Vec<_>>(), expected);
}

#[test]
fn a_worker_for_one_kind_gets_members_of_that_kind_from_every_group() {
    let mut script = Script::new();
    let of = |kind: &str, group: &str| NewItem { group: Some(group.into()), ..item(kind) };
    for name in ["a", "b", "c"] {
        create_group(&mut script, CreateGroup { start: name != "c", ..with_ends(name, 1) });
    }
    let made =
        script.produce([of("mail", "b"), item("mail"), of("mail", "c"), of("mail", "a"), of("other", "a")]);
    let leased = script.lease_with(10, kinds(&["mail"]));
    let leased: Vec<_> = leased.iter().map(|leased| leased.id.number).collect();
    assert_eq!(leased, [made[0], made[1], made[3]]);
}

#[test]
fn a_group_that_is_started_empty_is_done_at_once() {
    let mut script = Script::new();
    let (view, _) = create_group(&mut script, CreateGroup { start: true, ..with_ends("g", 0) });
    assert_eq!(view.state, GroupState::Done { at: START });
    assert_eq!((of_kind(&mut script, "end"), of_kind(&mut script, "abort")), (1, 0));
    create_group(&mut script, with_ends("h", 0));
    assert_eq!(start(&mut script, "h").unwrap().state.name(), "done");
    assert_eq!(of_kind(&mut script, "end"), 1);
}

#[test]
fn the_end_item_comes_with_the_commit_that_takes_the_last_member() {
    let mut script = Script::new();
    create_group(&mut script, CreateGroup { start: true, ..with_ends("g", 2) });
    let [one, other] = [script.lease_one(), script.lease_one()];
    script.complete(one, Some("a result")).unwrap();
    assert_eq!(state(&script, "g"), "started");
    script.complete(other, None).unwrap();
    let view = group(&script, "g");
    assert_eq!((view.state.name(), view.live.live()), ("done", 0));
    assert_eq!(view.ended, Ended { completed: 2, ..Ended::default() });
    assert_eq!(script.copies.len(), 1);
    let removes = |change: &&Change| matches!(change, Change::RemoveBody { part: Part::Payload, .. });
    assert_eq!(script.changes.iter().filter(removes).count(), 2, "neither template is needed any more");
    let group_rows = |change: &&Change| matches!(change, Change::Put(Row::Group(_)));
    assert_eq!(script.changes.iter().filter(group_rows).count(), 1, "however it ended, it is written once");

    let end = script.lease_one();
    let seen = script.get(end.id.number);
    assert!(end.id.number > other.id.number, "it was produced when the group ended");
    assert_eq!((seen.group, seen.extras), (None, None), "it is no member, and came from nowhere");
    assert_eq!(script.partition.counts().live(), 1);
}

#[test]
fn a_member_may_produce_members_while_it_lives() {
    let mut script = Script::new();
    create_group(&mut script, CreateGroup { start: true, ..with_ends("g", 1) });
    let first = script.lease_one();
    script.produce([member("g")]);
    script.complete(first, None).unwrap();
    assert_eq!(state(&script, "g"), "started");
    let second = script.lease_one();
    script.complete(second, None).unwrap();
    assert_eq!(group(&script, "g").ended.completed, 2);
    assert_eq!(
        refusals(&mut script, vec![member("g"), member("h"), item("plain")]),
        [Some(Refusal::GroupFinished), Some(Refusal::NoSuchGroup), None,]
    );
}

#[test]
fn every_way_a_member_ends_is_counted() {
    let mut script = Script::with_settings(Settings {
        max_attempts: 1,
        dead_queue: Some("dead".into()),
        ..Settings::default()
    });
    create_group(&mut script, CreateGroup { items: items(4), start: true, ..open_group("g") });
    let dying = NewItem { dead_timeout: Some(Span::from_secs(1)), priority: 9, ..member("g") };
    let later = NewItem { enqueue_at: Some(Timestamp(u64::MAX)), ..member("g") };
    let made = script.produce([dying, later.clone(), later, NewItem { priority: 9, ..member("g") }]);
    let [done, failed, released, leased] = [(); 4].map(|()| script.lease_one());
    script.complete(done, None).unwrap();
    script.retry(at_once(failed)).unwrap();
    script.release(released).unwrap();
    script.cancel(released.id.number).unwrap();
    script.apply(Delete(vec![made[1]])).unwrap();
    assert_eq!(group(&script, "g").live, Counts { waiting: 2, scheduled: 1, leased: 1, ..Counts::default() });
    script.pass(Span::from_secs(2));
    script.sweep();
    // Also one that grew too old: it is on its way to the dead queue.
    let counted = Ended { completed: 1, failed: 2, cancelled: 2, expired: 0 };
    assert_eq!(group(&script, "g").ended, counted);
    // One that is cleared counts at once, whether or not the sweep has come by.
    script.clear(Clear { waiting: true, scheduled: true, leased: false, suspended: false });
    let counted = Ended { cancelled: 4, ..counted };
    assert_eq!(group(&script, "g").ended, counted);
    script.sweep();
    let view = group(&script, "g");
    assert_eq!((view.ended, view.live), (counted, Counts { leased: 1, ..Counts::default() }));
    script.complete(leased, None).unwrap();
    assert_eq!(state(&script, "g"), "done");
    // Forgotten by the queue that was left, named where it went.
    script.assign("dead", TAKER, 10);
    let departures = script.partition.departures(TAKER, 10);
    assert!(departures.iter().all(|departure| item_of(departure).group.as_deref() == Some("g")));
    assert_eq!(departures.len(), 2);
}

#[test]
fn a_clear_that_takes_the_last_members_ends_their_groups_in_the_same_commit() {
    let mut script = Script::new();
    for name in ["a", "b"] {
        create_group(&mut script, CreateGroup { start: true, ..with_ends(name, 2) });
    }
    create_group(&mut script, with_ends("held", 2));
    script.clear(Clear { waiting: true, scheduled: true, leased: false, suspended: false });
    assert_eq!((state(&script, "a"), state(&script, "b")), ("done", "done"));
    assert_eq!(group(&script, "a").ended.cancelled, 2);
    assert_eq!(script.partition.counts().waiting, 2, "their end items");
    let view = group(&script, "held");
    assert_eq!((view.state.name(), view.live.live(), view.ended.cancelled), ("open", 0, 2));
    script.sweep();
    assert_eq!(group(&script, "held"), view);
    assert_eq!(start(&mut script, "held").unwrap().state.name(), "done");
    assert_eq!(of_kind(&mut script, "end"), 3);
}

#[test]
fn a_member_that_is_due_later_is_scheduled_then_held() {
    let mut script = Script::new();
    let later = NewItem { enqueue_at: Some(START + Span::from_secs(5)), ..item("default") };
    let (view, made) =
        create_group(&mut script, CreateGroup { items: vec![later.clone()], ..open_group("g") });
    assert_eq!((view.live.scheduled, made[0].phase), (1, Phase::Scheduled));
    script.pass(Span::from_secs(5));
    script.sweep();
    assert_eq!(group(&script, "g").live, Counts { held: 1, ..Counts::default() });
    let seen = script.get(made[0].number);
    assert!(script.partition.member(&seen).is_some_and(|member| member.held && &*member.group == "g"));
    start(&mut script, "g").unwrap();
    assert_eq!(script.order(), numbers(&made));
}

#[test]
fn a_revoked_member_goes_back_to_its_group_and_its_last_attempt_counts_as_failed() {
    let mut script = Script::with_settings(Settings { max_attempts: 2, ..Settings::default() });
    create_group(&mut script, CreateGroup { start: true, ..with_ends("g", 1) });
    let first = script.lease_one();
    script.revoke(first).unwrap();
    assert_eq!(group(&script, "g").live, Counts { waiting: 1, ..Counts::default() });
    let second = script.lease_one();
    assert_eq!(second.id.number, first.id.number);
    script.revoke(second).unwrap();
    let view = group(&script, "g");
    assert_eq!((view.state.name(), view.ended.failed), ("done", 1));
    assert_eq!(of_kind(&mut script, "end"), 1);
}

#[test]
fn a_revoked_member_of_a_cancelled_group_is_cancelled() {
    // Also with its last attempt.
    let mut script = Script::with_settings(Settings { max_attempts: 1, ..Settings::default() });
    create_group(&mut script, CreateGroup { start: true, ..with_ends("g", 2) });
    let leased = [script.lease_one(), script.lease_one()];
    cancel(&mut script, "g").unwrap();
    script.revoke(leased[0]).unwrap();
    assert_eq!((state(&script, "g"), script.phase(leased[0].id.number)), ("cancelled", None));
    script.revoke(leased[1]).unwrap();
    let view = group(&script, "g");
    assert_eq!((view.state.name(), view.ended.cancelled), ("aborted", 2));
    assert_eq!((of_kind(&mut script, "end"), of_kind(&mut script, "abort")), (0, 1));
}

#[test]
fn a_cancel_takes_at_once_what_is_not_leased_and_asks_the_others_to_stop() {
    let mut script = Script::new();
    create_group(&mut script, CreateGroup { start: true, ..with_ends("g", 5) });
    script.produce([NewItem { enqueue_at: Some(Timestamp(u64::MAX)), ..member("g") }]);
    let leased = script.lease(3);
    let view = cancel(&mut script, "g").unwrap();
    assert_eq!(view.state, GroupState::Cancelled { at: START });
    assert_eq!(view.live, Counts { leased: 3, ..Counts::default() });
    assert_eq!(view.ended.cancelled, 3);
    assert_eq!(script.partition.counts(), view.live);
    assert_eq!(refusals(&mut script, vec![member("g")]), [Some(Refusal::GroupFinished)]);
    let State::Leased(lease) = script.get(leased[0].id.number).state else { panic!("it stays leased") };
    assert!(lease.cancel_requested);
    assert!(script.extend(leased[0].held(), None).unwrap().cancel_requested);
    // A completion still counts, what is given up does not come back.
    script.complete(leased[0].held(), None).unwrap();
    script.release(leased[1].held()).unwrap();
    script.sweep();
    assert_eq!(state(&script, "g"), "cancelled");
    script.retry(RetryItem { error: Some(error("stopped")), ..again(leased[2].held()) }).unwrap();
    let view = group(&script, "g");
    assert_eq!((view.state.name(), view.live.live()), ("aborted", 0));
    assert_eq!(view.ended, Ended { completed: 1, cancelled: 5, ..Ended::default() });
    assert_eq!((of_kind(&mut script, "abort"), of_kind(&mut script, "end")), (1, 0));
}

#[test]
fn a_lease_that_ends_in_a_cancelled_group_is_the_end_of_its_item() {
    let mut script = Script::with_settings(Settings { max_attempts: 1, ..Settings::default() });
    create_group(&mut script, CreateGroup { start: true, ..with_ends("g", 1) });
    let leased = script.lease_one();
    cancel(&mut script, "g").unwrap();
    script.pass(Span::from_secs(3600));
    script.sweep();
    assert_eq!(script.phase(leased.id.number), None);
    assert_eq!(group(&script, "g").ended, Ended { cancelled: 1, ..Ended::default() });
    assert_eq!(of_kind(&mut script, "abort"), 1);
}

#[test]
fn a_cancelled_member_with_something_to_show_is_kept_from_the_cancel_on() {
    let mut script = Script::new();
    create_group(&mut script, CreateGroup { start: true, ..with_ends("g", 1) });
    let leased = script.lease_one();
    script.retry(RetryItem { error: Some(error("it broke")), ..at_once(leased) }).unwrap();
    script.pass(Span::from_secs(1));
    cancel(&mut script, "g").unwrap();
    let before = script.get(leased.id.number);
    assert_eq!((before.state.phase(), script.partition.retained()), (Phase::Cancelled, 1));
    script.pass(Span::from_secs(1));
    script.sweep();
    assert_eq!((script.get(leased.id.number), script.partition.retained()), (before.clone(), 1));
    assert_eq!(script.partition.member(&before).map(|member| member.group), Some("g".into()));
}

#[test]
fn repeated_and_late_calls_are_answered_as_the_contract_says() {
    let mut script = Script::new();
    assert_eq!(start(&mut script, "g"), Err(Refusal::NoSuchGroup));
    create_group(&mut script, CreateGroup { start: true, ..with_ends("g", 1) });
    let again = script.apply(with_ends("g", 3));
    assert_eq!((again, script.partition.counts().live()), (Err(Refusal::GroupExists), 1));
    assert_eq!(start(&mut script, "g").map(|view| view.state), Ok(GroupState::Started));
    assert_eq!(script.changes, []);
    assert_eq!(delete(&mut script, "g"), Err(Refusal::GroupNotOver));
    let member = script.lease_one();
    cancel(&mut script, "g").unwrap();
    assert_eq!(start(&mut script, "g"), Err(Refusal::GroupFinished));
    assert_eq!(delete(&mut script, "g"), Err(Refusal::GroupNotOver));
    assert_eq!(cancel(&mut script, "g").map(|view| view.state.name()), Ok("cancelled"));
    assert_eq!(script.changes, []);
    script.release(member).unwrap();
    assert_eq!(cancel(&mut script, "g").map(|view| view.state.name()), Ok("aborted"));
    let set = SetGroupEnd { name: "g".into(), end: Some(end_item("end")), abort: None };
    assert_eq!(script.apply(set), Err(Refusal::GroupFinished));
    create_group(&mut script, CreateGroup { start: true, ..open_group("done") });
    assert_eq!(cancel(&mut script, "done"), Err(Refusal::GroupFinished));
    assert_eq!(start(&mut script, "done"), Err(Refusal::GroupFinished));
}

#[test]
fn an_end_item_can_be_set_and_replaced_until_the_group_is_finished() {
    let mut script = Script::new();
    create_group(
        &mut script,
        CreateGroup { end: Some(end_item("first")), items: items(1), ..open_group("g") },
    );
    let set = SetGroupEnd { name: "g".into(), end: Some(end_item("second")), abort: Some(end_item("abort")) };
    script.apply(set).unwrap();
    let removes = |change: &&Change| matches!(change, Change::RemoveBody { .. });
    assert_eq!(script.changes.iter().filter(removes).count(), 1);
    start(&mut script, "g").unwrap();
    let member = script.lease_one();
    script.complete(member, None).unwrap();
    assert_eq!((of_kind(&mut script, "first"), of_kind(&mut script, "second")), (0, 1));
}

#[test]
fn an_end_item_for_another_queue_leaves_as_it_is_made() {
    let mut script = Script::new();
    let end = NewEnd {
        queue: Some("other".into()),
        item: NewItem {
            enqueue_at: Some(START + Span::from_secs(60)),
            max_attempts: Some(7),
            dead_timeout: Some(Span::ZERO),
            facts: Some("facts".into()),
            ..item("end")
        },
    };
    create_group(&mut script, CreateGroup { end: Some(end), start: true, ..open_group("g") });
    assert_eq!(script.news, [News::Outgoing]);
    assert_eq!((script.partition.moving(), script.partition.counts().live()), (1, 0));
    // Its name outlives the group for as long as it is needed.
    delete(&mut script, "g").unwrap();
    script.assign("other", TAKER, 9);
    let departures = script.partition.departures(TAKER, 10);
    let [departure] = &departures[..] else { panic!("{departures:?}") };
    let item = item_of(departure);
    assert_eq!((item.reason, item.group.as_deref()), (MoveReason::GroupEnd, Some("g")));
    assert_eq!((item.max_attempts, item.dead_timeout), (Some(7), Some(Span::ZERO)));
    assert_eq!(item.enqueue_at, Some(START + Span::from_secs(60)));
    let moved = windlass_core::verbs::Moved { partition: TAKER, arrived: arrived(departure.number) };
    script.apply(moved).unwrap();
    assert!(!script.partition.rows().any(|row| matches!(row, Row::Item(_) | Row::Group(_))));
}

#[test]
fn a_name_can_be_used_again_after_a_delete_and_nothing_old_comes_back() {
    let mut script = Script::new();
    create_group(&mut script, with_ends("g", 3));
    cancel(&mut script, "g").unwrap();
    let view = delete(&mut script, "g").unwrap();
    assert_eq!((view.state.name(), view.ended.cancelled), ("aborted", 3));
    assert_eq!(script.partition.group("g"), None);
    let (view, _) = create_group(&mut script, with_ends("g", 2));
    assert_eq!((view.live.held, view.ended), (2, Ended::default()));
    script.sweep();
    assert_eq!(group(&script, "g"), view);
    let rows = script.partition.rows().filter(|row| matches!(row, Row::Group(_)));
    assert_eq!(rows.count(), 1, "the old one went with the last of its members");
}

#[test]
fn a_finished_group_is_forgotten_after_the_retention() {
    let retention = Span::from_secs(100);
    let mut script = Script::with_settings(Settings { retention, ..Settings::default() });
    create_group(&mut script, CreateGroup { start: true, ..open_group("g") });
    assert_eq!(script.partition.next_due(), Some(START + retention));
    script.pass(Span::from_secs(99));
    script.sweep();
    assert_eq!(state(&script, "g"), "done");
    script.pass(Span::from_secs(1));
    script.sweep();
    assert_eq!((script.partition.group("g"), script.partition.next_due()), (None, None));
    create_group(&mut script, open_group("g"));
    script.pass(Span::from_secs(1000));
    script.sweep();
    assert_eq!(state(&script, "g"), "open");
}

#[test]
fn many_large_end_items_come_in_slices_each_exactly_once() {
    let mut script = Script::new();
    let large = NewItem { body: vec![b'x'; 400_000].into(), ..item("end") };
    let end = Some(NewEnd { queue: None, item: large });
    for index in 0..9 {
        let name: Arc<str> = format!("g{index}").into();
        create_group(
            &mut script,
            CreateGroup { name, end: end.clone(), items: items(1), start: true, ..open_group("g") },
        );
    }
    script.clear(Clear { waiting: true, scheduled: false, leased: false, suspended: false });
    let done = |script: &Script| {
        script.partition.list_groups(None, 10).iter().filter(|view| view.state.name() == "done").count()
    };
    assert_eq!(done(&script), 3);
    assert_eq!(script.partition.next_due(), Some(Timestamp(0)));
    assert_eq!(script.partition.unfinished(), 3 + 6);
    // What was left over is the sweep's, whatever comes before it; a group of its own ends at once.
    create_group(&mut script, CreateGroup { start: true, ..open_group("another") });
    assert_eq!((state(&script, "another"), done(&script)), ("done", 4));
    script.produce([item("more")]);
    assert_eq!(done(&script), 4);
    while script.sweep() > 0 {}
    assert_eq!((done(&script), of_kind(&mut script, "end")), (10, 9));
}

#[test]
fn at_the_bound_the_groups_that_are_over_make_room() {
    let mut partition = windlass_core::partition::Partition::new(windlass_core::id::PartitionId(1), START);
    let mut make = |name: String, start| {
        let create = CreateGroup { name: name.into(), start, ..open_group("g") };
        partition.apply(START, create).reply.unwrap();
    };
    (0..GROUPS_MAX).for_each(|index| make(format!("g{index}"), index >= 3));
    make("one-more".to_owned(), false);
    let state = |name| partition.group(name).map(|view| view.state.name());
    assert_eq!([state("g3"), state("g4")], [None, Some("done")]);
    assert_eq!([state("g0"), state("one-more")], [Some("open"); 2]);
}

#[test]
fn start_and_cancel_write_the_same_rows_whatever_the_number_of_members() {
    let mut written = Vec::new();
    for members in [10, 1_000_000] {
        let mut partition =
            windlass_core::partition::Partition::new(windlass_core::id::PartitionId(1), START);
        let create_empty = |name: &str| CreateGroup { items: Vec::new(), ..with_ends(name, 0) };
        for name in ["started", "cancelled"] {
            partition.apply(START, create_empty(name)).reply.unwrap();
            for _ in 0..members / 1000 + 1 {
                let items = vec![member(name); members.min(1000)];
                partition.apply(START, Produce { items }).reply.unwrap();
            }
        }
        let started = partition.apply(START, StartGroup("started".into())).changes.len();
        let lease = windlass_core::verbs::LeaseItems {
            client_id: "worker".into(),
            batch_size: 1000.min(members / 2),
            lease_timeout: None,
            filter: windlass_core::verbs::Filter::ANY,
        };
        partition.apply(START, StartGroup("cancelled".into())).reply.unwrap();
        partition.apply(START, lease).reply.unwrap();
        let cancelled_leased = partition.apply(START, CancelGroup("started".into())).changes.len();
        let cancelled = partition.apply(START, CancelGroup("cancelled".into())).changes.len();
        written.push((started, cancelled_leased, cancelled));
    }
    assert_eq!(written[0], written[1]);
    assert!(written[0].0 == 1 && written[0].1 == 1, "{written:?}");
}

#[test]
fn an_imported_item_joins_its_group_like_a_produced_one() {
    let mut script = Script::new();
    create_group(&mut script, open_group("g"));
    let import = |group: &str| {
        let (group, body) = (Some(group.into()), Bytes::new());
        ImportItem { group, attempts: 2, body, ..import_item("default") }
    };
    let imported = script.apply(Import { items: vec![import("g"), import("none")] }).unwrap();
    assert_eq!(imported[0].as_ref().map(|produced| produced.phase), Ok(Phase::Held));
    assert_eq!(imported[1], Err(Refusal::NoSuchGroup));
    assert_eq!(group(&script, "g").live.held, 1);
}

#[test]
fn there_is_room_for_the_kind_of_an_end_item_when_it_is_made() {
    let mut script = windlass_core::partition::Partition::new(windlass_core::id::PartitionId(1), START);
    let create = CreateGroup { items: vec![item("member")], ..with_ends("g", 0) };
    script.apply(START, create).reply.unwrap();
    for first in (3..KINDS_MAX).step_by(1000) {
        let last = (first + 1000).min(KINDS_MAX);
        let items = (first..last).map(|kind| item(&format!("kind {kind}"))).collect();
        script.apply(START, Produce { items }).reply.unwrap();
    }
    let one_more = Produce { items: vec![item("one more")] };
    assert!(matches!(script.apply(START, one_more).reply, Err(Refusal::TooMany { .. })));
    script.apply(START, CancelGroup("g".into())).reply.unwrap();
    assert_eq!(script.kind_counts()["abort"].waiting, 1);
    script.audit().unwrap();
}
