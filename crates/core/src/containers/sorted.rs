//! [`SortedMap`]: an ordered map for millions of small entries.
//!
//! A `BTreeMap` filled in order leaves its nodes half empty, which is the common case here: numbers and places grow.
//! This one keeps its entries in chunks, each a `VecDeque`, under a `BTreeMap` of their lower bounds. Chunks filled
//! in order are full, both ends are cheap to take from, and an emptied chunk gives its memory back at once. A chunk
//! that loses entries becomes one with a neighbour, or gives back what it does not use.

use std::collections::btree_map::{self, BTreeMap};
use std::collections::vec_deque::{self, VecDeque};
use std::fmt;
use std::ops::{RangeFrom, RangeToInclusive};

const CHUNK_MAX: usize = 128;
/// Sparse neighbours become one when what they hold fits in this, so that the next insert does not split them again.
const MERGED_MAX: usize = 96;

#[derive(Clone)]
pub struct SortedMap<K: Ord + Copy, V> {
    /// Every chunk is under a key that is not above its first one and above the last one of the chunk before.
    /// None is empty.
    chunks: BTreeMap<K, Chunk<K, V>>,
    /// That of the last chunk, at hand because what grows comes in there.
    last_bound: Option<K>,
    len: usize,
}

type Chunk<K, V> = VecDeque<(K, V)>;

enum Whereabouts {
    /// Below every bound.
    Nowhere,
    First,
    Last,
    Between,
}

impl<K: Ord + Copy, V> SortedMap<K, V> {
    pub const fn new() -> Self {
        Self { chunks: BTreeMap::new(), last_bound: None, len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// How many entries there is memory for.
    pub fn capacity(&self) -> usize {
        self.chunks.values().map(Chunk::capacity).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        let (_, chunk) = match self.whereabouts(key) {
            Whereabouts::Nowhere => return None,
            Whereabouts::First => self.chunks.first_key_value()?,
            Whereabouts::Last => self.chunks.last_key_value()?,
            Whereabouts::Between => self.chunks.range(..=key).next_back()?,
        };
        let at = find(chunk, key).ok()?;
        Some(&chunk[at].1)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (_, chunk) = self.chunk_mut(key)?;
        let at = find(chunk, key).ok()?;
        Some(&mut chunk[at].1)
    }

    /// Whether a key's chunk is the first or the last one: there the work is, and those are found without a search.
    fn whereabouts(&self, key: &K) -> Whereabouts {
        if self.last_bound.is_some_and(|bound| bound <= *key) {
            return Whereabouts::Last;
        }
        let Some((first_bound, first)) = self.chunks.first_key_value() else { return Whereabouts::Nowhere };
        if key < first_bound {
            return Whereabouts::Nowhere;
        }
        let in_first = first.back().is_some_and(|(last, _)| key <= last);
        if in_first { Whereabouts::First } else { Whereabouts::Between }
    }

    /// The chunk that has the key if any has, and its bound.
    fn chunk_mut(&mut self, key: &K) -> Option<(K, &mut Chunk<K, V>)> {
        match self.whereabouts(key) {
            Whereabouts::Nowhere => None,
            Whereabouts::First => self.chunks.first_entry().map(|first| (*first.key(), first.into_mut())),
            Whereabouts::Last => self.chunks.last_entry().map(|last| (*last.key(), last.into_mut())),
            Whereabouts::Between => {
                self.chunks.range_mut(..=key).next_back().map(|(bound, chunk)| (*bound, chunk))
            }
        }
    }

    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub fn first(&self) -> Option<(K, &V)> {
        let (_, chunk) = self.chunks.first_key_value()?;
        chunk.front().map(|(key, value)| (*key, value))
    }

    pub fn last(&self) -> Option<(K, &V)> {
        let (_, chunk) = self.chunks.last_key_value()?;
        chunk.back().map(|(key, value)| (*key, value))
    }

    /// The value that was under the key before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some((_, chunk)) = self.chunk_mut(&key) else {
            self.insert_first(key, value);
            self.len += 1;
            return None;
        };
        match find(chunk, &key) {
            Ok(at) => return Some(std::mem::replace(&mut chunk[at].1, value)),
            Err(_) if chunk.len() == CHUNK_MAX => {
                let (bound, split) = insert_full(chunk, key, value);
                self.chunks.insert(bound, split);
                self.last_bound = self.last_bound.max(Some(bound));
            }
            Err(at) => insert_at(chunk, at, key, value),
        }
        self.len += 1;
        None
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (bound, chunk) = self.chunk_mut(key)?;
        let at = find(chunk, key).ok()?;
        let (_, value) = chunk.remove(at).expect("`find` gives places within the chunk");
        let (left, capacity) = (chunk.len(), chunk.capacity());
        self.shrunk(bound, left, capacity);
        Some(value)
    }

