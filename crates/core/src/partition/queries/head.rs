//! Questions that change nothing and do not scan the backlog.

use std::sync::Arc;

use crate::containers::SortedMap;
use crate::id::{ItemNumber, PartitionId};
use crate::item::{Item, State, changed_at};
use crate::partition::Partition;
use crate::partition::entry::Entry;
use crate::partition::index::lanes::Key;
use crate::partition::rows::{place_of, priority_of, rank};
use crate::settings::Settings;
use crate::time::Timestamp;
use crate::verbs::Filter;

/// Where an item stands among those that wait: the smaller goes first. A place is about the time, in microseconds,
/// at which the item joined the queue, so heads of several partitions can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Head {
    pub priority: u8,
    pub place: u64,
}

impl Partition {
    pub fn id(&self) -> PartitionId {
        self.id
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The item as it can be seen: one that was cleared, or cancelled with its group, has ended.
    pub fn get(&self, number: ItemNumber) -> Option<Item> {
        match self.visible(number) {
            Some(entry) => Some(self.in_force(number, entry)),
            None => self.left_of_gone(number),
        }
    }

    /// The item as its row says, but for its lease and for the start of its group: after an acquire the lease may end later than
    /// was written, its worker may be asked to stop together with others, and all members of a group begin to wait at once.
    pub(in crate::partition) fn in_force(&self, number: ItemNumber, entry: &Entry) -> Item {
        let mut item = self.item(number, entry);
        if let State::Leased(lease) = &mut item.state {
            lease.deadline = self.ends_at(lease);
            lease.cancel_requested = self.cancel_requested(entry, lease);
        }
        if let State::Waiting { since } = &mut item.state {
            *since = self.waiting_since(*since, entry);
        }
        item
    }

    /// As [`Item::changed_at`] of the item as it is shown.
    pub(in crate::partition) fn changed_at(&self, entry: &Entry) -> Timestamp {
        let changed_at = changed_at(&entry.state, entry.extras.as_deref()).unwrap_or(entry.created_at);
        match entry.state {
            State::Waiting { .. } => self.waiting_since(changed_at, entry),
            State::Scheduled { .. } | State::Leased(_) | State::Suspended(_) | State::Final(_) => changed_at,
        }
    }

    /// The later of `since`, which is what the row of a waiting item says, and the start of its group.
    pub(in crate::partition) fn waiting_since(&self, since: Timestamp, entry: &Entry) -> Timestamp {
        self.started_with_group(entry).map_or(since, |started_at| started_at.max(since))
    }

    /// When the group of an item was started.
    fn started_with_group(&self, entry: &Entry) -> Option<Timestamp> {
        self.groups.slot(entry.group?).row.as_ref()?.started_at
    }

    /// The best item that a lease with this filter would get.
    pub fn head(&self, filter: &Filter) -> Option<Head> {
        let (rank, _) = match &filter.kinds {
            None => self.lanes.first()?,
            Some(kinds) => kinds.iter().filter_map(|kind| self.first_of_kind(kind)).min()?,
        };
        let head = Head { priority: priority_of(rank), place: place_of(rank) };
        (head.priority <= filter.max_priority).then_some(head)
    }

    /// The best item of a kind that a lease of it would get.
    pub fn head_of_kind(&self, kind: &str) -> Option<Head> {
        let (rank, _) = self.first_of_kind(kind)?;
        Some(Head { priority: priority_of(rank), place: place_of(rank) })
    }

    /// The kinds of which a lease may get something that it would not have got when this was last asked: a lease that found
    /// nothing then need not look at any other kind.
    pub fn take_moved_kinds(&mut self) -> Vec<Arc<str>> {
        self.lanes.take_moved().into_iter().map(|kind| self.kinds.name(kind).clone()).collect()
    }

    /// The first item of a kind that can be had.
    pub(in crate::partition) fn first_of_kind(&self, kind: &str) -> Option<Key> {
        self.lanes.first_of_kind(self.kinds.find(kind)?)
    }

    /// The earliest moment at which a sweep has something to do: at once while there is more kept than there should be,
    /// something is gone that was not swept up, or a group waits for its end.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.first_gone().is_some() || self.keeps_too_much() || self.groups.first_due().is_some() {
            return Some(Timestamp(0));
        }
        let lease_end = self.deadlines.first().map(|(ends_at, _)| Timestamp(ends_at));
        let due = self.schedule.first().map(|(due_at, _)| Timestamp(due_at));
        let forgotten =
            self.finished.first().map(|((finished_at, _), ())| self.forgotten_at(Timestamp(finished_at)));
        let expires = self.expiry.first().map(|((dead_at, _), ())| Timestamp(dead_at));
        let group = self.groups.first_over().map(|(since, _)| self.forgotten_at(since));
        let call_end = self.calls.next_end().map(|(end, _)| end);
        let (rule_end, cron) = (self.rules.next_end(), self.next_cron());
        [lease_end, due, forgotten, expires, group, call_end, rule_end, cron].into_iter().flatten().min()
    }

    /// The item, unless it is gone or only its move is left.
    pub(in crate::partition) fn visible(&self, number: ItemNumber) -> Option<&Entry> {
        self.items.get(&number).filter(|entry| !self.is_gone(entry) && !entry.state.is_forgotten())
    }

    /// Whether attempts are used up, by the item's own limit or the queue's present one.
    pub(in crate::partition) fn exhausted(&self, entry: &Entry) -> bool {
        let max = self.max_attempts(entry);
        max != 0 && entry.attempts >= max
    }

    /// The item's own limit, else the queue's present one. 0: no limit.
    pub(in crate::partition) fn max_attempts(&self, entry: &Entry) -> u32 {
        let own = entry.extras.as_ref().and_then(|extras| extras.max_attempts);
        own.unwrap_or(self.settings.max_attempts)
    }
}

/// The earliest place of those that stand first of their priority.
pub(in crate::partition) fn oldest_of(lane: &SortedMap<Key, ()>) -> Option<Timestamp> {
    firsts_by_priority(lane).map(|(rank, _)| Timestamp(place_of(rank))).min()
}

/// Jumps from one priority to the next.
fn firsts_by_priority(lane: &SortedMap<Key, ()>) -> impl Iterator<Item = Key> {
    let first = lane.first().map(|(first, ())| first);
    std::iter::successors(first, |&(at, _)| {
        let next = priority_of(at).checked_add(1)?;
        lane.range((rank(next, 0), ItemNumber(0))..).next().map(|(key, ())| key)
    })
}
