//! How old the oldest waiting item is, for whoever asks after every commit: only lanes that were touched since are
//! looked at again, so that it costs nothing for the kinds that rest.

use std::collections::{BTreeMap, BTreeSet};

use crate::effort::{self, Looked};
use crate::partition::Partition;
use crate::partition::index::lanes::Lane;
use crate::partition::queries::head::oldest_of;
use crate::time::Timestamp;

#[derive(Default)]
pub(in crate::partition) struct Ages {
    visible_from: u32,
    by_lane: BTreeMap<Lane, Timestamp>,
    /// Lanes by the age of their oldest item, one set per era: a clear drops whole eras instead of single lanes.
    in_order: BTreeMap<u32, BTreeSet<(Timestamp, Lane)>>,
    /// Lanes whose age in `by_lane` may be outdated. So may that of `latest`.
    touched: BTreeSet<Lane>,
    /// The lane that was touched last: a batch is mostly of one kind, and then `touched` stays empty.
    latest: Option<Lane>,
}

impl Ages {
    pub(in crate::partition) fn touched(&mut self, lane: Lane) {
        if self.latest != Some(lane) {
            self.touched.extend(self.latest.replace(lane));
        }
    }

    pub(in crate::partition) fn all_touched(&mut self, lanes: impl Iterator<Item = Lane>) {
        self.touched.extend(lanes);
    }

    fn next_touched(&mut self) -> Option<Lane> {
        self.latest.take().or_else(|| self.touched.pop_first())
    }

    fn set(&mut self, lane: Lane, oldest: Option<Timestamp>) {
        let before = match oldest {
            Some(oldest) => self.by_lane.insert(lane, oldest),
            None => self.by_lane.remove(&lane),
        };
        if before == oldest {
            return;
        }
        let in_order = self.in_order.entry(lane.era).or_default();
        if let Some(before) = before {
            in_order.remove(&(before, lane));
        }
        if let Some(oldest) = oldest {
            in_order.insert((oldest, lane));
        }
        if in_order.is_empty() {
            self.in_order.remove(&lane.era);
        }
    }

    pub(in crate::partition) fn show_from(&mut self, era: u32) {
        self.visible_from = era;
    }

    fn is_touched(&self, lane: Lane) -> bool {
        self.latest == Some(lane) || self.touched.contains(&lane)
    }

    /// The oldest age among the lanes that were not touched since they were looked at.
    fn oldest_untouched(&self) -> Option<Timestamp> {
        let eras = self.in_order.range(self.visible_from..).map(|(_, in_order)| in_order);
        let oldest = |in_order: &BTreeSet<(Timestamp, Lane)>| {
            in_order.iter().find(|(_, lane)| !self.is_touched(*lane)).map(|(oldest, _)| *oldest)
        };
        eras.filter_map(oldest).min()
    }
}

impl Partition {
    /// Since when the item stands in the queue that stands there longest: its place is about the time at which it
    /// joined. One that goes back to its own place after an attempt has stood there all along. Costs as much as was touched
    /// since [`Partition::next_oldest_waiting`].
    pub fn oldest_waiting(&self) -> Option<Timestamp> {
        let touched = self.ages.touched.iter().chain(&self.ages.latest);
        let oldest_touched = touched.filter_map(|lane| self.oldest_in(*lane)).min();
        self.ages.oldest_untouched().into_iter().chain(oldest_touched).min()
    }

    /// As [`Partition::oldest_waiting`], and remembers it.
    pub fn next_oldest_waiting(&mut self) -> Option<Timestamp> {
        while let Some(lane) = self.ages.next_touched() {
            let oldest = self.oldest_in(lane);
            self.ages.set(lane, oldest);
        }
        self.ages.oldest_untouched()
    }

    fn oldest_in(&self, lane: Lane) -> Option<Timestamp> {
        effort::look(Looked::Indexed);
        self.lanes.open_lane(lane).and_then(oldest_of)
    }
}
