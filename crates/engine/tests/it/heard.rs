//! What the engine logs of items that nobody will work on any more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Metadata, Subscriber};
use windlass_core::id::ItemId;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{NewItem, RetryItem};

use crate::behaviour::retry_item;
use crate::world::{Medium, World, item};

pub(crate) type Line = BTreeMap<String, String>;

/// Keeps every line in memory.
#[derive(Clone, Default)]
pub(crate) struct Ear(Arc<Mutex<Vec<Line>>>);

struct Fields<'a>(&'a mut Line);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Ear {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::new();
        event.record(&mut Fields(&mut line));
        self.0.lock().expect("not poisoned").push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// With only one subscriber, what other threads without any say first is taken for unwanted by all, for good.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Ear::default()));

impl Ear {
    /// Hears what this thread says, until the guard is dropped.
    pub(crate) fn listening() -> (Self, DefaultGuard) {
        LazyLock::force(&ANOTHER);
        let ear = Self::default();
        let guard = tracing::subscriber::set_default(ear.clone());
        (ear, guard)
    }

    /// The one line with this message.
    pub(crate) fn line(&self, message: &str) -> Line {
        let lines = self.0.lock().expect("not poisoned");
        let mut said = lines.iter().filter(|line| line.get("message").is_some_and(|said| said == message));
        let line = said.next().unwrap_or_else(|| panic!("{message:?} was not said in {lines:?}")).clone();
        assert_eq!(said.next(), None, "said twice");
        line
    }

    fn lines_about_items(&self) -> Vec<Line> {
        let lines = self.0.lock().expect("not poisoned");
        lines.iter().filter(|line| line.contains_key("item")).cloned().collect()
    }
}

/// Lets the other tasks of this thread have their turns.
async fn others_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Produces items and has them given up, one after the other.
async fn fail(world: &World, queue: &QueueName, items: Vec<NewItem>) -> Vec<ItemId> {
    let ids = world.produce(queue, items).await;
    let leased = world.lease(queue, ids.len()).await;
    for item in leased {
        let given_up = RetryItem { dead: true, ..retry_item(&item) };
        world.engine().retry(queue, vec![given_up]).await.expect("retried");
        others_run().await;
    }
    ids
}

fn seen(line: &Line, fields: &[&str]) -> Vec<String> {
    fields.iter().map(|field| line[*field].clone()).collect()
}

// These tests run on one thread, so that the subscriber hears all of it and nothing else.
#[tokio::test]
async fn an_item_that_dies_without_a_dead_queue_is_logged_in_full() {
    let (ear, _listening) = Ear::listening();
    let world = World::new(Medium::memory()).await;
    let queue = world.queue("q", 1, Settings { max_attempts: 1, ..Settings::default() }).await;
    let mail = NewItem { kind: "mail".into(), ..item("fails") };
    let old = NewItem { dead_timeout: Some(Span::from_secs(5)), ..item("expires") };
    let ids = world.produce(&queue, vec![mail, old]).await;
    world.lease(&queue, 1).await;
    for _ in 0..2 {
        world.env.advance(Duration::from_secs(61));
        world.stats(&queue).await;
        others_run().await;
    }
    let mut heard: Vec<_> = ear
        .lines_about_items()
        .iter()
        .map(|line| seen(line, &["message", "queue", "item", "kind", "attempts", "reason", "count"]))
        .collect();
    heard.sort();
    let (failed, expired) = (ids[0].to_string(), ids[1].to_string());
    let expected = [
        ["items expired", "q", &expired, "default", "0", "expired", "1"],
        ["items failed", "q", &failed, "mail", "1", "attempts", "1"],
    ];
    assert_eq!(heard, expected);
}

#[tokio::test]
async fn deaths_after_the_first_are_summed_up_for_ten_seconds_and_at_the_end() {
    let (ear, _listening) = Ear::listening();
    let world = World::new(Medium::memory()).await;
    let queue = world.queue("q", 1, Settings::default()).await;
    let ids = fail(&world, &queue, (0..30).map(|_| item("given up")).collect()).await;
    let counts =
        || -> Vec<_> { ear.lines_about_items().iter().map(|line| seen(line, &["count", "item"])).collect() };
    let mut expected = vec![["1".to_owned(), ids[0].to_string()]];
    assert_eq!(counts(), expected);
    world.env.advance(Duration::from_secs(10));
    others_run().await;
    expected.push(["29".to_owned(), ids[29].to_string()]);
    assert_eq!(counts(), expected);
    let last = fail(&world, &queue, vec![item("given up"), item("given up")]).await;
    world.engine().close().await;
    expected.push(["2".to_owned(), last[1].to_string()]);
    assert_eq!(counts(), expected);
}

#[tokio::test]
async fn deaths_of_many_kinds_are_logged_in_a_bounded_number_of_lines() {
    let (ear, _listening) = Ear::listening();
    let world = World::new(Medium::memory()).await;
    let queue = world.queue("q", 1, Settings::default()).await;
    fail(&world, &queue, vec![item("the first is logged alone")]).await;
    let kinds = (0..60).map(|kind| NewItem { kind: format!("kind {kind}").into(), ..item("given up") });
    fail(&world, &queue, kinds.collect()).await;
    world.env.advance(Duration::from_secs(10));
    others_run().await;
    assert_eq!(ear.lines_about_items().len(), 1 + 50);
    assert_eq!(ear.line("items of further queues or kinds failed or expired")["count"], "10");
}

#[tokio::test]
async fn an_item_that_goes_to_a_dead_queue_is_not_told() {
    let (ear, _listening) = Ear::listening();
    let world = World::new(Medium::memory()).await;
    let settings = Settings { max_attempts: 1, dead_queue: Some("dead".into()), ..Settings::default() };
    let queue = world.queue("q", 1, settings).await;
    world.produce(&queue, vec![item("fails")]).await;
    world.lease(&queue, 1).await;
    world.env.advance(Duration::from_secs(61));
    assert_eq!(world.stats(&queue).await.moving, 1);
    others_run().await;
    assert_eq!(ear.lines_about_items(), Vec::<Line>::new());
}

#[tokio::test]
async fn unclaimed_partitions_are_told_in_one_line_of_each_start() {
    let world = World::new(Medium::memory()).await;
    let queue = world.queue("q", 3, Settings::default()).await;
    world.produce(&queue, vec![item("kept")]).await;
    let ear = Ear::default();
    let _listening = tracing::subscriber::set_default(ear.clone());
    world.lose_registry().await;
    let about_unclaimed = || -> Vec<Line> {
        let lines = ear.0.lock().expect("not poisoned");
        lines.iter().filter(|line| line["message"].contains("unclaimed")).cloned().collect()
    };
    let heard = about_unclaimed();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(
        (&*heard[0]["store"], &*heard[0]["count"], &*heard[0]["partitions"]),
        ("default", "3", "[1, 2, 3]")
    );
    assert!(heard[0]["message"].contains("windlass storage unclaimed"), "{heard:?}");
    world.restart().await;
    assert_eq!(about_unclaimed().len(), 2);
}
