//! What the engine logs of items that nobody will work on any more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Metadata, Subscriber};
use windlass_core::command::NewItem;
use windlass_core::settings::Settings;
use windlass_core::time::Span;

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

// On one thread, so that the subscriber hears all of it and nothing else.
#[tokio::test]
async fn an_item_that_dies_without_a_dead_queue_is_told_once_and_in_full() {
    let (ear, _listening) = Ear::listening();
    let world = World::new(Medium::memory()).await;
    let queue = world.queue("q", 1, Settings { max_attempts: 1, ..Settings::default() }).await;
    let mail = NewItem { kind: "mail".into(), ..item("fails") };
    let old = NewItem { dead_timeout: Some(Span::from_secs(5)), ..item("expires") };
    let ids = world.produce(&queue, vec![mail, old]).await;
    world.lease(&queue, 1).await;
    for _ in 0..2 {
        world.env.advance(Duration::from_secs(61));
        world.engine().stats(&queue).await.expect("stats");
    }
    let line = |id: windlass_core::id::ItemId, message: &str, kind: &str, attempts: &str, reason: &str| {
        let fields = [
            ("message", message.to_owned()),
            ("queue", "q".to_owned()),
            ("item", id.to_string()),
            ("kind", kind.to_owned()),
            ("attempts", attempts.to_owned()),
            ("reason", reason.to_owned()),
        ];
        Line::from(fields.map(|(name, value)| (name.to_owned(), value)))
    };
    let mut heard = ear.lines_about_items();
    heard.sort();
    let expected = [
        line(ids[1], "item expired", "default", "0", "expired"),
        line(ids[0], "item failed", "mail", "1", "attempts"),
    ];
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(heard, expected);
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
    assert_eq!(world.engine().stats(&queue).await.expect("stats").moving, 1);
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
