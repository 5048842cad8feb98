//! What can be asked about crons.

use std::sync::Arc;

use super::{CatchUp, CronHome, Overlap};
use crate::command::NewItem;
use crate::row::QueueName;

#[derive(Clone, Debug)]
pub struct UpdateCron {
    pub name: Arc<str>,
    pub change: CronChange,
}

#[derive(Clone, Debug)]
pub struct DeleteCron(pub Arc<str>);

#[derive(Clone, Debug)]
pub struct PauseCron(pub Arc<str>);

#[derive(Clone, Debug)]
pub struct ResumeCron(pub Arc<str>);

/// Makes the item of a cron now, whatever its schedule says and whether or not it is paused.
#[derive(Clone, Debug)]
pub struct TriggerCron(pub Arc<str>);

/// Registry only: takes the name of a cron away, unless it belongs to another queue by now.
#[derive(Clone, Debug)]
pub struct UnnameCron(pub CronHome);

#[derive(Clone, Debug)]
pub struct NewCron {
    pub name: Arc<str>,
    pub schedule: Arc<str>,
    pub timezone: Arc<str>,
    /// Without a group, and due at once.
    pub item: NewItem,
    pub catch_up: CatchUp,
    pub overlap: Overlap,
}

/// What it does not name stays as it is.
#[derive(Clone, Debug, Default)]
pub struct CronChange {
    pub schedule: Option<Arc<str>>,
    pub timezone: Option<Arc<str>>,
    /// All of it.
    pub item: Option<NewItem>,
    pub catch_up: Option<CatchUp>,
    pub overlap: Option<Overlap>,
}

/// Registry only: gives a name to a cron of a queue.
#[derive(Clone, Debug)]
pub struct NameCron {
    pub home: CronHome,
    /// The queue that the name belongs to now, as far as the caller knows: refused if it belongs to another by now.
    pub instead_of: Option<QueueName>,
}
