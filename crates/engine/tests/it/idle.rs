//! A server that has nothing to do does nothing: no commit, no sync, and nobody wakes more than once a minute.

use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::settings::Settings;

use crate::behaviour::crons::cron;
use crate::behaviour::waiting_lease;
use crate::world::{Medium, World, lease};

const QUEUES: usize = 1000;
const LEASES: usize = 100;
const MINUTES: usize = 58;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_queues_and_crons_and_a_hundred_leases_that_wait_write_nothing() {
    let world = World::new(Medium::log()).await;
    let mut queues = Vec::new();
    for index in 0..QUEUES {
        let queue = world.queue(&format!("queue-{index}"), 1, Settings::default()).await;
        let hourly = cron(&format!("cron-{index}"), "@every 59m");
        world.engine().create_cron(&queue, hourly).await.expect("the cron is made");
        queues.push(queue);
    }
    let mut leases = Vec::new();
    for queue in &queues[..LEASES] {
        leases.push(waiting_lease(&world, queue, lease(1)).await);
    }
    let engine = world.engine();
    let written =
        || (engine.commit_stats().commits, engine.store_stats().commits, engine.store_stats().syncs);
    let (before, sleeps) = (written(), world.env.sleeps.load(Ordering::Relaxed));
    for _ in 0..MINUTES {
        world.env.advance(Duration::from_secs(60));
        tokio::task::yield_now().await;
    }
    // Whoever was to wake has: each writer answers after that.
    for queue in &queues {
        engine.stats(queue).await.expect("stats");
    }
    assert_eq!(written(), before);
    let sleeps = world.env.sleeps.load(Ordering::Relaxed) - sleeps;
    // Partitions look at the wall clock once a minute; and what asked for their counts just now.
    let each_minute = QUEUES + LEASES + 10;
    assert!(sleeps <= each_minute * (MINUTES + 1) + QUEUES, "{sleeps} sleeps");
    assert!(leases.iter().all(|lease| !lease.is_finished()));

    world.env.advance(Duration::from_secs(60));
    for lease in leases {
        assert_eq!(lease.await.expect("ends").expect("leased").accept().len(), 1);
    }
    world.close().await;
}
