//! What a worker says while it works.

use crate::event::NewEvent;
use crate::footprint::Footprint;
use crate::limits::{Invalid, check_emit};
use crate::partition::{Output, Partition};
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};
use crate::verbs::Held;

/// Appends to the events of a leased item.
#[derive(Clone, Debug)]
pub struct Emit {
    pub held: Held,
    /// Refused unless this is the number of the last event: so that sending again is safe.
    pub after: Option<u64>,
    pub events: Vec<NewEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted {
    pub first_seq: u64,
    pub last_seq: u64,
    pub cancel_requested: bool,
}

impl Verb for Emit {
    type Reply = Emitted;
    const FOOTPRINT: Footprint = Footprint::Grows;
    const URGENCY: Urgency = Urgency::Settling;

    fn check(&self) -> Result<(), Invalid> {
        check_emit(self.events.len())
    }

    fn body_bytes(&self) -> usize {
        self.events.iter().map(|event| event.content.len()).sum()
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.emit(now, self, out)
    }
}

impl Partition {
    /// The lease stays as it is. Numbers are dense: they follow the last one whoever emitted that.
    fn emit(&mut self, now: Timestamp, emit: Emit, out: &mut Output) -> Result<Emitted, Refusal> {
        let Emit { held, after, events } = emit;
        let (entry, lease) = self.held(held, now)?;
        let last_seq = entry.event_count();
        if after.is_some_and(|after| after != last_seq) {
            return Err(Refusal::NotAfter { last_seq });
        }
        let cancel_requested = self.cancel_requested(entry, lease);
        let mut next = entry.clone();
        self.append(now, held.id.number, &mut next, &events, out);
        let emitted = Emitted { first_seq: last_seq + 1, last_seq: next.event_count(), cancel_requested };
        self.write(held.id.number, next, out);
        Ok(emitted)
    }
}
