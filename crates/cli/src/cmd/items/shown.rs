//! Items in a table.

use windlass_api::Time;
use windlass_api::items::{Item, ItemError};

use crate::human::relative;
use crate::payload;
use crate::table::Align::{self, Left, Right};
use crate::table::Table;

type Column<'a> = (&'static str, Align, Box<dyn Fn(&Item) -> Option<String> + 'a>);

/// Columns that are cut to make a table fit a terminal, with their least widths.
const CUT: [(&str, usize); 6] =
    [("KIND", 8), ("ADDRESS", 8), ("FROM", 8), ("ERROR", 30), ("RESULT", 10), ("PAYLOAD", 10)];

/// Columns that are left out of a table that is too wide for a terminal, the first of them first.
const DROPPED: [&str; 9] =
    ["CHANGED", "CREATED", "PRIORITY", "ATTEMPTS", "KIND", "ADDRESS", "PARTITION", "DUE", "FROM"];

/// The place column: none for one queue, QUEUE for all queues, PARTITION for storage lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Nothing,
    Queue,
    Partition,
}

/// Empty columns are left out, and so are PRIORITY and ATTEMPTS if they are 0 everywhere. `width` is that of the terminal, if
/// the table is for one.
pub(crate) fn table(items: &[Item], now: Time, place: Place, width: Option<usize>) -> String {
    if items.is_empty() {
        return String::new();
    }
    let has_priorities = items.iter().any(|item| item.priority != 0);
    let has_attempts = items.iter().any(|item| item.attempts != 0);
    let mut columns: Vec<Column<'_>> = vec![
        ("ID", Left, Box::new(|item| Some(item.id.clone()))),
        ("QUEUE", Left, Box::new(|item| Some(item.queue.clone()).filter(|_| place == Place::Queue))),
        (
            "PARTITION",
            Right,
            Box::new(|item| Some(item.partition.to_string()).filter(|_| place == Place::Partition)),
        ),
        ("STATE", Left, Box::new(|item| Some(item.state.clone()))),
        ("KIND", Left, Box::new(|item| Some(item.kind.clone()))),
        ("PRIORITY", Right, Box::new(|item| Some(item.priority.to_string()).filter(|_| has_priorities))),
        ("ATTEMPTS", Right, Box::new(|item| Some(item.attempts.to_string()).filter(|_| has_attempts))),
        ("CREATED", Left, Box::new(move |item| Some(relative(item.created_at, now)))),
        ("CHANGED", Left, Box::new(move |item| Some(relative(item.changed_at, now)))),
        ("DUE", Left, Box::new(move |item| item.enqueue_at.map(|due| relative(due, now)))),
        ("ADDRESS", Left, Box::new(|item| item.address.clone())),
        ("FROM", Left, Box::new(from)),
        ("ERROR", Left, Box::new(error)),
        ("RESULT", Left, Box::new(result)),
        ("PAYLOAD", Left, Box::new(payload_of)),
    ];
    columns.retain(|(_, _, cell)| items.iter().any(|item| cell(item).is_some()));
    let headings: Vec<_> = columns.iter().map(|(name, align, _)| (*name, *align)).collect();
    let mut table = Table::new(&headings);
    for item in items {
        table.row(columns.iter().map(|(_, _, cell)| cell(item).unwrap_or_else(|| "-".into())));
    }
    // Storage lists always have payloads; elsewhere they were asked for.
    let payload = (place == Place::Partition).then_some("PAYLOAD");
    let dropped: Vec<_> = DROPPED.into_iter().chain(payload).collect();
    table.show_within(width, &CUT, &dropped)
}

/// The queue that it was moved from.
fn from(item: &Item) -> Option<String> {
    item.origin.as_ref().map(|origin| origin.queue.clone())
}

/// The item's own error; without one, the error in its origin (a dead letter that nobody tried yet).
fn error(item: &Item) -> Option<String> {
    let there = || item.origin.as_ref().and_then(|origin| origin.error.as_ref());
    item.error.as_ref().or_else(there).map(error_of)
}

pub(crate) fn error_of(error: &ItemError) -> String {
    let code = error.code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default();
    format!("{code}{}", error.message)
}

fn result(item: &Item) -> Option<String> {
    let result = item.result.as_ref()?;
    Some(payload::shown(result.json.as_deref(), result.utf8.as_deref(), result.bytes.as_deref()))
}

fn payload_of(item: &Item) -> Option<String> {
    let has_one = item.json.is_some() || item.utf8.is_some() || item.bytes.is_some();
    has_one.then(|| payload::shown(item.json.as_deref(), item.utf8.as_deref(), item.bytes.as_deref()))
}
