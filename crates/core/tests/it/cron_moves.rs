//! Crons that move to another partition, one partition at a time.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::cron::{CatchUp, Cron, CronRefusal, Overlap};
use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::item::MoveNumber;
use windlass_core::news::News;
use windlass_core::partition::{StrayCron, Target};
use windlass_core::refusal::Refusal;
use windlass_core::route::{Slot, SlotSet};
use windlass_core::row::{Change, Intake, Part};
use windlass_core::time::Span;
use windlass_core::verbs::{
    Arriving, AssignCrons, CronChange, DeleteCron, Departing, Departure, Move, Moved, NewCron, NewItem,
    PauseCron, Route, Take, TriggerCron, Unassign, UpdateCron,
};

use crate::script::{START, Script, arrived, assert_same, item, rebuilt};

const SOURCE: PartitionId = PartitionId(3);
const TAKER: PartitionId = PartitionId(8);

fn new(name: &str) -> NewCron {
    NewCron {
        name: name.into(),
        schedule: "@every 10s".into(),
        timezone: "UTC".into(),
        item: item("report"),
        catch_up: CatchUp::All,
        overlap: Overlap::Allow,
    }
}

/// A partition whose intake is as given from now on.
fn route(script: &mut Script, version: u64, closed: bool, at_home: Option<SlotSet>) {
    let intake = Intake { version, closed, at_home, ..Intake::default() };
    assert_eq!(script.apply(Route(intake)), Ok(()));
}

fn strays(script: &Script) -> Vec<Arc<str>> {
    script.partition.stray_crons(10).into_iter().map(|stray| stray.name).collect()
}

fn assign(script: &mut Script, name: &str, partition: PartitionId) -> usize {
    let assign = AssignCrons { queue: "jobs".into(), crons: vec![(name.into(), partition)] };
    script.apply(assign).unwrap()
}

fn departure(script: &Script, to: PartitionId) -> (Departure, Cron) {
    let mut departures = script.partition.departures(to, 10);
    let departure = departures.pop().unwrap();
    assert_eq!(departures, []);
    match departure.what.clone() {
        Departing::Cron(cron) => (departure, *cron),
        Departing::Item(item) => panic!("{item:?}"),
    }
}

fn take(script: &mut Script, number: MoveNumber, cron: &Cron) -> Result<MoveNumber, Refusal> {
    let what = Arriving::Cron(Box::new(cron.clone()));
    let moved =
        Move { number, what, body: Some(Bytes::from_static(b"payload")), facts: None, attempts: Vec::new() };
    script.apply(Take { source: SOURCE, moves: vec![moved] }).map(|arrived| arrived.last)
}

fn sweep(script: &mut Script) -> usize {
    let before = script.partition.counts().waiting;
    script.sweep();
    (script.partition.counts().waiting - before) as usize
}

fn draining() -> Script {
    let mut script = Script::of(SOURCE);
    script.apply(new("tick")).unwrap();
    script.pass(Span::from_secs(10));
    assert_eq!(sweep(&mut script), 1);
    route(&mut script, 2, true, None);
    script
}

#[test]
fn a_cron_of_a_partition_that_drains_goes_on_elsewhere_where_it_stopped() {
    let mut old = draining();
    assert_eq!(old.news, [News::Outgoing]);
    assert_eq!(old.partition.stray_crons(10), [StrayCron { name: "tick".into(), address: None }]);
    assert!(old.partition.has_outgoing() && old.partition.moving() == 0, "a cron is no item");
    assert_eq!(assign(&mut old, "tick", TAKER), 1);
    assert_eq!(old.partition.targets(), [Target { queue: "jobs".into(), partition: Some(TAKER) }]);
    assert_same(&old.partition, &rebuilt(&old.partition, START));
    old.pass(Span::from_secs(10));
    assert_eq!(sweep(&mut old), 0, "the cron does not run there any more");
    let leaves = Refusal::Cron(CronRefusal::Leaves);
    assert_eq!(old.apply(PauseCron("tick".into())), Err(leaves.clone()));
    assert_eq!(old.apply(TriggerCron("tick".into())), Err(leaves.clone()));
    assert_eq!(old.apply(DeleteCron("tick".into())), Err(leaves.clone()));
    let update = UpdateCron { name: "tick".into(), change: CronChange::default() };
    assert_eq!(old.apply(update), Err(leaves));

    let mut taker = Script::of(TAKER);
    taker.pass(Span::from_secs(35));
    let (moved, state) = departure(&old, TAKER);
    take(&mut taker, moved.number, &state).unwrap();
    let taken = taker.partition.crons().next().unwrap().clone();
    assert_eq!((taken.next_at, taken.last_at, taken.created_at), (state.next_at, state.last_at, START));
    assert_eq!(sweep(&mut taker), 2, "the times at 20 s and 30 s");
    assert_eq!(take(&mut taker, moved.number, &state), Ok(moved.number));
    assert!(taker.changes.is_empty(), "sent again it is not taken again");

    old.apply(Moved { partition: TAKER, arrived: arrived(moved.number) }).unwrap();
    let payload = Change::RemoveBody { number: state.template.body, part: Part::Payload };
    assert!(old.changes.contains(&payload), "the payload of the cron's item is not needed any more");
    assert_eq!((old.partition.crons().count(), old.partition.has_outgoing()), (0, false));
}

