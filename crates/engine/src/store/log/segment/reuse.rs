//! Which segments may be written over.

use std::sync::Arc;

use super::Segment;
use crate::store::log::tables::Tables;

impl Tables {
    /// Takes out the segments that nobody needs: nothing lives in them, durably so, no recovery would read them, and
    /// nobody is reading them now. Tells also how many are kept for readers alone.
    pub(crate) fn take_free(&mut self) -> (Vec<Arc<Segment>>, usize) {
        if self.frozen {
            return (Vec::new(), 0);
        }
        self.something_died = false;
        let keeps_below = self.keeps_below();
        let unneeded: Vec<u32> = self
            .slots
            .iter()
            .filter(|(number, slot)| {
                slot.live_bytes == 0
                    && !slot.retired
                    && slot.dead_since <= self.synced
                    && slot.generation >= keeps_below
                    && !self.in_chain(**number)
            })
            .map(|(number, _)| *number)
            .collect();
        let (unread, read): (Vec<u32>, Vec<u32>) =
            unneeded.into_iter().partition(|number| self.slots[number].segment.is_unread());
        let free = unread.iter().filter_map(|number| self.slots.remove(number)).map(|slot| slot.segment);
        (free.collect(), read.len())
    }
}
