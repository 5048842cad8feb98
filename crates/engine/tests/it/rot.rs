//! One rotten payload in the log costs its item and nothing else.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{
    Clear, CreateGroup, CreateQueue, Input, List, NewCron, NewItem, RetryItem, SuspendItem,
};
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::{Engine, Granted, ItemView, Page, Redrive};

use crate::behaviour::crons::{cron, named};
use crate::behaviour::expiry::error_code;
use crate::behaviour::groups::{end, group};
use crate::behaviour::retry_item;
use crate::behaviour::streams::event;
use crate::log_disk::MemDisk;
use crate::world::{ManualEnv, bodies, completion, completion_with, item, items, lease, queue_name};

const SEGMENT_BYTES: u32 = 256 << 10;

/// An engine on a log that reads every body from its disk.
pub(crate) struct Rot {
    pub(crate) env: Arc<ManualEnv>,
    pub(crate) disk: Arc<MemDisk>,
    pub(crate) engine: Engine,
}

impl Rot {
    pub(crate) async fn new() -> Self {
        let (env, disk) = (Arc::new(ManualEnv::new()), Arc::<MemDisk>::default());
        let options =
            LogOptions { segment_bytes: SEGMENT_BYTES, body_cache_bytes: 0, ..LogOptions::default() };
        let store = LogStore::open(env.clone(), disk.clone(), options).await.expect("the log opens");
        let engine = Engine::open(env.clone(), Arc::new(store)).await.expect("the engine opens");
        Self { env, disk, engine }
    }

    pub(crate) async fn queue(&self, name: &str, dead_queue: Option<&str>) -> QueueName {
        let name = queue_name(name);
        let settings = Settings { dead_queue: dead_queue.map(Into::into), ..Settings::default() };
        let create = CreateQueue::new(name.clone(), settings, 1);
        self.engine.create_queue(create).await.expect("the queue is made");
        name
    }

    /// Items of which the payload `rotten` has a flipped bit in the log.
    pub(crate) async fn produce(&self, queue: &QueueName, payloads: &[&str]) -> Vec<ItemId> {
        let new = payloads.iter().map(|payload| item(payload)).collect();
        let produced = self.engine.produce(queue, new).await.expect("produced");
        let ids = produced.results.into_iter().map(|made| made.expect("produced").id).collect();
        let rotten = payloads.iter().filter(|payload| **payload == "rotten").count();
        assert_eq!(self.disk.spoil(b"rotten"), rotten);
        ids
    }

    pub(crate) async fn lease(&self, queue: &QueueName, batch_size: usize) -> Vec<Granted> {
        self.engine.lease(queue, lease(batch_size), Span::ZERO).await.expect("leased").accept()
    }

    pub(crate) async fn get(&self, id: ItemId) -> ItemView {
        self.engine.get(id).await.expect("shown")
    }

    pub(crate) async fn give_up(&self, queue: &QueueName, leased: &[Granted]) {
        let given_up = leased.iter().map(|item| RetryItem { dead: true, ..retry_item(item) }).collect();
        let judged = self.engine.retry(queue, given_up).await.expect("judged");
        assert!(judged.results.into_iter().all(|result| result.is_ok()));
    }