#[test]
fn a_cron_whose_last_item_matters_stays_until_that_has_ended() {
    let mut script = Script::new();
    script.apply(NewCron { overlap: Overlap::Skip, ..new("tick") }).unwrap();
    script.pass(Span::from_secs(10));
    sweep(&mut script);
    let held = script.lease_one();
    route(&mut script, 2, true, None);
    assert_eq!((strays(&script), assign(&mut script, "tick", TAKER)), (vec![], 0));
    script.complete(held, None).unwrap();
    assert!(script.partition.is_left_to_crons() && script.partition.has_outgoing());
    assert_eq!(strays(&script), ["tick".into()]);
    script.pass(Span::from_secs(10));
    assert_eq!(sweep(&mut script), 0, "the cron belongs elsewhere");
    assert_eq!(script.news, [News::Outgoing]);
}

#[test]
fn a_cron_that_moved_still_tells_the_last_item_that_it_made() {
    let mut script = Script::new();
    script.apply(new("tick")).unwrap();
    let cron = script.partition.crons().next().unwrap().clone();
    let last = ItemId { partition: SOURCE, number: ItemNumber(5) };
    let taken = |script: &Script| script.partition.crons().next().unwrap().last_made(PartitionId(7));
    take(&mut script, MoveNumber(1), &Cron { last_item: Some(last.number), ..cron.clone() }).unwrap();
    assert_eq!(taken(&script), Some(last), "made where it came from");
    let before = ItemId { partition: PartitionId(3), number: ItemNumber(4) };
    take(&mut script, MoveNumber(2), &Cron { last_item_elsewhere: Some(before), ..cron.clone() }).unwrap();
    assert_eq!(taken(&script), Some(before), "made before that");
    let here = ItemId { partition: PartitionId(7), number: ItemNumber(3) };
    take(&mut script, MoveNumber(3), &Cron { last_item_elsewhere: Some(here), ..cron }).unwrap();
    assert_eq!(taken(&script), Some(here), "made here");
    let made = script.apply(TriggerCron("tick".into())).unwrap().number;
    assert_eq!(taken(&script), Some(ItemId { partition: PartitionId(7), number: made }));
}

#[test]
fn a_new_address_takes_the_cron_to_the_home_of_that() {
    let mut script = Script::new();
    script.apply(new("tick")).unwrap();
    let here: SlotSet = Slot::all().filter(|slot| *slot == Slot::of("here")).collect();
    route(&mut script, 2, false, Some(here));
    assert_eq!(strays(&script), [], "a cron without an address is well where it is");
    let at = |address: &str| {
        let item = NewItem { address: Some(address.into()), ..item("report") };
        UpdateCron { name: "tick".into(), change: CronChange { item: Some(item), ..CronChange::default() } }
    };
    script.apply(at("here")).unwrap();
    assert_eq!((strays(&script), &script.news[..]), (vec![], &[][..]));
    script.apply(at("there")).unwrap();
    assert_eq!((strays(&script), &script.news[..]), (vec!["tick".into()], &[News::Outgoing][..]));
    script.apply(at("here")).unwrap();
    assert_eq!((strays(&script), script.partition.has_outgoing()), (vec![], false));
}

