//! How old the oldest waiting item is, for whoever asks after every commit: only lanes that were touched since are
//! looked at again, so that it costs nothing for the kinds that rest.

use std::collections::{BTreeMap, BTreeSet};

use super::Partition;
use super::index::Lane;
use super::queries::oldest_of;
use crate::time::Timestamp;

#[derive(Default)]
pub(super) struct Ages {
    by_lane: BTreeMap<Lane, Timestamp>,
    in_order: BTreeSet<(Timestamp, Lane)>,
    /// What is known of these may no longer be so, nor of the latest.
    touched: BTreeSet<Lane>,
    /// A batch is mostly of one kind, and then needs no set.
    latest: Option<Lane>,
}

impl Ages {
    pub(super) fn touched(&mut self, lane: Lane) {
        if self.latest != Some(lane) {
            self.touched.extend(self.latest.replace(lane));
        }
    }

    pub(super) fn all_touched(&mut self, lanes: impl Iterator<Item = Lane>) {
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
        if let Some(before) = before {
            self.in_order.remove(&(before, lane));
        }
        if let Some(oldest) = oldest {
            self.in_order.insert((oldest, lane));
        }
    }
}

impl Partition {
    /// As [`Partition::oldest_waiting`], at the cost of what has changed since the last time.
    pub fn next_oldest_waiting(&mut self) -> Option<Timestamp> {
        while let Some(lane) = self.ages.next_touched() {
            let oldest = self.lanes.open_lane(lane).and_then(oldest_of);
            self.ages.set(lane, oldest);
        }
        self.ages.in_order.first().map(|(oldest, _)| *oldest)
    }
}
