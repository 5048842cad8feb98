//! An item in memory: what its row says, in as few bytes as may be, for there are millions.

use std::sync::Arc;

use super::groups::index::GroupIndex;
use super::index::kinds::KindIndex;
use super::index::lanes::Lane;
use crate::item::{Extras, LastLease, Lease, LeaseEnd, PayloadSize, State};
use crate::time::Timestamp;

/// Its number is the key it is held under.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) place: u64,
    pub(super) created_at: Timestamp,
    pub(super) state: State,
    pub(super) extras: Option<Box<Extras>>,
    pub(super) group: Option<GroupIndex>,
    pub(super) kind: KindIndex,
    pub(super) attempts: u32,
    pub(super) era: u32,
    pub(super) priority: u8,
    pub(super) payload_size: PayloadSize,
}

const _: () = assert!(size_of::<Entry>() <= 56, "memory per waiting item is promised");

impl Entry {
    /// The same item in another state; what else changes is the caller's to set. Its era is set when it is written.
    pub(super) fn with_state(&self, state: State) -> Self {
        Self { state, extras: self.extras.clone(), ..*self }
    }

    /// The same item after its lease ended, with a note that tells a late worker why.
    pub(super) fn after_lease(&self, now: Timestamp, lease: &Lease, end: LeaseEnd, state: State) -> Self {
        let mut next = self.with_state(State::Waiting { since: now });
        next.extras.get_or_insert_default().last_lease = Some(lease.ended(end));
        next.turn(now, state);
        next
    }

    /// Gives the item another state. Its era is set when it is written.
    pub(super) fn turn(&mut self, at: Timestamp, state: State) {
        match state {
            State::Scheduled { .. } | State::Suspended(_) => {
                self.extras.get_or_insert_default().changed_at = Some(at);
            }
            State::Waiting { .. } | State::Leased(_) | State::Final(_) => {
                if let Some(extras) = &mut self.extras {
                    extras.changed_at = None;
                }
                self.drop_empty_extras();
            }
        }
        self.state = state;
    }

    /// Frees `extras` if every field has its default: an empty box takes memory too.
    pub(super) fn drop_empty_extras(&mut self) {
        self.extras.take_if(|extras| **extras == Extras::default());
    }

    pub(super) fn lane(&self) -> Lane {
        Lane { group: self.group, kind: self.kind, era: self.era }
    }

    /// When it expires, unless it ends before or is leased then.
    pub(super) fn dead_at(&self) -> Option<Timestamp> {
        let timeout = self.extras.as_ref()?.dead_timeout?;
        Some(self.created_at + timeout)
    }

    pub(super) fn is_overdue(&self, now: Timestamp) -> bool {
        self.dead_at().is_some_and(|dead_at| dead_at <= now)
    }

    pub(super) fn address(&self) -> Option<&Arc<str>> {
        self.extras.as_ref()?.address.as_ref()
    }

    /// Whether it is kept once it is final, also without a result.
    pub(super) fn has_something_to_show(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.has_something_to_show())
    }

    /// The number of its last event.
    pub(super) fn event_count(&self) -> u64 {
        self.extras.as_ref().map_or(0, |extras| extras.event_count)
    }

    pub(super) fn payload_lost(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.payload_lost)
    }

    pub(super) fn facts_bytes(&self) -> u64 {
        self.extras.as_ref().map_or(0, |extras| extras.facts_bytes)
    }

    pub(super) fn header_hashes(&self) -> &[u64] {
        self.extras.as_ref().map_or(&[], |extras| &extras.header_hashes)
    }

    pub(super) fn has_error(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.error.is_some())
    }
}

impl Lease {
    pub(super) fn ended(&self, end: LeaseEnd) -> LastLease {
        let client_id = Arc::clone(&self.client_id);
        LastLease { permit: self.permit, end, client_id, leased_at: self.leased_at }
    }
}