    pub fn pop_first(&mut self) -> Option<(K, V)> {
        let mut entry = self.chunks.first_entry()?;
        let first = entry.get_mut().pop_front().expect("no chunk is empty");
        let (bound, left, capacity) = (*entry.key(), entry.get().len(), entry.get().capacity());
        self.shrunk(bound, left, capacity);
        Some(first)
    }

    pub fn iter(&self) -> Iter<'_, K, V> {
        let rest = self.chunks.values();
        Iter { chunk: vec_deque::Iter::default(), rest: Rest::All(rest) }
    }

    /// From a key on, whether or not it is there.
    pub fn range(&self, from: RangeFrom<K>) -> Iter<'_, K, V> {
        let from = from.start;
        let Some((bound, chunk)) = self.chunks.range(..=from).next_back() else { return self.iter() };
        let at = find(chunk, &from).unwrap_or_else(|at| at);
        let mut rest = self.chunks.range(*bound..);
        rest.next();
        Iter { chunk: chunk.range(at..), rest: Rest::After(rest) }
    }

    /// From a key on backwards, whether or not it is there.
    pub fn range_back(&self, to: RangeToInclusive<K>) -> impl Iterator<Item = (K, &V)> {
        let to = to.end;
        self.chunks.range(..=to).rev().flat_map(move |(_, chunk)| {
            let end = find(chunk, &to).map_or_else(|at| at, |at| at + 1);
            chunk.range(..end).rev().map(|(key, value)| (*key, value))
        })
    }

    /// How many keys are below one. Looks at no more chunks than are left, and takes those off; what it could not look at
    /// does not count.
    pub fn count_below(&self, key: &K, chunks_left: &mut usize) -> usize {
        let mut below = 0;
        for (_, chunk) in self.chunks.range(..=key).take(*chunks_left) {
            below += find(chunk, key).unwrap_or_else(|at| at);
            *chunks_left -= 1;
        }
        below
    }

    /// For a key below every bound: the first chunk takes it, under a new bound, while it has room.
    fn insert_first(&mut self, key: K, value: V) {
        let mut chunk = match self.chunks.first_entry() {
            Some(first) if first.get().len() < CHUNK_MAX => first.remove(),
            Some(_) | None => Chunk::new(),
        };
        insert_at(&mut chunk, 0, key, value);
        self.chunks.insert(key, chunk);
        self.last_bound = self.chunks.last_key_value().map(|(bound, _)| *bound);
    }

    /// After the chunk under `gone` was taken out.
    fn find_last_bound(&mut self, gone: K) {
        if self.last_bound == Some(gone) {
            self.last_bound = self.chunks.last_key_value().map(|(bound, _)| *bound);
        }
    }

    /// Keeps the promises about chunks after one lost an entry.
    fn shrunk(&mut self, bound: K, left: usize, capacity: usize) {
        self.len -= 1;
        if left == 0 {
            self.chunks.remove(&bound);
            self.find_last_bound(bound);
        } else if left <= capacity / 4 * 3 && !self.is_at_an_end(bound) {
            self.tighten(bound);
        } else if left <= capacity / 4 {
            // Work goes on at the ends: a queue that is taken from the front passes here once per entry.
            self.tighten(bound);
        }
    }

    fn is_at_an_end(&self, bound: K) -> bool {
        let first = self.chunks.first_key_value().map(|(first, _)| *first);
        first == Some(bound) || self.last_bound == Some(bound)
    }

    /// Makes a chunk one with a sparse neighbour, or else as small as it can be.
    fn tighten(&mut self, bound: K) {
        let before = self.chunks.range(..bound).next_back().map(|(bound, _)| *bound);
        if !self.merge_with_next(bound)
            && !before.is_some_and(|before| self.merge_with_next(before))
            && let Some(chunk) = self.chunks.get_mut(&bound)
        {
            *chunk = fitting(std::mem::take(chunk), Chunk::new());
        }
    }

    /// Merges a chunk with its next neighbour. Returns `false` if there is no neighbour, or no room for both in one chunk.
    fn merge_with_next(&mut self, bound: K) -> bool {
        let mut pair = self.chunks.range(bound..);
        let (Some((_, chunk)), Some((&next_bound, next))) = (pair.next(), pair.next()) else { return false };
        if chunk.len() + next.len() > MERGED_MAX {
            return false;
        }
        let next = self.chunks.remove(&next_bound).expect("it was there a line ago");
        self.find_last_bound(next_bound);
        let chunk = self.chunks.get_mut(&bound).expect("it was there a line ago");
        *chunk = fitting(std::mem::take(chunk), next);
        true
    }
}

