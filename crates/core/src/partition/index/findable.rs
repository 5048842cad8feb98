//! What finds items by something else than their place: orders of item numbers, and final items by their error. An item
//! whose move alone is left is in none of them; one that is gone is, until the sweep comes by.

use std::collections::BTreeSet;
use std::fmt;

use crate::containers::SortedMap;
use crate::headers::ItemHashes;
use crate::id::{GroupNumber, ItemNumber};
use crate::item::{End, State};
use crate::partition::entry::Entry;
use crate::partition::groups::index::GroupIndex;
use crate::partition::index::eras::Eras;
use crate::partition::index::errors::{Errors, Failure};
use crate::time::Timestamp;

/// What an item is found by.
#[derive(Clone, Debug)]
pub(in crate::partition) struct Findable {
    number: ItemNumber,
    group: Option<GroupIndex>,
    state: Option<FoundByState>,
    header_hashes: ItemHashes,
    failure: Option<Failure>,
}

#[derive(Clone, Copy, Debug)]
enum FoundByState {
    Suspended { era: u32 },
    Final(End),
}

impl Findable {
    /// Nothing of an item whose move alone is left is to be seen.
    pub(in crate::partition) fn of(number: ItemNumber, entry: &Entry) -> Option<Self> {
        let (state, failure) = match &entry.state {
            State::Suspended(_) => (Some(FoundByState::Suspended { era: entry.era }), None),
            State::Final(_) if entry.state.is_forgotten() => return None,
            State::Final(outcome) => {
                let failure = failure(number, outcome.finished_at, entry);
                (Some(FoundByState::Final(outcome.end)), failure)
            }
            State::Scheduled { .. } | State::Waiting { .. } | State::Leased(_) => (None, None),
        };
        let header_hashes = entry.extras.as_ref().map(|extras| extras.header_hashes.clone());
        let header_hashes = header_hashes.unwrap_or_default();
        let findable = Self { number, group: entry.group, state, header_hashes, failure };
        findable.is_found_by_something().then_some(findable)
    }

    fn is_found_by_something(&self) -> bool {
        self.group.is_some() || self.state.is_some() || !self.header_hashes.is_empty()
    }
}

fn failure(number: ItemNumber, at: Timestamp, entry: &Entry) -> Option<Failure> {
    let error = entry.extras.as_ref()?.error.as_ref()?;
    Some(Failure { code: error.code.clone().unwrap_or_default(), at, number })
}

/// Item numbers in their order, by what the items are found by.
#[derive(Debug, Default, PartialEq)]
pub(in crate::partition) struct Finders {
    suspended: Eras<ItemNumber>,
    /// By the position of the end.
    finals: [SortedMap<ItemNumber, ()>; 4],
    members: SortedMap<(GroupIndex, ItemNumber), ()>,
    /// By the hash of a header, or [`crate::headers::MAY_HAVE_ANY`].
    headers: SortedMap<(u64, ItemNumber), ()>,
    errors: Errors,
}

const _: () = assert!(size_of::<((GroupIndex, ItemNumber), ())>() <= 16, "memory per member is promised");
// A chunk of a map is at least half full: 32 bytes.
const _: () = assert!(size_of::<((u64, ItemNumber), ())>() <= 16, "memory per indexed header is promised");

impl Finders {
    /// Groups by number: the order in which they came up differs between a partition and its rebuilt self.
    pub(in crate::partition) fn shown(&self, number: impl Fn(GroupIndex) -> GroupNumber) -> impl fmt::Debug {
        let members = self.members.iter().map(|((group, item), ())| (number(group), item));
        (&self.suspended, &self.finals, members.collect::<BTreeSet<_>>(), &self.headers, &self.errors)
    }

    pub(in crate::partition) fn insert(&mut self, findable: Findable) {
        let Findable { number, group, state, header_hashes, failure } = findable;
        if let Some(group) = group {
            self.members.insert((group, number), ());
        }
        for hash in &*header_hashes {
            self.headers.insert((*hash, number), ());
        }
        if let Some(failure) = failure {
            self.errors.insert(&failure);
        }
        match state {
            Some(FoundByState::Suspended { era }) => self.suspended.insert(era, number),
            Some(FoundByState::Final(end)) => drop(self.finals[position(end)].insert(number, ())),
            None => {}
        }
    }

    pub(in crate::partition) fn remove(&mut self, findable: &Findable) {
        let Findable { number, group, state, header_hashes, failure } = findable;
        if let Some(group) = group {
            self.members.remove(&(*group, *number));
        }
        for hash in &**header_hashes {
            self.headers.remove(&(*hash, *number));
        }
        if let Some(failure) = failure {
            self.errors.remove(failure);
        }
        match state {
            Some(FoundByState::Suspended { era }) => self.suspended.remove(*era, *number),
            Some(FoundByState::Final(end)) => drop(self.finals[position(*end)].remove(number)),
            None => {}
        }
    }

    /// Suspended items of an earlier era than this were cleared.
    pub(in crate::partition) fn show_from(&mut self, era: u32) {
        self.suspended.show_from(era);
    }

    /// Suspended items that were not cleared.
    pub(in crate::partition) fn suspended(&self) -> impl Iterator<Item = &SortedMap<ItemNumber, ()>> {
        self.suspended.visible()
    }

    pub(in crate::partition) fn ended(&self, end: End) -> &SortedMap<ItemNumber, ()> {
        &self.finals[position(end)]
    }

    pub(in crate::partition) fn headers(&self) -> &SortedMap<(u64, ItemNumber), ()> {
        &self.headers
    }

    pub(in crate::partition) fn errors(&self) -> &Errors {
        &self.errors
    }

    pub(in crate::partition) fn members(&self) -> &SortedMap<(GroupIndex, ItemNumber), ()> {
        &self.members
    }
}

fn position(end: End) -> usize {
    match end {
        End::Completed => 0,
        End::Failed => 1,
        End::Cancelled => 2,
        End::Expired => 3,
    }
}
