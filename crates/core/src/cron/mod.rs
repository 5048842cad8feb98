//! Items that appear on a schedule. A cron is one row of one partition: that an item is made and that the cron goes on to its
//! next time are one commit.

mod civil;
mod expression;
mod schedule;

use std::sync::Arc;

pub use schedule::{EVERY_MIN, SCHEDULE_BYTES_MAX, Schedule, ScheduleError, TIMEZONE_BYTES_MAX};

use crate::group::Template;
use crate::id::{ItemId, ItemNumber, PartitionId};
use crate::item::Assigned;
use crate::row::QueueName;
use crate::settings::differs;
use crate::time::{Span, Timestamp};
use crate::verbs::{CronChange, NewItem};

/// A time that comes later than this was missed.
pub const LATE_MAX: Span = Span::from_secs(5);

/// A cron as its row holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    /// No two crons of a namespace have the same.
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
    /// The last item it made in another partition, if it has made none since.
    pub last_item_elsewhere: Option<ItemId>,
    /// Set once another partition is to take the cron: it does not run here any more.
    pub leaves: Option<Leaves>,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// A cron's move to another partition of its queue, until that has taken the cron. The moves of items and of crons from one
/// partition to another are numbered together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaves {
    /// The queue of the cron when the taker was chosen.
    pub queue: Arc<str>,
    pub assigned: Assigned,
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

/// A cron's name in its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CronName {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

/// The queue that a name of a cron belongs to: a row of the registry. The name counts for nothing unless a partition of that
/// queue has a cron of the name. Which partition that is, is not written down: crons move between the partitions of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronHome {
    pub name: Arc<str>,
    pub queue: QueueName,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// Why a verb about a cron was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CronRefusal {
    Exists,
    /// There is a cron of that name, and this field of it, by its name in the API, is not as was given.
    Differs {
        field: &'static str,
    },
    NotFound,
    /// Another partition is about to take it over.
    Leaves,
    /// The cron goes to the home of its address, and can run there, once its last item has ended.
    Busy {
        item: ItemNumber,
    },
    Schedule(ScheduleError),
}

impl CronHome {
    pub fn cron_name(&self) -> CronName {
        CronName { namespace: Arc::clone(&self.queue.namespace), name: Arc::clone(&self.name) }
    }
}

impl Cron {
    /// When it is to run here next.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        self.next_at.filter(|_| self.leaves.is_none())
    }

    /// The last item it made, whichever partition it was in then. `here` is the partition that has the cron.
    pub fn last_made(&self, here: PartitionId) -> Option<ItemId> {
        let id = |number| ItemId { partition: here, number };
        self.last_item.map(id).or(self.last_item_elsewhere)
    }

    /// Remembers an item that it made here.
    pub(crate) fn made(&mut self, item: ItemNumber) {
        self.last_item = Some(item);
        self.last_item_elsewhere = None;
    }

    /// The name in the API of the first field that is given and that the cron does not have. Whether the item has the same body
    /// is for the caller to say: only the store has bodies.
    pub fn first_difference(&self, given: &CronChange, is_same_body: bool) -> Option<&'static str> {
        let is_same_schedule = |text: &Arc<str>| expression::is_same(text, &self.schedule);
        let is_same_zone = |name: &Arc<str>| civil::is_same_zone(name, &self.timezone);
        let is_same_item = |item: &NewItem| is_same_body && self.makes(item);
        let schedule = given.schedule.as_ref().filter(|text| !is_same_schedule(text)).map(|_| "schedule");
        let timezone = given.timezone.as_ref().filter(|name| !is_same_zone(name)).map(|_| "timezone");
        let item = given.item.as_ref().filter(|item| !is_same_item(item)).map(|_| "item");
        schedule.or(timezone).or(item).or(differs("catch_up", &given.catch_up, &self.catch_up)).or(differs(
            "overlap",
            &given.overlap,
            &self.overlap,
        ))
    }

    /// Whether it makes such items, apart from their bodies.
    fn makes(&self, item: &NewItem) -> bool {
        let Template { kind, priority, delay, max_attempts, dead_timeout, .. } = &self.template;
        (kind, *priority, *delay) == (&item.kind, item.priority, item.delay)
            && (*max_attempts, *dead_timeout) == (item.max_attempts, item.dead_timeout)
            && self.address == item.address
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
