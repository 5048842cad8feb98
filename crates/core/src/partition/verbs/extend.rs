//! The heartbeat of a lease.

use crate::footprint::Footprint;
use crate::item::{Lease, State};
use crate::limits::{Invalid, check_batch, check_lease_timeout};
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::time::{Span, Timestamp};
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};
use crate::verbs::Held;

/// Extends leases.
#[derive(Clone, Debug)]
pub struct Extend {
    /// Unset: the timeout each lease has.
    pub lease_timeout: Option<Span>,
    pub items: Vec<Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    pub deadline: Timestamp,
    pub cancel_requested: bool,
}

impl Verb for Extend {
    type Reply = Each<Extended>;
    const FOOTPRINT: Footprint = Footprint::Rewrites;
    const URGENCY: Urgency = Urgency::Settling;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("items", self.items.len())?;
        self.lease_timeout.map_or(Ok(()), check_lease_timeout)
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        let Self { items, lease_timeout } = self;
        out.changes.reserve(items.len());
        Ok(items.into_iter().map(|held| partition.extend_one(now, held, lease_timeout, out)).collect())
    }
}

impl Partition {
    pub(in crate::partition) fn extend_one(
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
        self.write(held.id.number, next, out);
        out.totals.extended += 1;
        Ok(extended)
    }
}
