//! What a batch of a partition comes to once it is durable, beside its answers.

use windlass_core::news::{Changed, Died, Ended, News};
use windlass_core::partition::{Partition, Totals};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::Held;

use crate::machine;
use crate::partition::handle::Handle;
use crate::partition::places::Reserved;

#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) totals: Totals,
    /// How long each item that was leased had waited.
    pub(crate) waited: Vec<Span>,
    /// The places of what it produced.
    pub(crate) reserved: Vec<Reserved>,
    /// Items that ended badly and go nowhere.
    pub(crate) died: Vec<Died>,
    /// Items that ended while somebody waited for it.
    pub(crate) ended: Vec<Ended>,
    /// What happened to items that are followed, numbered.
    pub(crate) changed: Vec<(u64, Changed)>,
    /// Some item is on its way to another queue, or a cron to another partition.
    pub(crate) outgoing: bool,
    /// Grants that nobody took, released in this batch.
    releases: Vec<Held>,
}

impl Effects {
    pub(super) fn release(&mut self, releases: &[Held]) {
        self.releases.extend_from_slice(releases);
    }
}

impl machine::Effects<Partition> for Effects {
    fn note(&mut self, handle: &Handle, news: Vec<News>, totals: Totals, mut waited: Vec<Span>) {
        self.totals += totals;
        if self.waited.is_empty() {
            self.waited = waited;
        } else {
            self.waited.append(&mut waited);
        }
        for news in news {
            match news {
                News::Available => {}
                News::Outgoing => self.outgoing = true,
                News::Died(died) => self.died.push(*died),
                News::Ended(ended) => self.ended.push(*ended),
                News::Changed(changed) => self.changed.push((handle.streams.next_told(), *changed)),
            }
        }
    }

    fn reserve(&mut self, places: Reserved) {
        self.reserved.push(places);
    }

    fn take_effect(&mut self, handle: &Handle, at: Timestamp, is_durable: bool) {
        if !is_durable {
            // Nothing was made: every item was refused by itself.
            self.reserved.clear();
        }
        handle.took_effect(self, at);
    }

    fn concern_others(&self) -> bool {
        !self.changed.is_empty() || !self.ended.is_empty()
    }

    fn tell(&self, handle: &Handle) {
        handle.tell(self);
    }

    /// The places are free before a caller hears of it, who may try again at once and need them.
    fn forget(&mut self) {
        *self = Self { releases: std::mem::take(&mut self.releases), ..Self::default() };
    }

    /// What the batch released is still leased.
    fn undo(self, handle: &Handle) {
        handle.give_back(self.releases);
    }

    fn give_back(self, handle: &Handle, granted: Vec<Held>) {
        handle.give_back(granted);
    }
}
