//! Many items gone at once: one row, whatever the backlog.

use crate::footprint::Footprint;
use crate::partition::{Output, Partition};
use crate::refusal::{Limit, Refusal};
use crate::row::{Clearable, Row};
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};

/// Takes all items away that are in the chosen states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clear {
    pub waiting: bool,
    pub scheduled: bool,
    pub leased: bool,
    pub suspended: bool,
}

/// The marker says of each era when it was cleared, until the sweep has come by: a bound, so that it stays small.
const TIMES_MAX: usize = 100;

/// Answered by the number of items that were cleared.
impl Verb for Clear {
    type Reply = u64;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.clear(now, self, out)
    }
}

impl Partition {
    fn clear(&mut self, now: Timestamp, clear: Clear, out: &mut Output) -> Result<u64, Refusal> {
        let counts = self.counts;
        let mut cleared = self.cleared.clone();
        cleared.keeps_all.retain(|of| self.in_era(*of) > 0);
        cleared.times.retain(|of, _| self.traces.contains_key(of) || cleared.keeps_all.contains(of));
        cleared.drops_payload.retain(|of| cleared.times.contains_key(of));
        let keeps_all = self.keeps_all();
        // An era says of all its items at once whether they are kept, also of those that went before.
        if self.has_gone_by_another_rule(keeps_all) {
            return Err(TOO_FAST);
        }
        let mut count = 0;
        for (chosen, items, which) in [
            // Those included that wait for the start of their group.
            (clear.waiting, counts.waiting + counts.held, Clearable::Waiting),
            (clear.scheduled, counts.scheduled, Clearable::Scheduled),
            (clear.leased, counts.leased, Clearable::Leased),
            (clear.suspended, counts.suspended, Clearable::Suspended),
        ] {
            if chosen && items > 0 {
                let era = cleared.before(which);
                *cleared.before_mut(which) = era.checked_add(1).ok_or(TOO_MANY)?;
                if keeps_all {
                    cleared.keeps_all.insert((which, era));
                }
                if keeps_all || self.traces.contains_key(&(which, era)) {
                    cleared.times.insert((which, era), now);
                    if !self.retains_cancelled() {
                        cleared.drops_payload.insert((which, era));
                    }
                }
                count += items;
            }
        }
        if cleared.times.len() > TIMES_MAX {
            return Err(TOO_FAST);
        }
        if count > 0 {
            out.totals.cancelled += count;
            self.tell_cleared(now, clear, out);
            self.record(Row::Cleared(cleared), out);
        }
        Ok(count)
    }
}

const TOO_FAST: Refusal = Refusal::TooMany { what: "clears that are still being swept up", max: TIMES_MAX };
const TOO_MANY: Refusal = Refusal::AtLimit { limit: Limit::Clears, max: u32::MAX as usize };
