//! The actions of `windlass items change`.

use clap::ValueEnum;

use crate::human::counted;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Action {
    /// Live items: leased ones stay until their workers give them up
    Cancel,
    /// Items that have ended and whose payloads are kept
    Rerun,
    /// Scheduled items
    RunNow,
    /// All items: nothing of them is kept
    Delete,
    /// Items that are not leased and have not ended
    SetPriority,
}

impl Action {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Rerun => "rerun",
            Self::RunNow => "run_now",
            Self::Delete => "delete",
            Self::SetPriority => "set_priority",
        }
    }

    /// The result of the action for a number of items: `2 items cancelled`.
    pub(super) fn done(self, items: u64, priority: Option<u32>) -> String {
        let (items, is_one) = (counted(items, "item"), items == 1);
        match self {
            Self::Cancel => format!("{items} cancelled"),
            Self::Rerun => format!("{items} rerun"),
            Self::RunNow => format!("{items} {} due now", if is_one { "is" } else { "are" }),
            Self::Delete => format!("{items} deleted"),
            Self::SetPriority => {
                let priority = priority.unwrap_or_default();
                format!("{items} {} priority {priority} now", if is_one { "has" } else { "have" })
            }
        }
    }

    /// The words after the number of items that the action applies to: `3 items match, and 2 of them can be cancelled`.
    pub(super) const fn can_be(self) -> &'static str {
        match self {
            Self::Cancel => "can be cancelled",
            Self::Rerun => "can be rerun",
            Self::RunNow => "can be due now",
            Self::Delete => "can be deleted",
            Self::SetPriority => "can have another priority",
        }
    }

    /// Whether the program asks on a terminal first: `delete` keeps nothing, and `cancel` ends work that waits.
    pub(super) const fn is_asked_about(self) -> bool {
        match self {
            Self::Cancel | Self::Delete => true,
            Self::Rerun | Self::RunNow | Self::SetPriority => false,
        }
    }

    /// The advice that ends the error of a page of unknown outcome.
    pub(super) const fn again(self) -> &'static str {
        match self {
            Self::Cancel => "run it again: items already cancelled no longer match",
            Self::Rerun => "run it again: items already rerun no longer match",
            Self::RunNow => "run it again: items already due no longer match",
            Self::Delete => "run it again: items already deleted are gone",
            Self::SetPriority => "run it again: it does no harm to items that have the priority already",
        }
    }
}
