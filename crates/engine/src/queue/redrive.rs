//! Waiting items sent back to where they came from, slice by slice.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::limits::Invalid;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::verbs::{Redrive as Slice, RedriveCursor, RedriveTo, Redriven};

use super::QueueHandle;
use crate::commit::{Commit, Committed};
use crate::error::EngineError;
use crate::machine::call::Answer;
use crate::partition::handle::Handle;

/// The items of a dead queue to send on, and where to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redrive {
    /// Unset: each item goes back where it came from, and stays if it came from nowhere.
    pub to: Option<QueueName>,
    /// Unset: every kind.
    pub kind: Option<Arc<str>>,
    /// Unset: all items that are there when the redrive begins.
    pub limit: Option<u64>,
}

impl QueueHandle {
    /// One partition after the other. One that cannot does not keep the others from it; if none could, or one may not have
    /// finished what it began, the caller is told.
    pub(crate) async fn redrive(
        &self,
        redrive: Redrive,
        queues: BTreeSet<Arc<str>>,
    ) -> Result<Committed<u64>, EngineError> {
        if redrive.to.as_ref().is_some_and(|to| *to == self.queue.name) {
            let rule = "another queue than the one that is redriven";
            return Err(Refusal::Invalid(Invalid { field: "to", rule }).into());
        }
        let to = match &redrive.to {
            Some(to) => RedriveTo::Queue(Arc::clone(&to.name)),
            None => RedriveTo::Origins(Arc::new(queues)),
        };
        let mut done = Committed { value: 0, commits: Vec::new() };
        let mut refused = None;
        for handle in &self.partitions {
            let before = done.value;
            match redrive_partition(handle, &redrive, &to, &mut done).await {
                Ok(()) => {}
                Err(error) if done.value > before || error.is_unknown() => {
                    return Err(partly(done.value, error));
                }
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(error) if done.commits.is_empty() => Err(error),
            Some(_) | None => Ok(done),
        }
    }
}

async fn redrive_partition(
    handle: &Handle,
    redrive: &Redrive,
    to: &RedriveTo,
    done: &mut Committed<u64>,
) -> Result<(), EngineError> {
    let (mut from, mut commit) = (None, None);
    loop {
        let left = redrive.limit.map_or(u64::MAX, |limit| limit - done.value);
        if left == 0 {
            break;
        }
        let (count, next, sequence) = redrive_slice(handle, redrive, to, left, from).await?;
        done.value += count;
        commit = Some(Commit { partition: handle.id, sequence });
        from = next;
        if from.is_none() {
            break;
        }
    }
    done.commits.extend(commit);
    Ok(())
}

async fn redrive_slice(
    handle: &Handle,
    redrive: &Redrive,
    to: &RedriveTo,
    left: u64,
    from: Option<RedriveCursor>,
) -> Result<(u64, Option<RedriveCursor>, u64), EngineError> {
    let slice = Slice {
        to: to.clone(),
        kind: redrive.kind.clone(),
        limit: usize::try_from(left).unwrap_or(usize::MAX),
        from,
    };
    let Answer { reply: Redriven { count, next }, sequence } = handle.apply(slice).await?;
    Ok((count, next, sequence))
}

/// What was sent stays sent.
fn partly(count: u64, error: EngineError) -> EngineError {
    EngineError::unknown(format!("sent {count} items, but not all: {error}"))
}
