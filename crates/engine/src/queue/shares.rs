//! A call on items of several partitions: each gets its share, and the answers are put together again.

use std::collections::BTreeMap;

use windlass_core::id::PartitionId;

use crate::commit::{Commit, Judged};
use crate::error::EngineError;
use crate::machine::call::{Answer, Awaited, received};

/// The items of a call that belong together, in the order given, and where in the call they stand.
pub(super) struct Share<I> {
    pub(super) indexes: Vec<usize>,
    pub(super) items: Vec<I>,
}

impl<I> Default for Share<I> {
    fn default() -> Self {
        Self { indexes: Vec::new(), items: Vec::new() }
    }
}

/// Items with their places in the call.
pub(super) fn shares<I, K: Ord>(
    items: impl IntoIterator<Item = (usize, I)>,
    of: impl Fn(&I) -> K,
) -> BTreeMap<K, Share<I>> {
    let mut shares: BTreeMap<K, Share<I>> = BTreeMap::new();
    for (index, item) in items {
        let share = shares.entry(of(&item)).or_default();
        share.indexes.push(index);
        share.items.push(item);
    }
    shares
}

/// A share that a partition was asked to judge, or could not be.
pub(super) struct Asked<R> {
    pub(super) partition: PartitionId,
    pub(super) indexes: Vec<usize>,
    pub(super) answer: Result<Awaited<R>, EngineError>,
}

/// Waits for all of them. Where nobody was asked, what `results` says stands.
pub(super) async fn judged<R, T>(
    asked: Vec<Asked<R>>,
    mut results: Vec<Result<T, EngineError>>,
    mut unpack: impl FnMut(PartitionId, R) -> Vec<Result<T, EngineError>>,
) -> Judged<T> {
    let mut commits = Vec::new();
    for Asked { partition, indexes, answer } in asked {
        let answer = match answer {
            Ok(answer) => received(answer.await),
            Err(error) => Err(error),
        };
        match answer {
            Ok(Answer { reply, sequence }) => {
                commits.push(Commit { partition, sequence });
                let unpacked = unpack(partition, reply);
                indexes.into_iter().zip(unpacked).for_each(|(index, result)| results[index] = result);
            }
            Err(error) => indexes.into_iter().for_each(|index| results[index] = Err(error.clone())),
        }
    }
    Judged { results, commits }
}