/// Two chunks as one, in newly allocated memory of the right size. Shrinking a chunk in place would leave a hole in the heap
/// a little smaller than the next chunk needs.
fn fitting<K, V>(chunk: Chunk<K, V>, next: Chunk<K, V>) -> Chunk<K, V> {
    let mut both = Chunk::with_capacity(chunk.len() + next.len());
    both.extend(chunk);
    both.extend(next);
    both
}

fn find<K: Ord + Copy, V>(chunk: &Chunk<K, V>, key: &K) -> Result<usize, usize> {
    // Both ends first: numbers that grow come in at the back and leave at the front.
    match chunk.back() {
        Some((last, _)) if last < key => return Err(chunk.len()),
        Some((last, _)) if last == key => return Ok(chunk.len() - 1),
        Some(_) | None => {}
    }
    match chunk.front() {
        Some((first, _)) if first == key => Ok(0),
        Some(_) | None => chunk.binary_search_by(|(other, _)| other.cmp(key)),
    }
}

fn insert_at<K: Ord + Copy, V>(chunk: &mut Chunk<K, V>, at: usize, key: K, value: V) {
    if chunk.len() == chunk.capacity() {
        // By a quarter, for a doubled one would be empty by a third most of the time.
        chunk.reserve_exact((chunk.len() / 4).max(4).min(CHUNK_MAX - chunk.len()));
    }
    if at == chunk.len() {
        chunk.push_back((key, value));
    } else {
        chunk.insert(at, (key, value));
    }
}

/// Into a chunk without room: what comes after the last entry begins a chunk of its own, so that a map filled in
/// order has full chunks; anything else splits the chunk in half.
fn insert_full<K: Ord + Copy, V>(chunk: &mut Chunk<K, V>, key: K, value: V) -> (K, Chunk<K, V>) {
    let at = find(chunk, &key).expect_err("only new keys are inserted");
    if at == chunk.len() {
        // It will be filled like the one before, so it does not grow bit by bit.
        let mut next = Chunk::with_capacity(CHUNK_MAX);
        next.push_back((key, value));
        return (key, next);
    }
    let mut upper = chunk.split_off(CHUNK_MAX / 2);
    chunk.shrink_to(MERGED_MAX);
    let bound = upper.front().expect("half of a full chunk").0;
    let half = if key < bound { &mut *chunk } else { &mut upper };
    let at = find(half, &key).expect_err("only new keys are inserted");
    insert_at(half, at, key, value);
    (bound, upper)
}

/// In the order of keys.
pub struct Iter<'a, K, V> {
    chunk: vec_deque::Iter<'a, (K, V)>,
    rest: Rest<'a, K, V>,
}

enum Rest<'a, K, V> {
    All(btree_map::Values<'a, K, Chunk<K, V>>),
    After(btree_map::Range<'a, K, Chunk<K, V>>),
}

impl<'a, K: Ord + Copy, V> Iterator for Iter<'a, K, V> {
    type Item = (K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.chunk.next() {
                return Some((*key, value));
            }
            self.chunk = match &mut self.rest {
                Rest::All(chunks) => chunks.next()?.iter(),
                Rest::After(chunks) => chunks.next()?.1.iter(),
            };
        }
    }
}

impl<K: Ord + Copy, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

// Two maps are the same if they hold the same, however their histories cut it into chunks.
impl<K: Ord + Copy, V: PartialEq> PartialEq for SortedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Ord + Copy + fmt::Debug, V: fmt::Debug> fmt::Debug for SortedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K, V> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Iter { .. }")
    }
}

impl<'a, K: Ord + Copy, V> IntoIterator for &'a SortedMap<K, V> {
    type Item = (K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
