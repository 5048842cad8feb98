//! Items that appear on a schedule.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::cron::{CatchUp, Cron, CronName, CronRefusal, Overlap};
use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CronChange, NewCron, NewItem};
use windlass_engine::env::Env;
use windlass_engine::{CronInfo, EngineError};

use super::{is_refused, waiting_lease};
use crate::world::{World, bodies, item, items, lease, queue_name};

on_every_store!(
    an_item_is_made_at_each_time_for_whoever_waits,
    a_cron_and_its_body_outlive_a_restart,
    one_second_for_a_minute_with_five_restarts_makes_one_item_each,
    ten_seconds_down_are_made_up_for_as_the_cron_says,
    a_paused_cron_makes_nothing_over_a_restart_either,
    a_name_is_one_crons_of_the_whole_server,
    names_are_free_again_with_their_queue,
    crons_are_listed_by_name_over_all_queues_and_partitions,
    a_trigger_is_told_the_item_or_whoever_holds_its_address,
    a_cron_with_an_address_is_at_home_with_that,
    a_change_of_address_takes_the_cron_to_its_new_home,
    a_cron_that_must_not_overlap_stays_where_its_item_is,
    max_items_does_not_count_for_crons,
    a_deleted_cron_leaves_no_body_behind,
    what_is_wrong_with_a_schedule_is_told_and_leaves_nothing,
    many_missed_times_of_a_large_body_all_come,
);

pub(crate) fn cron(name: &str, schedule: &str) -> NewCron {
    NewCron {
        name: name.into(),
        schedule: schedule.into(),
        timezone: "UTC".into(),
        item: NewItem { facts: Some("facts".into()), ..item("the time has come") },
        catch_up: CatchUp::Skip,
        overlap: Overlap::Allow,
    }
}

