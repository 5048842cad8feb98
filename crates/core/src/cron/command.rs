//! What can be asked about crons.

use std::sync::Arc;

use super::{CatchUp, CronHome, Overlap};
use crate::command::{Command, NewItem};
use crate::row::QueueName;

#[derive(Clone, Debug)]
pub enum CronCommand {
    Create(NewCron),
    Update(Arc<str>, CronChange),
    Delete(Arc<str>),
    Pause(Arc<str>),
    Resume(Arc<str>),
    /// Makes its item now, whatever its schedule says and whether or not it is paused.
    Trigger(Arc<str>),
    /// Registry only.
    Name(NameCron),
    /// Registry only: unless the name belongs to another queue by now.
    Unname(CronHome),
}

impl From<CronCommand> for Command {
    fn from(command: CronCommand) -> Self {
        Self::Cron(Box::new(command))
    }
}

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

#[derive(Clone, Debug)]
pub struct NameCron {
    pub home: CronHome,
    /// The queue that the name belongs to now, as far as the caller knows: refused if it belongs to another by now.
    pub instead_of: Option<QueueName>,
}
