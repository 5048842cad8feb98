//! One piece of work and the states of its life.

use std::sync::Arc;

use crate::headers::ItemHashes;
use crate::id::{GroupNumber, ItemId, ItemNumber, PartitionId, Permit};
use crate::mutant::{self, Mutant};
use crate::time::{Span, Timestamp};

/// An item as its row holds it: everything but the body (payload, headers, reference), which only the store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub number: ItemNumber,
    /// Where it stands among the waiting items of its priority: its own number until it is sent to the tail.
    pub place: u64,
    pub kind: Arc<str>,
    /// 0 goes first.
    pub priority: u8,
    pub created_at: Timestamp,
    /// Leases granted so far, less those given back uncharged.
    pub attempts: u32,
    /// How often items of this state had been cleared when the row was written: see [`crate::row::Cleared`].
    pub era: u32,
    /// The group it is a member of. An end item on its way to another queue names the group whose end it is.
    pub group: Option<GroupNumber>,
    pub payload_size: PayloadSize,
    pub state: State,
    /// What most items do not have.
    pub extras: Option<Box<Extras>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Scheduled {
        due_at: Timestamp,
    },
    Waiting {
        /// For an item that fell due the time at which it was due, for one whose lease ran out the end of that.
        since: Timestamp,
    },
    Leased(Box<Lease>),
    /// Nobody works on it until somebody answers.
    Suspended(Box<Suspension>),
    Final(Box<Outcome>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub permit: Permit,
    pub client_id: Arc<str>,
    pub leased_at: Timestamp,
    pub deadline: Timestamp,
    /// What an extension without one of its own adds, counted from then.
    pub timeout: Span,
    pub cancel_requested: bool,
}

/// What an item waits for that its worker gave up until somebody answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspension {
    /// The worker's word on it.
    pub reason: Option<Arc<str>>,
}

/// How an item ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Completed,
    Failed,
    Cancelled,
    Expired,
}

/// What is kept of an item that ended and has something to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub end: End,
    /// When the state became this one: for an item that fell due, the time at which it was due.
    pub changed_at: Timestamp,
    /// Since when the item counts as ended: retention counts from here. Later than `changed_at` if the item fell due while no
    /// sweep came by, or fell back (see [`crate::verbs::FallBack`]).
    pub finished_at: Timestamp,
    /// Bytes that count against the queue's `retention_max_bytes`: the payload if it is kept, the result, the error, the
    /// address, the facts, the attempt log and the events, with what those cost besides their payloads.
    pub kept_bytes: u64,
    /// Whether the store holds a result body for it.
    pub has_result: bool,
    /// Whether the payload is kept as long as the item. The payload of an item on its way to another queue stays until that
    /// item has arrived, whatever this says.
    pub payload_kept: bool,
    /// Set while it is on its way to another queue.
    pub outgoing: Option<Box<Outgoing>>,
}

/// An item's move to another queue, until its target has it. The store keeps the payload for as long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The queue it goes to, of the same namespace.
    pub to: Arc<str>,
    pub reason: MoveReason,
    /// When it is due where it goes; unset: at once.
    pub due_at: Option<Timestamp>,
    /// When a final item was sent on; unset: when it ended.
    pub left_at: Option<Timestamp>,
    /// Nothing is to be seen of the item here any more: its row is kept for the move alone.
    pub forgotten: bool,
    /// The item was deleted on its way. If it falls back (see [`crate::verbs::FallBack`]), nothing of it is kept.
    pub deleted: bool,
    /// The address that the item is to have where it goes, if that is free when it arrives.
    pub address: Option<Arc<str>>,
    /// Unset until a partition of the target was chosen.
    pub assigned: Option<Assigned>,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

impl Outgoing {
    /// The bytes of it that have no fixed length.
    fn bytes(&self) -> usize {
        self.to.len() + self.address.as_ref().map_or(0, |address| address.len())
    }
}

/// Which partition is to take a moving item, and the number it knows the move by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    pub partition: PartitionId,
    pub number: MoveNumber,
}

/// A move's number: those from one partition to another only grow, so that the last one taken tells of all before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MoveNumber(pub u64);

/// Why an item was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveReason {
    /// It failed: its attempts were used up.
    Attempts,
    /// It failed: a worker gave it up for good, or its payload was lost.
    Dead,
    /// It was older than its `dead_timeout`.
    Expired,
    /// Somebody sent it back.
    Redrive,
    /// It was rerun in its own queue.
    Rerun,
    /// It was made when its group was done.
    GroupEnd,
    /// It was made when the last member of its group, which was cancelled, was gone.
    GroupAbort,
}

impl MoveReason {
    /// Whether it goes to wherever the queue sends its dead.
    pub fn is_death(self) -> bool {
        match self {
            Self::Attempts | Self::Dead | Self::Expired => true,
            Self::Redrive | Self::Rerun | Self::GroupEnd | Self::GroupAbort => false,
        }
    }

