//! What a command leaves in the store, where there is little room: [`crate::footprint`].

use super::Partition;
use crate::command::{Command, Resume, Retry};
use crate::cron::CronCommand;
use crate::footprint::Footprint;
use crate::time::Timestamp;

impl Partition {
    pub fn footprint(&self, now: Timestamp, command: &Command) -> Footprint {
        match command {
            Command::Produce(_)
            | Command::ProduceOnce(_)
            | Command::Import(_)
            | Command::Take(_)
            | Command::Emit(_)
            | Command::Resume(Resume { input: Some(_), .. })
            | Command::CreateGroup(_)
            | Command::SetGroupEnd(_)
            | Command::CreateQueue(..)
            | Command::Rebalance(_)
            | Command::Adopt(_) => Footprint::Grows,
            Command::Lease(_)
            | Command::Extend(_)
            | Command::Release(_)
            | Command::PutOff(_)
            | Command::Revoke(_)
            | Command::Suspend(_)
            | Command::Resume(Resume { input: None, .. })
            | Command::Redrive(_)
            | Command::StartGroup(_) => Footprint::Rewrites,
            Command::Retry(retries) if !retries.iter().all(|retry| self.ends(now, retry)) => {
                Footprint::Rewrites
            }
            Command::Retry(_)
            | Command::FailDamaged(_)
            | Command::Complete(_)
            | Command::Cancel(_)
            | Command::Clear(_)
            | Command::Delete(_)
            // Where items leave for a store with room, they are forgotten here.
            | Command::Assign(_)
            | Command::AssignCrons(_)
            | Command::Unassign(_)
            | Command::Moved(_)
            | Command::CancelGroup(_)
            | Command::DeleteGroup(_)
            | Command::Sweep { .. }
            | Command::DeleteQueue(_)
            | Command::Retire(..)
            | Command::ForgetPartition(..)
            | Command::ForgetFormerHome(_)
            | Command::DropUnclaimed(_)
            | Command::ForgetDropped(_) => Footprint::Frees,
            // An operator's means to stop what fills the store, and what follows from them: few and small.
            Command::UpdateQueue(_)
            | Command::SetRule(_)
            | Command::LiftRule(_)
            | Command::Configure(_)
            | Command::Route(_)
            | Command::TakeRules(_)
            | Command::SkipPartitions(_) => Footprint::Frees,
            Command::Cron(command) => cron_footprint(command),
        }
    }

    /// Whether a retry is the end of its item. One that will be refused changes nothing.
    fn ends(&self, now: Timestamp, retry: &Retry) -> bool {
        let Ok((entry, lease)) = self.held(retry.held, now) else { return true };
        retry.dead || self.cancel_requested(entry, lease) || self.exhausted(entry) || entry.is_overdue(now)
    }
}

fn cron_footprint(command: &CronCommand) -> Footprint {
    match command {
        CronCommand::Create(_) | CronCommand::Update(..) | CronCommand::Trigger(_) | CronCommand::Name(_) => {
            Footprint::Grows
        }
        CronCommand::Resume(_) => Footprint::Rewrites,
        CronCommand::Delete(_) | CronCommand::Pause(_) | CronCommand::Unname(_) => Footprint::Frees,
    }
}
