//! Which items a slice looks at, and in which order: those that every index has which a filter can be answered from.

use std::collections::BTreeSet;
use std::iter::Peekable;
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

/// The items of a run that an index has for a filter.
type Source<'a> = Box<dyn Fn(&Run) -> Numbers<'a> + 'a>;

impl Partition {
    /// Numbers that all sources have. If the sources do not agree within `ROUNDS_MAX`, also one that only some have.
    pub(super) fn candidates<'a>(&'a self, find: &'a Find, run: &Run) -> Numbers<'a> {
        let sections = run.split(self.headers_indexed(find).map(|(_, since)| since));
        Box::new(sections.into_iter().flat_map(|run| {
            let sources = self.sources(find, &run);
            match &sources[..] {
                [] => run.through_numbers(&self.items),
                [only] => only(&run),
                _ => Box::new(Shared::of(sources, run)),
            }
        }))
    }

    /// One for each filter that is answered from an index for all items of the run.
    fn sources<'a>(&'a self, find: &'a Find, run: &Run) -> Vec<Source<'a>> {
        let mut sources: Vec<Source<'a>> = Vec::new();
        if let Some(address) = &find.address {
            sources.push(Box::new(|run| self.at_address(address, run)));
        }
        if let Some(orders) = find.phases.as_ref().and_then(|phases| self.in_phases(phases)) {
            sources.push(Box::new(move |run| {
                merged(orders.iter().map(|keys| run.through_numbers(keys)).collect(), run.order)
            }));
        }
        if let Some(name) = &find.group {
            sources.push(Box::new(|run| self.in_group(name, run)));
        }
        let first = *run.span.start();
        for (hash, _) in self.headers_indexed(find).filter(|(_, since)| *since <= first) {
            sources.push(Box::new(move |run| self.with_header(hash, run)));
        }
        sources
    }

    /// The headers that are answered from the index, each with the first item of which that is so.
    fn headers_indexed(&self, find: &Find) -> impl Iterator<Item = (u64, ItemNumber)> {
        let since = |name: &Arc<str>| self.settings.indexed_since(name);
        find.headers.iter().filter_map(move |(name, hash)| Some((*hash, since(name)?)))
    }

    fn at_address<'a>(&'a self, address: &'a Arc<str>, run: &Run) -> Numbers<'a> {
        let numbers = self.addresses.of(address, run.span.clone());
        match run.order {
            FindOrder::Newest => Box::new(numbers.rev()),
            FindOrder::Oldest => Box::new(numbers),
        }
    }

    fn in_group<'a>(&'a self, name: &'a Arc<str>, run: &Run) -> Numbers<'a> {
        let members = self.finders.members();
        let groups = self.groups.of_name(name, run.span.clone());
        let run = run.clone();
        let order = run.order;
        let members_of =
            move |group| run.through(members, move |number| (group, number), |(_, number)| number);
        match order {
            FindOrder::Newest => Box::new(groups.rev().flat_map(members_of)),
            FindOrder::Oldest => Box::new(groups.flat_map(members_of)),
        }
    }

    /// The items that have a header, and those of which it is not known.
    fn with_header(&self, hash: u64, run: &Run) -> Numbers<'_> {
        let headers = self.finders.headers();
        let with = |hash| run.through(headers, move |number| (hash, number), |(_, number)| number);
        merged(vec![with(hash), with(MAY_HAVE_ANY)], run.order)
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
#[derive(Clone)]
pub(super) struct Run {
    order: FindOrder,
    span: RangeInclusive<ItemNumber>,
}

impl Run {
    /// Through the numbers that are left to the walk; none if there are none.
    pub(super) fn of(slice: &FindSlice) -> Option<Self> {
        let whole = Self { order: slice.order, span: ItemNumber(0)..=slice.until };
        match slice.after {
            Some(after) => whole.after(after),
            None => Some(whole),
        }
    }

    /// The part of it from one number to another; none if that is empty.
    fn part(&self, first: ItemNumber, last: ItemNumber) -> Option<Self> {
        let span = first.max(*self.span.start())..=last.min(*self.span.end());
        (!span.is_empty()).then_some(Self { order: self.order, span })
    }

