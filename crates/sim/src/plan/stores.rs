//! How many stores a run has, and what is wrong with single ones.

use crate::fault::Rates;
use crate::rng::Rng;

/// The stores of a run, each a log on a disk of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoresPlan {
    pub count: usize,
    /// The only disk that has faults, while the others are sound. Unset: all have them.
    pub only_sick: Option<usize>,
    /// Lives, in percent, that begin without one of the disks. The first disk is always there.
    pub late_percent: u32,
    /// Whether a disk now and then does nothing at all for a while, or fails whatever it is asked.
    pub has_outages: bool,
}

impl StoresPlan {
    pub const ONE: Self = Self { count: 1, only_sick: None, late_percent: 0, has_outages: false };

    pub fn draw_several(rng: &mut Rng) -> Self {
        let count = rng.between(2, 3) as usize;
        Self {
            count,
            only_sick: rng.percent(50).then(|| rng.index(count)),
            late_percent: if rng.percent(40) { 40 } else { 0 },
            has_outages: rng.percent(40),
        }
    }

    pub fn rates_of(&self, disk: usize, rates: Rates) -> Rates {
        if self.only_sick.is_none_or(|sick| sick == disk) { rates } else { Rates::CALM }
    }
}
