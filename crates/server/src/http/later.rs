//! What the contract names and this version does not have yet. It is refused, and the client is told why.

/// Calls, without `/v1/`.
const CALLS: &[&str] = &[
    "item.explain",
    "item.emit",
    "item.events",
    "item.close_streams",
    "item.resume",
    "queue.suspend",
    "queue.rebalance",
    "queue.pause",
    "queue.resume",
    "queue.block",
    "queue.unblock",
    "rules.list",
];

/// `partitions` where a queue is changed.
const FIELDS: &[&str] = &["partitions"];

pub(super) fn is_call(name: &str) -> bool {
    CALLS.contains(&name)
}

/// The field that a decoder complained about, if it is one of these.
pub(super) fn field_in(complaint: &str) -> Option<&'static str> {
    let unknown = complaint.strip_prefix("unknown field `")?.split('`').next()?;
    FIELDS.iter().copied().find(|field| *field == unknown)
}