    /// Until nothing is on its way from a queue to another.
    pub(crate) async fn all_moved(&self, queue: &QueueName) {
        while self.engine.stats(queue).await.expect("stats").moving > 0 {
            self.env.advance(Duration::from_millis(50));
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn waiting(&self, queue: &QueueName) -> u64 {
        self.engine.stats(queue).await.expect("stats").counts.waiting
    }

    /// How many bodies were found damaged, in all queues.
    fn damaged(&self) -> u64 {
        self.engine.overview().iter().map(|seen| seen.totals.damaged).sum()
    }

    pub(crate) async fn list(&self, queue: &QueueName) -> Vec<ItemView> {
        let partition = self.engine.stats(queue).await.expect("stats").partitions[0].partition;
        let page = Page { partition, list: List::Queue, after: None, limit: 1000 };
        self.engine.list(queue, page).await.expect("listed")
    }
}

pub(crate) fn is_damaged(view: &ItemView) -> bool {
    view.item.state.phase() == Phase::Failed && error_code(view).as_deref() == Some("damaged")
}

pub(crate) fn payloads(views: &[ItemView]) -> Vec<Option<&[u8]>> {
    views.iter().map(|view| view.payload.as_deref()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_does_not_wait_finds_what_is_behind_many_items_without_payload() {
    let rot = Rot::new().await;
    let (queue, dead) = (rot.queue("q", Some("dead")).await, rot.queue("dead", None).await);
    rot.produce(&queue, &["rotten"; 250]).await;
    while rot.waiting(&queue).await > 0 {
        assert_eq!(rot.lease(&queue, 100).await.len(), 0);
    }
    rot.all_moved(&queue).await;
    assert_eq!(rot.waiting(&dead).await, 250);
    rot.produce(&dead, &["sound"]).await;
    assert_eq!(bodies(&rot.lease(&dead, 1).await), ["sound"]);
    assert_eq!(rot.waiting(&dead).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_one_that_does_not_wait_finds_what_is_behind_many_rotten_payloads() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    rot.produce(&queue, &["rotten"; 150]).await;
    rot.produce(&queue, &["sound"]).await;
    assert_eq!(bodies(&rot.lease(&queue, 1).await), ["sound"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_fails_an_item_whose_payload_is_rotten_and_grants_the_others() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let ids = rot.produce(&queue, &["one", "rotten", "three"]).await;
    assert_eq!(bodies(&rot.lease(&queue, 10).await), ["one", "three"]);
    let failed = rot.get(ids[1]).await;
    assert!(is_damaged(&failed), "{failed:?}");
    assert_eq!((failed.item.attempts, &failed.payload), (0, &None));
    assert_eq!(rot.engine.stats(&queue).await.expect("stats").counts.leased, 2);
    assert_eq!(rot.damaged(), 1);
    // It is written down: no later lease meets it.
    rot.engine.reload(&queue).await.expect("read back");
    assert!(is_damaged(&rot.get(ids[1]).await));
    assert_eq!((rot.lease(&queue, 10).await.len(), rot.damaged()), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_one_goes_on_behind_a_rotten_payload() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    rot.produce(&queue, &["rotten", "rotten", "sound"]).await;
    assert_eq!(bodies(&rot.lease(&queue, 1).await), ["sound"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_met_only_rotten_payloads_waits_on() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let ids = rot.produce(&queue, &["rotten"]).await;
    let (engine, of) = (rot.engine.clone(), queue.clone());
    let waiting = tokio::spawn(async move { engine.lease(&of, lease(1), Span::from_secs(30)).await });
    while !is_damaged(&rot.get(ids[0]).await)
        || rot.engine.stats(&queue).await.expect("stats").lease_waiters == 0
    {
        tokio::task::yield_now().await;
    }
    rot.produce(&queue, &["sound"]).await;
    let granted = waiting.await.expect("no panic").expect("leased").accept();
    assert_eq!(bodies(&granted), ["sound"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotten_payload_does_not_keep_other_dead_letters_from_their_queue() {
    let rot = Rot::new().await;
    let (queue, dead) = (rot.queue("q", Some("dead")).await, rot.queue("dead", None).await);
    rot.engine.produce(&queue, items(200)).await.expect("produced");
    let leased = rot.lease(&queue, 200).await;
    assert_eq!(rot.disk.spoil(b"item 100"), 1);
    rot.give_up(&queue, &leased).await;
    rot.all_moved(&queue).await;
    assert_eq!(rot.waiting(&dead).await, 200);
    let letters = rot.list(&dead).await;
    assert_eq!(letters[100].payload, None, "it moved without its payload");
    assert_eq!(rot.lease(&dead, 200).await.len(), 199);
    assert_eq!(rot.damaged(), 1, "by the move, and not again by the lease");
    assert!(is_damaged(&rot.get(letters[100].id).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_failed_as_damaged_moves_once_and_ends_in_its_dead_queue() {
    let rot = Rot::new().await;
    // Each is the dead queue of the other.
    let (queue, dead) = (rot.queue("q", Some("dead")).await, rot.queue("dead", Some("q")).await);
    let ids = rot.produce(&queue, &["rotten"]).await;
    assert!(rot.lease(&queue, 1).await.is_empty());
    rot.all_moved(&queue).await;
    assert!(is_damaged(&rot.get(ids[0]).await));
    let letter = rot.list(&dead).await.remove(0);
    let origin = letter.item.extras.as_ref().and_then(|extras| extras.origin.clone()).expect("moved");
    let code = origin.error.and_then(|error| error.code).expect("it has a code");
    assert_eq!((origin.id, &*code, origin.attempts), (Some(ids[0]), "damaged", Some(0)));
    assert!(rot.lease(&dead, 1).await.is_empty());
    assert!(is_damaged(&rot.get(letter.id).await));
    let stats = rot.engine.stats(&dead).await.expect("stats");
    assert_eq!((stats.counts.live(), stats.moving, rot.waiting(&queue).await), (0, 0, 0));
    assert_eq!(rot.damaged(), 1, "by the first lease, and not again by the move and the second lease");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_takes_a_rotten_letter_and_those_behind_it() {
    let rot = Rot::new().await;
    let (queue, other) = (rot.queue("q", None).await, rot.queue("other", None).await);
    rot.produce(&queue, &["one", "rotten", "three"]).await;
    let redrive = Redrive { to: Some(other.clone()), ..Redrive::default() };
    assert_eq!(rot.engine.redrive(&queue, redrive).await.expect("redriven").value.moved, 3);
    rot.all_moved(&queue).await;
    assert_eq!(payloads(&rot.list(&other).await), [Some(&b"one"[..]), None, Some(&b"three"[..])]);
    assert_eq!(bodies(&rot.lease(&other, 3).await), ["one", "three"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_with_a_rotten_payload_fails_and_its_group_ends() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let members = vec![item("one"), item("rotten")];
    let create = CreateGroup { end: end("the end", None), items: members, start: true, ..group("g") };
    rot.engine.create_group(&queue, create).await.expect("the group is made");
    assert_eq!(rot.disk.spoil(b"rotten"), 1);
    let leased = rot.lease(&queue, 2).await;
    assert_eq!(bodies(&leased), ["one"]);
    rot.engine.complete(&queue, vec![completion(leased[0].held())]).await.expect("completed");
    let view = rot.engine.group(&queue, &"g".into()).await.expect("shown");
    assert_eq!((view.ended.completed, view.ended.failed), (1, 1));
    assert_eq!(bodies(&rot.lease(&queue, 2).await), ["the end"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_with_a_rotten_payload_is_shown_and_listed_without_it() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let ids = rot.produce(&queue, &["one", "rotten", "three"]).await;
    let shown = rot.get(ids[1]).await;
    assert_eq!((shown.item.state.phase(), &shown.payload), (Phase::Waiting, &None));
    let waited = rot.engine.wait(ids[1], Span::ZERO).await.expect("shown");
    assert_eq!(waited.payload, None);
    assert_eq!(payloads(&rot.list(&queue).await), [Some(&b"one"[..]), None, Some(&b"three"[..])]);
    rot.engine.subscribe(ids[1], None).await.expect("its stream begins with the item as it is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_with_rotten_payloads_are_deleted_cancelled_and_cleared() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let with_facts = || NewItem { facts: Some("spoilt".into()), ..item("rotten") };
    let produced =
        rot.engine.produce(&queue, (0..4).map(|_| with_facts()).collect()).await.expect("produced");
    let ids: Vec<ItemId> = produced.results.into_iter().map(|made| made.expect("produced").id).collect();
    assert_eq!(rot.lease(&queue, 1).await[0].leased.id, ids[0]);
    assert_eq!((rot.disk.spoil(b"rotten"), rot.disk.spoil(b"spoilt")), (4, 4));
    let asked = rot.engine.cancel(ids[0]).await.expect("its worker is asked to stop").value;
    assert_eq!((asked.item.state.phase(), asked.payload, asked.facts), (Phase::Leased, None, None));
    let cancelled = rot.engine.cancel(ids[1]).await.expect("cancelled").value;
    assert_eq!((cancelled.item.state.phase(), cancelled.payload), (Phase::Cancelled, None));
    let deleted = rot.engine.delete_items(&queue, vec![ids[0], ids[2]]).await.expect("judged");
    assert!(deleted.results.into_iter().all(|result| result.is_ok()));
    let clear = Clear { waiting: true, scheduled: false, leased: false, suspended: false };
    assert_eq!(rot.engine.clear(&queue, clear).await.expect("cleared").value, 1);
    rot.engine.delete_queue(&queue, false).await.expect("it is empty");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_with_a_rotten_result_is_shown_without_it() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    rot.produce(&queue, &["sound"]).await;
    let leased = rot.lease(&queue, 1).await;
    let done = completion_with(leased[0].held(), "rotten result");
    rot.engine.complete(&queue, vec![done]).await.expect("completed");
    assert_eq!(rot.disk.spoil(b"rotten result"), 1);
    let shown = rot.get(leased[0].leased.id).await;
    assert_eq!((shown.item.state.phase(), shown.result), (Phase::Completed, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_item_made_of_a_rotten_template_fails_as_damaged() {
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let create = CreateGroup { end: end("rotten", None), items: items(1), start: true, ..group("g") };
    rot.engine.create_group(&queue, create).await.expect("the group is made");
    assert_eq!(rot.disk.spoil(b"rotten"), 1);
    let leased = rot.lease(&queue, 1).await;
    rot.engine.complete(&queue, vec![completion(leased[0].held())]).await.expect("completed");
    let end = rot.list(&queue).await.remove(0);
    assert_eq!(end.payload, None);
    assert!(rot.lease(&queue, 1).await.is_empty());
    assert!(is_damaged(&rot.get(end.id).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crons_with_rotten_payloads_make_items_that_fail_as_damaged_also_where_they_moved() {
    const CRONS: usize = 6;
    let rot = Rot::new().await;
    let queue = rot.queue("q", None).await;
    let names: Vec<String> = (0..CRONS).map(|index| format!("c{index}")).collect();
    for name in &names {
        let new = NewCron { item: item("rotten"), ..cron(name, "@every 1h") };
        rot.engine.create_cron(&queue, new).await.expect("it is made");
    }
    assert_eq!(rot.disk.spoil(b"rotten"), CRONS);
    // Some of them belong to another partition then.
    rot.engine.rebalance(&queue, 4).await.expect("three more");
    for name in &names {
        assert_eq!(rot.engine.cron(&named(name)).await.expect("shown").body, None);
        let made = rot.engine.trigger_cron(&named(name)).await.expect("triggered").value;
        assert!(rot.lease(&queue, 1).await.is_empty());
        assert!(is_damaged(&rot.get(made.id).await));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_item_with_a_rotten_input_fails_and_keeps_its_payload_in_the_dead_queue() {
    let rot = Rot::new().await;
    let (queue, dead) = (rot.queue("q", Some("dead")).await, rot.queue("dead", None).await);
    let ids = rot.produce(&queue, &["sound"]).await;
    let leased = rot.lease(&queue, 1).await;
    let suspend = SuspendItem { held: leased[0].held(), reason: None };
    rot.engine.suspend(&queue, vec![suspend]).await.expect("suspended");
    let input = Input { event: event("answered"), body: "rotten".into() };
    rot.engine.resume(ids[0], Some(input)).await.expect("resumed");
    assert_eq!(rot.disk.spoil(b"rotten"), 1);
    assert!(rot.lease(&queue, 1).await.is_empty());
    assert!(is_damaged(&rot.get(ids[0]).await));
    rot.all_moved(&queue).await;
    assert_eq!(bodies(&rot.lease(&dead, 1).await), ["sound"]);
}
