//! How a run ends, and whether stored bytes rot meanwhile.

use crate::disk::RotTarget;
use crate::rng::Rng;

/// Where the last life finds what the others left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastStep {
    /// On the disks as they are.
    Restart,
    /// On fresh disks that the logs were salvaged to.
    Salvage,
    /// On fresh disks that a backup was restored to, made while the last clients worked.
    Restore,
}

impl LastStep {
    /// Backups of several stores are tried more often: they must agree with each other.
    pub fn draw(rng: &mut Rng, stores: usize) -> Self {
        let restores = if stores > 1 { 30 } else { 12 };
        match rng.below(100) {
            0..=11 => Self::Salvage,
            drawn if drawn < 12 + restores => Self::Restore,
            _ => Self::Restart,
        }
    }
}

/// Bits that flip on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotPlan {
    /// The life with which they flip, from 0.
    pub life: usize,
    /// While that life runs. Otherwise between it and the next one.
    pub is_live: bool,
    pub target: RotTarget,
    pub flips: u32,
}

impl RotPlan {
    pub fn draw(rng: &mut Rng, lives: usize) -> Self {
        Self {
            life: rng.index(lives),
            is_live: rng.percent(30),
            target: *rng.pick(&RotTarget::ALL),
            flips: rng.skewed(1, 4) as u32,
        }
    }
}