#[test]
fn a_cron_that_its_last_item_keeps_is_triggered_where_it_is_unless_its_address_is_elsewhere() {
    let mut script = Script::new();
    script.apply(NewCron { overlap: Overlap::Skip, ..new("tick") }).unwrap();
    let trigger = |script: &mut Script| script.apply(TriggerCron("tick".into()));
    assert!(trigger(&mut script).is_ok());
    route(&mut script, 2, true, Some(SlotSet::default()));
    assert!(trigger(&mut script).is_ok(), "the partition drains, and keeps it");
    let last = script.partition.crons().next().and_then(|cron| cron.last_item).unwrap();
    let item = NewItem { address: Some("there".into()), ..item("report") };
    let change = CronChange { item: Some(item), ..CronChange::default() };
    script.apply(UpdateCron { name: "tick".into(), change }).unwrap();
    assert_eq!(trigger(&mut script), Err(Refusal::Cron(CronRefusal::Busy { item: last })));
}

#[test]
fn a_cron_is_refused_where_its_address_is_not_at_home() {
    let mut old = Script::of(SOURCE);
    let addressed = NewItem { address: Some("there".into()), ..item("report") };
    old.apply(NewCron { item: addressed, ..new("tick") }).unwrap();
    route(&mut old, 2, true, None);
    assign(&mut old, "tick", TAKER);
    let (moved, state) = departure(&old, TAKER);
    let mut taker = Script::of(TAKER);
    route(&mut taker, 2, false, Some(Slot::all().filter(|slot| *slot != Slot::of("there")).collect()));
    assert_eq!(take(&mut taker, moved.number, &state), Err(Refusal::Moved));
    route(&mut taker, 3, false, None);
    assert_eq!(take(&mut taker, moved.number, &state), Ok(moved.number));

    let mut holder = Script::of(TAKER);
    holder.produce([NewItem { address: Some("there".into()), ..item("report") }]);
    route(&mut holder, 2, true, Some(SlotSet::default()));
    let taken = take(&mut holder, moved.number, &state);
    assert_eq!(taken, Ok(moved.number), "it waits where its address is taken");
}

#[test]
fn a_cron_whose_taker_is_gone_waits_for_another() {
    let mut script = draining();
    assign(&mut script, "tick", TAKER);
    let (before, _) = departure(&script, TAKER);
    let unassign = Unassign { partition: TAKER, limit: 10 };
    assert_eq!(script.apply(unassign), Ok(1));
    assert_eq!((strays(&script), &script.news[..]), (vec!["tick".into()], &[News::Outgoing][..]));
    assign(&mut script, "tick", PartitionId(9));
    let (after, _) = departure(&script, PartitionId(9));
    assert!(after.number > before.number);
}

#[test]
fn a_cron_that_comes_back_before_it_was_forgotten_runs_once() {
    let mut script = draining();
    assign(&mut script, "tick", TAKER);
    let (moved, state) = departure(&script, TAKER);
    route(&mut script, 3, false, None);
    // TAKER took the cron, ran it, and sends it back.
    let back = Cron { next_at: state.next_at.map(|at| at + Span::from_secs(10)), ..state };
    take(&mut script, moved.number, &back).unwrap();
    script.apply(Moved { partition: TAKER, arrived: arrived(moved.number) }).unwrap();
    let crons: Vec<&Cron> = script.partition.crons().collect();
    assert_eq!(crons.len(), 1);
    assert_eq!((crons[0].next_at, &crons[0].leaves), (back.next_at, &None));
    script.partition.audit().unwrap();
}

#[test]
fn of_two_crons_of_one_name_the_later_one_stays() {
    let mut script = Script::new();
    script.apply(new("tick")).unwrap();
    let here = script.partition.crons().next().unwrap().clone();
    let earlier = Cron { number: here.number - 1, ..here.clone() };
    take(&mut script, MoveNumber(1), &earlier).unwrap();
    assert_eq!(script.partition.crons().next(), Some(&here));
    let later = Cron { number: here.number + 1, ..here };
    take(&mut script, MoveNumber(2), &later).unwrap();
    assert_eq!(script.partition.crons().next().map(|cron| cron.number), Some(later.number));
}