    /// As clients and operators read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attempts => "attempts",
            Self::Dead => "dead",
            Self::Expired => "expired",
            Self::Redrive => "redrive",
            Self::Rerun => "rerun",
            Self::GroupEnd => "group_end",
            Self::GroupAbort => "group_abort",
        }
    }

    /// Whether it is a group's last word, and was no item before.
    pub fn is_of_group(self) -> bool {
        match self {
            Self::GroupEnd | Self::GroupAbort => true,
            Self::Attempts | Self::Dead | Self::Expired | Self::Redrive | Self::Rerun => false,
        }
    }
}

/// Where an item that was moved came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub queue: Arc<str>,
    pub id: Option<ItemId>,
    /// The name of the group it was a member of, or whose end it is.
    pub group: Option<Arc<str>>,
    /// The one it had there: it has none here.
    pub address: Option<Arc<str>>,
    pub attempts: Option<u32>,
    pub reason: MoveReason,
    pub error: Option<ItemError>,
    pub moved_at: Timestamp,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Its own limit; otherwise the queue's counts.
    pub max_attempts: Option<u32>,
    /// How old it may grow, counted from its making: its own, or the queue's when it was made. Unset: any age.
    pub dead_timeout: Option<Span>,
    /// A name of the producer's choosing, unique among the items of a queue that are not final.
    pub address: Option<Arc<str>>,
    /// Where it was moved here from.
    pub origin: Option<Box<Origin>>,
    /// The cron that made it, or made the item that it was before it was moved or rerun.
    pub cron: Option<Box<CronRun>>,
    /// The item that this one was moved, redriven or rerun to.
    pub moved_to: Option<Box<MovedTo>>,
    /// The latest lease that ended, so that a late worker can be told what became of its permit.
    pub last_lease: Option<LastLease>,
    /// When the item became scheduled or suspended, if it was in another state before. The other states have a time of their
    /// own: see [`Item::changed_at`].
    pub changed_at: Option<Timestamp>,
    /// How many attempts were logged: see [`crate::attempt`].
    pub attempts_logged: u32,
    /// About how many bytes the attempts come to that the store holds.
    pub attempt_bytes: u32,
    /// The worker's last word on a failed attempt, or the server's.
    pub error: Option<ItemError>,
    /// The attempt that `error` was said of. 0: none.
    pub error_attempt: u32,
    /// How many bytes of facts the store holds for it. 0: none.
    pub facts_bytes: u64,
    /// The number of the last event: they are numbered from 1, and it never falls.
    pub event_count: u64,
    /// How many bytes the payloads of the events come to that are kept.
    pub event_bytes: u64,
    /// The store holds the answer that it was resumed with: for as long as it is not final.
    pub has_input: bool,
    /// What the item is found by in [`crate::headers`].
    pub header_hashes: ItemHashes,
    /// The payload was found damaged or missing: the item is never granted, and is moved without it.
    pub payload_lost: bool,
    pub unknown: UnknownFields,
}

/// Encoded fields of a newer version, carried along untouched. Nearly always none, which is a pointer and no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownFields(Option<Box<Encoded>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Encoded(Vec<u8>);

const _: () = assert!(size_of::<UnknownFields>() == 8, "memory of items with any extras is promised");

impl UnknownFields {
    pub fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |encoded| &encoded.0)
    }
}

impl From<Vec<u8>> for UnknownFields {
    fn from(bytes: Vec<u8>) -> Self {
        Self((!bytes.is_empty()).then(|| Box::new(Encoded(bytes))))
    }
}

impl Extras {
    /// What the worker of the attempt before that one said of it. Later attempts that ended without a word leave `error` as it is.
    pub(crate) fn error_before(&self, attempt: u32) -> Option<ItemError> {
        self.error.clone().filter(|_| self.error_attempt.checked_add(1) == Some(attempt))
    }

    /// Whether the item is kept once it is final, also without a result.
    pub(crate) fn has_something_to_show(&self) -> bool {
        self.error.is_some() || self.address.is_some() || self.event_count > 0 || self.moved_to.is_some()
    }

    /// The bytes of it that are kept once the item is final.
    pub(crate) fn kept_bytes(&self, event_overhead: u64) -> u64 {
        let error_len = self.error.as_ref().map_or(0, ItemError::bytes);
        let address_len = self.address.as_ref().map_or(0, |address| address.len());
        let attempts = u64::from(self.attempt_bytes);
        (error_len + address_len) as u64 + self.facts_bytes + attempts + self.event_bytes + event_overhead
    }
}

/// A lease that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastLease {
    /// [`Permit::NONE`] for a lease that an imported item had elsewhere.
    pub permit: Permit,
    pub end: LeaseEnd,
    pub client_id: Arc<str>,
    pub leased_at: Timestamp,
}

/// What an item tells of the cron that made it. The cron may be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronRun {
    pub name: Arc<str>,
    /// The time of the schedule that the item stands for; for an item made by a trigger the moment of that.
    pub scheduled_at: Timestamp,
}

/// Where an item goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedTo {
    pub queue: Arc<str>,
    pub id: ItemId,
}

