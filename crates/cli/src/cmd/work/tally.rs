//! How items ended that were worked on.

use serde::Serialize;
use windlass_client::worker::Fate;

use crate::human::counted;

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Tally {
    completed: u64,
    retried: u64,
    dead: u64,
    released: u64,
    suspended: u64,
    lost: u64,
}

impl Tally {
    pub(super) fn count(&mut self, fate: Fate) {
        let counter = match fate {
            Fate::Completed => &mut self.completed,
            Fate::Retried => &mut self.retried,
            Fate::Dead => &mut self.dead,
            Fate::Released => &mut self.released,
            Fate::Suspended => &mut self.suspended,
            Fate::Lost => &mut self.lost,
        };
        *counter += 1;
    }

    pub(super) fn all_completed(self) -> bool {
        self.retried + self.dead + self.released + self.suspended + self.lost == 0
    }

    /// Only what there was.
    pub(super) fn shown(self) -> String {
        let parts = [
            (self.retried, "to be tried again"),
            (self.dead, "failed for good"),
            (self.released, "released"),
            (self.suspended, "waiting for an answer"),
            (self.lost, "lost"),
        ];
        let others = parts.into_iter().filter(|(number, _)| *number > 0);
        let others: String = others.map(|(number, what)| format!(", {number} {what}")).collect();
        format!("{} completed{others}\n", counted(self.completed, "item"))
    }
}
