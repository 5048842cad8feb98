//! Rare events of a store, counted: a simulated run proves with them that it has met what it was made to meet.

use std::iter::Sum;
use std::ops::AddAssign;

/// Counted since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreEvents {
    /// A segment that held frames before was taken for new ones.
    pub segments_reused: u64,
    /// A segment that nobody needs was kept, because somebody was reading it.
    pub segments_read_when_free: u64,
    /// A segment was given up, because writing to it failed or nothing was left to move into it.
    pub segments_discarded: u64,
    /// The log went on in its reserve, because no other segment could be made.
    pub reserves_taken: u64,
    /// A snapshot whose rows or places of bodies take more than one block.
    pub snapshots_of_several_blocks: u64,
    /// A snapshot was thrown away, because the log failed and went back while the snapshot was written.
    pub snapshots_overtaken: u64,
    /// Commits became durable while a snapshot was written: its footer tells up to which one.
    pub snapshots_behind: u64,
    /// Compaction had copied a body that was removed meanwhile.
    pub bodies_removed_while_moved: u64,
    /// The log went on in a fresh segment after a failed write or sync.
    pub repairs: u64,
    /// A repair took back commits that were answered and not durable.
    pub rollbacks: u64,
    /// A commit was refused, because its partition has another owner.
    pub commits_fenced: u64,
    /// The start found frames that do not count behind the last one that does.
    pub torn_tails_cut: u64,
}

impl StoreEvents {
    pub const COUNT: usize = 12;

    /// Each event by its name.
    pub fn each(&self) -> [(&'static str, u64); Self::COUNT] {
        [
            ("segments reused", self.segments_reused),
            ("segments read when free", self.segments_read_when_free),
            ("segments discarded", self.segments_discarded),
            ("reserves taken", self.reserves_taken),
            ("snapshots of several blocks", self.snapshots_of_several_blocks),
            ("snapshots overtaken", self.snapshots_overtaken),
            ("snapshots behind", self.snapshots_behind),
            ("bodies removed while moved", self.bodies_removed_while_moved),
            ("repairs", self.repairs),
            ("rollbacks", self.rollbacks),
            ("commits fenced", self.commits_fenced),
            ("torn tails cut", self.torn_tails_cut),
        ]
    }
}

impl AddAssign for StoreEvents {
    fn add_assign(&mut self, other: Self) {
        self.segments_reused += other.segments_reused;
        self.segments_read_when_free += other.segments_read_when_free;
        self.segments_discarded += other.segments_discarded;
        self.reserves_taken += other.reserves_taken;
        self.snapshots_of_several_blocks += other.snapshots_of_several_blocks;
        self.snapshots_overtaken += other.snapshots_overtaken;
        self.snapshots_behind += other.snapshots_behind;
        self.bodies_removed_while_moved += other.bodies_removed_while_moved;
        self.repairs += other.repairs;
        self.rollbacks += other.rollbacks;
        self.commits_fenced += other.commits_fenced;
        self.torn_tails_cut += other.torn_tails_cut;
    }
}

impl Sum for StoreEvents {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}
