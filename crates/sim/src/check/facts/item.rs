//! One item: what made it, and what was asked and told about it.

use windlass_core::id::{ItemId, Permit};
use windlass_core::item::{MoveReason, Phase};
use windlass_core::time::{Span, Timestamp};

use crate::history::{Call, Given, Made, Origin, Outcome, QueueIndex, RetryOp, ShownItem, Verdict};

/// An item in one queue. An item that was moved to another queue is another item there, with the same serial.
#[derive(Debug)]
pub struct ItemFacts<'a> {
    /// For an item that was moved: without the fields that stay behind, as in `without_frills`.
    pub made: Made,
    pub queue: QueueIndex,
    pub produce: &'a Call,
    /// Set if the item was moved here.
    pub origin: Option<&'a Origin>,
    pub maker: Maker,
    /// Nobody was told of the item that this one was before it was rerun: `made` may have other limits than it.
    pub is_guessed: bool,
    /// For a member: the groups that it may be one of, by their places in [`super::Facts::groups`].
    pub groups: Vec<usize>,
    /// Unset if nobody was ever told the id.
    pub id: Option<ItemId>,
    /// The state in the answer to the item's production.
    pub first_phase: Option<Phase>,
    /// In the order of permits.
    pub grants: Vec<Granting<'a>>,
    pub verdicts: Vec<Judgement<'a>>,
    pub cancels: Vec<&'a Call>,
    pub reruns: Vec<&'a Call>,
    /// Updates of the item itself.
    pub changes: Vec<&'a Call>,
    pub latests: Vec<&'a Call>,
    pub resumes: Vec<&'a Call>,
    /// Gets, waits and subscribes: each shows the item once.
    pub gets: Vec<&'a Call>,
    pub follows: Vec<&'a Call>,
    pub closes: Vec<&'a Call>,
}

/// The maker of an item in the queue where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// `produce` itself, or a move.
    Call,
    /// A group, as its end or abort item: `produce` gave it to the group, perhaps in another queue.
    Group,
    /// A cron, which makes any number of items: `produce` made or changed the cron.
    Cron,
    /// A rerun of which nothing but its answer is known: nobody saw the item.
    Rerun,
}

#[derive(Clone, Copy, Debug)]
pub struct Granting<'a> {
    pub call: &'a Call,
    pub given: &'a Given,
    pub accepted: bool,
    /// The lease timeout, if the call named one.
    pub timeout: Option<Span>,
}

#[derive(Clone, Debug)]
pub struct Judgement<'a> {
    pub call: &'a Call,
    pub permit: Permit,
    pub verb: Verb,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Complete { with_result: bool },
    Retry(RetryOp),
    Extend(Option<Span>),
    Emit,
    Release,
    Revoke,
    Suspend { reason: Option<u64> },
}

impl Verb {
    /// Whether the verb gives the permit up.
    pub fn ends_lease(self) -> bool {
        match self {
            Self::Complete { .. } | Self::Retry(_) | Self::Release | Self::Revoke | Self::Suspend { .. } => {
                true
            }
            Self::Extend(_) | Self::Emit => false,
        }
    }

    /// Whether an item that lives on stands where it stood, once it waits.
    pub(super) fn keeps_place(self) -> bool {
        match self {
            Self::Release | Self::Revoke | Self::Suspend { .. } => true,
            Self::Complete { .. } | Self::Retry(_) | Self::Extend(_) | Self::Emit => false,
        }
    }

    /// Whether the attempt does not count.
    fn is_free(self) -> bool {
        match self {
            Self::Release | Self::Suspend { .. } => true,
            Self::Complete { .. } | Self::Retry(_) | Self::Extend(_) | Self::Emit | Self::Revoke => false,
        }
    }
}

impl Granting<'_> {
    /// When the item was leased, by the partition's clock.
    pub fn leased_at(&self) -> Option<Timestamp> {
        self.timeout.map(|timeout| Timestamp(self.given.deadline.0 - timeout.0))
    }
}

impl<'a> ItemFacts<'a> {
    pub(in crate::check) fn new(made: Made, queue: QueueIndex, produce: &'a Call) -> Self {
        Self {
            made,
            queue,
            produce,
            origin: None,
            maker: Maker::Call,
            is_guessed: false,
            groups: Vec::new(),
            id: None,
            first_phase: None,
            grants: Vec::new(),
            verdicts: Vec::new(),
            cancels: Vec::new(),
            reruns: Vec::new(),
            changes: Vec::new(),
            latests: Vec::new(),
            resumes: Vec::new(),
            gets: Vec::new(),
            follows: Vec::new(),
            closes: Vec::new(),
        }
    }

    /// Whether `produce` itself made the item, in this queue.
    pub fn is_made_by_call(&self) -> bool {
        self.origin.is_none() && self.maker == Maker::Call
    }

    /// Whether the item was there for sure when `produce` was answered.
    pub fn is_acknowledged(&self) -> bool {
        self.is_made_by_call()
            && matches!(self.produce.outcome, Outcome::Produced(_) | Outcome::GroupMade(..))
    }

    /// Whether the item was made by a rerun of another.
    pub fn is_rerun(&self) -> bool {
        self.maker == Maker::Rerun || self.origin.is_some_and(|origin| origin.reason == MoveReason::Rerun)
    }

    /// The item as each look found it after its end.
    pub fn ended(&self) -> impl Iterator<Item = (&'a Call, &'a ShownItem)> {
        self.shown().filter(|(_, view)| view.phase.is_final())
    }

    pub fn is_member(&self) -> bool {
        self.made.group.is_some()
    }

    /// The item as each get, wait and subscribe showed it.
    pub fn shown(&self) -> impl Iterator<Item = (&'a Call, &'a ShownItem)> {
        self.gets.iter().filter_map(|call| Some((*call, call.outcome.shown()?)))
    }

    pub fn judged(&self, permit: Permit) -> impl Iterator<Item = &Judgement<'a>> {
        self.verdicts.iter().filter(move |judged| judged.permit == permit)
    }

    /// Whether the lease was given up, surely or possibly, uncharged.
    pub fn may_be_free(&self, grant: &Granting<'_>) -> bool {
        let is_free = |judged: &Judgement<'_>| judged.verb.is_free() && judged.verdict.is_possible();
        !grant.accepted || self.judged(grant.given.permit).any(is_free)
    }

    pub fn is_surely_free(&self, grant: &Granting<'_>) -> bool {
        self.judged(grant.given.permit).any(|judged| judged.verb.is_free() && judged.verdict.is_ok())
    }
}
