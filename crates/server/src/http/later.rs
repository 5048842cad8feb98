//! What the contract names and this version does not have yet. It is refused, and the client is told why.

/// Calls, without `/v1/`.
const CALLS: &[&str] = &[
    "crons.create",
    "crons.list",
    "crons.info",
    "crons.update",
    "crons.delete",
    "crons.pause",
    "crons.resume",
    "crons.trigger",
];

pub(super) fn is_call(name: &str) -> bool {
    CALLS.contains(&name)
}
