//! [`Machine`]: a deterministic state machine over rows. There are two: a [`Partition`](crate::partition::Partition) has
//! items, the [`Registry`](crate::registry::Registry) knows which queues there are.

use crate::news::News;
use crate::partition::Totals;
use crate::refusal::Refusal;
use crate::row::{BodyCopy, Change, Key, Row};
use crate::time::{Span, Timestamp};
use crate::verb::Verb;

/// A state machine whose rows are durable: whatever it knows can be rebuilt from [`Machine::rows`].
pub trait Machine: Sized + Send + 'static {
    /// Where a verb notes what it does while it is carried out.
    type Output;

    /// Takes a row in, in place of the one under the same key. A row that only the other machine writes is ignored.
    fn put(&mut self, row: Row);

    fn remove(&mut self, key: &Key);

    /// Everything durable, in the order of keys. For tests, checks and exports.
    fn rows(&self) -> impl Iterator<Item = Row>;

    /// Carries the verb out, or refuses it and changes nothing. The changes are in force here at once; the caller of
    /// `apply` makes them durable before anybody hears of them.
    fn apply<V: Verb<Self>>(&mut self, now: Timestamp, verb: V) -> Applied<V::Reply>;

    /// Acts on what time has brought, up to `limit` things. Answered by their number.
    fn sweep(&mut self, now: Timestamp, limit: usize) -> Applied<usize>;

    /// When [`Machine::sweep`] next has something to do.
    fn next_due(&self) -> Option<Timestamp>;

    /// Takes in one step of durable state. Bodies are the store's alone.
    fn restore(&mut self, change: Change) {
        match change {
            Change::Put(row) => self.put(row),
            Change::Remove(key) => self.remove(&key),
            Change::PutBody { .. } | Change::RemoveBody { .. } => {}
        }
    }
}

/// The outcome of a verb.
#[derive(Debug)]
pub struct Applied<R> {
    /// For the caller, once the changes are durable. A refusal has no changes.
    pub reply: Result<R, Refusal>,
    pub changes: Vec<Change>,
    /// Part of the changes, and to be carried out before them.
    pub copies: Vec<BodyCopy>,
    pub news: Vec<News>,
    pub totals: Totals,
    /// How long each item that was leased had waited.
    pub waited: Vec<Span>,
}
