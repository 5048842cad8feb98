//! What a worker says while it works.

use super::{Output, Partition};
use crate::command::{Emit, Emitted, Refusal, Reply};
use crate::time::Timestamp;

impl Partition {
    /// The lease stays as it is. Numbers are dense: they follow the last one whoever emitted that.
    pub(super) fn emit(&mut self, now: Timestamp, emit: Emit, out: &mut Output) -> Result<Reply, Refusal> {
        let Emit { held, after, events } = emit;
        let (entry, lease) = self.held(held, now)?;
        let last_seq = entry.event_count();
        if after.is_some_and(|after| after != last_seq) {
            return Err(Refusal::NotAfter { last_seq });
        }
        let cancel_requested = self.cancel_requested(entry, lease);
        let mut next = entry.clone();
        self.append(now, held.number, &mut next, &events, out);
        let emitted = Emitted { first_seq: last_seq + 1, last_seq: next.event_count(), cancel_requested };
        self.write(held.number, next, out);
        Ok(Reply::Emitted(emitted))
    }
}
