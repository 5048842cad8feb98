//! Crons of one second on servers that are killed: with `catch_up: all` there is one item for each second, none twice and none
//! missing.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use windlass_api::crons::{CreateCronRequest, Cron, CronItem};
use windlass_client::{Client, Lease};

use crate::server_process::{PATIENCE, ServerProcess};

/// By the name of queue and cron alike: what becomes of times that were missed.
const WAYS: [&str; 3] = ["all", "one", "skip"];

/// What one server after the other is put through.
struct Lives {
    kills: usize,
    /// How often items come in each life at least: about once a second.
    times_each: usize,
    /// How long nobody serves, after every second kill.
    down: Duration,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cron_of_one_second_makes_one_item_each_although_the_server_is_killed() {
    let lives = Lives { kills: 5, times_each: 2, down: Duration::ZERO };
    let [all, ..] = lives.live().await;
    assert_eq!(all.items, all.seconds);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute and more"]
async fn a_minute_with_five_kills_and_ten_seconds_down_is_made_up_for_as_each_cron_says() {
    let lives = Lives { kills: 5, times_each: 7, down: Duration::from_secs(10) };
    let [all, one, skip] = lives.live().await;
    println!("all: {all:?}, one: {one:?}, skip: {skip:?}");
    assert!(all.seconds >= 60, "{all:?}");
    assert_eq!(all.items, all.seconds);
    // Three times it was down for ten seconds, of which the last five were not missed.
    let missed = skip.seconds - skip.items;
    assert!((3 * 4..=3 * 8).contains(&missed), "{skip:?}");
    assert_eq!(one.seconds - one.items + 3, missed, "{one:?} {skip:?}");
}

/// How many seconds there were from the first time to the last, and how many items came of them.
#[derive(Clone, Copy, Debug)]
struct Made {
    seconds: u64,
    items: u64,
}

impl Lives {
    async fn live(&self) -> [Made; 3] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut items = [0; 3];
        let mut server = ServerProcess::start(directory.path()).await;
        let first = made(&server.client()).await;
        for kill in 0..self.kills {
            self.see_some(&server.client(), &mut items).await;
            server.kill().await;
            if kill % 2 == 0 {
                tokio::time::sleep(self.down).await;
            }
            server = ServerProcess::start(directory.path()).await;
        }
        self.see_some(&server.client(), &mut items).await;
        finish(server, directory.path(), first, items).await
    }

    /// Takes what comes until it came so often.
    async fn see_some(&self, client: &Client, items: &mut [u64; 3]) {
        for _ in 0..self.times_each {
            let taken = timeout(PATIENCE, take(client, WAYS[0], Duration::from_secs(60))).await;
            let taken = taken.expect("a second passes");
            items[0] += taken as u64;
        }
    }
}

/// The three crons as they were made.
async fn made(client: &Client) -> [Cron; 3] {
    let mut crons = [(); 3].map(|()| Cron::default());
    for (way, made) in WAYS.into_iter().zip(&mut crons) {
        client.queue(way).create().await.expect("the queue is made");
        let request = CreateCronRequest {
            cron: way.into(),
            queue: way.into(),
            schedule: "* * * * * *".into(),
            item: CronItem { utf8: Some(way.into()), ..CronItem::default() },
            catch_up: Some(way.into()),
            ..CreateCronRequest::default()
        };
        *made = client.create_cron(request).await.expect("the cron is made");
    }
    crons
}

/// Leases and completes what there is, waiting for the first.
async fn take(client: &Client, queue: &str, wait: Duration) -> usize {
    let queue = client.queue(queue);
    let lease = Lease { batch_size: 1000, wait: Some(wait), ..Lease::new("worker") };
    let leased = queue.lease(&lease).await.expect("leased");
    if leased.is_empty() {
        return 0;
    }
    let done = leased.iter().map(windlass_client::LeasedItemExt::done);
    let completed = queue.complete(done).await.expect("completed");
    assert_eq!((completed.completed, completed.failed.len()), (leased.len() as u64, 0));
    leased.len()
}

/// Stops the crons, takes what is left, and counts.
async fn finish(server: ServerProcess, data: &Path, first: [Cron; 3], mut items: [u64; 3]) -> [Made; 3] {
    for way in WAYS {
        server.client().pause_cron(way).await.expect("paused");
    }
    // One more, in which nothing happens but what is known already.
    server.kill().await;
    let server = ServerProcess::start(data).await;
    let client = server.client();
    let mut made = [Made { seconds: 0, items: 0 }; 3];
    for (index, way) in WAYS.into_iter().enumerate() {
        loop {
            match take(&client, way, Duration::ZERO).await {
                0 => break,
                more => items[index] += more as u64,
            }
        }
        let last = client.cron(way).await.expect("shown").last_at.expect("it ran").as_micros();
        let began = first[index].next_at.expect("it had a next time").as_micros();
        let seconds = u64::try_from((last - began) / 1_000_000).expect("time goes on") + 1;
        made[index] = Made { seconds, items: items[index] };
    }
    made
}