    /// The rest of it after a number.
    fn after(&self, ItemNumber(number): ItemNumber) -> Option<Self> {
        match self.order {
            FindOrder::Newest => self.part(ItemNumber(0), ItemNumber(number.checked_sub(1)?)),
            FindOrder::Oldest => self.part(ItemNumber(number.checked_add(1)?), ItemNumber(u64::MAX)),
        }
    }

    /// The rest of it from one of its numbers on.
    fn from(self, number: ItemNumber) -> Self {
        let (first, last) = self.span.into_inner();
        let span = match self.order {
            FindOrder::Newest => first..=number,
            FindOrder::Oldest => number..=last,
        };
        Self { order: self.order, span }
    }

    /// The number that it begins with, whether or not there is an item of it.
    fn first(&self) -> ItemNumber {
        match self.order {
            FindOrder::Newest => *self.span.end(),
            FindOrder::Oldest => *self.span.start(),
        }
    }

    /// Cuts the run before each of `begins`; numbers outside the run are ignored.
    fn split(&self, begins: impl Iterator<Item = ItemNumber>) -> Vec<Self> {
        let begins: BTreeSet<ItemNumber> = begins.chain([ItemNumber(0)]).collect();
        let mut ends: Vec<ItemNumber> = begins.iter().skip(1).map(|next| ItemNumber(next.0 - 1)).collect();
        ends.push(ItemNumber(u64::MAX));
        let parts = begins.into_iter().zip(ends).filter_map(|(first, last)| self.part(first, last));
        match self.order {
            FindOrder::Newest => parts.rev().collect(),
            FindOrder::Oldest => parts.collect(),
        }
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

/// The items that several sources have, in one order.
///
/// One source after the other is asked for its first item that is not before the last answer, until all have answered the same.
/// If they have not after [`ROUNDS_MAX`] rounds, the last answer is handed out as it is, so that the number of candidates bounds
/// the work. Two rounds without agreement take every source past one of its items at least: there are no more candidates than
/// the source with the fewest items has.
struct Shared<'a> {
    sources: Vec<Progress<'a>>,
    /// The part of the run that no candidate was handed out of yet.
    rest: Option<Run>,
}

const ROUNDS_MAX: usize = 2;

impl<'a> Shared<'a> {
    fn of(sources: Vec<Source<'a>>, run: Run) -> Self {
        let begun = |source: Source<'a>| Progress { numbers: source(&run).peekable(), source };
        Self { sources: sources.into_iter().map(begun).collect(), rest: Some(run) }
    }
}

impl Iterator for Shared<'_> {
    type Item = ItemNumber;

    fn next(&mut self) -> Option<ItemNumber> {
        let mut rest = self.rest.take()?;
        let mut agreeing = 0;
        for turn in 0..ROUNDS_MAX * self.sources.len() {
            let at = turn % self.sources.len();
            let first = self.sources[at].first_in(&rest)?;
            agreeing = if first == rest.first() { agreeing + 1 } else { 1 };
            rest = rest.from(first);
            if agreeing == self.sources.len() {
                break;
            }
        }
        self.rest = rest.after(rest.first());
        Some(rest.first())
    }
}

/// How far a source was gone through.
struct Progress<'a> {
    source: Source<'a>,
    numbers: Peekable<Numbers<'a>>,
}

/// Numbers that are passed over one by one before the source is asked anew: eight steps cost about as much as a new lookup in
/// the index.
const STEPS_MAX: usize = 8;

impl Progress<'_> {
    /// The first number in the rest of a run.
    fn first_in(&mut self, rest: &Run) -> Option<ItemNumber> {
        for _ in 0..STEPS_MAX {
            let next = *self.numbers.peek()?;
            if rest.span.contains(&next) {
                return Some(next);
            }
            self.numbers.next();
        }
        self.numbers = (self.source)(rest).peekable();
        self.numbers.peek().copied()
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
