//! Which commands a partition still takes when more is sent to it than it can do.

use crate::command::Command;

/// In the order in which commands are refused when an inbox fills up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Brings work, asks for work, or asks about it. Whoever sends it can send it again.
    Ordinary,
    /// Keeps alive or ends work that has been leased, finishes a move, or tells the partition what the registry says.
    /// Refused for want of room, a heartbeat or a completion would have work done twice.
    Settling,
}

impl Command {
    pub fn urgency(&self) -> Urgency {
        match self {
            Self::Extend(_)
            | Self::Complete(_)
            | Self::Retry(_)
            | Self::Release(_)
            | Self::PutOff(_)
            | Self::FailDamaged(_)
            | Self::Suspend(_)
            | Self::Emit(_)
            | Self::Assign(_)
            | Self::AssignCrons(_)
            | Self::Unassign(_)
            | Self::Take(_)
            | Self::Moved(_)
            | Self::Configure(_)
            | Self::Route(_)
            | Self::TakeRules(_) => Urgency::Settling,
            Self::Produce(_)
            | Self::ProduceOnce(_)
            | Self::Lease(_)
            | Self::Revoke(_)
            | Self::Cancel(_)
            | Self::Resume(_)
            | Self::Clear(_)
            | Self::Import(_)
            | Self::Delete(_)
            | Self::Redrive(_)
            | Self::CreateGroup(_)
            | Self::SetGroupEnd(_)
            | Self::StartGroup(_)
            | Self::CancelGroup(_)
            | Self::DeleteGroup(_)
            | Self::Sweep { .. }
            | Self::CreateQueue(..)
            | Self::UpdateQueue(_)
            | Self::DeleteQueue(_)
            | Self::Rebalance(_)
            | Self::Retire(..)
            | Self::ForgetPartition(..)
            | Self::ForgetFormerHome(_)
            | Self::SkipPartitions(_)
            | Self::Adopt(_)
            | Self::DropUnclaimed(_)
            | Self::ForgetDropped(_)
            | Self::SetRule(_)
            | Self::LiftRule(_)
            | Self::Cron(_) => Urgency::Ordinary,
        }
    }
}
