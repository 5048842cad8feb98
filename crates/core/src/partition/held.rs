//! The one right to an item: its permit.

use super::Partition;
use super::entry::Entry;
use crate::id::{ItemId, Permit};
use crate::item::{Extras, Lease, LeaseEnd, State};
use crate::mutant::{self, Mutant};
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// An item and the permit its caller believes to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub id: ItemId,
    pub permit: Permit,
}

impl Partition {
    /// Proves that the permit holds, and gives what it is the right to.
    pub(super) fn held(&self, held: Held, now: Timestamp) -> Result<(&Entry, &Lease), Refusal> {
        // Another partition may have an item of the same number.
        if held.id.partition != self.id {
            return Err(Refusal::NotFound);
        }
        let entry = self.items.get(&held.id.number).filter(|entry| !entry.state.is_forgotten());
        let entry = entry.ok_or(Refusal::NotFound)?;
        if self.is_gone(entry) {
            let left = self.left_of_gone(held.id.number).ok_or(Refusal::NotFound)?;
            return Err(Refusal::LeaseLost { reason: lost_because(left.extras.as_deref(), held) });
        }
        match &entry.state {
            State::Leased(lease) if lease.permit == held.permit || mutant::active(Mutant::IgnorePermit) => {
                // Whether or not the sweep has come by: a permit must not work longer on a busy server.
                if self.ends_at(lease) <= now && !mutant::active(Mutant::IgnoreDeadline) {
                    return Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Expired) });
                }
                Ok((entry, lease))
            }
            State::Leased(_)
            | State::Scheduled { .. }
            | State::Waiting { .. }
            | State::Suspended(_)
            | State::Final(_) => {
                Err(Refusal::LeaseLost { reason: lost_because(entry.extras.as_deref(), held) })
            }
        }
    }
}

/// Known for the item's latest ended lease; older permits, and ones never given, have no reason.
fn lost_because(extras: Option<&Extras>, held: Held) -> Option<LeaseEnd> {
    let last = extras?.last_lease.as_ref()?;
    (last.permit == held.permit && last.permit != Permit::NONE).then_some(last.end)
}
