//! What was asked, what was answered, and when: all that the checker goes by.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::group::GroupView;
use windlass_core::id::{ItemId, PartitionId, Permit};
use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::row::Queue;
use windlass_core::rule::Stop;
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Clear, Emitted, Extended, Filter, Retried};
use windlass_engine::store::StoreStats;
use windlass_engine::{CloseMode, CronInfo, EndReason, Granted, ItemView, QueueStats};

use crate::cron::CronOp;
use crate::fault::Fault;
use crate::group::{Ends, GroupAsk, GroupOp, LastWord, Word};

/// A queue by its place in the plan; its name is `q` and that number.
pub type QueueIndex = usize;

/// Who asks when no client does.
pub const OPERATOR: usize = 99;

/// A point in the run. The order of events is total; virtual time may stand still between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub order: u64,
    pub micros: u64,
}

#[derive(Debug, Default)]
pub struct History {
    pub calls: Vec<Call>,
    pub processes: Vec<Process>,
    pub faults: Vec<(Moment, Fault)>,
    /// What an acknowledgement is worth after a crash or a failed write.
    pub promise: Promise,
    /// Nothing that ended was to be forgotten: what ended must be shown as it ended.
    pub keeps_everything: bool,
    /// What was said about damage, beside what calls were answered.
    pub damage: Vec<Damage>,
    /// What is missing from the logs, by what was said of them.
    pub losses: Losses,
    /// Items of which a server said that a body is lost, as it named them.
    pub lost_bodies: BTreeSet<String>,
    /// What the stores of all processes met.
    pub store: StoreStats,
    pub stalls: Vec<Stall>,
    /// How many queues nobody used, added up over all processes.
    pub idle_queues: u64,
}

/// A store that did not answer for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// As the queues name it whose partitions it has.
    pub store: Arc<str>,
    pub process: usize,
    pub begin: Moment,
    /// It answers again from then on.
    pub until_micros: u64,
}

/// What may be missing after rot, as far as it was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    pub partitions: BTreeMap<PartitionId, Loss>,
    /// Something is missing of which nobody can say to what partition it belonged.
    pub is_anywhere: bool,
    /// Partitions that lose commits without a known number of items if a server starts on the logs as they are.
    pub at_start: BTreeSet<PartitionId>,
}

/// What is missing from a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    pub items: u64,
    /// More than `items` may be missing.
    pub may_be_more: bool,
}

impl Losses {
    /// Whether items of a partition may be missing without end.
    pub fn are_unknown(&self, partition: PartitionId) -> bool {
        self.is_anywhere || self.partitions.get(&partition).is_some_and(|loss| loss.may_be_more)
    }

    /// A server starts: what was told to be lost by that is lost.
    pub fn start(&mut self) {
        for partition in std::mem::take(&mut self.at_start) {
            self.add(partition, Loss { items: 0, may_be_more: true });
        }
    }

    /// Takes in what somebody else found: the more of the two counts.
    pub fn add(&mut self, partition: PartitionId, loss: Loss) {
        let known = self.partitions.entry(partition).or_default();
        known.items = known.items.max(loss.items);
        known.may_be_more |= loss.may_be_more;
    }
}

/// Damage as somebody told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub at: Moment,
    pub by: Teller,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// A server that refused to start.
    Start,
    /// Somebody who looked through the logs while no server ran.
    Inspect,
    /// Somebody who salvaged them.
    Salvage,
}

/// Whether an error speaks of damage to what was stored.
pub fn speaks_of_damage(text: &str) -> bool {
    text.contains("damaged") || text.contains("Restore a backup")
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Promise {
    /// Answered after the sync: nothing acknowledged is ever lost.
    #[default]
    Kept,
    /// Synced now and then, or never: a crash or a failed write takes the newest with it.
    MayRollBack,
}

/// One life of the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    pub begin: Moment,
    /// What the clock showed then.
    pub wall: Timestamp,
    /// When it began to serve.
    pub opened: Option<Moment>,
    /// When it was asked to close.
    pub closing: Option<Moment>,
    /// When its engine had closed: clients may go on asking for a while.
    pub closed: Option<Moment>,
    pub end: Option<Moment>,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub client: usize,
    pub process: usize,
    pub begin: Moment,
    /// For a call whose outcome is unknown: when its caller was gone.
    pub end: Moment,
    /// No partition can have believed it to be later than this when the call ended.
    pub latest: Timestamp,
    pub op: Op,
    pub outcome: Outcome,
}

