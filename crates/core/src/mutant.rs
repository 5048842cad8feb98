//! Deliberate faults. The simulator switches one on and must find it, which shows that its checks can fail.
//!
//! Without the feature `mutants`, [`active`] is `false` at compile time and the faults are not in the build.

/// Each variant breaks one promise at one place; the place names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// log: answer without the sync.
    SkipSync,
    /// log: at open, take a frame for good although its open number falls or its generation is another's.
    AcceptOldFrame,
    /// log: after a failed sync, go on as if what was written counted.
    TrustAfterFailedSync,
    /// writer: answer before the commit.
    AnswerBeforeCommit,
    /// supervisor: call the batch in flight applied without looking at the last commit sequence.
    ForgetOutcome,
    /// waiters: grant to a ticket that was taken already.
    WakeTwice,
    /// queue: the door stays open while the queue is deleted.
    LeaveDoorOpen,
    /// core: any permit will do.
    IgnorePermit,
    /// core, writer: a lease past its deadline still counts until the sweep comes by, which lets callers go first.
    IgnoreDeadline,
    /// core: numbers follow the last one that is left, whatever the time.
    ReuseNumber,
    /// core: count a waiting item twice.
    CountTwice,
    /// core: scheduled items start a little early.
    StartEarly,
    /// core: an item released goes to the tail.
    LoseOrder,
    /// core: an attempt is not charged when its lease expires.
    FreeAttempts,
    /// core: an address is given to a second item while the first is not final.
    ShareAddress,
    /// core: a call that is sent again is carried out again.
    ForgetCall,
    /// core: a move that is sent again is taken again.
    TakeTwice,
    /// core: a cron that another partition takes runs its last time again.
    CronTimeAgain,
    /// outbox: the source forgets a move before its target has it.
    ForgetMove,
    /// queue: whoever was home to a key before is not asked.
    SkipFormerHomes,
    /// core: what stops a whole queue is not heeded.
    IgnoreRule,
    /// core: the first event of a batch bears the number of the one before.
    RepeatEvent,
    /// core: a suspended item can be leased.
    LeaseSuspended,
    /// core: a suspended attempt is counted.
    ChargeSuspended,
    /// core: a worker's turn leases what it gave back itself.
    LeaseGivenBack,
    /// core: the answer to a suspended item does not come with its lease.
    LoseInput,
    /// core: the answer of before comes with the lease when it was suspended again.
    KeepInput,
    /// core: whoever follows an item is not told that it is suspended.
    HideSuspended,
    /// stream: a snapshot and what follows it begin one event too early.
    NumberSnapshotLow,
    /// stream: a graceful close shows nothing more.
    CloseAtOnce,
    /// core: a held member can be leased.
    LeaseHeld,
    /// core: a cancelled group does not wait for its leased members.
    AbortEarly,
    /// core: that a group has ended is not written down.
    ForgetEnd,
    /// core: a cron runs and does not go on to its next time.
    RunAgain,
    /// core: an item that was rerun can be rerun again.
    RerunTwice,
    /// core: an item that is rerun in another partition is made without its address where that is taken.
    RerunWithoutAddress,
    /// core: a payload is removed although its item's row says that it is kept.
    PayloadLostWithItemKept,
    /// core: an item tells a wrong number of where it went on.
    MovedToNowhere,
    /// core: a find goes on one item too late after a page.
    FindSkips,
    /// registry: the lock on changes is held while partitions are told.
    LockWhileTold,
    /// outbox: moves stay assigned to a partition that went with its queue.
    AssignedForEver,
    /// log: a body is handed out whatever its checksum says.
    NoBodyChecksum,
    /// log: at open, the log ends at the first frame that cannot be read, although a later one says more was durable.
    NoDamageCheck,
    /// log: at open, a body whose segment is gone is not missed.
    NoLostBodyCheck,
    /// log: with `interval` and `none`, the registry is answered before the sync.
    LazyRegistry,
    /// log: owners go on after their commits were taken back.
    RollBackWithoutFencing,
    /// log: what was begun before commits were taken back is not void.
    RollBackInOldEra,
    /// log: bodies of commits that were taken back stay in memory.
    RollBackWithOldCache,
    /// log: a snapshot that was begun before commits were taken back counts.
    SnapshotIgnoresEra,
    /// log: the reserve is never taken.
    NoReserve,
    /// log: a full disk is not told of.
    NeverFull,
    /// log: a segment is used again while somebody reads it.
    FreeWhileRead,
    /// log: a new owner has the epoch of the one before.
    AcquireWithoutFencing,
    /// log: compaction brings back a body that was removed while it was copied.
    MoveAfterRemoval,
    /// log: events that went all at once stay in the snapshot.
    KeepCutEvents,
    /// log: bodies stay in memory when they are removed.
    CacheKeepsRemoved,
    /// log: an open does not make durable which names a killed process gave.
    NoDirectorySync,
    /// log: a snapshot does not say up to which frame the log was durable when it was finished.
    SnapshotSyncedZero,
}

