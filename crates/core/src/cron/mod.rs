//! Items that appear on a schedule. A cron is one row of one partition: that an item is made and that the cron goes on to its
//! next time are one commit.

mod civil;
mod command;
mod expression;
mod schedule;

use std::sync::Arc;

pub use command::{CronChange, CronCommand, NameCron, NewCron, TakeCron};
pub use schedule::{EVERY_MIN, SCHEDULE_BYTES_MAX, Schedule, ScheduleError, TIMEZONE_BYTES_MAX};

use crate::group::Template;
use crate::id::{ItemNumber, PartitionId};
use crate::row::QueueName;
use crate::time::{Span, Timestamp};

/// A time that comes later than this was missed.
pub const LATE_MAX: Span = Span::from_secs(5);

/// A cron as its row holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    /// No two crons of a server have the same.
    pub name: Arc<str>,
    /// Tells it from earlier ones of its name; one of the numbers of items where it was made.
    pub number: u64,
    /// What `@every` counts from.
    pub created_at: Timestamp,
    pub schedule: Arc<str>,
    pub timezone: Arc<str>,
    pub catch_up: CatchUp,
    pub overlap: Overlap,
    /// What is made each time, in this queue.
    pub template: Template,
    pub address: Option<Arc<str>>,
    pub paused: bool,
    /// The scheduled time it waits for. Unset while it is paused, and when no more will come.
    pub next_at: Option<Timestamp>,
    /// The last scheduled time that ran.
    pub last_at: Option<Timestamp>,
    /// The last item it made here.
    pub last_item: Option<ItemNumber>,
    /// The partition that is to take it over: here it does not run any more.
    pub leaves_to: Option<PartitionId>,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// What becomes of times that were missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    #[default]
    Skip,
    /// They run once, all together.
    One,
    /// Each of them runs.
    All,
}

/// What becomes of a time that comes while the cron's previous item is not final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    #[default]
    Allow,
    /// It makes nothing, and counts as run.
    Skip,
}

/// A cron as it can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronView {
    pub cron: Cron,
    /// The next times of its schedule, whether or not it is paused: as many as were asked for.
    pub next_times: Vec<Timestamp>,
}

/// Whose a name of a cron is: in the registry. It counts for nothing unless that partition has a cron of the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronHome {
    pub name: Arc<str>,
    pub queue: QueueName,
    pub partition: PartitionId,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// Why a command about a cron was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CronRefusal {
    Exists,
    NotFound,
    /// Another partition is about to take it over.
    Leaves,
    /// It cannot leave before its last item has ended: elsewhere nobody would know.
    Busy {
        item: ItemNumber,
    },
    Schedule(ScheduleError),
}

impl Cron {
    /// When it is to run here next.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        self.next_at.filter(|_| self.leaves_to.is_none())
    }

    pub(crate) fn read_schedule(&self) -> Result<Schedule, ScheduleError> {
        Schedule::parse(&self.schedule, &self.timezone, self.created_at)
    }

    /// The bytes of it that have no fixed length.
    pub(crate) fn bytes(&self) -> usize {
        let address = self.address.as_ref().map_or(0, |address| address.len());
        let texts = self.name.len() + self.schedule.len() + self.timezone.len() + self.template.kind.len();
        texts + address + self.template.unknown.len() + self.unknown.len()
    }
}
