//! Pausing and blocking queues and kinds.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::item::Phase;
use windlass_core::limits::Invalid;
use windlass_core::partition::Reason;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::rule::{Rule, Stop};
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{LiftRule, NewItem, SetRule};
use windlass_engine::env::Env;
use windlass_engine::{Engine, Granted, WhyNot};

use super::{is_refused, retry_item, waiting_lease};
use crate::world::{World, completion, item, items, lease};

on_every_store!(
    work_runs_only_when_neither_pause_nor_block_stands_at_either_level,
    redundant_unblocks_under_many_workers_run_each_item_once,
    a_hundred_thousand_items_behind_a_pause_are_all_leased_in_order_when_it_is_lifted,
    a_lease_that_waits_over_many_partitions_is_served_when_a_rule_is_lifted,
    other_kinds_go_on_and_running_leases_too,
    a_rule_lifts_itself_and_serves_who_waits,
    a_rule_lifts_itself_over_a_restart,
    rules_are_listed_by_queue_and_go_with_it,
    stats_and_overview_tell_what_is_stopped,
    an_item_is_explained,
    those_before_an_item_in_other_partitions_count_and_are_no_exact_number,
);

pub(crate) fn set(queue: &QueueName, kind: Option<&str>, stop: Stop) -> SetRule {
    SetRule { queue: queue.clone(), kind: kind.map(Into::into), stop, reason: None, until: None }
}

pub(crate) fn lift(queue: &QueueName, kind: Option<&str>, stop: Stop) -> LiftRule {
    LiftRule { queue: queue.clone(), kind: kind.map(Into::into), stop }
}

async fn stop(world: &World, queue: &QueueName, kind: Option<&str>, stop: Stop) -> Rule {
    world.engine().set_rule(set(queue, kind, stop)).await.expect("set").value
}

async fn go_on(world: &World, queue: &QueueName, kind: Option<&str>, stop: Stop) {
    world.engine().lift_rule(lift(queue, kind, stop)).await.expect("lifted");
}

async fn work_runs_only_when_neither_pause_nor_block_stands_at_either_level(world: &World) {
    use Stop::{Block, Pause};
    let queue = world.queue("q", 2, Settings::default()).await;
    for level in [None, Some("default")] {
        for (set, lifted) in [([Pause, Block], Pause), ([Pause, Block], Block), ([Block, Pause], Pause)] {
            world.produce(&queue, items(3)).await;
            for rule in set {
                stop(world, &queue, level, rule).await;
            }
            assert!(world.lease(&queue, 10).await.is_empty());
            go_on(world, &queue, level, lifted).await;
            world.restart().await;
            assert!(world.lease(&queue, 10).await.is_empty(), "{level:?} {set:?} without {lifted:?}");
            for rule in set {
                go_on(world, &queue, level, rule).await;
            }
            assert_eq!(world.lease(&queue, 10).await.len(), 3);
        }
    }
}

async fn redundant_unblocks_under_many_workers_run_each_item_once(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    stop(world, &queue, None, Stop::Block).await;
    for _ in 0..20 {
        world.produce(&queue, items(10)).await;
    }
    let worker = |engine: Engine, queue: QueueName| async move {
        let mut had = Vec::new();
        loop {
            let granted =
                engine.lease(&queue, lease(3), Span::from_secs(3600)).await.expect("leased").accept();
            if granted.is_empty() {
                return had;
            }
            for item in granted {
                let done = vec![completion(item.held())];
                engine.complete(&queue, done).await.expect("judged").results.remove(0).expect("completed");
                had.push(item.leased.id);
            }
        }
    };
    let workers: Vec<_> = (0..10).map(|_| tokio::spawn(worker(world.engine(), queue.clone()))).collect();
    for _ in 0..9 {
        go_on(world, &queue, None, Stop::Block).await;
    }
    while world.live(&queue).await > 0 {
        tokio::task::yield_now().await;
    }
    world.engine().send_waiters_home();
    let mut had = Vec::new();
    for worker in workers {
        had.extend(worker.await.expect("the task ran"));
    }
    let runs = had.iter().fold(BTreeMap::new(), |mut runs: BTreeMap<_, usize>, id| {
        *runs.entry(*id).or_default() += 1;
        runs
    });
    assert_eq!((runs.len(), runs.values().max()), (200, Some(&1)));
}

