use windlass_core::event::unpack;
use windlass_core::item::{LeaseEnd, Phase, State, Suspension};
use windlass_core::partition::Counts;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Part};
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CancelGroup, Clear, CreateGroup, Import, ImportItem, List};

use crate::script::{Script, import_item, item, items, open_group};

#[test]
fn a_suspended_item_is_leased_again_once_it_was_resumed_at_its_own_place() {
    let mut script = Script::new();
    let made = script.produce(items(2));
    let first = script.lease_one();
    script.suspend(first, Some("may I?")).unwrap();
    assert_eq!(script.phase(made[0]), Some(Phase::Suspended));
    let suspension = Suspension { reason: Some("may I?".into()) };
    assert_eq!(script.get(made[0]).state, State::Suspended(Box::new(suspension)));
    let counts = Counts { waiting: 1, suspended: 1, ..Counts::default() };
    assert_eq!(script.partition.counts(), counts);
    script.resume(made[0], None).unwrap();
    let leased = script.lease(2);
    assert_eq!(leased.iter().map(|leased| leased.id.number).collect::<Vec<_>>(), made);
    assert_eq!(leased[0].attempts, 1, "the attempt was not counted");
    assert!(!leased[0].has_input);
}

#[test]
fn a_permit_is_void_after_its_item_was_suspended() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    script.suspend(held, None).unwrap();
    assert_eq!(script.suspend(held, None), Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Suspended) }));
    assert_eq!(script.changes, []);
}

#[test]
fn the_answer_is_an_event_and_comes_with_every_lease_until_the_next_question() {
    let mut script = Script::new();
    let number = script.produce_one();
    let first = script.lease_one();
    script.suspend(first, None).unwrap();
    script.resume(number, Some("blue")).unwrap();
    let written = |part| {
        let of = |change: &Change| match change {
            Change::PutBody { part: there, body, .. } if *there == part => Some(body.clone()),
            _ => None,
        };
        script.changes.iter().find_map(of).expect("it was written")
    };
    assert_eq!(written(Part::Input), "blue");
    assert_eq!(unpack(written(Part::Events(1))).unwrap().1, ["blue"]);
    assert_eq!(script.get(number).extras.unwrap().event_count, 1);
    let leased = script.lease(1).pop().unwrap();
    assert!(leased.has_input);
    script.release(leased.held()).unwrap();
    let leased = script.lease(1).pop().unwrap();
    assert!(leased.has_input, "nobody worked with it");
    script.suspend(leased.held(), None).unwrap();
    assert!(script.changes.contains(&Change::RemoveBody { number, part: Part::Input }));
    script.resume(number, None).unwrap();
    assert!(!script.lease(1).pop().unwrap().has_input);
}

#[test]
fn the_store_forgets_the_answer_when_the_item_is_final() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.suspend(held, None).unwrap();
    script.resume(number, Some("blue")).unwrap();
    script.cancel(number).unwrap();
    assert_eq!(script.phase(number), Some(Phase::Cancelled));
    assert!(script.changes.contains(&Change::RemoveBody { number, part: Part::Input }));
}

#[test]
fn only_a_suspended_item_is_resumed() {
    let mut script = Script::new();
    let number = script.produce_one();
    assert_eq!(script.resume(number, None), Err(Refusal::NotSuspended));
    let held = script.lease_one();
    assert_eq!(script.resume(number, None), Err(Refusal::NotSuspended));
    script.complete(held, Some("done")).unwrap();
    assert_eq!(script.resume(number, None), Err(Refusal::NotSuspended));
    let nobody = windlass_core::id::ItemNumber(9);
    assert_eq!(script.resume(nobody, None), Err(Refusal::NotFound));
    assert_eq!(script.changes, []);
}

#[test]
fn a_suspended_item_is_cancelled_at_once_and_expires_by_its_time() {
    let mut script = Script::new();
    let cancelled = script.produce_one();
    let timed = script.produce([windlass_core::verbs::NewItem {
        dead_timeout: Some(Span::from_secs(5)),
        ..item("default")
    }])[0];
    for leased in script.lease(2) {
        script.suspend(leased.held(), None).unwrap();
    }
    assert_eq!(script.cancel(cancelled), Ok(Phase::Cancelled));
    script.pass(Span::from_secs(5));
    script.sweep();
    assert_eq!(script.phase(timed), Some(Phase::Expired));
    assert_eq!(script.partition.counts(), Counts::default());
}

#[test]
fn an_item_that_is_to_stop_is_cancelled_when_its_worker_suspends_it() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.cancel(number).unwrap();
    script.suspend(held, None).unwrap();
    assert_eq!(script.phase(number), None, "nothing of it is kept");
    assert_eq!(script.totals.cancelled, 1);
}

#[test]
fn suspended_items_stand_in_the_list_and_are_cleared_only_when_asked_for() {
    let mut script = Script::new();
    let made = script.produce(items(3));
    let leased = script.lease(2);
    script.suspend(leased[1].held(), None).unwrap();
    let listed = script.partition.list(List::Queue, None, 10).unwrap();
    assert_eq!(listed.iter().map(|item| item.number).collect::<Vec<_>>(), made);
    let after = script.partition.list(List::Queue, Some(made[1]), 10).unwrap();
    assert_eq!(after[0].number, made[2]);
    let others = Clear { waiting: true, scheduled: true, leased: true, suspended: false };
    assert_eq!(script.clear(others), 2);
    assert_eq!(script.phase(made[1]), Some(Phase::Suspended));
    assert_eq!(script.clear(Clear { suspended: true, ..others }), 1);
    assert_eq!(script.phase(made[1]), None);
    script.sweep();
}

#[test]
fn a_suspended_item_comes_in_from_elsewhere_as_such() {
    let mut script = Script::new();
    let suspended = Some(Box::new(Suspension { reason: Some("may I?".into()) }));
    let import = ImportItem { attempts: 1, suspended, ..import_item("default") };
    let made = script.apply(Import { items: vec![import] }).unwrap();
    assert_eq!(made[0].as_ref().unwrap().phase, Phase::Suspended);
    assert_eq!(script.partition.counts(), Counts { suspended: 1, ..Counts::default() });
}

#[test]
fn suspended_members_count_in_their_group_and_go_with_its_cancel() {
    let mut script = Script::with_settings(Settings::default());
    let create = CreateGroup { items: items(2), start: true, ..open_group("report") };
    script.apply(create).unwrap();
    let leased = script.lease(1).pop().unwrap();
    script.suspend(leased.held(), None).unwrap();
    let group = script.partition.group("report").unwrap();
    assert_eq!(group.live, Counts { waiting: 1, suspended: 1, ..Counts::default() });
    script.apply(CancelGroup("report".into())).unwrap();
    let group = script.partition.group("report").unwrap();
    assert_eq!((group.state.name(), group.ended.cancelled), ("aborted", 2));
    assert_eq!(script.phase(leased.id.number), None);
}
