//! Work done.

use super::group_end::count_end;
use super::{Output, Partition};
use crate::command::{Completion, Refusal, Reply};
use crate::item::{End, LeaseEnd, State};
use crate::time::Timestamp;

impl Partition {
    pub(super) fn complete(
        &mut self,
        now: Timestamp,
        completions: Vec<Completion>,
        out: &mut Output,
    ) -> Reply {
        out.changes.reserve(completions.len());
        let done = completions.into_iter().map(|completion| self.complete_one(now, completion, out));
        Reply::Done(done.collect())
    }

    /// A completion counts even if a cancel was asked for meanwhile: the work is done.
    fn complete_one(
        &mut self,
        now: Timestamp,
        completion: Completion,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let Completion { held, result } = completion;
        let (entry, lease) = self.held(held, now)?;
        // Most leave nothing behind and have nobody to be told.
        if result.is_none() && !entry.has_something_to_show() && !self.is_watched(held.number) {
            out.totals.completed += 1;
            count_end(entry.group, End::Completed, out);
            self.erase(held.number, out);
            return Ok(());
        }
        let last = entry.after_lease(lease, LeaseEnd::Completed, State::Waiting);
        self.finish_with(now, held.number, last, End::Completed, result, out);
        Ok(())
    }
}
