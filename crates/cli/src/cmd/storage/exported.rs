//! A line as `windlass inspect --export` prints it: an item, a queue, a group or an event under its name.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use windlass_api::storage::ImportItem;

use crate::feed::json;

type Object = BTreeMap<String, IgnoredAny>;

/// States that the server does not import.
const ENDED: [&str; 4] = ["completed", "failed", "cancelled", "expired"];

/// Sorts of lines that hold no item to import, in the order in which they are told.
pub(super) const SORTS: [&str; 4] = ["queue", "group", "event", "ended item"];

#[derive(Debug)]
pub(super) enum Exported {
    Item(Box<ImportItem>),
    /// One of [`SORTS`].
    Other(usize),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    queue: Option<Object>,
    group: Option<Object>,
    /// Of the item that has the event.
    #[serde(rename = "id")]
    _id: Option<IgnoredAny>,
    event: Option<Object>,
}

/// Reads one line of `inspect --export`. `None` for a line that it does not print.
pub(super) fn parse(line: &[u8]) -> Option<Result<Exported, String>> {
    let line: Line = serde_json::from_slice(line).ok()?;
    match (line.item, line.queue, line.group, line.event) {
        (Some(item), None, None, None) => Some(json(item.get().as_bytes()).map(of_item)),
        (None, Some(_), None, None) => Some(Ok(Exported::Other(0))),
        (None, None, Some(_), None) => Some(Ok(Exported::Other(1))),
        (None, None, None, Some(_)) => Some(Ok(Exported::Other(2))),
        _ => None,
    }
}

fn of_item(item: ImportItem) -> Exported {
    let has_ended = item.state.as_deref().is_some_and(|state| ENDED.contains(&state));
    if has_ended { Exported::Other(3) } else { Exported::Item(Box::new(item)) }
}
