//! Queues and crons that may be there already, and what their owners note down about queues.

use windlass_core::cron::{CatchUp, Overlap};

use windlass_core::limits::META_BYTES_MAX;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Queue, StoreNames};
use windlass_core::settings::{Requeue, RetryChange, RetryStrategy, Settings, SettingsChange};
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, CronChange, GivenQueue, NewCron, NewItem, Rebalance, UpdateQueue};

use crate::registry_script::{RegistryScript, queue_name};
use crate::script::{START, Script, item};

const SECOND: Span = Span::from_secs(1);

/// What an edge makes of a call that says `exists_ok`.
fn ensure(script: &mut RegistryScript, given: GivenQueue) -> Result<Queue, Refusal> {
    let settings = Settings::default().changed(given.settings.clone());
    let new = CreateQueue {
        meta: given.meta.clone().flatten(),
        exists_ok: Some(Box::new(given.clone())),
        ..CreateQueue::new(queue_name("mail"), settings, given.partitions.unwrap_or(1))
    };
    script.apply(new)
}

fn of_settings(settings: SettingsChange) -> GivenQueue {
    GivenQueue { settings, ..GivenQueue::default() }
}

fn of_meta(meta: Option<&str>) -> GivenQueue {
    GivenQueue { meta: Some(meta.map(Into::into)), ..GivenQueue::default() }
}

/// Each field alone, with another value than a queue has by default, in the order of the API.
fn others() -> Vec<(&'static str, GivenQueue)> {
    let change = SettingsChange::default;
    let retry = |retry: RetryChange| of_settings(SettingsChange { retry, ..change() });
    let policy = RetryChange::default;
    vec![
        ("partitions", GivenQueue { partitions: Some(2), ..GivenQueue::default() }),
        ("lease_timeout", of_settings(SettingsChange { lease_timeout: Some(SECOND), ..change() })),
        ("max_attempts", of_settings(SettingsChange { max_attempts: Some(9), ..change() })),
        ("dead_timeout", of_settings(SettingsChange { dead_timeout: Some(SECOND), ..change() })),
        ("dead_queue", of_settings(SettingsChange { dead_queue: Some(Some("dead".into())), ..change() })),
        ("retry.strategy", retry(RetryChange { strategy: Some(RetryStrategy::Fixed), ..policy() })),
        ("retry.initial", retry(RetryChange { initial: Some(Span::from_secs(9)), ..policy() })),
        ("retry.factor", retry(RetryChange { factor: Some(3.0), ..policy() })),
        ("retry.max", retry(RetryChange { max: Some(SECOND), ..policy() })),
        ("retry.jitter", retry(RetryChange { jitter: Some(0.5), ..policy() })),
        ("requeue", of_settings(SettingsChange { requeue: Some(Requeue::Tail), ..change() })),
        ("retention", of_settings(SettingsChange { retention: Some(SECOND), ..change() })),
        ("retention_max_items", of_settings(SettingsChange { retention_max_items: Some(1), ..change() })),
        ("retention_max_bytes", of_settings(SettingsChange { retention_max_bytes: Some(1), ..change() })),
        ("max_items", of_settings(SettingsChange { max_items: Some(1), ..change() })),
        ("reference", of_settings(SettingsChange { reference: Some(Some("mine".into())), ..change() })),
        ("meta", of_meta(Some("{}"))),
    ]
}

#[test]
fn a_queue_that_has_what_is_given_is_answered_as_it_is() {
    for (field, given) in others() {
        let mut script = RegistryScript::new();
        let made = ensure(&mut script, given.clone()).unwrap();
        script.pass(SECOND);
        assert_eq!(ensure(&mut script, given), Ok(made.clone()), "{field}");
        assert_eq!(script.changes, [], "{field}");
        assert_eq!(ensure(&mut script, GivenQueue::default()), Ok(made), "{field}");
    }
}

#[test]
fn a_queue_that_differs_is_refused_by_the_first_field_that_does() {
    let mut script = RegistryScript::new();
    script.create("mail", 1).unwrap();
    for (field, given) in others() {
        assert_eq!(ensure(&mut script, given), Err(Refusal::QueueDiffers { field }));
    }
    let several = SettingsChange { max_items: Some(1), max_attempts: Some(9), ..SettingsChange::default() };
    let refused = ensure(&mut script, of_settings(several));
    assert_eq!(refused, Err(Refusal::QueueDiffers { field: "max_attempts" }));
    let plain = script.create("mail", 1);
    assert_eq!(plain, Err(Refusal::QueueExists));
}

