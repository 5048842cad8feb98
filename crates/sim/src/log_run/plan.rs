//! What a seed decides before the log runs: its sizes, how it syncs, what goes wrong, and how each process ends.

use windlass_core::time::Span;
use windlass_engine::store::log::{Durability, LogOptions};

use crate::fault::Rates;
use crate::plan::Sync;
use crate::rng::Rng;

#[derive(Clone, Debug)]
pub(super) struct LogPlan {
    pub(super) durability: Sync,
    pub(super) options: LogOptions,
    pub(super) rates: Rates,
    /// Beside the registry.
    pub(super) partitions: u32,
    pub(super) lives: Vec<Life>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// Of each owner of a partition.
    pub(super) steps: u32,
    pub(super) end: End,
    /// One bit of a file flips before the next process begins.
    pub(super) rots: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Close,
    /// The disk is filled first, and emptied again.
    SqueezeAndClose,
    /// The process dies some time after its last commit, and the machine runs on.
    KillWhenIdle,
    /// The process dies, and the machine runs on.
    KillAtStep(u64),
    /// The process dies when it has given a file its name and not yet made that durable, and the machine runs on.
    KillAtDirectorySync(u64),
    /// The power goes.
    CrashAtStep(u64),
    CrashAtChange(u64),
}

impl LogPlan {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let durability = *rng.pick(&[Sync::Always, Sync::Always, Sync::Interval { millis: 2 }, Sync::Never]);
        let rates = draw_rates(rng);
        let count = rng.between(2, 5);
        let mut lives: Vec<Life> = (0..count).map(|_| draw_life(rng)).collect();
        if rng.percent(30) {
            lives.extend(draw_stumble(rng));
        }
        // What has rotten says little about the lives after it.
        if rng.percent(50)
            && let Some(last) = lives.last_mut()
        {
            last.rots = true;
            if rng.percent(50) {
                last.end = End::KillWhenIdle;
            }
        }
        Self {
            durability,
            options: draw_options(rng, durability),
            rates,
            partitions: rng.between(1, 5) as u32,
            lives,
        }
    }
}

fn draw_life(rng: &mut Rng) -> Life {
    let end = match rng.below(12) {
        0..=2 => End::Close,
        3 => End::SqueezeAndClose,
        4..=5 => End::KillAtStep(rng.skewed(20, 4_000)),
        6..=7 => End::CrashAtStep(rng.skewed(20, 4_000)),
        _ => End::CrashAtChange(rng.skewed(2, 300)),
    };
    Life { steps: rng.between(10, 60) as u32, end, rots: false }
}

/// The process dies, and soon after the next one has begun the power goes: on what the first had not synced.
fn draw_stumble(rng: &mut Rng) -> [Life; 2] {
    let steps = rng.between(10, 60) as u32;
    let end = match rng.below(2) {
        0 => End::KillAtStep(rng.between(100, 3_000)),
        _ => End::KillAtDirectorySync(rng.between(1, 12)),
    };
    let killed = Life { steps, end, rots: false };
    let crashed = Life { steps, end: End::CrashAtChange(rng.between(1, 6)), rots: false };
    [killed, crashed]
}

fn draw_options(rng: &mut Rng, durability: Sync) -> LogOptions {
    LogOptions {
        durability: match durability {
            Sync::Always => Durability::Always,
            Sync::Interval { millis } => Durability::Interval(Span::from_millis(millis)),
            Sync::Never => Durability::None,
        },
        // So small that a segment is full after a few commits.
        segment_bytes: *rng.pick(&[4 << 10, 4 << 10, 8 << 10]),
        body_cache_bytes: *rng.pick(&[0, 400, 4 << 10, 1 << 20]),
        snapshot_min_bytes: rng.between(1, 6) * 1024,
        snapshot_block_bytes: *rng.pick(&[64, 300, 64 << 10]),
        ..LogOptions::default()
    }
}

fn draw_rates(rng: &mut Rng) -> Rates {
    let slow = if rng.percent(50) { rng.skewed(10_000, 300_000) as u32 } else { 0 };
    if rng.percent(40) {
        return Rates { slow, ..Rates::CALM };
    }
    Rates {
        short_write: rng.skewed(0, 100_000) as u32,
        read_error: if rng.percent(30) { rng.skewed(0, 20_000) as u32 } else { 0 },
        write_error: rng.skewed(0, 40_000) as u32,
        sync_error: rng.skewed(0, 300_000) as u32,
        slow,
    }
}
