//! Work taken away from its worker.

use super::death::Death;
use super::{Output, Partition};
use crate::command::{Held, Refusal, Reply};
use crate::item::{LeaseEnd, State};
use crate::time::Timestamp;

impl Partition {
    pub(super) fn revoke(&mut self, now: Timestamp, items: &[Held], out: &mut Output) -> Reply {
        out.changes.reserve(items.len());
        Reply::Done(items.iter().map(|&held| self.revoke_one(now, held, out)).collect())
    }

    /// As if the lease had expired, but always back to its own place: it was not the item's fault.
    fn revoke_one(&mut self, now: Timestamp, held: Held, out: &mut Output) -> Result<(), Refusal> {
        let (entry, lease) = self.held(held, now)?;
        out.totals.revoked += 1;
        let cancelled = self.cancel_requested(entry, lease);
        let next = entry.after_lease(lease, LeaseEnd::Revoked, State::Waiting);
        if let Some(next) = self.after_charged(now, held.number, next, cancelled, Death::Revoked, out) {
            self.write(held.number, next, out);
        }
        Ok(())
    }
}
