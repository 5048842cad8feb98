//! Items that belong together: held back until their group is started, and followed by an item of their own once the last
//! of them is gone.

use std::ops::AddAssign;
use std::sync::Arc;

use crate::headers::Hashes;
use crate::id::{GroupNumber, ItemNumber};
use crate::item::End;
use crate::partition::Counts;
use crate::time::{Span, Timestamp};

/// A group as its row holds it. Which members live is told by their own rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub number: GroupNumber,
    /// No two groups of a partition have the same, but for deleted ones.
    pub name: Arc<str>,
    pub created_at: Timestamp,
    pub state: GroupState,
    /// Members that ended, as far as it is written down. Those that were cleared, or cancelled with the group, count
    /// in it once the sweep has come by.
    pub ended: Ended,
    /// What is made when it is done. Not there any more once it is finished.
    pub end: Option<Box<Template>>,
    /// What is made when it was cancelled and the last member is gone. Likewise.
    pub abort: Option<Box<Template>>,
    /// Nobody is shown it any more: its row is kept for the items that still name it.
    pub deleted: bool,
    pub started_at: Option<Timestamp>,
    /// Set by the cancel, if the queue keeps all that ends: the members that go with the group are kept, also those with
    /// nothing to show.
    pub keeps_all: bool,
    /// Set by the cancel, if the queue keeps no payload of a cancelled item: none is kept of the members that go with the
    /// group.
    pub drops_payload: bool,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// Its members are held.
    Open,
    Started,
    /// Started, and no member is left.
    Done {
        at: Timestamp,
    },
    /// Its members are gone but for those that are leased.
    Cancelled {
        at: Timestamp,
    },
    /// Cancelled, and no member is left.
    Aborted {
        cancelled_at: Timestamp,
        at: Timestamp,
    },
}

impl GroupState {
    /// As clients and operators read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Started => "started",
            Self::Done { .. } => "done",
            Self::Cancelled { .. } => "cancelled",
            Self::Aborted { .. } => "aborted",
        }
    }

    /// Whether it takes no more members.
    pub fn is_finished(self) -> bool {
        match self {
            Self::Open | Self::Started => false,
            Self::Done { .. } | Self::Cancelled { .. } | Self::Aborted { .. } => true,
        }
    }

    /// Since when its members that are not leased are gone.
    pub fn cancelled_at(self) -> Option<Timestamp> {
        match self {
            Self::Cancelled { at } | Self::Aborted { cancelled_at: at, .. } => Some(at),
            Self::Open | Self::Started | Self::Done { .. } => None,
        }
    }

    /// Since when nothing more will come of it.
    pub fn over_since(self) -> Option<Timestamp> {
        match self {
            Self::Done { at } | Self::Aborted { at, .. } => Some(at),
            Self::Open | Self::Started | Self::Cancelled { .. } => None,
        }
    }
}

impl Group {
    /// The bytes of it that have no fixed length.
    pub(crate) fn bytes(&self) -> usize {
        let template = |template: &Template| {
            template.kind.len()
                + template.queue.as_ref().map_or(0, |queue| queue.len())
                + template.hashes.bytes()
                + template.unknown.len()
        };
        let templates = self.templates().map(template).sum::<usize>();
        self.name.len() + templates + self.unknown.len()
    }

    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.end.iter().chain(&self.abort).map(|template| &**template)
    }
}

/// An item to be, of which the store has the body already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Under which the store has its body. No item's.
    pub body: ItemNumber,
    pub body_bytes: u64,
    /// 0: there are none.
    pub facts_bytes: u64,
    /// Of the headers of the item to be.
    pub hashes: Hashes,
    /// Where it is to be made; unset: in its own queue.
    pub queue: Option<Arc<str>>,
    pub kind: Arc<str>,
    pub priority: u8,
    pub due_at: Option<Timestamp>,
    /// How long after its making the item is due. At most one of `due_at` and `delay` is set.
    pub delay: Option<Span>,
    pub max_attempts: Option<u32>,
    pub dead_timeout: Option<Span>,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

impl Template {
    /// When an item is due that is made at `now`; unset: at once.
    pub(crate) fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.delay.map(|delay| now + delay).or(self.due_at)
    }
}

/// How many members ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub expired: u64,
}

impl Ended {
    pub(crate) fn count(&mut self, end: End) {
        let count = match end {
            End::Completed => &mut self.completed,
            End::Failed => &mut self.failed,
            End::Cancelled => &mut self.cancelled,
            End::Expired => &mut self.expired,
        };
        *count += 1;
    }
}

impl AddAssign for Ended {
    fn add_assign(&mut self, other: Self) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
    }
}

/// A group as it can be seen, with all that ever were members of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    pub name: Arc<str>,
    pub created_at: Timestamp,
    pub state: GroupState,
    pub live: Counts,
    pub ended: Ended,
}

/// What an item is to its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The group's name.
    pub group: Arc<str>,
    /// It waits for the group's start.
    pub held: bool,
}