impl MovedTo {
    pub(crate) fn new(queue: Arc<str>, mut id: ItemId) -> Self {
        if mutant::active(Mutant::MovedToNowhere) {
            id.number.0 += 1;
        }
        Self { queue, id }
    }
}

/// The length of a payload, rounded up by at most an eighth: it fits the one byte that is left in an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PayloadSize(u8);

impl PayloadSize {
    /// Bits of the length that are told beside its highest one.
    const PRECISION: u32 = 3;

    pub fn of(bytes: u64) -> Self {
        let shift = (u64::BITS - bytes.leading_zeros()).saturating_sub(Self::PRECISION + 1);
        let rounded = bytes.div_ceil(1 << shift);
        // A length that was rounded up to the next power of two has one bit more, and all others are zero.
        let code = (u64::from(shift) << Self::PRECISION) + rounded;
        Self(code.try_into().unwrap_or(u8::MAX))
    }

    pub fn bytes(self) -> u64 {
        let (shift, steps) = (self.0 >> Self::PRECISION, u64::from(self.0) & ((1 << Self::PRECISION) - 1));
        match shift {
            0 => steps,
            shift => (steps + (1 << Self::PRECISION)) << (shift - 1),
        }
    }

    pub(crate) fn code(self) -> u8 {
        self.0
    }

    pub(crate) fn of_code(code: u8) -> Self {
        Self(code)
    }
}

/// Why a lease is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseEnd {
    Expired,
    Revoked,
    Cancelled,
    Completed,
    Retried,
    Released,
    Suspended,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemError {
    pub code: Option<Arc<str>>,
    pub message: Arc<str>,
}

impl ItemError {
    /// The bytes of it that have no fixed length.
    pub(crate) fn bytes(&self) -> usize {
        self.message.len() + self.code.as_ref().map_or(0, |code| code.len())
    }
}

impl Item {
    /// When the state last became another: at first when the item was made.
    pub fn changed_at(&self) -> Timestamp {
        changed_at(&self.state, self.extras.as_deref()).unwrap_or(self.created_at)
    }

    /// Whether the payload is to be shown. The store may still have that of another.
    pub fn keeps_payload(&self) -> bool {
        match &self.state {
            State::Final(outcome) => outcome.payload_kept,
            State::Scheduled { .. } | State::Waiting { .. } | State::Leased(_) | State::Suspended(_) => true,
        }
    }

    /// The latest lease: since when, and who had it.
    pub fn started(&self) -> Option<(Timestamp, &Arc<str>)> {
        match &self.state {
            State::Leased(lease) => Some((lease.leased_at, &lease.client_id)),
            State::Scheduled { .. } | State::Waiting { .. } | State::Suspended(_) | State::Final(_) => {
                let last = self.extras.as_ref()?.last_lease.as_ref()?;
                Some((last.leased_at, &last.client_id))
            }
        }
    }
}

/// When the state last became another; unset: when the item was made.
pub(crate) fn changed_at(state: &State, extras: Option<&Extras>) -> Option<Timestamp> {
    match state {
        State::Leased(lease) => Some(lease.leased_at),
        State::Final(outcome) => Some(outcome.changed_at),
        State::Waiting { since } => Some(*since),
        State::Scheduled { .. } | State::Suspended(_) => extras?.changed_at,
    }
}

/// The state's name alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Waiting, as its row says, but its group is not started. No state of an item by itself.
    Held,
    Scheduled,
    Waiting,
    Leased,
    Suspended,
    Completed,
    Failed,
    Cancelled,
    Expired,
}

impl State {
    /// The bytes of it that have no fixed length.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Leased(lease) => lease.client_id.len(),
            Self::Suspended(suspension) => suspension.reason.as_ref().map_or(0, |reason| reason.len()),
            Self::Final(outcome) => outcome.outgoing.as_ref().map_or(0, |outgoing| outgoing.bytes()),
            Self::Scheduled { .. } | Self::Waiting { .. } => 0,
        }
    }

    /// The move it is on, if it is on one.
    pub fn outgoing(&self) -> Option<&Outgoing> {
        match self {
            Self::Final(outcome) => outcome.outgoing.as_deref(),
            Self::Scheduled { .. } | Self::Waiting { .. } | Self::Leased(_) | Self::Suspended(_) => None,
        }
    }

    /// Whether nothing is to be seen of the item any more.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.outgoing().is_some_and(|outgoing| outgoing.forgotten)
    }

    pub fn phase(&self) -> Phase {
        match self {
            Self::Scheduled { .. } => Phase::Scheduled,
            Self::Waiting { .. } => Phase::Waiting,
            Self::Leased(_) => Phase::Leased,
            Self::Suspended(_) => Phase::Suspended,
            Self::Final(outcome) => match outcome.end {
                End::Completed => Phase::Completed,
                End::Failed => Phase::Failed,
                End::Cancelled => Phase::Cancelled,
                End::Expired => Phase::Expired,
            },
        }
    }
}

impl Phase {
    pub fn is_final(self) -> bool {
        match self {
            Self::Held | Self::Scheduled | Self::Waiting | Self::Leased | Self::Suspended => false,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired => true,
        }
    }
}
