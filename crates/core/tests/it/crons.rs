use std::sync::Arc;

use bytes::Bytes;
use windlass_core::cron::{CatchUp, Cron, CronHome, CronName, CronRefusal, CronView, Overlap};
use windlass_core::id::PartitionId;
use windlass_core::item::{CronRun, Phase};
use windlass_core::limits::{KINDS_MAX, QUEUE_CRONS_MAX};
use windlass_core::machine::Machine;
use windlass_core::news::News;
use windlass_core::refusal::{Limit, Refusal};
use windlass_core::registry::Registry;
use windlass_core::row::{Change, Part, QueueName, Row};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{
    Clear, CreateQueue, CronChange, DeleteCron, DeleteQueue, Departing, NameCron, NewCron, NewItem,
    PauseCron, Produced, Rerun, ResumeCron, TriggerCron, UnnameCron, UpdateCron,
};

use crate::registry_script::{RegistryScript, queue_name};
use crate::script::{RetryItem, START, Script, again, item};

const SECOND: Span = Span::from_secs(1);

fn new(name: &str, schedule: &str) -> NewCron {
    NewCron {
        name: name.into(),
        schedule: schedule.into(),
        timezone: "UTC".into(),
        item: item("report"),
        catch_up: CatchUp::Skip,
        overlap: Overlap::Allow,
    }
}

fn addressed(address: &str) -> NewItem {
    NewItem { address: Some(address.into()), ..item("report") }
}

fn update(name: &str, change: CronChange) -> UpdateCron {
    UpdateCron { name: name.into(), change }
}

fn create_cron(script: &mut Script, new: NewCron) -> Cron {
    script.apply(new).unwrap().cron
}

fn trigger(script: &mut Script, name: &str) -> Result<Produced, Refusal> {
    script.apply(TriggerCron(name.into()))
}

fn view(script: &Script, name: &str) -> CronView {
    script.partition.cron(name, script.now, 10).expect("the cron is there")
}

fn cron(script: &Script, name: &str) -> Cron {
    view(script, name).cron
}

/// Passes the time in one go and sweeps until nothing is due; tells how many items there are then.
fn after(script: &mut Script, span: Span) -> u64 {
    script.pass(span);
    while script.sweep_some(100) > 0 {}
    script.partition.counts().waiting
}

