//! Buckets of one length: as many as are told.

use std::collections::VecDeque;

use windlass_core::partition::Totals;
use windlass_core::time::{Span, Timestamp};

use super::waits::Waits;
use super::{HISTORY_BUCKETS_MAX, HistoryBucket};

/// How often something was done with an item.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deeds {
    produced: u64,
    completed: u64,
    failed: u64,
    retried: u64,
}

impl Deeds {
    pub(super) fn of(totals: &Totals) -> Self {
        let Totals { produced, completed, failed, retried, .. } = *totals;
        Self { produced, completed, failed, retried }
    }

    pub(super) fn count(self) -> u64 {
        self.produced + self.completed + self.failed + self.retried
    }

    fn add(&mut self, other: Self) {
        self.produced += other.produced;
        self.completed += other.completed;
        self.failed += other.failed;
        self.retried += other.retried;
    }
}

#[derive(Debug)]
pub(super) struct Ring {
    length: Span,
    /// The oldest first. A bucket with nothing in it is not kept.
    buckets: VecDeque<Bucket>,
}

#[derive(Debug, Default)]
struct Bucket {
    /// The number of the stretch of time since 1970, in lengths of the ring.
    index: u64,
    deeds: Deeds,
    waits: Waits,
}

impl Ring {
    pub(super) fn new(length: Span) -> Self {
        Self { length, buckets: VecDeque::new() }
    }

    /// How far back it goes.
    pub(super) fn reach(&self) -> Span {
        Span(self.length.0 * HISTORY_BUCKETS_MAX as u64)
    }

    pub(super) fn count(&mut self, at: Timestamp, deeds: Deeds, waited: &[Span]) {
        let bucket = self.bucket_at(self.index_of(at));
        bucket.deeds.add(deeds);
        waited.iter().for_each(|span| bucket.waits.add(*span));
    }

    /// The latest one if that is later: of two writers at the turn of a bucket, either may come first.
    fn bucket_at(&mut self, index: u64) -> &mut Bucket {
        if self.buckets.back().is_none_or(|latest| latest.index < index) {
            let is_too_old = |bucket: &Bucket| bucket.index + HISTORY_BUCKETS_MAX as u64 <= index;
            let too_old = self.buckets.iter().take_while(|bucket| is_too_old(bucket)).count();
            self.buckets.drain(..too_old);
            self.buckets.push_back(Bucket { index, ..Bucket::default() });
        }
        self.buckets.back_mut().expect("a bucket was added if there was none")
    }

    /// The buckets that have something of the last `span`, none of them from before `since`.
    pub(super) fn shown(&self, since: Timestamp, span: Span, now: Timestamp) -> Vec<HistoryBucket> {
        let latest = self.buckets.back().map_or(0, |bucket| bucket.index).max(self.index_of(now));
        let first_kept = (latest + 1).saturating_sub(HISTORY_BUCKETS_MAX as u64);
        let begin = Timestamp(now.0.saturating_sub(span.0)).max(since);
        let first = self.index_of(begin).max(first_kept);
        let mut kept = self.buckets.iter().skip_while(|bucket| bucket.index < first).peekable();
        let shown = (first..=latest).map(|index| {
            let at = Timestamp(index * self.length.0).max(since);
            kept.next_if(|bucket| bucket.index == index).map_or_else(|| empty(at), |bucket| bucket.shown(at))
        });
        shown.collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }

    fn index_of(&self, at: Timestamp) -> u64 {
        at.0 / self.length.0
    }
}

impl Bucket {
    fn shown(&self, at: Timestamp) -> HistoryBucket {
        let Deeds { produced, completed, failed, retried } = self.deeds;
        HistoryBucket { at, produced, completed, failed, retried, waited: self.waits.waited() }
    }
}

fn empty(at: Timestamp) -> HistoryBucket {
    Bucket::default().shown(at)
}
