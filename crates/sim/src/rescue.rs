//! What an operator does to the logs while no server runs: looks at them, and salvages them to fresh disks.

use std::sync::Arc;

use windlass_engine::env::Env;
use windlass_engine::store::StoreError;
use windlass_engine::store::log::inspect::{self, Account};

use crate::disk::Hardware;
use crate::env::SimEnv;
use crate::history::{Loss, Teller, Violation};
use crate::machine::Machine;
use crate::server::Server;
use crate::store;

impl Server {
    /// Has every log looked through, and takes down what damage is told.
    pub async fn inspect(self) {
        for disk in self.machine.disks().iter().filter(|disk| holds_a_log(disk)) {
            match inspect::check(Arc::new(disk.disk(self.handle.clone()))).await {
                Ok(report) => {
                    self.take_down(Teller::Inspect, &report.damage, &report.account);
                    self.recorder.losses(|losses| losses.at_start.extend(report.cut));
                }
                Err(error) => self.recorder.damage(Teller::Inspect, &error.to_string()),
            }
        }
        self.handle.finish();
    }

    /// Salvages each log to the disk of the same place in `to`. Commits that a start would have cut are kept.
    pub async fn salvage(self, to: Machine) {
        self.recorder.losses(|losses| losses.at_start.clear());
        for (index, (from, to)) in self.machine.disks().iter().zip(to.disks()).enumerate() {
            if holds_a_log(from)
                && let Err(error) = self.salvage_one(index, from, to).await
            {
                self.complain(Violation { rule: "salvage", text: error });
            }
        }
        self.handle.finish();
    }

    async fn salvage_one(&self, index: usize, from: &Hardware, to: &Hardware) -> Result<(), String> {
        let env: Arc<dyn Env> = Arc::new(SimEnv::new(self.handle.clone(), self.wall.clone()));
        let disk = |hardware: &Hardware| Arc::new(hardware.disk(self.handle.clone()));
        let options = store::options(&self.plan);
        let salvaged = inspect::salvage(env, disk(from), disk(to), options).await;
        let salvaged = salvaged.map_err(|error| format!("store {index} cannot be salvaged: {error}"))?;
        self.take_down(Teller::Salvage, &salvaged.lost, &salvaged.account);
        match salvaged.lost.first() {
            Some(lost) if !self.recorder.may_look_damaged() => {
                Err(format!("store {index} is sound, and salvage says: {lost}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn take_down(&self, by: Teller, damage: &[StoreError], account: &Account) {
        damage.iter().for_each(|damage| self.recorder.damage(by, &damage.to_string()));
        self.recorder.note(format_args!("{by:?} counts {account:?}"));
        self.recorder.losses(|losses| {
            losses.is_anywhere |= account.frames_missing > 0;
            for (partition, found) in account.partitions.iter().filter(|(_, found)| found.hurt()) {
                let may_be_more = found.may_miss_more || found.commits_missing > 0;
                // An item that lost its payload cannot be told from others here: its serial is in the payload.
                let items = found.items_lost + found.payloads_lost;
                losses.add(*partition, Loss { items, may_be_more });
            }
        });
    }
}

/// A disk that was never there when a server began holds nothing yet.
fn holds_a_log(disk: &Hardware) -> bool {
    disk.contents().contains_key("format")
}
