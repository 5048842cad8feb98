//! Runs in which stored bytes rotted. Either nobody was told of damage: then nothing may be missing, and every rule
//! holds. Or somebody was told: then what was stored may be gone, but nothing is ever taken for something else.

use windlass_engine::PartitionState;

use super::Rule;
use super::{counts, grants, unique};
use crate::history::{Call, History, Outcome, Violation, speaks_of_damage};

/// Hold whatever has rotted.
pub(super) const ROTTEN: [Rule; 3] = [unique::check, grants::check_given, counts::check];

/// Whether somebody was told that something of what was stored is damaged.
pub(super) fn is_told(history: &History) -> bool {
    history.has_rot() && (!history.damage.is_empty() || history.calls.iter().any(tells))
}

/// Whether the readout may have stopped half-way: partitions that are damaged do not serve.
pub fn excuses(history: &History, violation: &Violation) -> bool {
    let is_of_readout = matches!(violation.rule, "recovery" | "drain" | "draining" | "moving");
    is_of_readout && is_told(history)
}

fn tells(call: &Call) -> bool {
    match &call.outcome {
        Outcome::NotApplied(reason) => speaks_of_damage(reason),
        Outcome::Counted(stats) => stats.partitions.iter().any(|partition| match &partition.state {
            PartitionState::Faulty { error } => speaks_of_damage(error),
            PartitionState::Loading | PartitionState::Available | PartitionState::Closed => false,
        }),
        Outcome::Shown(view) | Outcome::Subscribed { view, .. } => {
            !view.item.state.phase().is_final() && view.payload.is_none()
        }
        Outcome::Open
        | Outcome::Produced(_)
        | Outcome::Granted { .. }
        | Outcome::Judged(_)
        | Outcome::Resumed
        | Outcome::Cancelled(_)
        | Outcome::Emitted(_)
        | Outcome::Followed(_)
        | Outcome::Closed(_)
        | Outcome::Cleared(_)
        | Outcome::Redriven(_)
        | Outcome::Queue(_)
        | Outcome::Deleted
        | Outcome::Ruled
        | Outcome::Group(_)
        | Outcome::GroupMade(..)
        | Outcome::Groups(_)
        | Outcome::Refused(_)
        | Outcome::TooLarge
        | Outcome::Unknown(_) => false,
    }
}
