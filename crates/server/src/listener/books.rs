//! The books of a budget: how many bytes are taken, and which shares give way.
//!
//! Every request waits for the lock of these books, so nothing here looks at all shares.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::latch::Latch;
use super::timeline::Timeline;

/// Shares that one call evicts at most.
const EVICTIONS_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) bytes: usize,
    /// The part of `bytes` that belongs to shares that are evicted and not dropped yet.
    pub(super) leaving: usize,
    next_number: u64,
    /// Shares that give way, by their number.
    slow: BTreeMap<u64, Slow>,
    /// Shares of `slow` that are not evicted, by the time since when they have been slow.
    by_age: BTreeSet<(Instant, u64)>,
    /// Bytes of the shares in `by_age`, by the same times.
    evictable: Timeline,
    /// Shares of `by_age` that were looked at so far.
    #[cfg(test)]
    looks: usize,
}

#[derive(Debug)]
struct Slow {
    since: Instant,
    bytes: usize,
    /// Bytes of this share that [`Books::leaving`] has: `bytes` at its eviction, or none. The share may have grown since, or may
    /// be listed again after an eviction that came too late.
    leaving: usize,
    eviction: Arc<Latch>,
}

/// Whether a share may grow.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Room {
    Here,
    /// As soon as evicted shares are dropped.
    Soon,
    Nowhere,
}

impl Books {
    pub(super) fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Since when the share has been slow, if it gives way.
    pub(super) fn slow_since(&self, number: u64) -> Option<Instant> {
        self.slow.get(&number).map(|share| share.since)
    }

    /// The share has grown to so many bytes.
    pub(super) fn resize(&mut self, number: u64, bytes: usize) {
        let Some(share) = self.slow.get_mut(&number) else { return };
        if !share.eviction.is_set() {
            self.evictable.add(share.since, bytes - share.bytes);
        }
        share.bytes = bytes;
    }

    /// The share gives way from now on, or gives way already and has been slow since another time.
    pub(super) fn list(&mut self, number: u64, since: Instant, bytes: usize, eviction: &Arc<Latch>) {
        let known = self.slow.get(&number);
        if known.is_some_and(|share| share.since == since) {
            return;
        }
        let leaving = self.remove(number).map_or(0, |share| share.leaving);
        if !eviction.is_set() {
            self.by_age.insert((since, number));
            self.evictable.add(since, bytes);
        }
        self.slow.insert(number, Slow { since, bytes, leaving, eviction: Arc::clone(eviction) });
    }

    /// The share gives way no more: it is dropped, or what it waited for has come.
    pub(super) fn unlist(&mut self, number: u64) {
        if let Some(share) = self.remove(number) {
            self.leaving -= share.leaving;
        }
    }

    fn remove(&mut self, number: u64) -> Option<Slow> {
        let share = self.slow.remove(&number)?;
        if self.by_age.remove(&(share.since, number)) {
            self.evictable.remove(share.since, share.bytes);
        }
        Some(share)
    }

    /// Evicts the slowest shares until `excess` bytes are on their way out. Evicts none if the shares that have been slow since
    /// before `slow_before` have less than `excess` bytes together.
    ///
    /// One call evicts at most `EVICTIONS_MAX` shares, even if these are not enough: the lock is not held for longer. `Soon` makes
    /// the caller ask again for the rest, so that many small shares do not shield large ones. Shares that keep up meanwhile are no
    /// longer slow, so the later call can still find too few.
    pub(super) fn evict(&mut self, excess: usize, slow_before: Instant) -> Room {
        if self.evictable.before(slow_before) < excess {
            return Room::Nowhere;
        }
        for number in self.slowest(excess, slow_before) {
            self.evict_one(number);
        }
        Room::Soon
    }

    /// The shares that have been slow for longest and have `excess` bytes together, or the first `EVICTIONS_MAX` of them.
    fn slowest(&mut self, excess: usize, slow_before: Instant) -> Vec<u64> {
        let (mut chosen, mut bytes) = (Vec::new(), 0);
        for (_, number) in self.by_age.range(..(slow_before, 0)) {
            if bytes >= excess || chosen.len() == EVICTIONS_MAX {
                break;
            }
            #[cfg(test)]
            {
                self.looks += 1;
            }
            bytes += self.slow[number].bytes;
            chosen.push(*number);
        }
        chosen
    }

    fn evict_one(&mut self, number: u64) {
        let share = self.slow.get_mut(&number).expect("`by_age` has shares of `slow`");
        self.by_age.remove(&(share.since, number));
        self.evictable.remove(share.since, share.bytes);
        self.leaving += share.bytes;
        share.leaving = share.bytes;
        share.eviction.set();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// So many shares of one byte each, the first of them slow for longest, and the time before which all are slow.
    fn books_with(shares: u32) -> (Books, Instant) {
        let (mut books, begun) = (Books::default(), Instant::now());
        for age in 0..shares {
            let number = books.next_number();
            books.bytes += 1;
            books.list(number, begun + age * Duration::from_millis(1), 1, &Arc::default());
        }
        (books, begun + shares * Duration::from_millis(1))
    }

    #[test]
    fn an_eviction_looks_at_the_shares_that_it_evicts() {
        let (mut books, now) = books_with(10_000);
        for evictions in 1..=100 {
            assert_eq!(books.evict(3, now), Room::Soon);
            assert_eq!((books.looks, books.leaving), (3 * evictions, 3 * evictions));
        }
        assert!((1..=300).all(|number| books.slow[&number].eviction.is_set()), "the slowest first");
    }

    #[test]
    fn a_call_that_cannot_be_served_evicts_no_share_and_looks_at_none() {
        let (mut books, now) = books_with(10_000);
        assert_eq!(books.evict(10_001, now), Room::Nowhere);
        // A share that keeps up has enough bytes, and is not slow.
        let number = books.next_number();
        books.list(number, now, 100_000, &Arc::default());
        assert_eq!(books.evict(10_001, now), Room::Nowhere);
        assert_eq!((books.looks, books.leaving), (0, 0));
        assert_eq!(books.evict(10_000, now), Room::Soon);
        assert_eq!((books.looks, books.leaving), (EVICTIONS_MAX, EVICTIONS_MAX));
    }

    #[test]
    fn small_shares_do_not_shield_a_large_one() {
        let (mut books, now) = books_with(10_000);
        let (number, large) = (books.next_number(), Arc::default());
        books.list(number, now, 1_000_000, &large);
        let later = now + Duration::from_millis(1);
        let mut asked = 0;
        while !large.is_set() {
            let excess = 1_000_000 - books.leaving;
            assert_eq!(books.evict(excess, later), Room::Soon);
            asked += 1;
        }
        assert_eq!((asked, books.looks), (40, 10_001));
    }

    #[test]
    fn the_bytes_that_can_be_evicted_are_those_of_the_shares_that_are_not() {
        let (mut books, now) = books_with(4);
        let evictable = |books: &Books| books.evictable.before(now + Duration::from_millis(1));
        books.resize(1, 10);
        books.list(2, now, 1, &Arc::clone(&books.slow[&2].eviction));
        assert_eq!((evictable(&books), books.by_age.len()), (13, 4));
        assert_eq!(books.evict(10, now), Room::Soon);
        assert_eq!((evictable(&books), books.leaving), (3, 10));
        books.resize(1, 20);
        books.list(1, now, 20, &Arc::clone(&books.slow[&1].eviction));
        assert_eq!((evictable(&books), books.leaving), (3, 10));
        for number in 1..=4 {
            books.unlist(number);
        }
        assert_eq!((evictable(&books), books.leaving, books.by_age.len()), (0, 0, 0));
    }
}
