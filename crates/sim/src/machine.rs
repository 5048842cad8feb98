//! The machine: one disk for each store. A power cut hits all disks at once; everything else hits one.

use crate::disk::{FaultLog, Hardware};
use crate::fault::Rates;
use crate::rng::Rng;

#[derive(Clone, Debug)]
pub struct Machine {
    disks: Vec<Hardware>,
}

impl Machine {
    pub fn new(count: usize, rng: &mut Rng, log: &FaultLog) -> Self {
        Self { disks: (0..count).map(|_| Hardware::new(rng.fork(), log.clone())).collect() }
    }

    /// In the order of the stores: the first disk has the registry.
    pub fn disks(&self) -> &[Hardware] {
        &self.disks
    }

    /// A drawn disk. Draws nothing if there is only one.
    pub fn draw_disk(&self, rng: &mut Rng) -> &Hardware {
        &self.disks[self.draw_index(rng)]
    }

    pub fn draw_index(&self, rng: &mut Rng) -> usize {
        if self.disks.len() == 1 { 0 } else { rng.index(self.disks.len()) }
    }

    pub fn set_rates(&self, rates: impl Fn(usize) -> Rates) {
        self.disks.iter().enumerate().for_each(|(index, disk)| disk.set_rates(rates(index)));
    }

    /// Every disk is sound, has room and is plugged in.
    pub fn mend(&self) {
        self.set_rates(|_| Rates::CALM);
        for disk in &self.disks {
            disk.set_room(None);
            disk.set_absent(false);
            disk.stall_until_nanos(0);
        }
    }

    /// Each disk loses its own unsynced writes.
    pub fn crash(&self) {
        self.disks.iter().for_each(Hardware::crash);
    }

    pub fn process_ended(&self) {
        self.disks.iter().for_each(Hardware::process_ended);
    }
}
