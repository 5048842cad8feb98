//! Work that is not wanted any more.

use super::{Output, Partition};
use crate::command::{Refusal, Reply};
use crate::id::ItemNumber;
use crate::item::{End, Lease, Phase, State};
use crate::time::Timestamp;

impl Partition {
    /// An item nobody works on ends at once. A worker is asked to stop and may still complete it; otherwise the item
    /// ends when it is given up. A cancel again, or of what is final, changes nothing.
    pub(super) fn cancel(
        &mut self,
        now: Timestamp,
        number: ItemNumber,
        out: &mut Output,
    ) -> Result<Reply, Refusal> {
        let entry = self.visible(number).ok_or(Refusal::NotFound)?;
        match &entry.state {
            State::Scheduled { .. } | State::Waiting => {
                let last = entry.clone();
                self.finish(now, number, last, End::Cancelled, out);
                Ok(Reply::Cancelled(Phase::Cancelled))
            }
            State::Leased(lease) => {
                if !lease.cancel_requested {
                    let asked = Lease { cancel_requested: true, ..Lease::clone(lease) };
                    let next = entry.with_state(State::Leased(Box::new(asked)));
                    self.write(number, next, out);
                }
                Ok(Reply::Cancelled(Phase::Leased))
            }
            State::Final(_) => Ok(Reply::Cancelled(entry.state.phase())),
        }
    }
}
