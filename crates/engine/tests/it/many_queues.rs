//! Queues that stand idle cost nothing: a server with many of them makes another one as cheaply as the first.

use std::sync::atomic::Ordering;

use windlass_core::settings::Settings;

use crate::world::{Medium, World};

/// How often tasks are polled while ten queues are made.
async fn polls_of_ten(world: &World, name: &str) -> usize {
    let before = world.env.polls.load(Ordering::Relaxed);
    for index in 0..10 {
        world.queue(&format!("{name}-{index}"), 1 + index % 2, Settings::default()).await;
    }
    world.env.polls.load(Ordering::Relaxed) - before
}

#[tokio::test]
async fn a_queue_is_made_as_cheaply_beside_a_thousand_as_beside_none() {
    let world = World::new(Medium::memory()).await;
    let beside_none = polls_of_ten(&world, "first").await;
    for index in 0..1000_usize {
        world.queue(&format!("idle-{index}"), 1 + index as u32 % 2, Settings::default()).await;
    }
    let beside_many = polls_of_ten(&world, "last").await;
    assert!(beside_many <= beside_none + beside_none / 4, "{beside_none} polls, then {beside_many}");
}

#[tokio::test]
async fn to_open_many_queues_costs_each_what_it_costs_one() {
    let mut polls = Vec::new();
    for queues in [50, 500] {
        let world = World::new(Medium::memory()).await;
        for index in 0..queues {
            world.queue(&format!("idle-{index}"), 1 + index as u32 % 2, Settings::default()).await;
        }
        let before = world.env.polls.load(Ordering::Relaxed);
        world.restart().await;
        polls.push((world.env.polls.load(Ordering::Relaxed) - before) / queues);
    }
    assert!(polls[1] <= polls[0] + polls[0] / 4, "polls for each queue: {polls:?}");
}