async fn a_hundred_thousand_items_behind_a_pause_are_all_leased_in_order_when_it_is_lifted(world: &World) {
    const COUNT: usize = 100_000;
    let queue = world.queue("q", 1, Settings::default()).await;
    stop(world, &queue, None, Stop::Pause).await;
    let mut made = Vec::new();
    for _ in 0..COUNT / 1000 {
        made.extend(world.produce(&queue, items(1000)).await);
    }
    let worker = |engine: Engine, queue: QueueName| async move {
        let mut had = Vec::new();
        loop {
            let granted =
                engine.lease(&queue, lease(500), Span::from_secs(3600)).await.expect("leased").accept();
            if granted.is_empty() {
                return had;
            }
            had.extend(granted.into_iter().map(|item| (item.leased.permit, item.leased.id)));
        }
    };
    let workers: Vec<_> = (0..50).map(|_| tokio::spawn(worker(world.engine(), queue.clone()))).collect();
    while world.stats(&queue).await.lease_waiters < 50 {
        tokio::task::yield_now().await;
    }
    go_on(world, &queue, None, Stop::Pause).await;
    // Time stands still: nobody can have looked again after a while.
    while world.stats(&queue).await.counts.leased < COUNT as u64 {
        tokio::task::yield_now().await;
    }
    world.engine().send_waiters_home();
    let mut had = Vec::new();
    for worker in workers {
        had.extend(worker.await.expect("the task ran"));
    }
    had.sort_unstable();
    assert!(had.into_iter().map(|(_, id)| id).eq(made), "every one once, in the order they were produced");
}

async fn a_lease_that_waits_over_many_partitions_is_served_when_a_rule_is_lifted(world: &World) {
    let queue = world.queue("q", 4, Settings::default()).await;
    stop(world, &queue, Some("default"), Stop::Pause).await;
    for _ in 0..4 {
        world.produce(&queue, items(2)).await;
    }
    let waiting =
        [waiting_lease(world, &queue, lease(2)).await, waiting_lease(world, &queue, lease(2)).await];
    go_on(world, &queue, Some("default"), Stop::Pause).await;
    for waiting in waiting {
        assert_eq!(waiting.await.expect("the task ran").expect("leased").accept().len(), 2);
    }
}

async fn other_kinds_go_on_and_running_leases_too(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let of = |kind: &str| NewItem { kind: kind.into(), ..item(kind) };
    world.produce(&queue, vec![of("mail"), of("mail")]).await;
    let held = world.lease(&queue, 2).await;
    stop(world, &queue, Some("mail"), Stop::Pause).await;
    world.produce(&queue, vec![of("mail"), of("report")]).await;
    let kinds: Vec<_> = world.lease(&queue, 9).await.into_iter().map(|item| item.leased.kind).collect();
    assert_eq!(kinds, ["report".into()]);
    world.complete(&queue, &held[0]).await;
    let retry = windlass_core::verbs::RetryItem { retry_at: Some(world.env.wall()), ..retry_item(&held[1]) };
    world.engine().retry(&queue, vec![retry]).await.expect("judged");
    assert!(world.lease(&queue, 9).await.is_empty());
    go_on(world, &queue, Some("mail"), Stop::Pause).await;
    let attempts: Vec<_> = world.lease(&queue, 9).await.iter().map(|item| item.leased.attempts).collect();
    assert_eq!(attempts, [2, 1]);
}

async fn a_rule_lifts_itself_and_serves_who_waits(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let until = Some(world.env.wall() + Span::from_secs(60));
    world.engine().set_rule(SetRule { until, ..set(&queue, None, Stop::Pause) }).await.expect("set");
    world.produce(&queue, items(2)).await;
    let waiting = waiting_lease(world, &queue, lease(2)).await;
    world.env.advance(Duration::from_secs(59));
    assert!(world.stats(&queue).await.paused);
    world.env.advance(Duration::from_secs(1));
    assert_eq!(waiting.await.expect("the task ran").expect("leased").accept().len(), 2);
    assert!(!world.stats(&queue).await.paused);
    assert_eq!(world.engine().rules(None).await.expect("rules"), []);
}

async fn a_rule_lifts_itself_over_a_restart(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let until = Some(world.env.wall() + Span::from_secs(60));
    world.engine().set_rule(SetRule { until, ..set(&queue, None, Stop::Block) }).await.expect("set");
    world.produce(&queue, items(1)).await;
    world.restart().await;
    assert!(world.lease(&queue, 1).await.is_empty());
    world.engine().close().await;
    world.env.advance(Duration::from_secs(60));
    world.restart().await;
    assert_eq!(world.lease(&queue, 1).await.len(), 1);
    assert_eq!(world.engine().rules(None).await.expect("rules"), []);
}

