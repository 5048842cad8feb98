//! Items by what they are, page by page in the order of their numbers, which is the order in which they were produced. A
//! slice looks at the items that all indexes have which its filters can be answered from, at all items where there is none, and at
//! no more than it may.

mod candidates;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::sync::Arc;

use crate::effort::{self, Looked};
use crate::group::Member;
use crate::headers::MAY_HAVE_ANY;
use crate::id::ItemNumber;
use crate::item::{Item, Phase};
use crate::mutant::{self, Mutant};
use crate::partition::Partition;
use crate::partition::entry::Entry;
use crate::partition::index::kinds::KindIndex;
use crate::time::Timestamp;
use candidates::{Numbers, Run};

/// Filters, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Find {
    /// As items are shown: a member whose group is not started is held.
    pub phases: Option<BTreeSet<Phase>>,
    pub kinds: Option<BTreeSet<Arc<str>>>,
    /// The name of the group that the item shows.
    pub group: Option<Arc<str>>,
    pub address: Option<Arc<str>>,
    /// Of the latest lease.
    pub client_id: Option<Arc<str>>,
    pub error_code: Option<Arc<str>>,
    pub cron: Option<Arc<str>>,
    pub created: Between,
    /// When the state last became another.
    pub changed: Between,
    /// Whether the item tells what it was moved to.
    pub moved: Option<bool>,
    /// [`header_hash`](crate::headers::header_hash) of each header that the item must have, by its name; the reference is among
    /// them, under [`REFERENCE`](crate::headers::REFERENCE), and no header of that name.
    pub headers: BTreeMap<Arc<str>, u64>,
    /// Whether the caller asks the record for more than `headers`: items without headers and reference do not match.
    pub by_record: bool,
}

/// A span of time; unset where it has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    /// The first moment of it.
    pub from: Option<Timestamp>,
    /// The first moment after it.
    pub until: Option<Timestamp>,
}

impl Between {
    fn holds(self, at: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= at) && self.until.is_none_or(|until| at < until)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindOrder {
    Newest,
    Oldest,
}

/// A part of a walk through all that match.
#[derive(Clone, Debug)]
pub struct FindSlice {
    pub find: Arc<Find>,
    pub order: FindOrder,
    /// As [`Found::after`] of the slice before; unset for the first.
    pub after: Option<ItemNumber>,
    /// [`Partition::find_until`] when the walk began: what was produced later is not shown, so that a walk ends.
    pub until: ItemNumber,
    pub matches_max: usize,
    /// How many items may be looked at.
    pub looks_max: usize,
}

/// What a slice found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    pub items: Vec<FoundItem>,
    /// How many items were looked at.
    pub looked: usize,
    /// Where the next slice goes on; unset once the end was reached.
    pub after: Option<ItemNumber>,
}

/// An item as [`Partition::get`] and [`Partition::member`] show it.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundItem {
    pub item: Item,
    pub member: Option<Member>,
    /// Whether the item matches only if its record has the headers that are asked for: the caller has to look.
    pub to_verify: bool,
}

impl Partition {
    /// The last number that was issued.
    pub fn find_until(&self) -> ItemNumber {
        ItemNumber(self.numbers.item)
    }

    /// The items that match, in the order of their numbers. One that was there when the walk began and still matches is in exactly
    /// one of its slices, whatever happens between them.
    pub fn find(&self, slice: &FindSlice) -> Found {
        let FindSlice { find, matches_max, looks_max, .. } = slice;
        let mut found = Found::default();
        let Some((run, kinds)) = Run::of(slice).zip(self.kinds_of(find)) else { return found };
        let mut numbers = self.candidates(find, &run).peekable();
        let mut last = None;
        while found.items.len() < (*matches_max).max(1) && found.looked < (*looks_max).max(1) {
            let Some(number) = numbers.next() else { return found };
            effort::look(Looked::Items);
            found.looked += 1;
            last = Some(number);
            found.items.extend(self.found(number, find, kinds.as_ref()));
        }
        found.after = page_border(last, &mut numbers);
        found
    }

    /// The kinds that are asked for; none if no item is of any of them.
    fn kinds_of(&self, find: &Find) -> Option<Option<BTreeSet<KindIndex>>> {
        let Some(names) = &find.kinds else { return Some(None) };
        let known: BTreeSet<KindIndex> = names.iter().filter_map(|name| self.kinds.find(name)).collect();
        (!known.is_empty()).then_some(Some(known))
    }

