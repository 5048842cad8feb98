//! Many items gone at once: one row, whatever the backlog.

use super::{Output, Partition};
use crate::command::{Clear, Refusal, Reply};
use crate::row::Row;

impl Partition {
    pub(super) fn clear(&mut self, clear: Clear, out: &mut Output) -> Result<Reply, Refusal> {
        let counts = self.counts;
        let mut cleared = self.cleared.clone();
        let mut count = 0;
        for (chosen, items, before) in [
            (clear.waiting, counts.waiting, &mut cleared.waiting_before),
            (clear.scheduled, counts.scheduled, &mut cleared.scheduled_before),
            (clear.leased, counts.leased, &mut cleared.leased_before),
        ] {
            if chosen && items > 0 {
                *before = before.checked_add(1).ok_or(TOO_MANY)?;
                count += items;
            }
        }
        if count > 0 {
            out.totals.cancelled += count;
            self.record(Row::Cleared(cleared), out);
        }
        Ok(Reply::Cleared { count })
    }
}

const TOO_MANY: Refusal = Refusal::TooMany { what: "clears of a partition", max: u32::MAX as usize };