async fn rules_are_listed_by_queue_and_go_with_it(world: &World) {
    let (first, second) =
        (world.queue("a", 2, Settings::default()).await, world.queue("b", 1, Settings::default()).await);
    let on_kind = stop(world, &first, Some("mail"), Stop::Block).await;
    let because = SetRule { reason: Some("a deploy".into()), ..set(&second, None, Stop::Pause) };
    let on_second = world.engine().set_rule(because).await.expect("set").value;
    world.env.advance(Duration::from_secs(1));
    let on_first = stop(world, &first, None, Stop::Pause).await;
    assert_eq!(stop(world, &first, Some("mail"), Stop::Block).await.created_at, on_kind.created_at);
    world.restart().await;
    let engine = world.engine();
    assert_eq!(
        engine.rules(None).await.expect("rules"),
        [on_first.clone(), on_kind.clone(), on_second.clone()]
    );
    assert_eq!(engine.rules(Some(&first)).await.expect("rules"), [on_first, on_kind]);
    engine.delete_queue(&first, false).await.expect("deleted");
    assert_eq!(engine.rules(None).await.expect("rules"), [on_second]);
    let nowhere = engine.set_rule(set(&first, None, Stop::Pause)).await;
    assert!(is_refused(&nowhere, &Refusal::no_such_queue(&first)));
    assert!(is_refused(
        &engine.lift_rule(lift(&first, None, Stop::Pause)).await,
        &Refusal::no_such_queue(&first)
    ));
    assert!(is_refused(&engine.rules(Some(&first)).await, &Refusal::no_such_queue(&first)));
    let past = SetRule { until: Some(world.env.wall()), ..set(&second, None, Stop::Pause) };
    let refused = Refusal::Invalid(Invalid { field: "until", rule: "in the future" });
    assert!(is_refused(&engine.set_rule(past).await, &refused));
    world.queue("a", 1, Settings::default()).await;
    world.produce(&first, items(1)).await;
    assert_eq!(world.lease(&first, 1).await.len(), 1, "nothing old reappears");
}

async fn stats_and_overview_tell_what_is_stopped(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let of = |kind: &str| NewItem { kind: kind.into(), ..item(kind) };
    world.produce(&queue, vec![of("mail"), of("report")]).await;
    world.produce(&queue, vec![of("mail")]).await;
    let seen = || async {
        let (stats, told) = (world.stats(&queue).await, world.engine().overview().remove(0));
        assert_eq!((told.stopped, told.paused, told.blocked), (stats.stopped, stats.paused, stats.blocked));
        assert_eq!((stats.counts.waiting, stats.oldest_waiting.is_some()), (3, true));
        let all =
            stats.partitions.iter().all(|partition| partition.paused == (stats.paused || stats.blocked));
        assert!(all, "{stats:?}");
        (stats.stopped, stats.paused, stats.blocked)
    };
    assert_eq!(seen().await, (0, false, false));
    stop(world, &queue, Some("mail"), Stop::Block).await;
    assert_eq!(seen().await, (2, false, false));
    stop(world, &queue, None, Stop::Pause).await;
    assert_eq!(seen().await, (3, true, false));
    stop(world, &queue, None, Stop::Block).await;
    world.restart().await;
    assert_eq!(seen().await, (3, true, true));
    go_on(world, &queue, None, Stop::Pause).await;
    assert_eq!(seen().await, (3, false, true));
    go_on(world, &queue, None, Stop::Block).await;
    assert_eq!(seen().await, (2, false, false));
    go_on(world, &queue, Some("mail"), Stop::Block).await;
    assert_eq!(seen().await, (0, false, false));
}

async fn an_item_is_explained(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let ids = world.produce(&queue, items(3)).await;
    let engine = world.engine();
    let why = |id| {
        let engine = engine.clone();
        async move { engine.explain(id).await.expect("explained") }
    };
    let no_worker = WhyNot::NoWorker { kind: "default".into(), priority: 0 };
    assert_eq!(why(ids[0]).await.reasons, std::slice::from_ref(&no_worker));
    let behind = |position, exact| WhyNot::Reason(Reason::Behind { position, exact });
    assert_eq!(why(ids[2]).await.reasons, [behind(2, true), no_worker.clone()]);
    let paused = stop(world, &queue, None, Stop::Pause).await;
    let told = why(ids[0]).await;
    assert_eq!(told.phase, Some(Phase::Waiting));
    let WhyNot::Reason(Reason::Stopped(rule)) = &told.reasons[0] else { panic!("{told:?}") };
    assert_eq!((rule.key.stop, rule.created_at), (Stop::Pause, paused.created_at));
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    assert!(!why(ids[0]).await.reasons.contains(&no_worker));
    go_on(world, &queue, None, Stop::Pause).await;
    let held: Vec<Granted> = waiting.await.expect("the task ran").expect("leased").accept();
    let leased = Reason::Leased { client_id: "worker".into(), deadline: held[0].leased.deadline };
    assert_eq!(why(held[0].leased.id).await.reasons, [WhyNot::Reason(leased)]);
    world.complete(&queue, &held[0]).await;
    assert!(is_refused(&engine.explain(held[0].leased.id).await, &Refusal::NotFound));
}

async fn those_before_an_item_in_other_partitions_count_and_are_no_exact_number(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let first = world.produce(&queue, items(1)).await[0];
    world.env.advance(Duration::from_secs(1));
    let second = world.produce(&queue, items(1)).await[0];
    assert_ne!(first.partition, second.partition);
    let why = world.engine().explain(second).await.expect("explained");
    assert_eq!(why.reasons[0], WhyNot::Reason(Reason::Behind { position: 1, exact: false }));
    let why = world.engine().explain(first).await.expect("explained");
    assert!(!why.reasons.iter().any(|reason| matches!(reason, WhyNot::Reason(_))), "{why:?}");
}
