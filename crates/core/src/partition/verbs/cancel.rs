//! Work that is not wanted any more.

use crate::footprint::Footprint;
use crate::group::Member;
use crate::id::ItemNumber;
use crate::item::{End, Item, Lease, State};
use crate::partition::{Output, Partition};
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};

#[derive(Clone, Copy, Debug)]
pub struct Cancel(pub ItemNumber);

/// Answers [`Cancel`]: the item after the cancel, also when nothing of it is kept. It is cancelled, or still leased with the
/// request noted, or as it ended before.
#[derive(Clone, Debug, PartialEq)]
pub struct Cancelled {
    pub item: Item,
    pub member: Option<Member>,
}

impl Verb for Cancel {
    type Reply = Cancelled;
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.cancel(now, self.0, out)
    }
}

impl Partition {
    /// An item nobody works on ends at once. A worker is asked to stop and may still complete it; otherwise the item
    /// ends when it is given up. A cancel again, or of what is final, changes nothing.
    fn cancel(&mut self, now: Timestamp, number: ItemNumber, out: &mut Output) -> Result<Cancelled, Refusal> {
        let Some(entry) = self.visible(number) else {
            let left = self.left_of_gone(number).ok_or(Refusal::NotFound)?;
            let member = self.member(&left);
            return Ok(Cancelled { item: left, member });
        };
        // Before nothing of it is left.
        let member = self.member_of(entry).map(|member| Member { held: false, ..member });
        let item = match &entry.state {
            State::Scheduled { .. } | State::Waiting { .. } | State::Suspended(_) => {
                let last = entry.clone();
                // Told as it ended, whether or not anything of it is kept.
                let state = self.ended(now, number, &last, End::Cancelled, None);
                let item = Item { era: self.cleared.era(&state), state, ..self.item(number, &last) };
                self.finish(now, number, last, End::Cancelled, out);
                item
            }
            State::Leased(lease) if !self.cancel_requested(entry, lease) => {
                let asked = Lease { cancel_requested: true, ..Lease::clone(lease) };
                let next = entry.with_state(State::Leased(Box::new(asked)));
                let item = self.in_force(number, &next);
                self.write(number, next, out);
                item
            }
            State::Leased(_) | State::Final(_) => self.in_force(number, entry),
        };
        Ok(Cancelled { item, member })
    }
}