fn refused<T: std::fmt::Debug>(reply: Result<T, Refusal>) -> CronRefusal {
    match reply.unwrap_err() {
        Refusal::Cron(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cron_makes_an_item_at_each_of_its_times_and_goes_on_in_the_same_step() {
    let mut script = Script::new();
    let made = create_cron(&mut script, new("tick", "@every 10s"));
    assert_eq!((made.next_at, made.last_at), (Some(START + Span::from_secs(10)), None));
    assert_eq!(script.partition.next_due(), made.next_at);
    script.pass(Span(9_999_999));
    assert_eq!(script.sweep(), 0);

    script.pass(Span(1));
    assert_eq!(script.sweep(), 1);
    assert!(script.news.contains(&News::Available));
    let rows: Vec<_> = script
        .changes
        .iter()
        .filter(|change| matches!(change, Change::Put(Row::Cron(_) | Row::Item(_))))
        .collect();
    assert_eq!(rows.len(), 2, "the item and the cron, in one commit");
    assert_eq!(script.copies.len(), 1);
    assert_eq!(script.copies[0].from, made.template.body);
    assert_eq!(script.copies[0].part, Part::Payload);
    let now = cron(&script, "tick");
    assert_eq!(
        (now.next_at, now.last_at),
        (Some(START + Span::from_secs(20)), Some(START + Span::from_secs(10)))
    );
    assert_eq!(script.sweep(), 0);
    let leased = script.lease(10);
    assert_eq!(leased.len(), 1);
    assert_eq!((&*leased[0].kind, now.last_item), ("report", Some(leased[0].id.number)));
    assert_eq!(script.totals.produced, 1);
}

#[test]
fn what_it_makes_is_as_it_was_given() {
    let mut script = Script::new();
    let item = NewItem {
        priority: 7,
        max_attempts: Some(9),
        dead_timeout: Some(Span::from_secs(60)),
        facts: Some(Bytes::from_static(b"facts")),
        ..addressed("here")
    };
    create_cron(&mut script, NewCron { item, ..new("tick", "@every 1s") });
    after(&mut script, SECOND);
    assert_eq!(script.copies.len(), 0);
    let number = script.partition.item_at(&"here".into()).unwrap();
    let made = script.get(number);
    let extras = made.extras.unwrap();
    assert_eq!(
        (made.priority, extras.max_attempts, extras.dead_timeout),
        (7, Some(9), Some(Span::from_secs(60)))
    );
    assert_eq!(extras.facts_bytes, 5);
    assert_eq!(made.created_at, START + SECOND);
}

#[test]
fn a_time_up_to_five_seconds_late_is_not_missed_whatever_catch_up_says() {
    for catch_up in [CatchUp::Skip, CatchUp::One, CatchUp::All] {
        let mut script = Script::new();
        create_cron(&mut script, NewCron { catch_up, ..new("tick", "@every 1m") });
        assert_eq!(after(&mut script, Span::from_secs(65)), 1, "{catch_up:?}");
        assert_eq!(cron(&script, "tick").last_at, Some(START + Span::from_secs(60)));
    }
    let mut script = Script::new();
    create_cron(&mut script, new("tick", "@every 1m"));
    assert_eq!(after(&mut script, Span(65_000_001)), 0);
    assert_eq!(cron(&script, "tick").last_at, None);
}

#[test]
fn missed_times_make_none_one_or_all() {
    // Of the times at 1 s, 2 s … 20 s, those before 15 s were missed at 20 s.
    for (catch_up, items) in [(CatchUp::Skip, 6), (CatchUp::One, 7), (CatchUp::All, 20)] {
        let mut script = Script::new();
        create_cron(&mut script, NewCron { catch_up, ..new("tick", "@every 1s") });
        assert_eq!(after(&mut script, Span::from_secs(20)), items, "{catch_up:?}");
        let now = cron(&script, "tick");
        assert_eq!(now.last_at, Some(START + Span::from_secs(20)));
        assert_eq!(now.next_at, Some(START + Span::from_secs(21)));
    }
}

#[test]
fn one_item_for_all_that_were_missed_speaks_of_the_last_of_them() {
    let mut script = Script::new();
    create_cron(&mut script, NewCron { catch_up: CatchUp::One, ..new("tick", "@every 1h") });
    script.pass(Span::from_secs(30 * 3600 + 1800));
    assert_eq!(script.sweep_some(1), 1);
    let now = cron(&script, "tick");
    assert_eq!(now.last_at, Some(START + Span::from_secs(30 * 3600)));
    assert_eq!(now.next_at, Some(START + Span::from_secs(31 * 3600)));
    assert_eq!(script.partition.counts().waiting, 1);
}

#[test]
fn many_missed_times_come_in_slices_each_of_which_goes_on() {
    let mut script = Script::new();
    let item = NewItem { body: vec![0; 100 << 10].into(), ..item("report") };
    create_cron(&mut script, NewCron { catch_up: CatchUp::All, item, ..new("tick", "@every 1s") });
    script.pass(Span::from_secs(100));
    // By number, and by bytes.
    assert_eq!(script.sweep_some(2), 2);
    assert_eq!(script.sweep_some(1000), 3);
    assert_eq!(cron(&script, "tick").last_at, Some(START + Span::from_secs(5)));
    assert!(script.partition.next_due() <= Some(script.now));
    assert_eq!(after(&mut script, Span::ZERO), 100);
}

#[test]
fn missed_times_stop_at_the_bytes_that_the_partition_may_come_to_by_itself() {
    let mut script = Script::new();
    let item = NewItem { body: vec![0; 1 << 10].into(), ..item("report") };
    create_cron(&mut script, NewCron { catch_up: CatchUp::All, item, ..new("tick", "@every 1s") });
    script.partition.limit_own_bytes(8 << 10);
    script.pass(Span::from_secs(100));
    // Each costs its body, 1,024 bytes besides, and its rows.
    assert_eq!(script.sweep_some(1000), 4);
    assert_eq!(after(&mut script, Span::ZERO), 100);
}

#[test]
fn a_paused_cron_makes_nothing_and_misses_nothing() {
    let mut script = Script::new();
    create_cron(&mut script, NewCron { catch_up: CatchUp::All, ..new("tick", "@every 10s") });
    script.apply(PauseCron("tick".into())).unwrap();
    assert_eq!(script.partition.next_due(), None);
    assert_eq!(after(&mut script, Span::from_secs(95)), 0);
    let paused = view(&script, "tick");
    assert!(paused.cron.paused);
    assert_eq!(paused.cron.next_at, Some(START + Span::from_secs(100)), "what its schedule says");
    assert_eq!(paused.next_times[0], START + Span::from_secs(100));
    // Once more changes nothing.
    script.apply(PauseCron("tick".into())).unwrap();
    assert!(script.changes.is_empty());

    script.apply(ResumeCron("tick".into())).unwrap();
    assert_eq!(cron(&script, "tick").next_at, Some(START + Span::from_secs(100)));
    script.apply(ResumeCron("tick".into())).unwrap();
    assert!(script.changes.is_empty());
    assert_eq!(after(&mut script, Span::from_secs(5)), 1);
}

#[test]
fn with_overlap_skip_nothing_is_made_while_the_previous_item_is_not_final() {
    let mut script = Script::new();
    create_cron(&mut script, NewCron { overlap: Overlap::Skip, ..new("tick", "@every 10s") });
    assert_eq!(after(&mut script, Span::from_secs(10)), 1);
    assert_eq!(after(&mut script, Span::from_secs(10)), 1, "it waits");
    let held = script.lease_one();
    assert_eq!(after(&mut script, Span::from_secs(10)), 0, "it is leased");
    assert_eq!(cron(&script, "tick").last_at, Some(START + Span::from_secs(30)), "the time counts as run");
    script.complete(held, None).unwrap();
    assert_eq!(after(&mut script, Span::from_secs(10)), 1);
    script.clear(Clear { waiting: true, scheduled: false, leased: false, suspended: false });
    assert_eq!(after(&mut script, Span::from_secs(10)), 1, "what was cleared has ended");
}

#[test]
fn a_time_whose_address_is_taken_makes_nothing_and_counts_as_run() {
    let mut script = Script::new();
    script.produce([addressed("here")]);
    create_cron(
        &mut script,
        NewCron { item: addressed("here"), catch_up: CatchUp::All, ..new("tick", "@every 10s") },
    );
    assert_eq!(after(&mut script, Span::from_secs(20)), 1);
    assert_eq!(cron(&script, "tick").last_at, Some(START + Span::from_secs(20)));
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    assert_eq!(after(&mut script, Span::from_secs(10)), 1);
}

#[test]
fn a_trigger_makes_an_item_now_also_of_a_paused_cron_and_its_times_stay() {
    let mut script = Script::new();
    create_cron(&mut script, NewCron { overlap: Overlap::Skip, ..new("tick", "@every 1h") });
    let first = trigger(&mut script, "tick").unwrap();
    assert_eq!(first.phase, Phase::Waiting);
    assert_eq!(script.copies.len(), 1);
    let now = cron(&script, "tick");
    assert_eq!((now.next_at, now.last_at), (Some(START + Span::from_secs(3600)), None));
    assert_eq!(now.last_item, Some(first.number));
    script.apply(PauseCron("tick".into())).unwrap();
    // By hand: its previous item is no matter.
    assert_ne!(trigger(&mut script, "tick").unwrap().number, first.number);
    assert_eq!(refused(trigger(&mut script, "tock")), CronRefusal::NotFound);

    create_cron(&mut script, NewCron { item: addressed("here"), ..new("tock", "@every 1h") });
    let holder = trigger(&mut script, "tock").unwrap().number;
    assert_eq!(trigger(&mut script, "tock"), Err(Refusal::DuplicateAddress { number: holder }));
}

#[test]
fn an_update_changes_what_it_names_and_a_new_schedule_counts_from_now() {
    let mut script = Script::new();
    let before = create_cron(&mut script, new("tick", "@every 10s"));
    script.pass(Span::from_secs(3));
    script
        .apply(update("tick", CronChange { catch_up: Some(CatchUp::All), ..CronChange::default() }))
        .unwrap();
    assert_eq!(cron(&script, "tick"), Cron { catch_up: CatchUp::All, ..before.clone() });

    let schedule = Some("0 0 1 1 *".into());
    script.apply(update("tick", CronChange { schedule, ..CronChange::default() })).unwrap();
    let in_utc = cron(&script, "tick").next_at.unwrap();
    let timezone = Some("Asia/Tokyo".into());
    script.apply(update("tick", CronChange { timezone, ..CronChange::default() })).unwrap();
    assert_eq!(cron(&script, "tick").next_at.unwrap() + Span::from_secs(9 * 3600), in_utc);

    let bad = CronChange { timezone: Some("Mars".into()), ..CronChange::default() };
    assert!(
        matches!(refused(script.apply(update("tick", bad))), CronRefusal::Schedule(error) if error.field == "timezone")
    );
    let bad = CronChange { schedule: Some("* *".into()), ..CronChange::default() };
    assert!(
        matches!(refused(script.apply(update("tick", bad))), CronRefusal::Schedule(error) if error.field == "schedule")
    );

    let item = NewItem { facts: Some(Bytes::from_static(b"facts")), ..addressed("here") };
    script.apply(update("tick", CronChange { item: Some(item), ..CronChange::default() })).unwrap();
    let removed = Change::RemoveBody { number: before.template.body, part: Part::Payload };
    assert!(script.changes.contains(&removed), "nobody needs the old body");
    let now = cron(&script, "tick");
    assert_eq!((now.address.as_deref(), now.template.facts_bytes), (Some("here"), 5));
}

#[test]
fn a_name_is_one_crons_and_a_deleted_one_leaves_nothing() {
    let mut script = Script::new();
    let made = create_cron(&mut script, new("tick", "@every 10s"));
    assert_eq!(refused(script.apply(new("tick", "@hourly"))), CronRefusal::Exists);
    script.apply(DeleteCron("tick".into())).unwrap();
    assert!(script.changes.contains(&Change::RemoveBody { number: made.template.body, part: Part::Payload }));
    assert_eq!(script.partition.next_due(), None);
    assert_eq!(refused(script.apply(DeleteCron("tick".into()))), CronRefusal::NotFound);
    assert!(script.partition.rows().all(|row| matches!(row, Row::Numbers(_))));
    create_cron(&mut script, new("tick", "@every 10s"));
}

#[test]
fn the_kind_of_a_cron_has_its_room_from_the_beginning() {
    let mut script = Script::new();
    for kind in 0..KINDS_MAX - 1 {
        script
            .partition
            .apply(script.now, windlass_core::verbs::Produce { items: vec![item(&format!("kind {kind}"))] });
    }
    create_cron(&mut script, new("tick", "@every 10s"));
    let other = NewCron { item: item("one too many"), ..new("tock", "@every 10s") };
    assert!(matches!(script.apply(other), Err(Refusal::TooMany { .. })));
    script.pass(Span::from_secs(10));
    assert_eq!(script.sweep_some(1), 1);
}

#[test]
fn a_cron_can_be_held_back_and_is_late_then() {
    let mut script = Script::new();
    create_cron(&mut script, new("tick", "@every 10s"));
    script.partition.hold_crons_until(START + Span::from_secs(30));
    script.pass(Span::from_secs(12));
    assert_eq!(script.partition.next_due(), Some(START + Span::from_secs(30)));
    assert_eq!(script.partition.sweep(script.now, 10).changes, []);
    script.partition.hold_crons_until(Timestamp(0));
    assert_eq!(after(&mut script, Span::ZERO), 1);
}

/// The cron and the scheduled time that the latest item tells.
fn latest_run(script: &Script) -> Option<(Arc<str>, Timestamp)> {
    let items = script.partition.rows().filter_map(|row| match row {
        Row::Item(item) => Some(item),
        _ => None,
    });
    let latest = items.max_by_key(|item| item.number)?;
    latest.extras?.cron.map(|run| (run.name, run.scheduled_at))
}

#[test]
fn an_item_tells_its_cron_and_the_scheduled_time_that_it_stands_for() {
    let mut script = Script::new();
    let at = |secs| Some((Arc::from("tick"), START + Span::from_secs(secs)));
    create_cron(&mut script, NewCron { catch_up: CatchUp::One, ..new("tick", "@every 10s") });
    after(&mut script, Span::from_secs(10));
    assert_eq!(latest_run(&script), at(10));
    after(&mut script, Span::from_secs(13));
    assert_eq!(latest_run(&script), at(20), "however late it is made");
    after(&mut script, Span::from_secs(34));
    assert_eq!(latest_run(&script), at(50), "of those that were missed the latest");
    trigger(&mut script, "tick").unwrap();
    assert_eq!(latest_run(&script), at(57), "a trigger has the moment of the call");
    script.apply(DeleteCron("tick".into())).unwrap();
    assert_eq!(latest_run(&script), at(57), "the item tells it also when the cron is gone");
    let leased = script.lease(1).pop().unwrap();
    assert_eq!(leased.cron.map(|run| run.scheduled_at), Some(START + Span::from_secs(10)));
}

#[test]
fn overlap_looks_at_the_item_that_the_cron_made_and_not_at_what_that_was_rerun_or_moved_to() {
    for dead_queue in [None, Some("dead".into())] {
        let mut script = Script::with_settings(Settings { dead_queue, ..Settings::default() });
        create_cron(&mut script, NewCron { overlap: Overlap::Skip, ..new("tick", "@every 10s") });
        assert_eq!(after(&mut script, Span::from_secs(10)), 1);
        let held = script.lease_one();
        script.retry(RetryItem { dead: true, ..again(held) }).unwrap();
        let moves = script.partition.moving() == 1;
        if !moves {
            let rerun = Rerun { number: held.id.number, queue: "q".into(), delay: Some(Span::from_secs(60)) };
            let anew = script.apply(rerun).unwrap().number;
            assert_eq!(
                script.get(anew).extras.unwrap().cron.unwrap().scheduled_at,
                START + Span::from_secs(10)
            );
        }
        assert_eq!(after(&mut script, Span::from_secs(10)), 1, "moves: {moves}");
        assert_eq!(latest_run(&script), Some(("tick".into(), START + Span::from_secs(20))));
    }
}

#[test]
fn a_dead_letter_tells_the_cron_of_the_item_that_died() {
    let mut script =
        Script::with_settings(Settings { dead_queue: Some("dead".into()), ..Settings::default() });
    create_cron(&mut script, new("tick", "@every 10s"));
    after(&mut script, Span::from_secs(10));
    let held = script.lease_one();
    script.retry(RetryItem { dead: true, ..again(held) }).unwrap();
    script.assign("dead", PartitionId(9), 1);
    let departure = script.partition.departures(PartitionId(9), 1).pop().unwrap();
    let Departing::Item(item) = departure.what else { panic!("it is an item") };
    let run = CronRun { name: "tick".into(), scheduled_at: START + Span::from_secs(10) };
    assert_eq!(item.cron, Some(Box::new(run)));
}

#[test]
fn the_times_of_crons_are_counted_by_what_became_of_them() {
    let mut script = Script::new();
    create_cron(&mut script, NewCron { overlap: Overlap::Skip, ..new("tick", "@every 10s") });
    after(&mut script, Span::from_secs(12));
    assert_eq!((script.totals.cron_runs, script.totals.cron_late_ms), (1, 2000));
    after(&mut script, Span::from_secs(10));
    assert_eq!((script.totals.cron_runs, script.totals.cron_skipped), (1, 1));
    trigger(&mut script, "tick").unwrap();
    assert_eq!(script.totals.cron_runs, 1, "a trigger is no time");
    after(&mut script, Span::from_secs(37));
    assert_eq!(script.totals.cron_missed, 3, "at 30 s, 40 s and 50 s");
    after(&mut script, Span::from_secs(1_000_000));
    assert_eq!(script.totals.cron_missed, 103, "no more are counted at once");
}

fn registry() -> RegistryScript {
    let mut script = RegistryScript::new();
    for name in ["jobs", "mail"] {
        script.create(name, 1).unwrap();
    }
    script
}

fn home(name: &str, of: &str) -> CronHome {
    CronHome { name: name.into(), queue: queue_name(of), unknown: Vec::new() }
}

fn name(script: &mut RegistryScript, name: &str, of: &str, instead_of: Option<&str>) -> Result<(), Refusal> {
    let named = NameCron { home: home(name, of), instead_of: instead_of.map(queue_name) };
    script.apply(named)
}

fn homes(registry: &Registry, pivot: Option<&str>) -> Vec<(Arc<str>, Arc<str>)> {
    let pivot = pivot.map(Arc::from);
    let homes = registry.cron_homes(&"default".into(), pivot.as_ref()).cloned().collect::<Vec<_>>();
    homes.into_iter().map(|home| (home.name, home.queue.name)).collect()
}

#[test]
fn a_name_is_given_once_and_taken_over_only_from_the_queue_it_belongs_to() {
    let mut script = registry();
    name(&mut script, "tick", "jobs", None).unwrap();
    assert_eq!(refused(name(&mut script, "tick", "mail", None)), CronRefusal::Exists);
    assert_eq!(refused(name(&mut script, "tick", "mail", Some("other"))), CronRefusal::Exists);
    name(&mut script, "tick", "mail", Some("jobs")).unwrap();
    assert_eq!(refused(name(&mut script, "tock", "jobs", Some("jobs"))), CronRefusal::Exists);
    assert_eq!(name(&mut script, "tock", "gone", None), Err(Refusal::NoSuchQueue { queue: "gone".into() }));
    name(&mut script, "tock", "jobs", None).unwrap();
    assert_eq!(
        homes(&script.registry, None),
        [("tick".into(), "mail".into()), ("tock".into(), "jobs".into())]
    );
    assert_eq!(homes(&script.registry, Some("tick")), [("tock".into(), "jobs".into())]);
    // Another queue's by now.
    script.apply(UnnameCron(home("tick", "jobs"))).unwrap();
    assert!(script.changes.is_empty());
    script.apply(UnnameCron(home("tick", "mail"))).unwrap();
    let tick = CronName { namespace: "default".into(), name: "tick".into() };
    assert!(script.registry.cron_home(&tick).is_none());
}

#[test]
fn two_namespaces_may_use_the_same_name() {
    let mut script = registry();
    let of = |namespace: &str| QueueName { namespace: namespace.into(), name: "jobs".into() };
    let create = CreateQueue::new(of("other"), Settings::default(), 1);
    script.apply(create).unwrap();
    name(&mut script, "tick", "jobs", None).unwrap();
    let home = CronHome { queue: of("other"), ..home("tick", "jobs") };
    script.apply(NameCron { home, instead_of: None }).unwrap();
    assert_eq!(homes(&script.registry, None), [("tick".into(), "jobs".into())]);
    script.apply(DeleteQueue(of("other"))).unwrap();
    assert_eq!(homes(&script.registry, None), [("tick".into(), "jobs".into())]);
}

#[test]
fn names_go_with_their_queue() {
    let mut script = registry();
    for (cron, of) in [("one", "jobs"), ("three", "jobs"), ("two", "mail")] {
        name(&mut script, cron, of, None).unwrap();
    }
    script.apply(DeleteQueue(queue_name("jobs"))).unwrap();
    assert_eq!(homes(&script.registry, None), [("two".into(), "mail".into())]);
}

#[test]
fn a_queue_has_only_so_many_crons() {
    let mut script = registry();
    for number in 0..QUEUE_CRONS_MAX {
        script.registry.put(Row::CronHome(Box::new(home(&format!("{number}"), "jobs"))));
    }
    assert!(matches!(
        name(&mut script, "more", "jobs", None),
        Err(Refusal::AtLimit { limit: Limit::CronsPerQueue, .. })
    ));
    name(&mut script, "7", "jobs", Some("jobs")).unwrap();
    name(&mut script, "more", "mail", None).unwrap();
}

#[test]
fn what_no_cron_can_make_is_refused() {
    let mut script = Script::new();
    for item in [
        NewItem { group: Some("a group".into()), ..item("report") },
        NewItem { enqueue_at: Some(START), ..item("report") },
        item(""),
        addressed(""),
    ] {
        let refused = script.apply(NewCron { item, ..new("tick", "@hourly") });
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
    }
    assert!(matches!(script.apply(new("not a name", "@hourly")), Err(Refusal::Invalid(_))));
}
