//! A backup made while clients work, and then used in place of the disks it was made of.

use std::sync::{Arc, Mutex};

use windlass_engine::store::StoreError;
use windlass_engine::store::log::{LogStore, backup};

use crate::disk::FaultLog;
use crate::fault::{Fault, Rates};
use crate::history::{Moment, Violation};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::rng::Rng;
use crate::server::Server;
use crate::store::Opened;

/// The disks a backup goes to. It outlives processes.
#[derive(Clone, Debug)]
pub struct Vault {
    pub machine: Machine,
    /// When the backup was begun, once it is finished.
    finished: Arc<Mutex<Option<Moment>>>,
}

impl Vault {
    /// Mostly on slow disks, so that much happens while the backup is made.
    pub fn new(plan: &Plan, rng: &mut Rng, faults: &FaultLog) -> Self {
        let machine = Machine::new(plan.stores.count, rng, faults);
        if rng.percent(70) {
            machine.set_rates(|_| Rates::HANGING);
        }
        Self { machine, finished: Arc::default() }
    }

    /// When the backup was begun; `None` if none was finished.
    pub fn begun(&self) -> Option<Moment> {
        *self.finished.lock().expect("nothing panics while it holds this lock")
    }

    fn is_finished(&self, begun: Moment) {
        *self.finished.lock().expect("nothing panics while it holds this lock") = Some(begun);
    }
}

impl Server {
    /// Makes a backup after so long. Once it is finished the power goes: the copies are all that is left. Returns only if
    /// the backup failed.
    pub async fn back_up(self, vault: Vault, opened: &Opened, micros: u64) {
        self.handle.sleep_micros(micros).await;
        let begun = self.recorder.moment();
        self.recorder.note(format_args!("a backup begins"));
        match self.copy_all(&vault.machine, &opened.logs()).await {
            Ok(()) => {
                self.recorder.note(format_args!("the backup is finished"));
                vault.is_finished(begun);
                self.handle.crash();
                std::future::pending().await
            }
            Err(error) => self.recorder.note(format_args!("no backup: {error}")),
        }
    }

    async fn copy_all(&self, to: &Machine, logs: &[Arc<LogStore>]) -> Result<(), String> {
        if logs.len() < to.disks().len() {
            return Err("a store is not open".to_owned());
        }
        let logs: Vec<&LogStore> = logs.iter().map(|log| &**log).collect();
        let backups = backup::begin(&logs).await.map_err(|error| error.to_string())?;
        for (backup, disk) in backups.into_iter().zip(to.disks()) {
            let disk = Arc::new(disk.disk(self.handle.clone()));
            let copied = backup.copy(disk, &mut |_, _| {}).await.map_err(|error| error.to_string())?;
            if let Some(damage) = copied.damage.first() {
                return Err(self.judge_damaged_copy(damage));
            }
        }
        Ok(())
    }

    /// A copy that is told to be damaged takes nobody's place. On sound disks there is none.
    fn judge_damaged_copy(&self, damage: &StoreError) -> String {
        let text = format!("the copy is damaged: {damage}");
        if !self.recorder.has_rot() && !self.recorder.has_met(Fault::ReadError) {
            self.complain(Violation { rule: "backup", text: text.clone() });
        }
        text
    }
}
