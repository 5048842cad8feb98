//! The one right to an item: its permit.

use super::Partition;
use super::entry::Entry;
use crate::command::{Held, Refusal};
use crate::item::{Lease, LeaseEnd, State};
use crate::mutant::{self, Mutant};
use crate::time::Timestamp;

impl Partition {
    /// Proves that the permit holds, and gives what it is the right to.
    pub(super) fn held(&self, held: Held, now: Timestamp) -> Result<(&Entry, &Lease), Refusal> {
        let entry = self.items.get(&held.number).filter(|entry| !entry.state.is_forgotten());
        let entry = entry.ok_or(Refusal::NotFound)?;
        let cleared = self.was_cleared(entry);
        match &entry.state {
            State::Leased(lease) if lease.permit == held.permit || mutant::active(Mutant::IgnorePermit) => {
                if cleared {
                    return Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Cancelled) });
                }
                // Whether or not the sweep has come by: a permit must not work longer on a busy server.
                if self.ends_at(lease) <= now && !mutant::active(Mutant::IgnoreDeadline) {
                    return Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Expired) });
                }
                Ok((entry, lease))
            }
            State::Leased(_) | State::Scheduled { .. } | State::Waiting if cleared => Err(Refusal::NotFound),
            State::Leased(_) | State::Scheduled { .. } | State::Waiting | State::Final(_) => {
                Err(Refusal::LeaseLost { reason: lost_because(entry, held) })
            }
        }
    }
}

/// Known for the item's latest ended lease; older permits, and ones never given, have no reason.
fn lost_because(entry: &Entry, held: Held) -> Option<LeaseEnd> {
    let (permit, end) = entry.extras.as_ref()?.last_lease?;
    (permit == held.permit).then_some(end)
}
