//! Streams of items, as their followers saw them.

use windlass_core::item::Phase;
use windlass_engine::EndReason;

use super::Moment;

/// All that one stream showed.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// When the stream was asked for: from then on it may be closed.
    pub asked: Moment,
    /// When the stream began: changes of state are shown from then on.
    pub opened: Moment,
    /// When the last event was shown.
    pub shown_until: Moment,
    /// Number and serial of each event.
    pub events: Vec<(u64, u64)>,
    /// Changes of state, in their order.
    pub states: Vec<ShownState>,
    /// Some events were not kept any more.
    pub has_gap: bool,
    /// Unset: the follower went away before the stream ended.
    pub end: Option<EndReason>,
}

impl Followed {
    /// Whether the stream came to the item's end.
    pub fn is_final(&self) -> bool {
        self.end == Some(EndReason::Final)
    }

    /// Whether the stream ended although the item may live.
    pub fn is_closed(&self) -> bool {
        self.end == Some(EndReason::Closed)
    }
}

/// A change of state that a stream showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownState {
    /// The number of the last event that was shown before.
    pub after_seq: u64,
    pub phase: Phase,
    /// The serial of what an item is suspended for.
    pub reason: Option<u64>,
}
