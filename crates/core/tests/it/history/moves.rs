//! Items that leave for other queues, and some that come from there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::script::arrived;
use bytes::Bytes;
use windlass_core::headers::Hashes;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item::{Item, MoveNumber, MoveReason, Origin, Phase, State};
use windlass_core::partition::Target;
use windlass_core::refusal::Refusal;
use windlass_core::row::Row;
use windlass_core::time::Timestamp;
use windlass_core::verbs::{Arriving, ArrivingItem, Assign, FallBack, Move, Moved, Redrive, RedriveTo, Take};

use super::{History, kind_name};

impl History {
    /// The first ones that wait and came from elsewhere.
    pub(super) fn redrive(&mut self, limit: usize, before: &BTreeMap<ItemNumber, Item>) {
        let origin = |item: &Item| item.extras.as_ref().and_then(|extras| extras.origin.clone());
        let came = |item: &&Item| {
            self.is_waiting(item)
                && origin(item).is_some_and(|origin| origin.reason != MoveReason::Rerun)
                && !self.is_overdue(item.number)
        };
        let mut expected: Vec<_> = before.values().filter(came).collect();
        expected.sort_by_key(|item| (item.priority, item.place));
        expected.truncate(limit);
        let to = RedriveTo::Origins(Arc::new(["elsewhere".into()].into()));
        let redrive = Redrive { to, kind: None, limit, from: None, asked: BTreeMap::new() };
        let redriven = self.apply(redrive).expect("a redrive is never refused");
        assert_eq!(redriven.count, expected.len() as u64);
        for item in expected {
            let left =
                self.partition.get(item.number).expect("it is kept until it has arrived, and after that");
            assert_eq!(left.state.phase(), Phase::Cancelled);
            self.ended.insert(item.number);
        }
    }

    pub(super) fn assign(&mut self, limit: usize) {
        for Target { queue, partition } in self.partition.targets() {
            let taker = taker(&queue);
            let instead_of = partition.filter(|_| limit == 1);
            if partition.is_some() && instead_of.is_none() {
                continue;
            }
            let before = self.partition.departures(taker, 1000).len();
            let to = Arc::clone(&queue);
            let assign = Assign { queue, to, partition: taker, instead_of, limit, addressed: Vec::new() };
            let count = self.apply(assign).expect("an assignment is never refused");
            assert!((1..=limit).contains(&count));
            let added = if instead_of.is_none() { count } else { 0 };
            assert_eq!(self.partition.departures(taker, 1000).len(), before + added);
        }
    }

    /// The payload goes when the item has arrived, not before.
    pub(super) fn arrive(&mut self, but: usize) {
        for queue in ["dead", "elsewhere"] {
            self.arrive_at(taker(queue), but);
        }
    }

    pub(super) fn arrive_at(&mut self, taker: PartitionId, but: usize) {
        let departures = self.partition.departures(taker, 1000);
        assert!(departures.is_sorted_by_key(|departure| departure.number));
        let Some(last) = departures.len().checked_sub(1 + but) else { return };
        let moved = Moved { partition: taker, arrived: arrived(departures[last].number) };
        assert_eq!(self.apply(moved), Ok(last + 1));
        assert_eq!(self.partition.departures(taker, 1000), departures[last + 1..]);
    }

    /// The oldest of what is on its way ends here after all, for as long as there is too much of it.
    pub(super) fn fall_back(&mut self, limit: usize) {
        for queue in ["dead", "elsewhere"] {
            let (before, overflowed) = (self.leaving(), self.partition.overflows(queue));
            let forgotten = before.iter().filter(|number| self.partition.get(**number).is_none());
            let forgotten: Vec<_> = forgotten.copied().collect();
            forgotten.into_iter().for_each(|number| self.streams.forget(number));
            let count = self.apply(FallBack { queue: queue.into(), limit }).expect("it is never refused");
            assert!(count <= limit && (overflowed || count == 0));
            let after = self.leaving();
            let stayed: Vec<_> = before.difference(&after).copied().collect();
            assert_eq!((stayed.len(), before.len() - after.len()), (count, count));
            for number in &stayed {
                let Some(item) = self.partition.get(*number) else {
                    assert!(self.deleted.contains(number), "{number:?} is gone");
                    continue;
                };
                let State::Final(outcome) = item.state else { panic!("{number:?} lives again") };
                assert_eq!((outcome.finished_at, outcome.payload_kept), (self.now, true));
            }
            self.fell_back.1 += count as u64;
            self.fell_back.0.extend(stayed);
        }
    }

    fn leaving(&self) -> BTreeSet<ItemNumber> {
        let leaving = |row| match row {
            Row::Item(item) => item.state.outgoing().is_some().then_some(item.number),
            _ => None,
        };
        self.partition.rows().filter_map(leaving).collect()
    }

    pub(super) fn take(&mut self, new: usize, old: usize) {
        let first = self.taken.saturating_sub(old as u64) + 1;
        let last = self.taken + new as u64;
        let moves = (first..=last).map(|number| moved(MoveNumber(number), self.now)).collect();
        let take = Take { source: PartitionId(3), moves };
        let before: BTreeSet<_> = self.items().into_keys().collect();
        let reply = self.apply(take);
        if !self.takes_moves() {
            assert_eq!(reply, Err(Refusal::Moved));
            return;
        }
        assert_eq!(reply.map(|arrived| arrived.last), Ok(MoveNumber(last)));
        self.taken = last;
        for number in self.items().into_keys().filter(|number| !before.contains(number)) {
            self.made.push(number);
            self.not_before.insert(number, Timestamp(0));
            self.max_attempts.insert(number, self.settings.max_attempts);
            self.made(number, None);
        }
    }
}

/// Who takes what leaves.
fn taker(queue: &str) -> PartitionId {
    PartitionId(if queue == "dead" { 9 } else { 8 })
}

fn moved(number: MoveNumber, moved_at: Timestamp) -> Move {
    let origin = Origin {
        queue: "elsewhere".into(),
        id: None,
        group: None,
        address: None,
        attempts: Some(3),
        reason: MoveReason::Attempts,
        error: None,
        moved_at,
        unknown: Vec::new(),
    };
    Move {
        number,
        what: Arriving::Item(Box::new(ArrivingItem {
            kind: kind_name((number.0 % 3) as u8),
            priority: 0,
            origin,
            cron: None,
            address: None,
            address_taken: false,
            enqueue_at: None,
            max_attempts: None,
            dead_timeout: None,
            hashes: Hashes::Unknown,
        })),
        body: Some(Bytes::new()),
        facts: None,
        attempts: Vec::new(),
    }
}