/// Waits until so many items wait: a cron may be on its way to another partition.
async fn wait_for(world: &World, queue: &QueueName, count: u64) {
    for _ in 0..10_000 {
        if world.waiting(queue).await == count {
            return;
        }
        world.env.advance(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    panic!("{} items wait", world.waiting(queue).await);
}

pub(crate) fn namespace() -> Arc<str> {
    queue_name("any").namespace
}

pub(crate) fn named(name: &str) -> CronName {
    CronName { namespace: namespace(), name: name.into() }
}

fn addressed(address: &str) -> NewItem {
    NewItem { address: Some(address.into()), ..item("addressed") }
}

async fn create_cron(world: &World, queue: &QueueName, new: NewCron) -> CronInfo {
    world.engine().create_cron(queue, new).await.expect("the cron is made").value
}

async fn info(world: &World, name: &str) -> CronInfo {
    world.engine().cron(&named(name)).await.expect("the cron is there")
}

async fn seen(world: &World, name: &str) -> Cron {
    info(world, name).await.view.cron
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn refused<T: std::fmt::Debug>(result: Result<T, EngineError>) -> CronRefusal {
    let error = result.expect_err("refused");
    let EngineError::Refused(Refusal::Cron(refusal)) = error else { panic!("{error:?}") };
    refusal
}

async fn an_item_is_made_at_each_time_for_whoever_waits(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let made = create_cron(world, &queue, cron("tick", "@every 10s")).await;
    let start = made.view.cron.created_at;
    assert_eq!(made.view.next_times.len(), 10);
    assert_eq!(made.view.cron.next_at, Some(start + Span::from_secs(10)));
    assert_eq!(made.body.as_deref(), Some(&b"the time has come"[..]));
    for round in 1..=3 {
        let lease = waiting_lease(world, &queue, lease(10)).await;
        world.env.advance(secs(10));
        let granted = lease.await.expect("ends").expect("leased").accept();
        assert_eq!(bodies(&granted), ["the time has come"]);
        let view = world.engine().get(granted[0].leased.id).await.expect("shown");
        assert_eq!(view.facts.as_deref(), Some(&b"facts"[..]));
        assert_eq!(seen(world, "tick").await.last_at, Some(start + Span::from_secs(10 * round)));
    }
}

async fn a_cron_and_its_body_outlive_a_restart(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let made = create_cron(world, &queue, cron("tick", "*/5 * * * *")).await;
    world.restart().await;
    assert_eq!(seen(world, "tick").await, made.view.cron);
    // From 22:13:20.
    world.env.advance(secs(100));
    assert_eq!(bodies(&world.lease(&queue, 10).await), ["the time has come"]);
}

async fn one_second_for_a_minute_with_five_restarts_makes_one_item_each(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    for (name, schedule) in [("every", "@every 1s"), ("clock", "* * * * * *")] {
        create_cron(world, &queue, NewCron { catch_up: CatchUp::All, ..cron(name, schedule) }).await;
    }
    let mut elapsed = 0;
    for down in [1, 4, 7, 10, 2] {
        for _ in 0..7 {
            world.env.advance(secs(1));
            elapsed += 1;
            assert_eq!(world.waiting(&queue).await, 2 * elapsed);
        }
        world.close().await;
        world.env.advance(secs(down));
        elapsed += down;
        world.restart().await;
    }
    world.env.advance(secs(60 - elapsed));
    let mut leased = Vec::new();
    while let Some(granted) = Some(world.lease(&queue, 7).await).filter(|granted| !granted.is_empty()) {
        leased.extend(granted);
    }
    assert_eq!(leased.len(), 2 * 60);
}

async fn ten_seconds_down_are_made_up_for_as_the_cron_says(world: &World) {
    // Of the ten times that come while it is down those of the last five seconds, both ends included, are not missed.
    let queues = [("skip", CatchUp::Skip, 6), ("one", CatchUp::One, 7), ("all", CatchUp::All, 10)];
    for (name, catch_up, _) in queues {
        let queue = world.queue(name, 1, Settings::default()).await;
        create_cron(world, &queue, NewCron { catch_up, ..cron(name, "@every 1s") }).await;
    }
    world.close().await;
    world.env.advance(secs(10));
    world.restart().await;
    for (name, _, expected) in queues {
        assert_eq!(world.waiting(&crate::world::queue_name(name)).await, expected, "{name}");
    }
    world.env.advance(secs(1));
    for (name, _, expected) in queues {
        assert_eq!(world.waiting(&crate::world::queue_name(name)).await, expected + 1, "{name}");
    }
}

async fn a_paused_cron_makes_nothing_over_a_restart_either(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    create_cron(world, &queue, NewCron { catch_up: CatchUp::All, ..cron("tick", "@every 10s") }).await;
    let paused = world.engine().pause_cron(&named("tick")).await.expect("paused");
    assert!(paused.value.view.cron.paused && !paused.commits.is_empty());
    world.env.advance(secs(25));
    world.restart().await;
    assert!(seen(world, "tick").await.paused);
    world.env.advance(secs(20));
    world.engine().resume_cron(&named("tick")).await.expect("resumed");
    assert_eq!(world.waiting(&queue).await, 0);
    world.env.advance(secs(5));
    assert_eq!(world.waiting(&queue).await, 1);
}

async fn a_name_is_one_crons_of_the_whole_server(world: &World) {
    let (one, other) =
        (world.queue("q", 4, Settings::default()).await, world.queue("r", 1, Settings::default()).await);
    create_cron(world, &one, cron("tick", "@hourly")).await;
    for queue in [&one, &other] {
        assert_eq!(
            refused(world.engine().create_cron(queue, cron("tick", "@hourly")).await),
            CronRefusal::Exists
        );
    }
    let missing = crate::world::queue_name("missing");
    assert!(is_refused(
        &world.engine().create_cron(&missing, cron("tock", "@hourly")).await,
        &Refusal::no_such_queue(&missing)
    ));
    world.engine().delete_cron(&named("tick")).await.expect("deleted");
    let gone = named("tick");
    assert_eq!(refused(world.engine().delete_cron(&gone).await), CronRefusal::NotFound);
    assert_eq!(refused(world.engine().cron(&gone).await), CronRefusal::NotFound);
    assert_eq!(refused(world.engine().trigger_cron(&gone).await), CronRefusal::NotFound);
    assert_eq!(refused(world.engine().pause_cron(&gone).await), CronRefusal::NotFound);
    assert_eq!(refused(world.engine().resume_cron(&gone).await), CronRefusal::NotFound);
    assert_eq!(
        refused(world.engine().update_cron(&named("tick"), CronChange::default()).await),
        CronRefusal::NotFound
    );
    assert_eq!(create_cron(world, &other, cron("tick", "@hourly")).await.queue, other);
}

async fn names_are_free_again_with_their_queue(world: &World) {
    let (one, other) =
        (world.queue("q", 2, Settings::default()).await, world.queue("r", 1, Settings::default()).await);
    create_cron(world, &one, cron("tick", "@every 1s")).await;
    // A cron keeps nobody from deleting its queue.
    world.engine().delete_queue(&one, false).await.expect("deleted");
    assert!(world.engine().crons(&namespace(), None, 10).await.expect("listed").is_empty());
    create_cron(world, &other, cron("tick", "@every 1s")).await;
    let again = world.queue("q", 2, Settings::default()).await;
    world.env.advance(secs(3));
    assert_eq!(world.waiting(&again).await, 0, "nothing old reappears");
    assert_eq!(world.waiting(&other).await, 3);
}

async fn crons_are_listed_by_name_over_all_queues_and_partitions(world: &World) {
    let queues =
        [world.queue("q", 4, Settings::default()).await, world.queue("r", 1, Settings::default()).await];
    let names: Vec<String> = (0..20).map(|index| format!("cron-{index:02}")).collect();
    for (index, name) in names.iter().enumerate().rev() {
        create_cron(world, &queues[index % 2], cron(name, "@hourly")).await;
    }
    let (mut listed, mut pivot) = (Vec::new(), None);
    loop {
        let page = world.engine().crons(&namespace(), pivot, 7).await.expect("listed");
        let Some(last) = page.last() else { break };
        pivot = Some(Arc::clone(&last.view.cron.name));
        assert!(page.iter().all(|cron| cron.body.is_some() && cron.view.cron.next_at.is_some()));
        listed.extend(page.into_iter().map(|info| (info.view.cron.name.to_string(), info.queue)));
    }
    let expected: Vec<_> =
        names.into_iter().enumerate().map(|(index, name)| (name, queues[index % 2].clone())).collect();
    assert_eq!(listed, expected);
    assert_eq!(
        world.engine().crons(&namespace(), Some("cron-17a".into()), 10).await.expect("listed").len(),
        2
    );
}

async fn a_trigger_is_told_the_item_or_whoever_holds_its_address(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    create_cron(world, &queue, NewCron { item: addressed("here"), ..cron("tick", "@hourly") }).await;
    world.engine().pause_cron(&named("tick")).await.expect("paused");
    let before = seen(world, "tick").await.next_at;
    let made = world.engine().trigger_cron(&named("tick")).await.expect("triggered");
    assert_eq!((made.value.phase, made.commits.len()), (Phase::Waiting, 1));
    assert_eq!(seen(world, "tick").await.next_at, before);
    let refused = world.engine().trigger_cron(&named("tick")).await;
    assert!(
        matches!(refused, Err(EngineError::DuplicateAddress { id }) if id == made.value.id),
        "{refused:?}"
    );
    let leased = world.lease(&queue, 10).await;
    assert_eq!((bodies(&leased), leased[0].leased.id), (vec!["addressed".into()], made.value.id));
}

async fn a_cron_with_an_address_is_at_home_with_that(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    for index in 0..8 {
        let address = format!("address {index}");
        let name = format!("cron-{index}");
        create_cron(world, &queue, NewCron { item: addressed(&address), ..cron(&name, "@every 10s") }).await;
        let made = world.engine().trigger_cron(&named(&name)).await.expect("triggered").value.id;
        let produced = world.engine().produce(&queue, vec![addressed(&address)]).await;
        assert!(produced.is_err() || produced.is_ok_and(|judged| judged.results.iter().all(Result::is_err)));
        assert_eq!(world.engine().item_at(&queue, &address).await.expect("found"), made);
    }
    // Their addresses are taken: the time makes nothing, and counts as run.
    world.env.advance(secs(10));
    assert_eq!(world.waiting(&queue).await, 8);
    assert!(seen(world, "cron-0").await.last_at.is_some());
}

async fn a_change_of_address_takes_the_cron_to_its_new_home(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    let new = NewCron { catch_up: CatchUp::All, item: addressed("address 0"), ..cron("tick", "@every 10s") };
    let start = create_cron(world, &queue, new).await.view.cron.created_at;
    let mut homes = std::collections::BTreeSet::new();
    for index in 1..=6 {
        let address = format!("address {index}");
        let item = NewItem { body: address.clone().into(), ..addressed(&address) };
        let changed = CronChange { item: Some(item), ..CronChange::default() };
        let changed = world.engine().update_cron(&named("tick"), changed).await.expect("changed").value;
        assert_eq!(changed.view.cron.address.as_deref(), Some(&*address));
        assert_eq!(changed.body.as_deref(), Some(address.as_bytes()));
        world.env.advance(secs(10));
        wait_for(world, &queue, 1).await;
        let leased = world.lease(&queue, 10).await;
        assert_eq!(bodies(&leased), [address]);
        homes.insert(leased[0].leased.id.partition);
        world.complete(&queue, &leased[0]).await;
        assert_eq!(seen(world, "tick").await.last_at, Some(start + Span::from_secs(10 * index)));
        if index == 3 {
            world.restart().await;
        }
    }
    assert!(homes.len() > 1, "they are spread");
    assert_eq!(world.engine().crons(&namespace(), None, 10).await.expect("listed").len(), 1);
    world.engine().delete_cron(&named("tick")).await.expect("deleted");
    world.env.advance(secs(100));
    assert_eq!(world.waiting(&queue).await, 0);
}

async fn a_cron_that_must_not_overlap_stays_where_its_item_is(world: &World) {
    let queue = world.queue("q", 8, Settings::default()).await;
    create_cron(world, &queue, NewCron { overlap: Overlap::Skip, ..cron("tick", "@every 10s") }).await;
    world.env.advance(secs(10));
    let leased = world.lease(&queue, 1).await;
    for index in 0..8 {
        let change =
            CronChange { item: Some(addressed(&format!("address {index}"))), ..CronChange::default() };
        world
            .engine()
            .update_cron(&named("tick"), change)
            .await
            .expect("changed, wherever its address is at home");
    }
    world.env.advance(secs(10));
    assert_eq!(world.waiting(&queue).await, 0);
    world.complete(&queue, &leased[0]).await;
    world.env.advance(secs(10));
    wait_for(world, &queue, 1).await;
}

async fn max_items_does_not_count_for_crons(world: &World) {
    let queue = world.queue("q", 1, Settings { max_items: 1, ..Settings::default() }).await;
    world.produce(&queue, items(1)).await;
    create_cron(world, &queue, cron("tick", "@every 10s")).await;
    world.engine().trigger_cron(&named("tick")).await.expect("triggered");
    world.env.advance(secs(10));
    assert_eq!(world.waiting(&queue).await, 3);
    assert!(matches!(world.engine().produce(&queue, items(1)).await, Err(EngineError::Overloaded { .. })));
}

async fn a_deleted_cron_leaves_no_body_behind(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let large = || item(&"large".repeat(1000));
    create_cron(world, &queue, NewCron { item: large(), ..cron("tick", "@hourly") }).await;
    let changed = CronChange { item: Some(large()), ..CronChange::default() };
    world.engine().update_cron(&named("tick"), changed).await.expect("changed");
    assert!(world.engine().store_stats().bytes_live < 7000, "the old body is gone");
    world.engine().delete_cron(&named("tick")).await.expect("deleted");
    world.produce(&queue, items(1)).await;
    let bytes_live = world.engine().store_stats().bytes_live;
    assert!(bytes_live <= 100, "{bytes_live} bytes: more than the one item that is left");
}

async fn what_is_wrong_with_a_schedule_is_told_and_leaves_nothing(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let wrong = world.engine().create_cron(&queue, cron("tick", "61 * * * *")).await;
    assert!(
        matches!(refused(wrong), CronRefusal::Schedule(error) if error.to_string().contains("`61` as minute"))
    );
    create_cron(world, &queue, cron("tick", "@hourly")).await;
    let wrong = CronChange { timezone: Some("Nowhere".into()), ..CronChange::default() };
    assert!(matches!(
        refused(world.engine().update_cron(&named("tick"), wrong).await),
        CronRefusal::Schedule(_)
    ));
    assert_eq!(&*seen(world, "tick").await.timezone, "UTC");
}

async fn many_missed_times_of_a_large_body_all_come(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let large = item(&"x".repeat(50_000));
    create_cron(world, &queue, NewCron { catch_up: CatchUp::All, item: large, ..cron("tick", "@every 1s") })
        .await;
    let commits = world.engine().commit_stats().commits;
    world.env.advance(secs(59));
    while world.waiting(&queue).await < 59 {
        tokio::task::yield_now().await;
    }
    assert!(world.engine().commit_stats().commits > commits + 1, "in slices");
    assert_eq!(seen(world, "tick").await.last_at, Some(world.env.wall()));
}