impl Mutant {
    /// Mutants that the simulator must find: all but [`Mutant::RunAgain`], which makes items without end, so that no run ends.
    /// The histories of the core find that one.
    pub const ALL: [Self; 40] = [
        Self::SkipSync,
        Self::AcceptOldFrame,
        Self::TrustAfterFailedSync,
        Self::AnswerBeforeCommit,
        Self::ForgetOutcome,
        Self::WakeTwice,
        Self::LeaveDoorOpen,
        Self::IgnorePermit,
        Self::IgnoreDeadline,
        Self::ReuseNumber,
        Self::CountTwice,
        Self::StartEarly,
        Self::LoseOrder,
        Self::FreeAttempts,
        Self::ShareAddress,
        Self::ForgetCall,
        Self::TakeTwice,
        Self::ForgetMove,
        Self::SkipFormerHomes,
        Self::IgnoreRule,
        Self::RepeatEvent,
        Self::LeaseSuspended,
        Self::ChargeSuspended,
        Self::LeaseGivenBack,
        Self::LoseInput,
        Self::KeepInput,
        Self::HideSuspended,
        Self::NumberSnapshotLow,
        Self::CloseAtOnce,
        Self::LeaseHeld,
        Self::AbortEarly,
        Self::ForgetEnd,
        Self::CronTimeAgain,
        Self::RerunTwice,
        Self::RerunWithoutAddress,
        Self::PayloadLostWithItemKept,
        Self::MovedToNowhere,
        Self::FindSkips,
        Self::LockWhileTold,
        Self::AssignedForEver,
    ];

    /// Faults of the log, which its runs without an engine must find.
    ///
    /// Three more were tried and do no harm, so that no run can find them:
    /// - Without `check_sequence` nothing is read that should not be: frames of all partitions are numbered without a
    ///   gap, and recovery stops at the first number that is missing, so no commit of a partition can be missing before
    ///   its next one. A durable frame with rotten entries counts with the commit number in its header.
    /// - Where `links_of` limits a segment by the next one alone, and not by the least of all later ones, nothing
    ///   changes: a segment is begun only when all before it is durable, so `after` never falls from one generation to the next.
    /// - A segment that could not be written may be used again as well as be discarded: its frames are of a generation
    ///   below that of the segment which the repair begins, hence void, and its first frame is written anew before its
    ///   next use. Discarding spares the log a disk's bad sector.
    pub const LOG: [Self; 20] = [
        Self::SkipSync,
        Self::AcceptOldFrame,
        Self::TrustAfterFailedSync,
        Self::NoBodyChecksum,
        Self::NoDamageCheck,
        Self::NoLostBodyCheck,
        Self::LazyRegistry,
        Self::RollBackWithoutFencing,
        Self::RollBackInOldEra,
        Self::RollBackWithOldCache,
        Self::SnapshotIgnoresEra,
        Self::NoReserve,
        Self::NeverFull,
        Self::FreeWhileRead,
        Self::AcquireWithoutFencing,
        Self::MoveAfterRemoval,
        Self::KeepCutEvents,
        Self::CacheKeepsRemoved,
        Self::NoDirectorySync,
        Self::SnapshotSyncedZero,
    ];
}

#[cfg(feature = "mutants")]
mod switch {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        // Per thread: a simulated run lives on one, and tests run side by side.
        static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    pub fn activate(mutant: Option<Mutant>) {
        ACTIVE.set(mutant);
    }

    pub fn active(mutant: Mutant) -> bool {
        ACTIVE.get() == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub use switch::{activate, active};

#[cfg(not(feature = "mutants"))]
pub const fn active(_: Mutant) -> bool {
    false
}
