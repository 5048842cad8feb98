//! Items of which somebody wants to hear everything. Of all others nothing is told.

use crate::id::ItemNumber;
use crate::item::{Item, State};
use crate::mutant::{self, Mutant};
use crate::news::{Changed, News};
use crate::partition::entry::Entry;
use crate::partition::groups::index::GroupIndex;
use crate::partition::{Output, Partition};
use crate::time::Timestamp;

impl Partition {
    /// The item as it can be seen. If it lives, each of its changes of state and all its events will be told as news of the
    /// verb that brings them, and its end once, as that of one that is watched. An input like time.
    pub fn follow(&mut self, number: ItemNumber) -> Option<Item> {
        let item = self.get(number)?;
        if !item.state.phase().is_final() {
            self.followed.insert(number);
        }
        Some(item)
    }

    /// Nobody wants to hear of it any more.
    pub fn unfollow(&mut self, number: ItemNumber) {
        self.followed.remove(&number);
    }

    /// Called before the item is written. Its end is told by another way.
    pub(in crate::partition) fn tell_change(&self, number: ItemNumber, next: &Entry, out: &mut Output) {
        if !self.followed.contains(&number) || matches!(next.state, State::Final(_)) {
            return;
        }
        let Some(before) = self.items.get(&number) else { return };
        let hides = mutant::active(Mutant::HideSuspended) && matches!(next.state, State::Suspended(_));
        let shifted = self.phase(before) != self.phase(next) && !hides;
        if shifted || before.event_count() != next.event_count() {
            out.news.push(News::Changed(Box::new(self.changed(number, next, shifted, out.now))));
        }
    }

    /// Members that are followed and were held wait from now on. To be called once their group is started.
    pub(in crate::partition) fn tell_started(&self, now: Timestamp, group: GroupIndex, out: &mut Output) {
        let followed = self.followed.iter().filter_map(|number| Some((*number, self.items.get(number)?)));
        let members = followed.filter(|(_, entry)| entry.group == Some(group));
        let waiting = members.filter(|(_, entry)| matches!(entry.state, State::Waiting { .. }));
        let told = waiting.map(|(number, entry)| self.changed(number, entry, true, now));
        out.news.extend(told.map(|changed| News::Changed(Box::new(changed))));
    }

    fn changed(&self, number: ItemNumber, entry: &Entry, shifted: bool, at: Timestamp) -> Changed {
        let reason = match &entry.state {
            State::Suspended(suspension) => suspension.reason.clone(),
            State::Waiting { .. } | State::Scheduled { .. } | State::Leased(_) | State::Final(_) => None,
        };
        Changed { number, phase: self.phase(entry), shifted, reason, at, event_count: entry.event_count() }
    }
}
