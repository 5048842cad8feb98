//! Waiting items sent back to where they came from, slice by slice.

use std::sync::Arc;

use windlass_core::command::{Command, Redrive as Slice, RedriveCursor, Refusal, Reply};
use windlass_core::limits::Invalid;

use super::QueueHandle;
use crate::error::EngineError;
use crate::partition::handle::Handle;
use crate::partition::message::{Answer, Done};
use crate::types::{Commit, Committed, Redrive};

impl QueueHandle {
    /// One partition after the other. If one could not, the caller is told how far it came.
    pub(crate) async fn redrive(&self, redrive: Redrive) -> Result<Committed<u64>, EngineError> {
        if redrive.to.as_ref().is_some_and(|to| *to == self.queue.name) {
            let rule = "another queue than the one that is redriven";
            return Err(Refusal::Invalid(Invalid { field: "to", rule }).into());
        }
        let mut done = Committed { value: 0, commits: Vec::new() };
        for handle in &self.partitions {
            if let Err(error) = redrive_partition(handle, &redrive, &mut done).await {
                return Err(partly(done.value, error));
            }
        }
        Ok(done)
    }
}

async fn redrive_partition(
    handle: &Handle,
    redrive: &Redrive,
    done: &mut Committed<u64>,
) -> Result<(), EngineError> {
    let (mut from, mut commit) = (None, None);
    loop {
        let left = redrive.limit.map_or(u64::MAX, |limit| limit - done.value);
        if left == 0 {
            break;
        }
        let (count, next, sequence) = redrive_slice(handle, redrive, left, from).await?;
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
    left: u64,
    from: Option<RedriveCursor>,
) -> Result<(u64, Option<RedriveCursor>, u64), EngineError> {
    let slice = Slice {
        to: redrive.to.as_ref().map(|to| Arc::clone(&to.name)),
        kind: redrive.kind.clone(),
        limit: usize::try_from(left).unwrap_or(usize::MAX),
        from,
    };
    match handle.command(Command::Redrive(slice)).await? {
        Answer { reply: Done::Reply(Reply::Redriven { count, next }), sequence } => {
            Ok((count, next, sequence))
        }
        other => unreachable!("a redrive is answered by a count, not {other:?}"),
    }
}

/// What was sent stays sent.
fn partly(count: u64, error: EngineError) -> EngineError {
    match count {
        0 => error,
        _ => EngineError::unknown(format!("sent {count} items, but not all: {error}")),
    }
}
