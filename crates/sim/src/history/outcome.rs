//! The answers to calls.

use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::time::Timestamp;
use windlass_core::verbs::Retried;

use super::{
    Followed, FoundPage, Given, ManyPage, QueueCounts, ShownCron, ShownGroup, ShownItem, ShownQueue,
};

#[derive(Clone, Debug)]
pub enum Outcome {
    /// Not answered yet.
    Open,
    Produced(Vec<(ItemId, Phase)>),
    Granted {
        items: Vec<Given>,
        /// Unset: the receiver dropped the items, and they are to be given back.
        accepted: bool,
    },
    Judged(Vec<Verdict>),
    Resumed,
    Cancelled(Phase),
    /// The item as an update left it.
    Changed(Box<ShownItem>),
    /// The item that a rerun made.
    Rerun(ItemId, Phase),
    Found(FoundPage),
    ManyChanged(ManyPage),
    Latest(ItemId),
    Shown(Box<ShownItem>),
    Emitted(Emitted),
    /// The item, and the number of its last event.
    Subscribed {
        view: Box<ShownItem>,
        last_seq: u64,
    },
    Followed(Followed),
    /// How many streams were told to end.
    Closed(usize),
    Cleared(u64),
    Redriven(u64),
    Counted(Box<QueueCounts>),
    Queue(Box<ShownQueue>),
    Deleted,
    /// A rule was set or lifted.
    Ruled,
    Group(Box<ShownGroup>),
    /// A new group with its first members.
    GroupMade(Box<ShownGroup>, Vec<(ItemId, Phase)>),
    Groups(Vec<ShownGroup>),
    Cron(Box<ShownCron>),
    Crons(Vec<ShownCron>),
    /// A cron was resumed or deleted.
    CronDone,
    /// The item that a cron made because it was triggered.
    Triggered(ItemId),
    Refused(Refusal),
    /// The call can never be done as it is. Nothing happened.
    TooLarge,
    /// Nothing happened, for this reason. Overload is one.
    NotApplied(String),
    Unknown(Why),
}

/// How an outcome came to be unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The server went down with the call.
    Crashed,
    /// The caller did not wait for the answer.
    Abandoned,
    /// The engine said so.
    Told,
}

/// The events that an emit put into a stream, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted {
    pub first_seq: u64,
    pub last_seq: u64,
}

/// The answer for one item of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Done,
    Retried(Retried),
    Extended(Extended),
    Refused(Refusal),
    NotApplied,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    pub deadline: Timestamp,
    pub cancel_requested: bool,
}

impl Verdict {
    /// Whether it happened.
    pub fn is_ok(&self) -> bool {
        match self {
            Self::Done | Self::Retried(_) | Self::Extended(_) => true,
            Self::Refused(_) | Self::NotApplied | Self::Unknown => false,
        }
    }

    /// Whether it happened, or may have.
    pub fn is_possible(&self) -> bool {
        self.is_ok() || *self == Self::Unknown
    }

    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

impl Outcome {
    /// The items that an acknowledged call made, in the order given.
    pub fn produced(&self) -> &[(ItemId, Phase)] {
        if let Self::Produced(items) | Self::GroupMade(_, items) = self { items } else { &[] }
    }

    /// The groups that were shown.
    pub fn groups(&self) -> &[ShownGroup] {
        if let Self::Group(group) | Self::GroupMade(group, _) = self {
            return std::slice::from_ref(&**group);
        }
        if let Self::Groups(groups) = self { groups } else { &[] }
    }

    /// The crons that were shown.
    pub fn crons(&self) -> &[ShownCron] {
        if let Self::Cron(cron) = self {
            return std::slice::from_ref(&**cron);
        }
        if let Self::Crons(crons) = self { crons } else { &[] }
    }

    /// Whether the call may have had an effect.
    pub fn is_possible(&self) -> bool {
        !matches!(self, Self::Refused(_) | Self::TooLarge | Self::NotApplied(_))
    }

    /// The items of a lease that was answered.
    pub fn granted(&self) -> &[Given] {
        if let Self::Granted { items, .. } = self { items } else { &[] }
    }

    pub fn shown(&self) -> Option<&ShownItem> {
        if let Self::Shown(view) | Self::Subscribed { view, .. } = self { Some(view) } else { None }
    }

    /// A page of a walk.
    pub fn found(&self) -> Option<&FoundPage> {
        if let Self::Found(page) = self { Some(page) } else { None }
    }

    /// What a change of many items did.
    pub fn many_changed(&self) -> Option<&ManyPage> {
        if let Self::ManyChanged(page) = self { Some(page) } else { None }
    }

    /// The item that a rerun made.
    pub fn rerun(&self) -> Option<ItemId> {
        if let Self::Rerun(id, _) = self { Some(*id) } else { None }
    }

    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Open | Self::Unknown(_))
    }

    /// The answer for one item of a call on leased items.
    pub fn verdict(&self, index: usize) -> Verdict {
        match self {
            Self::Judged(verdicts) => verdicts.get(index).cloned().unwrap_or(Verdict::Unknown),
            Self::Refused(refusal) => Verdict::Refused(refusal.clone()),
            Self::NotApplied(_) | Self::TooLarge => Verdict::NotApplied,
            Self::Open | Self::Unknown(_) => Verdict::Unknown,
            Self::Emitted(_) => Verdict::Done,
            Self::Produced(_)
            | Self::Granted { .. }
            | Self::Resumed
            | Self::Cancelled(_)
            | Self::Changed(_)
            | Self::Rerun(..)
            | Self::Found(_)
            | Self::ManyChanged(_)
            | Self::Latest(_)
            | Self::Shown(_)
            | Self::Subscribed { .. }
            | Self::Followed(_)
            | Self::Closed(_)
            | Self::Cleared(_)
            | Self::Redriven(_)
            | Self::Counted(_)
            | Self::Queue(_)
            | Self::Deleted
            | Self::Ruled
            | Self::Group(_)
            | Self::GroupMade(..)
            | Self::Groups(_)
            | Self::Cron(_)
            | Self::Crons(_)
            | Self::CronDone
            | Self::Triggered(_) => unreachable!("a call on leased items is not answered by {self:?}"),
        }
    }
}
