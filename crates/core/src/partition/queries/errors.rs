//! What final items that are kept failed with. Items that were cleared count once the sweep has written them down; those on
//! their way to another queue count as what they are shown as.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::id::ItemNumber;
use crate::partition::Partition;
use crate::partition::index::errors::Share;
use crate::time::Timestamp;

/// Codes that a partition tells apart: the most frequent ones.
pub const ERROR_CODES_MAX: usize = 1000;

/// The code that all others count as.
pub const OTHER_CODES: &str = "other";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// Empty for errors without a code.
    pub code: Arc<str>,
    pub count: u64,
    /// The item that ended last of those that have it.
    pub latest: ItemNumber,
    pub latest_at: Timestamp,
}

impl Partition {
    /// The most frequent error codes; those that are equally frequent by name.
    pub fn errors(&self, limit: usize) -> Vec<ErrorCode> {
        let other = Arc::from(OTHER_CODES);
        let (mut shares, rest) = self.finders.errors().shares(ERROR_CODES_MAX, &other);
        if let Some(rest) = rest {
            // Workers may have a code of that name themselves.
            match shares.iter_mut().find(|share| share.code == other) {
                Some(share) => {
                    share.count += rest.count;
                    share.latest = share.latest.max(rest.latest);
                }
                None => shares.push(rest),
            }
            shares.sort_by_key(|share| (Reverse(share.count), Arc::clone(&share.code)));
        }
        shares.truncate(limit);
        shares.into_iter().map(ErrorCode::of).collect()
    }
}

impl ErrorCode {
    fn of(share: Share) -> Self {
        let (latest_at, latest) = share.latest;
        Self { code: share.code, count: share.count, latest, latest_at }
    }
}
