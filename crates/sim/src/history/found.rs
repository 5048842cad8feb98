//! Walks through a queue, and changes of many items at once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_engine::Action;

use super::{QueueIndex, Verdict};

/// Filters of a find, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindFilter {
    pub phases: Option<BTreeSet<Phase>>,
    pub kinds: Option<BTreeSet<Arc<str>>>,
    pub address: Option<Arc<str>>,
}

/// One page of a walk through a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindOp {
    /// No two walks share one.
    pub walk: u64,
    /// The place of the page in its walk: 0 is the first. A page that was not answered is asked for again.
    pub page: u32,
    pub queue: QueueIndex,
    pub filter: FindFilter,
    pub newest_first: bool,
    pub limit: usize,
}

/// What a page of a walk showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPage {
    pub items: Vec<FoundItem>,
    /// Whether the walk goes on.
    pub has_next: bool,
}

/// An item as a page of a walk showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundItem {
    pub id: ItemId,
    pub kind: Arc<str>,
    pub phase: Phase,
    pub address: Option<Arc<str>>,
}

/// A change of those items of a queue that a filter takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManyOp {
    pub queue: QueueIndex,
    pub filter: FindFilter,
    pub action: Action,
    /// Nothing is changed: the call only tells what would be.
    pub dry_run: bool,
    pub limit: usize,
}

/// The items that a change of many took, and what became of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManyPage {
    pub results: Vec<(ItemId, Verdict)>,
    /// Whether more items may be taken.
    pub has_next: bool,
}

impl FindFilter {
    pub fn takes_kind(&self, kind: &Arc<str>) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
    }

    pub fn takes_phase(&self, phase: Phase) -> bool {
        self.phases.as_ref().is_none_or(|phases| phases.contains(&phase))
    }

    pub fn takes_address(&self, address: Option<&Arc<str>>) -> bool {
        self.address.is_none() || self.address.as_ref() == address
    }
}

impl ManyOp {
    /// Whether the call takes items away.
    pub fn ends_items(&self) -> bool {
        !self.dry_run && matches!(self.action, Action::Cancel | Action::Delete)
    }

    pub fn deletes(&self) -> bool {
        !self.dry_run && self.action == Action::Delete
    }

    pub fn reruns(&self) -> bool {
        !self.dry_run && self.action == Action::Rerun
    }
}

impl fmt::Display for FindFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(phases) = &self.phases {
            write!(f, " states {phases:?}")?;
        }
        if let Some(kinds) = &self.kinds {
            write!(f, " kinds {kinds:?}")?;
        }
        if let Some(address) = &self.address {
            write!(f, " at {address}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FindOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { walk, page, queue, filter, newest_first, limit } = self;
        let order = if *newest_first { "newest" } else { "oldest" };
        write!(f, "find q{queue} walk {walk} page {page} {order} first, at most {limit}{filter}")
    }
}

impl fmt::Display for ManyOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, filter, action, dry_run, limit } = self;
        let dry_run = if *dry_run { " (dry run)" } else { "" };
        write!(f, "change many of q{queue}: {action:?}{dry_run}, at most {limit}{filter}")
    }
}
