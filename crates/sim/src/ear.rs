//! Hears which items a server says it lost a body of: its log is the only place that names an item which was moved without
//! its payload.

use std::fmt;
use std::sync::LazyLock;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use crate::recorder::Recorder;

struct Ear {
    /// `None` hears nothing.
    recorder: Option<Recorder>,
}

/// With only one subscriber, `tracing` may take what a thread without any says first for unwanted by all, for good.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Ear { recorder: None }));

/// Hears what is said on this thread, until the guard is dropped. A run lives on one thread.
pub(crate) fn listen(recorder: Recorder) -> DefaultGuard {
    LazyLock::force(&ANOTHER);
    tracing::subscriber::set_default(Ear { recorder: Some(recorder) })
}

impl Subscriber for Ear {
    /// Lines about a lost body name the `item` and the `damage`.
    fn enabled(&self, line: &Metadata<'_>) -> bool {
        let names = |name| line.fields().field(name).is_some();
        *line.level() == Level::ERROR && names("item") && names("damage")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::ERROR)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut item = ItemField(None);
        event.record(&mut item);
        if let (Some(recorder), ItemField(Some(item))) = (&self.recorder, item) {
            recorder.lost_body(item);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct ItemField(Option<String>);

impl Visit for ItemField {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "item" {
            self.0 = Some(format!("{value:?}"));
        }
    }
}
