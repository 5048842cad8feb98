//! The heartbeat of a lease.

use super::{Output, Partition};
use crate::command::{Extend, Extended, Held, Refusal, Reply};
use crate::item::{Lease, State};
use crate::time::{Span, Timestamp};

impl Partition {
    pub(super) fn extend(&mut self, now: Timestamp, extend: &Extend, out: &mut Output) -> Reply {
        out.changes.reserve(extend.items.len());
        let extended = extend.items.iter().map(|&held| self.extend_one(now, held, extend.lease_timeout, out));
        Reply::Extended(extended.collect())
    }

    fn extend_one(
        &mut self,
        now: Timestamp,
        held: Held,
        lease_timeout: Option<Span>,
        out: &mut Output,
    ) -> Result<Extended, Refusal> {
        let (entry, lease) = self.held(held, now)?;
        let timeout = lease_timeout.unwrap_or(lease.timeout);
        let cancel_requested = self.cancel_requested(entry, lease);
        let lease = Lease { deadline: now + timeout, timeout, ..lease.clone() };
        let extended = Extended { deadline: self.ends_at(&lease), cancel_requested };
        let next = entry.with_state(State::Leased(Box::new(lease)));
        self.write(held.number, next, out);
        out.totals.extended += 1;
        Ok(extended)
    }
}
