//! A walk through a queue shows what was there when it began, is there when it ends and matched all the while exactly once, in
//! the order of production within a partition, and nothing that was produced after its first page.
//!
//! Whatever may have come, gone or changed in between may be shown or not.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::item::Phase;

use super::facts::{Facts, ItemFacts, violation};
use super::payload::may_have_fallen_back;
use crate::client::LIVE;
use crate::history::{Call, FindFilter, FindOp, FoundItem, FoundPage, Moment, Op, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let seen = Seen::of(facts);
    for walk in Walk::all(facts) {
        walk.pages_fit()?;
        walk.is_in_order()?;
        walk.shows_nothing_new(facts)?;
        if let Some((begin, end)) = walk.whole() {
            let shown: BTreeSet<ItemId> = walk.items().map(|item| item.id).collect();
            facts.items.iter().try_for_each(|item| {
                let is_due = seen.must_be_shown(facts, item, walk.first(), begin, end);
                if is_due && item.id.is_some_and(|id| !shown.contains(&id)) {
                    return walk.wrong(&format!("does not show item {} ({:?})", item.made.serial, item.id));
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// The pages of a walk that were answered, in their order.
pub(crate) struct Walk<'a> {
    pub(crate) pages: Vec<(&'a Call, &'a FindOp, &'a FoundPage)>,
}

impl<'a> Walk<'a> {
    pub(crate) fn all(facts: &Facts<'a>) -> Vec<Self> {
        let mut walks: BTreeMap<u64, Self> = BTreeMap::new();
        for call in &facts.history.calls {
            let (Some(op), Some(page)) = (call.op.find(), call.outcome.found()) else { continue };
            let walk = walks.entry(op.walk).or_insert_with(|| Self { pages: Vec::new() });
            walk.pages.push((call, op, page));
        }
        walks.into_values().collect()
    }

    pub(crate) fn first(&self) -> &'a FindOp {
        self.pages.first().expect("a walk has a page").1
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &'a FoundItem> {
        self.pages.iter().flat_map(|(_, _, page)| &page.items)
    }

    /// When the first page was asked for and the last was answered, if all of them were answered.
    pub(crate) fn whole(&self) -> Option<(Moment, Moment)> {
        let is_whole = self.pages.iter().zip(0..).all(|((_, op, _), place)| op.page == place);
        let (first, last) = (self.pages.first()?, self.pages.last()?);
        (is_whole && !last.2.has_next).then_some((first.0.begin, last.0.end))
    }

    fn wrong(&self, what: &str) -> Result<(), Violation> {
        let begin = self.pages.first().map(|(call, ..)| call.begin).unwrap_or_default();
        Err(violation("walk", format!("walk {}, begun at {begin}, {what}", self.first().walk)))
    }

    fn pages_fit(&self) -> Result<(), Violation> {
        for (call, op, page) in &self.pages {
            let filter = &op.filter;
            let fits = |item: &&FoundItem| {
                filter.takes_kind(&item.kind)
                    && filter.takes_phase(item.phase)
                    && filter.takes_address(item.address.as_ref())
            };
            if let Some(item) = page.items.iter().find(|item| !fits(item)) {
                return self.wrong(&format!("shows at {} what it did not ask for: {item:?}", call.begin));
            }
            if page.items.len() > op.limit {
                return self.wrong(&format!("shows more at {} than it asked for", call.begin));
            }
        }
        Ok(())
    }

    /// Where each number is beyond the one before, nothing is shown twice.
    fn is_in_order(&self) -> Result<(), Violation> {
        let mut last: BTreeMap<PartitionId, ItemNumber> = BTreeMap::new();
        for item in self.items() {
            let (id, newest_first) = (item.id, self.first().newest_first);
            let before = last.insert(id.partition, id.number);
            let goes_on = |before| if newest_first { id.number < before } else { id.number > before };
            if !before.is_none_or(goes_on) {
                return self.wrong(&format!("shows {id:?} after number {before:?} of its partition"));
            }
        }
        Ok(())
    }

    fn shows_nothing_new(&self, facts: &Facts<'_>) -> Result<(), Violation> {
        let Some((first, ..)) = self.pages.first().filter(|(_, op, _)| op.page == 0) else { return Ok(()) };
        for id in self.items().map(|item| item.id) {
            let item = facts.by_id.get(&id).map(|index| &facts.items[*index]);
            if item.is_some_and(|item| item.is_made_by_call() && item.produce.begin > first.end) {
                return self.wrong(&format!("shows {id:?}, which was produced after its first page"));
            }
        }
        Ok(())
    }
}

/// When walks showed each item.
pub(crate) struct Seen<'a>(BTreeMap<ItemId, Vec<(&'a Call, Phase)>>);

impl<'a> Seen<'a> {
    pub(crate) fn of(facts: &Facts<'a>) -> Self {
        let mut seen: BTreeMap<ItemId, Vec<(&Call, Phase)>> = BTreeMap::new();
        for call in &facts.history.calls {
            for item in call.outcome.found().into_iter().flat_map(|page| &page.items) {
                seen.entry(item.id).or_default().push((call, item.phase));
            }
        }
        Self(seen)
    }

    /// Each look that found the item, and how. Whoever waits is told the end also of an item of which nothing is kept.
    fn looks<'f>(&'f self, item: &'f ItemFacts<'a>) -> impl Iterator<Item = (&'a Call, Phase)> + use<'f, 'a> {
        let shown =
            item.shown().filter(|(call, view)| !matches!(call.op, Op::Wait { .. }) || !view.phase.is_final());
        let found = item.id.and_then(|id| self.0.get(&id)).into_iter().flatten().copied();
        shown.map(|(call, view)| (call, view.phase)).chain(found)
    }

    /// Whether the item was surely there all the while, and matched.
    pub(crate) fn must_be_shown(
        &self,
        facts: &Facts<'a>,
        item: &ItemFacts<'a>,
        op: &FindOp,
        begin: Moment,
        end: Moment,
    ) -> bool {
        item.queue == op.queue
            && op.filter.takes_kind(&item.made.kind)
            && (op.filter.address.is_none()
                || item.is_acknowledged() && op.filter.takes_address(item.made.address.as_ref()))
            && self.was_there(item, begin)
            && self.is_there_still(facts, item, end)
            && self.matched_by_phase(item, &op.filter, begin, end)
    }

    fn was_there(&self, item: &ItemFacts<'a>, by: Moment) -> bool {
        item.is_acknowledged() && item.produce.end < by
            || item.grants.iter().any(|grant| grant.call.end < by)
            || self.looks(item).any(|(call, _)| call.end < by)
    }

    /// An item that falls back is seen again, after it was forgotten on its way: that it is seen does not say that it was there.
    fn is_there_still(&self, facts: &Facts<'a>, item: &ItemFacts<'a>, after: Moment) -> bool {
        let stays = |phase: Phase| !phase.is_final() || !may_have_fallen_back(facts, item);
        is_alive(item, after) || self.looks(item).any(|(call, phase)| call.begin > after && stays(phase))
    }

    fn matched_by_phase(
        &self,
        item: &ItemFacts<'a>,
        filter: &FindFilter,
        begin: Moment,
        end: Moment,
    ) -> bool {
        if filter.phases.is_none() {
            return true;
        }
        let lives = || {
            is_alive(item, end) || self.looks(item).any(|(call, phase)| call.begin > end && !phase.is_final())
        };
        let ended_as = || {
            let mut before = self.looks(item).filter(|(call, phase)| call.end < begin && phase.is_final());
            before.next().map(|(_, phase)| phase)
        };
        LIVE.into_iter().all(|phase| filter.takes_phase(phase)) && lives()
            || ended_as().is_some_and(|phase| filter.takes_phase(phase))
    }
}

/// Whether somebody leased or held the item later.
fn is_alive(item: &ItemFacts<'_>, after: Moment) -> bool {
    item.grants.iter().any(|grant| grant.call.begin > after)
        || item.verdicts.iter().any(|judged| judged.verdict.is_ok() && judged.call.begin > after)
}
