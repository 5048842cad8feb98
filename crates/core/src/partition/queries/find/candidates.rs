//! Which items a slice looks at, and in which order.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::{Find, FindOrder, FindSlice};
use crate::containers::SortedMap;
use crate::headers::MAY_HAVE_ANY;
use crate::id::ItemNumber;
use crate::item::{End, Phase};
use crate::partition::Partition;

/// Item numbers in the order of a slice.
pub(super) type Numbers<'a> = Box<dyn Iterator<Item = ItemNumber> + 'a>;

impl Partition {
    /// At least all items that match, each once.
    pub(super) fn candidates<'a>(&'a self, find: &'a Find, run: Run) -> Numbers<'a> {
        if let Some(address) = &find.address {
            let numbers = self.addresses.of(address, run.span);
            return match run.order {
                FindOrder::Newest => Box::new(numbers.rev()),
                FindOrder::Oldest => Box::new(numbers),
            };
        }
        if let Some(name) = &find.group {
            let members = self.finders.members();
            let groups = self.groups.of_name(name, run.span.clone());
            let order = run.order;
            let members_of =
                move |group| run.through(members, move |number| (group, number), |(_, number)| number);
            return match order {
                FindOrder::Newest => Box::new(groups.rev().flat_map(members_of)),
                FindOrder::Oldest => Box::new(groups.flat_map(members_of)),
            };
        }
        if let Some((hash, since)) = self.indexed_header(find) {
            let newer = run.part(since, ItemNumber(u64::MAX)).map(|run| self.with_header(hash, &run));
            let older = since.0.checked_sub(1).and_then(|last| run.part(ItemNumber(0), ItemNumber(last)));
            let older = older.map(|run| self.in_phases_or_all(find, &run));
            let (first, second) = match run.order {
                FindOrder::Newest => (newer, older),
                FindOrder::Oldest => (older, newer),
            };
            return Box::new(first.into_iter().flatten().chain(second.into_iter().flatten()));
        }
        self.in_phases_or_all(find, &run)
    }

    /// The header that is answered from the index for most items, and the first item of which that is so.
    fn indexed_header(&self, find: &Find) -> Option<(u64, ItemNumber)> {
        let since = |name: &Arc<str>| self.settings.indexed_since(name);
        let indexed = find.headers.iter().filter_map(|(name, hash)| Some((*hash, since(name)?)));
        indexed.min_by_key(|(_, since)| *since)
    }

    /// The items that have a header, and those of which it is not known.
    fn with_header<'a>(&'a self, hash: u64, run: &Run) -> Numbers<'a> {
        let headers = self.finders.headers();
        let with = |hash| run.through(headers, move |number| (hash, number), |(_, number)| number);
        merged(vec![with(hash), with(MAY_HAVE_ANY)], run.order)
    }

    fn in_phases_or_all<'a>(&'a self, find: &'a Find, run: &Run) -> Numbers<'a> {
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
}

/// Which numbers of an index to go through, and in which order.
pub(super) struct Run {
    order: FindOrder,
    span: RangeInclusive<ItemNumber>,
}

impl Run {
    /// Through the numbers that are left to the walk; none if there are none.
    pub(super) fn of(slice: &FindSlice) -> Option<Self> {
        let (first, last) = (ItemNumber(0), slice.until);
        let span = match (slice.order, slice.after) {
            (FindOrder::Newest | FindOrder::Oldest, None) => first..=last,
            (FindOrder::Newest, Some(after)) => first..=last.min(ItemNumber(after.0.checked_sub(1)?)),
            (FindOrder::Oldest, Some(after)) => ItemNumber(after.0.checked_add(1)?)..=last,
        };
        (!span.is_empty()).then_some(Self { order: slice.order, span })
    }

    /// The part of it from one number to another; none if that is empty.
    fn part(&self, first: ItemNumber, last: ItemNumber) -> Option<Self> {
        let span = first.max(*self.span.start())..=last.min(*self.span.end());
        (!span.is_empty()).then_some(Self { order: self.order, span })
    }

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
    // A smaller rank comes earlier in `order`.
    let rank = move |ItemNumber(number)| match order {
        FindOrder::Newest => !number,
        FindOrder::Oldest => number,
    };
    let head = |(at, numbers): (usize, &mut Numbers<'a>)| Some((rank(numbers.next()?), at));
    let mut heads: BTreeSet<(u64, usize)> = orders.iter_mut().enumerate().filter_map(head).collect();
    Box::new(std::iter::from_fn(move || {
        let (first, at) = heads.pop_first()?;
        heads.extend(orders[at].next().map(|number| (rank(number), at)));
        // `rank` is its own inverse.
        Some(ItemNumber(rank(ItemNumber(first))))
    }))
}
