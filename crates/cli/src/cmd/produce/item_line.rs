//! A line of stdin as an item to produce.

use windlass_api::items::NewItem;

use crate::feed::{json, one_payload};

/// The flags hold for items that do not say otherwise.
pub(crate) fn parse(line: &[u8], defaults: &NewItem) -> Result<NewItem, String> {
    let item: NewItem = json(line)?;
    one_payload([item.json.is_some(), item.utf8.is_some(), item.bytes.is_some()])?;
    Ok(with_defaults(item, defaults))
}

fn with_defaults(item: NewItem, defaults: &NewItem) -> NewItem {
    let mut headers = defaults.headers.clone();
    headers.extend(item.headers);
    // A line that says when its item is due says all of that.
    let (enqueue_at, delay) = match (item.enqueue_at, item.delay) {
        (None, None) => (defaults.enqueue_at, defaults.delay),
        given => given,
    };
    NewItem {
        kind: item.kind.or_else(|| defaults.kind.clone()),
        priority: item.priority.or(defaults.priority),
        enqueue_at,
        delay,
        max_attempts: item.max_attempts.or(defaults.max_attempts),
        dead_timeout: item.dead_timeout.or(defaults.dead_timeout),
        group: item.group.or_else(|| defaults.group.clone()),
        reference: item.reference.or_else(|| defaults.reference.clone()),
        headers,
        ..item
    }
}
