//! Items that somebody waits for the end of. Of all others nothing is told, so that a million of them end at no cost.

use bytes::Bytes;

use crate::group::Member;
use crate::id::ItemNumber;
use crate::item::{Item, Outcome, State};
use crate::news::{Ended, News};
use crate::partition::entry::Entry;
use crate::partition::groups::index::GroupIndex;
use crate::partition::index::standing::Gone;
use crate::partition::{Output, Partition};
use crate::row::Clearable;
use crate::time::Timestamp;
use crate::verbs::Clear;

impl Partition {
    /// The item as it can be seen. If it lives, its end will be told once, as news of the verb that brings it. An
    /// input like time: in no row, and to be said again to a partition that was read back.
    pub fn watch(&mut self, number: ItemNumber) -> Option<Item> {
        let item = self.get(number)?;
        if !item.state.phase().is_final() {
            self.watched.insert(number);
        }
        Some(item)
    }

    /// Nobody waits for its end any more.
    pub fn unwatch(&mut self, number: ItemNumber) {
        self.watched.remove(&number);
    }

    pub(in crate::partition) fn is_watched(&self, number: ItemNumber) -> bool {
        self.watched.contains(&number) || self.followed.contains(&number)
    }

    /// `last` is the item as it was last seen; its state does not matter any more.
    pub(in crate::partition) fn tell_end(
        &mut self,
        number: ItemNumber,
        last: &Entry,
        outcome: Outcome,
        result: Option<&Bytes>,
        out: &mut Output,
    ) {
        let watched = self.watched.remove(&number);
        if !self.followed.remove(&number) && !watched {
            return;
        }
        let state = State::Final(Box::new(outcome));
        let item = Item { era: self.cleared.era(&state), state, ..self.item(number, last) };
        let member = self.member_of(last).map(|member| Member { held: false, ..member });
        out.news.push(News::Ended(Box::new(Ended { item, member, result: result.cloned() })));
    }

    /// To be called before the marker hides them.
    pub(in crate::partition) fn tell_cleared(&mut self, now: Timestamp, clear: Clear, out: &mut Output) {
        self.tell_taken_away(now, |entry| clear.takes(&entry.state), out);
    }

    /// The members of a group that is cancelled and that nobody works on. To be called before the group's row hides them.
    pub(in crate::partition) fn tell_cancelled(
        &mut self,
        now: Timestamp,
        group: GroupIndex,
        out: &mut Output,
    ) {
        let goes = |entry: &Entry| match &entry.state {
            State::Waiting { .. } | State::Scheduled { .. } | State::Suspended(_) => {
                entry.group == Some(group)
            }
            State::Leased(_) | State::Final(_) => false,
        };
        self.tell_taken_away(now, goes, out);
    }

    /// Costs as much as there is that somebody waits for.
    fn tell_taken_away(&mut self, now: Timestamp, goes: impl Fn(&Entry) -> bool, out: &mut Output) {
        let gone = Gone { at: now, keeps_payload: self.retains_cancelled() };
        let watched: Vec<ItemNumber> = self.watched.union(&self.followed).copied().collect();
        for number in watched {
            let entry = self.visible(number).expect("what is watched lives");
            if goes(entry) {
                let (last, outcome, _) = self.taken_away_by(gone, number, entry);
                self.tell_end(number, &last, outcome, None, out);
            }
        }
    }
}

impl Clear {
    fn takes(self, state: &State) -> bool {
        match Clearable::of(state) {
            Some(Clearable::Waiting) => self.waiting,
            Some(Clearable::Scheduled) => self.scheduled,
            Some(Clearable::Leased) => self.leased,
            Some(Clearable::Suspended) => self.suspended,
            None => false,
        }
    }
}