    /// The item as it can be seen, if it matches. What costs least is asked first.
    fn found(
        &self,
        number: ItemNumber,
        find: &Find,
        kinds: Option<&BTreeSet<KindIndex>>,
    ) -> Option<FoundItem> {
        let entry = self.items.get(&number).expect("items in an index are always in `items`");
        let takes = kinds.is_none_or(|kinds| kinds.contains(&entry.kind))
            && find.created.holds(entry.created_at)
            && self.shows_group(entry, find.group.as_ref())
            && find.takes_extras(entry)
            && self.may_have_headers(number, entry, find)
            && self.shows_phase(entry, find.phases.as_ref());
        let item = takes.then(|| self.get(number)).flatten()?;
        let member = self.member_of(entry);
        find.takes(&item).then(|| FoundItem { item, member, to_verify: find.asks_record() })
    }

    /// Whether the item may have the headers that are asked for, by what its row tells of them.
    fn may_have_headers(&self, number: ItemNumber, entry: &Entry, find: &Find) -> bool {
        if !find.asks_record() {
            return true;
        }
        let counts = |name: &Arc<str>| self.settings.indexed_since(name).is_some_and(|since| since <= number);
        let hashes = entry.header_hashes();
        let may_have = |hash: &u64| hashes.contains(hash) || hashes.contains(&MAY_HAVE_ANY);
        entry.facts_bytes() > 0 && find.headers.iter().all(|(name, hash)| !counts(name) || may_have(hash))
    }

    fn shows_group(&self, entry: &Entry, name: Option<&Arc<str>>) -> bool {
        let Some(name) = name else { return true };
        let row = entry.group.and_then(|group| self.groups.slot(group).row.as_deref());
        row.is_some_and(|row| row.name == *name)
    }

    /// Whether the item can be seen, and is shown in one of these states.
    fn shows_phase(&self, entry: &Entry, phases: Option<&BTreeSet<Phase>>) -> bool {
        if entry.state.is_forgotten() {
            return false;
        }
        let is_asked_for = |phase| phases.is_none_or(|phases| phases.contains(&phase));
        if self.is_gone(entry) {
            return self.keeps_gone(entry) && is_asked_for(Phase::Cancelled);
        }
        is_asked_for(self.phase(entry))
    }
}

/// Where the next slice goes on: nowhere if no item is left to look at.
fn page_border(last: Option<ItemNumber>, rest: &mut Peekable<Numbers<'_>>) -> Option<ItemNumber> {
    let next = rest.peek().copied();
    if mutant::active(Mutant::FindSkips) { next } else { next.and(last) }
}

impl Find {
    /// Whether no item can match: there is nothing to look for.
    pub fn is_of_nothing(&self) -> bool {
        self.phases.as_ref().is_some_and(BTreeSet::is_empty)
            || self.kinds.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Whether something is asked for that only the record tells.
    fn asks_record(&self) -> bool {
        self.by_record || !self.headers.is_empty()
    }

    /// What an item shows of its extras whatever its state.
    fn takes_extras(&self, entry: &Entry) -> bool {
        let extras = entry.extras.as_deref();
        let error = || extras.and_then(|extras| extras.error.as_ref());
        let has_error_code = |code: &Arc<str>| error().and_then(|error| error.code.as_ref()) == Some(code);
        let has_moved = || extras.is_some_and(|extras| extras.moved_to.is_some());
        self.address.as_ref().is_none_or(|address| entry.address() == Some(address))
            && self.error_code.as_ref().is_none_or(has_error_code)
            && self.cron.as_ref().is_none_or(|cron| cron_of(entry) == Some(cron))
            && self.moved.is_none_or(|moved| has_moved() == moved)
    }

    /// What depends on how the item is shown.
    fn takes(&self, item: &Item) -> bool {
        let has_client = |client_id| item.started().is_some_and(|(_, latest)| latest == client_id);
        self.changed.holds(item.changed_at()) && self.client_id.as_ref().is_none_or(has_client)
    }
}

/// The cron that made an item.
fn cron_of(entry: &Entry) -> Option<&Arc<str>> {
    Some(&entry.extras.as_ref()?.cron.as_ref()?.name)
}