#[test]
fn a_setting_that_is_given_as_none_must_not_be_there() {
    let mut script = RegistryScript::new();
    let none = SettingsChange { dead_queue: Some(None), reference: Some(None), ..SettingsChange::default() };
    ensure(&mut script, of_settings(none.clone())).unwrap();
    ensure(&mut script, of_settings(none.clone())).unwrap();
    ensure(&mut script, of_meta(None)).unwrap();
    let mine = SettingsChange { reference: Some(Some("mine".into())), ..SettingsChange::default() };
    let meta = Some(Some("{}".into()));
    script.apply(UpdateQueue { meta, ..UpdateQueue::new(queue_name("mail"), mine) }).unwrap();
    assert_eq!(ensure(&mut script, of_settings(none)), Err(Refusal::QueueDiffers { field: "reference" }));
    assert_eq!(ensure(&mut script, of_meta(None)), Err(Refusal::QueueDiffers { field: "meta" }));
}

#[test]
fn meta_is_compared_as_a_value() {
    let mut script = RegistryScript::new();
    ensure(&mut script, of_meta(Some(r#"{"team": "a", "level": 1}"#))).unwrap();
    assert!(ensure(&mut script, of_meta(Some(r#"{"level":1.0,"team":"\u0061"}"#))).is_ok());
    let refused = ensure(&mut script, of_meta(Some(r#"{"level":2,"team":"a"}"#)));
    assert_eq!(refused, Err(Refusal::QueueDiffers { field: "meta" }));
}

#[test]
fn partitions_that_drain_do_not_count_as_the_queues() {
    let mut script = RegistryScript::new();
    ensure(&mut script, GivenQueue { partitions: Some(3), ..GivenQueue::default() }).unwrap();
    let rebalance = Rebalance { name: queue_name("mail"), partitions: 2, stores: StoreNames::default() };
    script.apply(rebalance).unwrap();
    assert!(ensure(&mut script, GivenQueue { partitions: Some(2), ..GivenQueue::default() }).is_ok());
}

#[test]
fn a_queue_knows_when_it_was_made_and_last_updated() {
    let mut script = RegistryScript::new();
    let made = ensure(&mut script, GivenQueue::default()).unwrap();
    assert_eq!((made.created_at, made.updated_at), (START, START));
    script.pass(SECOND);
    let rebalance = Rebalance { name: queue_name("mail"), partitions: 2, stores: StoreNames::default() };
    let wider = script.apply(rebalance).unwrap();
    assert_eq!((wider.created_at, wider.updated_at), (START, START));
    script.pass(SECOND);
    let updated = script.apply(UpdateQueue::new(queue_name("mail"), SettingsChange::default())).unwrap();
    assert_eq!((updated.created_at, updated.updated_at), (START, script.now));
    let later = script.now;
    script.now = START;
    let updated = script.apply(UpdateQueue::new(queue_name("mail"), SettingsChange::default())).unwrap();
    assert_eq!(updated.updated_at, later, "the clock went back");
}

#[test]
fn meta_is_replaced_kept_and_taken_away() {
    let mut script = RegistryScript::new();
    assert_eq!(ensure(&mut script, of_meta(Some(r#"{"a":1}"#))).unwrap().meta.as_deref(), Some(r#"{"a":1}"#));
    let mut set = |meta: Option<Option<&str>>| {
        let meta = meta.map(|meta| meta.map(Into::into));
        let update = UpdateQueue { meta, ..UpdateQueue::new(queue_name("mail"), SettingsChange::default()) };
        script.apply(update).map(|queue| queue.meta)
    };
    assert_eq!(set(None).unwrap().as_deref(), Some(r#"{"a":1}"#));
    assert_eq!(set(Some(Some(" {}"))).unwrap().as_deref(), Some(" {}"));
    assert_eq!(set(Some(None)), Ok(None));
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(META_BYTES_MAX - 8));
    assert_eq!(large.len(), META_BYTES_MAX);
    assert!(set(Some(Some(&large))).is_ok());
    for wrong in ["[]", "1", "", &format!("{large} ")] {
        assert!(matches!(set(Some(Some(wrong))), Err(Refusal::Invalid(_))), "{}", wrong.len());
        assert!(matches!(ensure(&mut RegistryScript::new(), of_meta(Some(wrong))), Err(Refusal::Invalid(_))));
    }
}

#[test]
fn a_cron_differs_in_the_first_field_that_is_given_and_is_not_its_own() {
    let mut script = Script::new();
    let new = NewCron {
        name: "tick".into(),
        schedule: "@hourly".into(),
        timezone: "UTC".into(),
        item: NewItem { priority: 3, ..item("report") },
        catch_up: CatchUp::One,
        overlap: Overlap::Skip,
    };
    script.apply(new.clone()).unwrap();
    let cron = script.partition.cron("tick", START, 0).unwrap().cron;
    let all = CronChange {
        schedule: Some(new.schedule),
        timezone: Some(new.timezone),
        item: Some(new.item.clone()),
        catch_up: Some(new.catch_up),
        overlap: Some(new.overlap),
    };
    assert_eq!(cron.first_difference(&all, true), None);
    assert_eq!(cron.first_difference(&CronChange::default(), false), None);
    let others = [
        ("schedule", CronChange { schedule: Some("@daily".into()), ..all.clone() }),
        ("timezone", CronChange { timezone: Some("CET".into()), ..all.clone() }),
        ("catch_up", CronChange { catch_up: Some(CatchUp::All), ..all.clone() }),
        ("overlap", CronChange { overlap: Some(Overlap::Allow), ..all.clone() }),
    ];
    for (field, given) in others {
        assert_eq!(cron.first_difference(&given, true), Some(field));
    }
    let items = [
        NewItem { kind: "other".into(), ..new.item.clone() },
        NewItem { priority: 4, ..new.item.clone() },
        NewItem { delay: Some(SECOND), ..new.item.clone() },
        NewItem { max_attempts: Some(1), ..new.item.clone() },
        NewItem { dead_timeout: Some(SECOND), ..new.item.clone() },
        NewItem { address: Some("here".into()), ..new.item },
    ];
    let late = CronChange { overlap: Some(Overlap::Allow), ..all.clone() };
    assert_eq!(cron.first_difference(&late, false), Some("item"));
    for item in items {
        assert_eq!(
            cron.first_difference(&CronChange { item: Some(item), ..all.clone() }, true),
            Some("item")
        );
    }
}

/// The field in which a cron of one schedule and time zone differs from another.
fn difference(made: [&str; 2], given: [&str; 2]) -> Option<&'static str> {
    let mut script = Script::new();
    let [schedule, timezone] = made.map(Into::into);
    let new = NewCron {
        name: "tick".into(),
        schedule,
        timezone,
        item: item("report"),
        catch_up: CatchUp::default(),
        overlap: Overlap::default(),
    };
    script.apply(new).unwrap();
    let cron = script.partition.cron("tick", START, 0).unwrap().cron;
    let [schedule, timezone] = given.map(|text| Some(text.into()));
    cron.first_difference(&CronChange { schedule, timezone, ..CronChange::default() }, true)
}

#[test]
fn schedules_of_crons_are_compared_by_their_times() {
    let same = [
        ["@every 60s", " @every  1m "],
        ["@every 90m", "@every 1h30m"],
        ["@hourly", "0 * * * *"],
        ["@midnight", "@daily"],
        ["30 9 * * MON-FRI", "  30\t9  * * mon-fri "],
        ["0 0 1 JAN *", "0 0 1 1 *"],
        ["0 0 * * 0", "0 0 * * 7"],
        ["0 0 * * SUN", "0 0 0 * * 0"],
        ["*/15 * * * *", "0,15,30-45/15 * * * *"],
    ];
    for [one, other] in same {
        assert_eq!(difference([one, "UTC"], [other, "UTC"]), None, "{one} and {other}");
        assert_eq!(difference([other, "UTC"], [one, "UTC"]), None, "{other} and {one}");
    }
    let others = [
        ["@every 60s", "@every 61s"],
        ["@every 1h", "@hourly"],
        ["0 * * * *", "0 * * * * *"],
        ["0 0 * * 1", "0 0 * * 2"],
        ["0 0 13 * FRI", "0 0 * * FRI"],
        // With a day of the week, days 1 to 31 match every day, and `*` none.
        ["0 0 1-31 * FRI", "0 0 * * FRI"],
        ["0 0 L * *", "0 0 31 * *"],
        ["0 0 * * 5L", "0 0 * * 5"],
        ["0 0 15W * *", "0 0 15 * *"],
    ];
    for [one, other] in others {
        assert_eq!(difference([one, "UTC"], [other, "UTC"]), Some("schedule"), "{one} and {other}");
    }
}

#[test]
fn time_zones_of_crons_are_compared_without_case() {
    let daily = |zone| ["@daily", zone];
    assert_eq!(difference(daily("Europe/Berlin"), daily("europe/BERLIN")), None);
    assert_eq!(difference(daily("utc"), daily("UTC")), None);
    assert_eq!(difference(daily("Europe/Berlin"), daily("Europe/Paris")), Some("timezone"));
}
