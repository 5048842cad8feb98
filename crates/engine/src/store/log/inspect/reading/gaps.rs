//! The missing parts of a damaged snapshot: its blocks are in the order of partitions and keys, so between two that can
//! be read lies all that those in between held.

use std::collections::BTreeSet;

use windlass_core::codec;
use windlass_core::id::ItemNumber;
use windlass_core::row::{Change, Key, Part};

use crate::store::bodies::BodyKey;
use crate::store::log::inspect::loss::rescue::Step;

/// A place in the order of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    partition: u32,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Row(Vec<u8>),
    Body(BodyKey),
}

impl Position {
    pub(crate) fn row(partition: u32, key: &Key) -> Self {
        let mut bytes = Vec::new();
        codec::encode_key(key, &mut bytes);
        Self { partition, kind: Kind::Row(bytes) }
    }

    pub(crate) fn body(partition: u32, key: BodyKey) -> Self {
        Self { partition, kind: Kind::Body(key) }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// Each after the first and before the second; `None` is the beginning or the end.
    gaps: Vec<(Option<Position>, Option<Position>)>,
    last: Option<Position>,
    open: bool,
    /// The only partitions that the snapshot has, if it could still tell.
    partitions: Option<BTreeSet<u32>>,
}

impl Gaps {
    /// All of the snapshot is missing.
    pub(crate) fn everything() -> Self {
        Self { gaps: vec![(None, None)], ..Self::default() }
    }

    pub(crate) fn within(partitions: Option<BTreeSet<u32>>) -> Self {
        Self { partitions, ..Self::default() }
    }

    /// The next block cannot be read.
    pub(crate) fn open(&mut self) {
        self.open = true;
    }

    /// Everything from the first to the last position was read.
    pub(crate) fn read(&mut self, first: Position, last: Position) {
        if std::mem::take(&mut self.open) {
            self.gaps.push((self.last.take(), Some(first)));
        }
        self.last = Some(last);
    }

    pub(crate) fn finish(&mut self) {
        if std::mem::take(&mut self.open) {
            self.gaps.push((self.last.take(), None));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    fn contains(&self, position: &Position) -> bool {
        let within = |(after, before): &(Option<Position>, Option<Position>)| {
            after.as_ref().is_none_or(|after| after < position)
                && before.as_ref().is_none_or(|before| position < before)
        };
        let exists = self.partitions.as_ref().is_none_or(|all| all.contains(&position.partition));
        exists && self.gaps.iter().any(within)
    }

    /// Whether the index named the partition among those of the snapshot.
    pub(crate) fn names(&self, partition: u32) -> bool {
        self.partitions.as_ref().is_some_and(|all| all.contains(&partition))
    }

    /// The part of a commit before the snapshot that the snapshot does not tell any more.
    pub(crate) fn fill(&self, partition: u32, steps: Vec<Step>) -> Vec<Step> {
        let fill = |step| match step {
            Step::Change(change) => {
                self.fill_one(partition, change).into_iter().map(Step::Change).collect::<Vec<_>>()
            }
            Step::Missing(key, missing) if self.contains(&Position::body(partition, key)) => {
                vec![Step::Missing(key, missing)]
            }
            Step::Missing(..) => Vec::new(),
        };
        steps.into_iter().flat_map(fill).collect()
    }

    fn fill_one(&self, partition: u32, change: Change) -> Vec<Change> {
        let body = |number: ItemNumber, part: Part| Position::body(partition, BodyKey::new(number, part));
        let position = match &change {
            Change::Put(row) => Position::row(partition, &row.key()),
            Change::Remove(key) => Position::row(partition, key),
            Change::PutBody { number, part, .. } | Change::RemoveBody { number, part } => {
                body(*number, *part)
            }
        };
        // Events that go at once are not in the snapshot, whatever of it can be read.
        if self.contains(&position) || matches!(change, Change::Remove(Key::Events(_, None))) {
            return vec![change];
        }
        // The row is told by the snapshot; its bodies, which go with it, may not be.
        let (number, parts) = match change {
            Change::Remove(Key::Item(number)) => (number, Part::ALL.to_vec()),
            Change::Remove(Key::Events(number, Some(first_seq))) => (number, vec![Part::Events(first_seq)]),
            Change::Put(_) | Change::Remove(_) | Change::PutBody { .. } | Change::RemoveBody { .. } => {
                return Vec::new();
            }
        };
        let gone = parts.into_iter().filter(|part| self.contains(&body(number, *part)));
        gone.map(|part| Change::RemoveBody { number, part }).collect()
    }
}
