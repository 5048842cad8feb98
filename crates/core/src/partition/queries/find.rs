//! Items by what they are, page by page in the order of their numbers, which is the order in which they were produced. A
//! slice goes by the narrowest index that its filters allow, walks all items where there is none, and looks at no more than
//! it may.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::containers::SortedMap;
use crate::effort::{self, Looked};
use crate::group::Member;
use crate::id::ItemNumber;
use crate::item::{End, Item, Phase};
use crate::mutant::{self, Mutant};
use crate::partition::Partition;
use crate::partition::entry::Entry;
use crate::partition::index::kinds::KindIndex;
use crate::time::Timestamp;

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
}

/// Item numbers in the order of a slice.
type Numbers<'a> = Box<dyn Iterator<Item = ItemNumber> + 'a>;

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
        let Some((span, kinds)) = slice.span().zip(self.kinds_of(find)) else { return found };
        let mut numbers = self.candidates(find, Run { order: slice.order, span }).peekable();
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

    /// At least all items that match, each once.
    fn candidates<'a>(&'a self, find: &'a Find, run: Run) -> Numbers<'a> {
        if let Some(address) = &find.address {
            let numbers = self.addresses.of(address, run.span);
            return match run.order {
                FindOrder::Newest => Box::new(numbers.rev()),
                FindOrder::Oldest => Box::new(numbers),
            };
        }
        if let Some(name) = &find.group {
            let members = self.finders.members();
            let members_of =
                |group| run.through(members, move |number| (group, number), |(_, number)| number);
            return merged(self.groups.of_name(name).map(members_of).collect(), run.order);
        }
        let orders = find.phases.as_ref().and_then(|phases| self.in_phases(phases));
        match orders {
            Some(orders) => {
                merged(orders.into_iter().map(|keys| run.through_numbers(keys)).collect(), run.order)
            }
            None => run.through_numbers(&self.items),
        }
    }

    /// The items in some states; none where there is an order of them for not all of these states.
    fn in_phases(&self, phases: &BTreeSet<Phase>) -> Option<Vec<&SortedMap<ItemNumber, ()>>> {
        let mut orders = Vec::new();
        for phase in phases {
            match phase {
                Phase::Held | Phase::Scheduled | Phase::Waiting => return None,
                // Some that are gone are kept as cancelled, and stand in no order of final items until the sweep comes by.
                Phase::Cancelled if self.unswept_kept() > 0 => return None,
                Phase::Leased => orders.extend(self.leased.visible()),
                Phase::Suspended => orders.extend(self.finders.suspended()),
                Phase::Completed => orders.push(self.finders.ended(End::Completed)),
                Phase::Failed => orders.push(self.finders.ended(End::Failed)),
                Phase::Cancelled => orders.push(self.finders.ended(End::Cancelled)),
                Phase::Expired => orders.push(self.finders.ended(End::Expired)),
            }
        }
        Some(orders)
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
            && self.shows_phase(entry, find.phases.as_ref());
        let item = takes.then(|| self.get(number)).flatten()?;
        let member = self.member_of(entry);
        find.takes(&item).then_some(FoundItem { item, member })
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
fn cron_of(_entry: &Entry) -> Option<&Arc<str>> {
    None
}

impl FindSlice {
    /// The numbers that are left to the walk.
    fn span(&self) -> Option<RangeInclusive<ItemNumber>> {
        let (first, last) = (ItemNumber(0), self.until);
        let span = match (self.order, self.after) {
            (FindOrder::Newest | FindOrder::Oldest, None) => first..=last,
            (FindOrder::Newest, Some(after)) => first..=last.min(ItemNumber(after.0.checked_sub(1)?)),
            (FindOrder::Oldest, Some(after)) => ItemNumber(after.0.checked_add(1)?)..=last,
        };
        (!span.is_empty()).then_some(span)
    }
}

/// Which numbers of an index to go through, and in which order.
#[derive(Clone)]
struct Run {
    order: FindOrder,
    span: RangeInclusive<ItemNumber>,
}

impl Run {
    fn through_numbers<'a, V>(&self, keys: &'a SortedMap<ItemNumber, V>) -> Numbers<'a> {
        self.through(keys, |number| number, |key| key)
    }

    /// `key` and `number` turn one into the other. Keys follow one another as their numbers do.
    fn through<'a, K: Ord + Copy + 'a, V>(
        &self,
        keys: &'a SortedMap<K, V>,
        key: impl Fn(ItemNumber) -> K,
        number: impl Fn(K) -> ItemNumber + 'a,
    ) -> Numbers<'a> {
        let (first, last) = (key(*self.span.start()), key(*self.span.end()));
        match self.order {
            FindOrder::Newest => {
                let keys = keys.range_back(..=last).map(|(key, _)| key);
                Box::new(keys.take_while(move |key| first <= *key).map(number))
            }
            FindOrder::Oldest => {
                let keys = keys.range(first..).map(|(key, _)| key);
                Box::new(keys.take_while(move |key| *key <= last).map(number))
            }
        }
    }
}

/// Several orders as one.
fn merged<'a>(mut orders: Vec<Numbers<'a>>, order: FindOrder) -> Numbers<'a> {
    if orders.len() == 1 {
        return orders.remove(0);
    }
    // What comes first has the smaller rank.
    let rank = move |ItemNumber(number)| match order {
        FindOrder::Newest => !number,
        FindOrder::Oldest => number,
    };
    let head = |(at, numbers): (usize, &mut Numbers<'a>)| Some((rank(numbers.next()?), at));
    let mut heads: BTreeSet<(u64, usize)> = orders.iter_mut().enumerate().filter_map(head).collect();
    Box::new(std::iter::from_fn(move || {
        let (first, at) = heads.pop_first()?;
        heads.extend(orders[at].next().map(|number| (rank(number), at)));
        // Turning a number around twice gives the number.
        Some(ItemNumber(rank(ItemNumber(first))))
    }))
}