/// One item as it was to be produced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// No two items of a run share one; the body begins with it.
    pub serial: u64,
    pub len: usize,
    pub kind: Arc<str>,
    pub priority: u8,
    pub enqueue_at: Option<Timestamp>,
    pub max_attempts: Option<u32>,
    pub dead_timeout: Option<Span>,
    /// Those that have one are produced alone.
    pub address: Option<Arc<str>>,
    /// The name of its group. Those that have one are produced alone, too, or with the group.
    pub group: Option<Arc<str>>,
}

impl Made {
    pub fn body(&self) -> Bytes {
        let mut body = format!("{}:", self.serial).into_bytes();
        let fill = b'a' + (self.serial % 26) as u8;
        body.resize(self.len.max(body.len()), fill);
        body.into()
    }

    /// Which item a body was made for, if it looks like one of ours.
    pub fn serial_of(body: &[u8]) -> Option<u64> {
        let digits = body.split(|byte| *byte == b':').next()?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

#[derive(Clone, Debug)]
pub enum Op {
    Produce {
        queue: QueueIndex,
        items: Vec<Made>,
    },
    /// Under a key that the serial of its first item makes.
    ProduceOnce {
        queue: QueueIndex,
        items: Vec<Made>,
    },
    Lease {
        queue: QueueIndex,
        batch_size: usize,
        timeout: Option<Span>,
        filter: Filter,
        wait: Span,
    },
    Complete {
        queue: QueueIndex,
        items: Vec<(ItemId, Permit, Option<Bytes>)>,
    },
    Retry {
        queue: QueueIndex,
        items: Vec<RetryOp>,
    },
    Extend {
        queue: QueueIndex,
        timeout: Option<Span>,
        items: Vec<(ItemId, Permit)>,
    },
    Release {
        queue: QueueIndex,
        items: Vec<(ItemId, Permit)>,
    },
    Revoke {
        queue: QueueIndex,
        items: Vec<(ItemId, Permit)>,
    },
    Suspend {
        queue: QueueIndex,
        items: Vec<SuspendOp>,
    },
    /// The answer by a serial that no event has either: it becomes one.
    Resume {
        id: ItemId,
        input: Option<u64>,
    },
    Cancel(ItemId),
    Get(ItemId),
    Wait {
        id: ItemId,
        wait: Span,
    },
    /// Events by serials that no other has.
    Emit {
        id: ItemId,
        permit: Permit,
        events: Vec<u64>,
    },
    /// Begins to follow, from the item's present state on: what that is shows is the answer.
    Subscribe(ItemId),
    /// For so many microseconds at most.
    Follow {
        id: ItemId,
        after: u64,
        /// It goes on where a [`Op::Subscribe`] of the same caller has begun.
        is_subscribed: bool,
        micros: u64,
    },
    Close {
        id: ItemId,
        mode: CloseMode,
    },
    Clear {
        queue: QueueIndex,
        clear: Clear,
    },
    Redrive {
        queue: QueueIndex,
        to: Option<QueueIndex>,
        kind: Option<Arc<str>>,
        limit: Option<u64>,
    },
    Stats(QueueIndex),
    Create {
        queue: QueueIndex,
        settings: Settings,
        partitions: u32,
    },
    Update {
        queue: QueueIndex,
        settings: Settings,
    },
    Delete {
        queue: QueueIndex,
        force: bool,
    },
    Rebalance {
        queue: QueueIndex,
        partitions: u32,
    },
    /// Pauses or blocks one kind, or the whole queue.
    Stop {
        queue: QueueIndex,
        kind: Option<Arc<str>>,
        stop: Stop,
        until: Option<Timestamp>,
    },
    Go {
        queue: QueueIndex,
        kind: Option<Arc<str>>,
        stop: Stop,
    },
    Group(Box<GroupOp>),
    /// All of a queue.
    Groups(QueueIndex),
    Cron(Box<CronOp>),
    /// All of the server.
    Crons,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOp {
    pub id: ItemId,
    pub permit: Permit,
    pub retry_at: Option<Timestamp>,
    pub dead: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuspendOp {
    pub id: ItemId,
    pub permit: Permit,
    /// By a serial that no other has, so that it tells which suspend an item is shown with.
    pub reason: Option<u64>,
}

/// 0 for a reason that is none of ours.
pub fn reason_of(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}

/// Not what the event of the answer holds: nobody may take one for the other.
pub fn input_body(serial: u64) -> Bytes {
    Bytes::from(format!("answer {serial}"))
}

#[derive(Clone, Debug)]
pub enum Outcome {
    /// Not answered yet.
    Open,
    Produced(Vec<(ItemId, Phase)>),
    /// Not accepted: dropped by its receiver, to be given back.
    Granted {
        items: Vec<Granted>,
        accepted: bool,
    },
    Judged(Vec<Verdict>),
    Resumed,
    Cancelled(Phase),
    Shown(Box<ItemView>),
    Emitted(Emitted),
    /// The item, and the number of its last event.
    Subscribed {
        view: Box<ItemView>,
        last_seq: u64,
    },
    Followed(Followed),
    /// How many streams were told to end.
    Closed(usize),
    Cleared(u64),
    Redriven(u64),
    Counted(Box<QueueStats>),
    Queue(Box<Queue>),
    Deleted,
    /// A rule was set or lifted.
    Ruled,
    Group(Box<GroupView>),
    /// With its first members.
    GroupMade(Box<GroupView>, Vec<(ItemId, Phase)>),
    Groups(Vec<GroupView>),
    Cron(Box<CronInfo>),
    Crons(Vec<CronInfo>),
    /// A cron was resumed or deleted.
    CronDone,
    /// The item that a cron made because it was triggered.
    Triggered(ItemId),
    Refused(Refusal),
    /// It can never be done as it is. Nothing happened.
    TooLarge,
    /// Overloaded comes to the same.
    NotApplied(String),
    Unknown(Why),
}

/// What a stream showed.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// When it was asked for: from then on it may be closed.
    pub asked: Moment,
    /// From then on changes of state are shown.
    pub opened: Moment,
    /// When the last event was shown.
    pub shown_until: Moment,
    /// Numbers and serials.
    pub events: Vec<(u64, u64)>,
    /// In their order.
    pub states: Vec<ShownState>,
    /// Some were not kept any more.
    pub has_gap: bool,
    /// Unset: whoever followed it went away first.
    pub end: Option<EndReason>,
}

impl Followed {
    /// Whether it came to the item's end.
    pub fn is_final(&self) -> bool {
        self.end == Some(EndReason::Final)
    }

    /// Whether it ended although the item may live.
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

/// What one item of a batch was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Done,
    Retried(Retried),
    Extended(Extended),
    Refused(Refusal),
    NotApplied,
    Unknown,
}

impl Verdict {
    /// It happened.
    pub fn is_ok(&self) -> bool {
        match self {
            Self::Done | Self::Retried(_) | Self::Extended(_) => true,
            Self::Refused(_) | Self::NotApplied | Self::Unknown => false,
        }
    }

    /// It happened, or may have.
    pub fn is_possible(&self) -> bool {
        self.is_ok() || *self == Self::Unknown
    }

    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

impl Op {
    /// Whether it takes items away in the lot: a clear or the end of the queue.
    pub fn sweeps(&self, queue: QueueIndex) -> bool {
        matches!(self, Self::Clear { queue: there, .. } | Self::Delete { queue: there, .. } if *there == queue)
    }

    /// What it makes the settings of the queue.
    pub fn settings_of(&self, queue: QueueIndex) -> Option<&Settings> {
        if let Self::Create { queue: there, settings, .. } | Self::Update { queue: there, settings } = self
            && *there == queue
        {
            return Some(settings);
        }
        None
    }

    /// The items that it is to make itself, and where.
    pub fn produces(&self) -> Option<(QueueIndex, &[Made])> {
        if let Self::Produce { queue, items } | Self::ProduceOnce { queue, items } = self {
            return Some((*queue, items));
        }
        let op = self.group()?;
        if let GroupAsk::Create { items, .. } = &op.ask { Some((op.queue, items)) } else { None }
    }

    pub fn group(&self) -> Option<&GroupOp> {
        if let Self::Group(op) = self { Some(op) } else { None }
    }

    pub fn cron(&self) -> Option<&CronOp> {
        if let Self::Cron(op) = self { Some(op) } else { None }
    }

    /// The end and abort items that it leaves to a group to make.
    pub fn last_words(&self) -> impl Iterator<Item = (Word, &LastWord)> {
        self.group().and_then(|op| op.ask.ends()).into_iter().flat_map(Ends::words)
    }

    /// For a call on leased items: the queue they were said to be of.
    pub fn judged_in(&self) -> Option<QueueIndex> {
        if let Self::Complete { queue, .. }
        | Self::Retry { queue, .. }
        | Self::Extend { queue, .. }
        | Self::Release { queue, .. }
        | Self::Revoke { queue, .. }
        | Self::Suspend { queue, .. } = self
        {
            return Some(*queue);
        }
        None
    }
}

impl Outcome {
    /// Of a call that was to make items and was acknowledged.
    pub fn produced(&self) -> &[(ItemId, Phase)] {
        if let Self::Produced(items) | Self::GroupMade(_, items) = self { items } else { &[] }
    }

    /// The groups that were shown.
    pub fn groups(&self) -> &[GroupView] {
        if let Self::Group(group) | Self::GroupMade(group, _) = self {
            return std::slice::from_ref(&**group);
        }
        if let Self::Groups(groups) = self { groups } else { &[] }
    }

    /// The crons that were shown.
    pub fn crons(&self) -> &[CronInfo] {
        if let Self::Cron(cron) = self {
            return std::slice::from_ref(&**cron);
        }
        if let Self::Crons(crons) = self { crons } else { &[] }
    }

    /// It may have had an effect.
    pub fn is_possible(&self) -> bool {
        !matches!(self, Self::Refused(_) | Self::TooLarge | Self::NotApplied(_))
    }

    /// Of a lease that was answered.
    pub fn granted(&self) -> &[Granted] {
        if let Self::Granted { items, .. } = self { items } else { &[] }
    }

    pub fn shown(&self) -> Option<&ItemView> {
        if let Self::Shown(view) | Self::Subscribed { view, .. } = self { Some(view) } else { None }
    }

    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Open | Self::Unknown(_))
    }

    /// What became of one item of a call on leased ones.
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

impl History {
    /// All that it tells of the world but for the calls.
    pub fn without_calls(&self) -> Self {
        Self {
            calls: Vec::new(),
            processes: self.processes.clone(),
            faults: self.faults.clone(),
            promise: self.promise,
            keeps_everything: self.keeps_everything,
            damage: self.damage.clone(),
            losses: self.losses.clone(),
            lost_bodies: self.lost_bodies.clone(),
            store: self.store,
            stalls: self.stalls.clone(),
            idle_queues: self.idle_queues,
        }
    }

    pub fn has_rot(&self) -> bool {
        self.faults.iter().any(|(_, fault)| *fault == Fault::Rot)
    }

    /// Whether a store error may have been met in the process before that moment: what is faulty may say so, and
    /// leases may have been granted to nobody.
    pub fn is_troubled(&self, process: usize, until: Moment) -> bool {
        let begin = self.processes[process].begin;
        self.faults.iter().any(|(at, fault)| fault.is_trouble() && *at >= begin && *at <= until)
    }

    /// Whether everything that was acknowledged must still hold.
    pub fn is_lossless(&self) -> bool {
        let loses = |fault: &Fault| match fault {
            Fault::LostWrite
            | Fault::TornWrite
            | Fault::ReorderedWrite
            | Fault::LostName
            | Fault::WriteError
            | Fault::SyncError
            | Fault::ReadError
            | Fault::DiskFull => true,
            Fault::Crash
            | Fault::CrashAtWrite
            | Fault::CrashAtSync
            | Fault::ShortWrite
            | Fault::SlowDisk
            | Fault::StalledDisk
            | Fault::AbsentDisk
            | Fault::Rot
            | Fault::ClockForward
            | Fault::ClockBack => false,
        };
        self.promise == Promise::Kept || !self.faults.iter().any(|(_, fault)| loses(fault))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6} {:>4}.{:06}", self.order, self.micros / 1_000_000, self.micros % 1_000_000)
    }
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}
