//! What goes wrong, and how often.

use crate::rng::Rng;

/// Every kind of fault, by the name the coverage table has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The process ends between two steps.
    Crash,
    /// The process ends in the middle of a write.
    CrashAtWrite,
    /// The process ends in the middle of a sync.
    CrashAtSync,
    /// At a crash: an unsynced write is gone.
    LostWrite,
    /// At a crash: some sectors of an unsynced write are there, some are not.
    TornWrite,
    /// At a crash: a later unsynced write is there, an earlier one of the same file is not.
    ReorderedWrite,
    /// At a crash: a name made, changed or removed without a sync of the directory is as before.
    LostName,
    ShortWrite,
    ReadError,
    WriteError,
    SyncError,
    DiskFull,
    SlowDisk,
    /// A disk does not answer for a long while, without an error.
    StalledDisk,
    /// A store could not be opened, because its disk was not there.
    AbsentDisk,
    /// A bit flipped in what was durable.
    Rot,
    ClockForward,
    ClockBack,
}

impl Fault {
    pub const ALL: [Self; 18] = [
        Self::Crash,
        Self::CrashAtWrite,
        Self::CrashAtSync,
        Self::LostWrite,
        Self::TornWrite,
        Self::ReorderedWrite,
        Self::LostName,
        Self::ShortWrite,
        Self::ReadError,
        Self::WriteError,
        Self::SyncError,
        Self::DiskFull,
        Self::SlowDisk,
        Self::StalledDisk,
        Self::AbsentDisk,
        Self::Rot,
        Self::ClockForward,
        Self::ClockBack,
    ];

    /// Whether something that cannot be read may be left on the disk.
    pub fn leaves_unreadable(self) -> bool {
        match self {
            Self::Rot
            | Self::CrashAtWrite
            | Self::LostWrite
            | Self::TornWrite
            | Self::ReorderedWrite
            | Self::LostName
            | Self::WriteError
            | Self::SyncError
            | Self::DiskFull => true,
            Self::Crash
            | Self::CrashAtSync
            | Self::ShortWrite
            | Self::ReadError
            | Self::SlowDisk
            | Self::StalledDisk
            | Self::AbsentDisk
            | Self::ClockForward
            | Self::ClockBack => false,
        }
    }

    /// Whether a store that meets it may say so to its callers, or keep them waiting.
    pub fn is_trouble(self) -> bool {
        match self {
            Self::ReadError
            | Self::WriteError
            | Self::SyncError
            | Self::DiskFull
            | Self::StalledDisk
            | Self::AbsentDisk
            | Self::Rot => true,
            Self::Crash
            | Self::CrashAtWrite
            | Self::CrashAtSync
            | Self::LostWrite
            | Self::TornWrite
            | Self::ReorderedWrite
            | Self::LostName
            | Self::ShortWrite
            | Self::SlowDisk
            | Self::ClockForward
            | Self::ClockBack => false,
        }
    }
}

/// How often, in a million of the operations concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub short_write: u32,
    pub read_error: u32,
    pub write_error: u32,
    pub sync_error: u32,
    pub slow: u32,
}

impl Rates {
    pub const CALM: Self = Self { short_write: 0, read_error: 0, write_error: 0, sync_error: 0, slow: 0 };

    /// A disk that fails whatever it is asked.
    pub const DEAD: Self =
        Self { read_error: 1_000_000, write_error: 1_000_000, sync_error: 1_000_000, ..Self::CALM };

    /// A disk on which everything takes very long.
    pub const HANGING: Self = Self { slow: 1_000_000, ..Self::CALM };

    /// A spell of bad weather: failures come in flocks.
    pub fn spell(rng: &mut Rng) -> Self {
        Self {
            sync_error: rng.between(200_000, 700_000) as u32,
            write_error: rng.between(0, 50_000) as u32,
            ..Self::CALM
        }
    }

    /// Many runs are calm, because much is only provable there; some have one kind of trouble, some all of it.
    pub fn draw(rng: &mut Rng) -> Self {
        if rng.percent(40) {
            return Self { short_write: rate(rng, 30, 100_000), slow: rate(rng, 40, 50_000), ..Self::CALM };
        }
        Self {
            short_write: rate(rng, 40, 200_000),
            read_error: rate(rng, 40, 20_000),
            write_error: rate(rng, 40, 20_000),
            sync_error: rate(rng, 50, 40_000),
            slow: rate(rng, 40, 50_000),
        }
    }
}

fn rate(rng: &mut Rng, percent: u32, most: u64) -> u32 {
    if rng.percent(percent) { rng.skewed(most / 50, most) as u32 } else { 0 }
}
