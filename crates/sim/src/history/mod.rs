//! The history of a run: every call, its answer and the time of both. The checker goes by nothing else.
//!
//! Answers are records of the history's own (`shown`, `followed`), which hold what the checker goes by and no more: the
//! simulator's caller fills them from the engine's answers, a test over HTTP from the messages of the API, and a story by
//! hand.

mod damage;
mod followed;
mod found;
mod op;
mod outcome;
mod shown;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use windlass_core::time::Timestamp;
use windlass_engine::store::StoreStats;

pub use self::damage::{Damage, Loss, Losses, Teller, speaks_of_damage};
pub use self::followed::{Followed, ShownState};
pub use self::found::{FindFilter, FindOp, FoundItem, FoundPage, ManyOp, ManyPage};
pub use self::op::{ChangeOp, Made, Op, RetryOp, SuspendOp, edited_body, input_body, reason_of};
pub use self::outcome::{Emitted, Extended, Outcome, Verdict, Why};
pub use self::shown::{
    Given, LoggedAttempt, Origin, PartitionCounts, PartitionState, QueueCounts, ShownCron, ShownGroup,
    ShownItem, ShownQueue,
};
use crate::fault::Fault;

/// A queue by its place in the plan; its name is `q` and that number.
pub type QueueIndex = usize;

/// The number that the operator has among the clients.
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
    /// How far an acknowledgement holds after a crash or a failed write.
    pub promise: Promise,
    /// No queue was to forget an item that ended: each must be shown as it ended.
    pub keeps_everything: bool,
    /// Damage that was told otherwise than by the answer to a call.
    pub damage: Vec<Damage>,
    /// Parts of the logs that may be missing, as far as anybody was told.
    pub losses: Losses,
    /// Items of which a server said that a body is lost, by the id in its message.
    pub lost_bodies: BTreeSet<String>,
    /// The events that the stores of all processes counted.
    pub store: StoreStats,
    pub stalls: Vec<Stall>,
    /// How many queues nobody used, added up over all processes.
    pub idle_queues: u64,
}

/// A store that did not answer for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The store's name, as in [`ShownQueue::homes`].
    pub store: Arc<str>,
    pub process: usize,
    pub begin: Moment,
    /// The store answers again from then on.
    pub until_micros: u64,
}

/// How far an acknowledgement holds.
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
    /// The machine's clock at `begin`.
    pub wall: Timestamp,
    /// When the process began to serve.
    pub opened: Option<Moment>,
    /// When the process was asked to close.
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
    /// Set for the calls that one turn of a worker stands for: the engine got them as one call, which has this number.
    pub turn: Option<u64>,
}

impl History {
    /// A history of the same processes, faults and losses without any call.
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
