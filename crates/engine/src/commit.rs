//! Replies together with their place in the order of commits.

use windlass_core::id::PartitionId;

use crate::error::EngineError;
use crate::machine::call::Answer;

/// The place of a change in the order in which its partition committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    pub partition: PartitionId,
    pub sequence: u64,
}

/// The reply to a change, and the place of the change in the order of commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed<T> {
    pub value: T,
    /// One for each partition asked; a partition that changed nothing tells its latest. The registry is partition 0.
    pub commits: Vec<Commit>,
}

impl<T> Committed<T> {
    /// The answer of one partition.
    pub(crate) fn by(partition: PartitionId, answer: Answer<T>) -> Self {
        let commits = vec![Commit { partition, sequence: answer.sequence }];
        Self { value: answer.reply, commits }
    }
}

/// The replies to a call that judges each item by itself.
#[derive(Clone, Debug)]
pub struct Judged<T> {
    /// In the order given.
    pub results: Vec<Result<T, EngineError>>,
    pub commits: Vec<Commit>,
}
