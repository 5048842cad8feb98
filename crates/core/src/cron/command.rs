//! What can be asked about crons.

use std::sync::Arc;

use bytes::Bytes;

use super::{CatchUp, Cron, CronHome, Overlap};
use crate::command::{Command, NewItem};
use crate::id::PartitionId;

#[derive(Clone, Debug)]
pub enum CronCommand {
    Create(NewCron),
    Update(CronChange),
    Delete(Arc<str>),
    Pause(Arc<str>),
    Resume(Arc<str>),
    /// Makes its item now, whatever its schedule says and whether or not it is paused.
    Trigger(Arc<str>),
    /// Gives a cron up to another partition, with all there is to say of it: from here on it does not run here.
    GiveUp {
        name: Arc<str>,
        to: PartitionId,
    },
    /// Takes one over, and goes on where the other stopped.
    Take(Box<TakeCron>),
    /// Forgets one that was given up and taken.
    Forget(Arc<str>),
    /// Registry only.
    Name(NameCron),
    /// Registry only: unless it is another partition's by now.
    Unname {
        name: Arc<str>,
        partition: PartitionId,
    },
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
#[derive(Clone, Debug)]
pub struct CronChange {
    pub name: Arc<str>,
    pub schedule: Option<Arc<str>>,
    pub timezone: Option<Arc<str>>,
    /// All of it.
    pub item: Option<NewItem>,
    pub catch_up: Option<CatchUp>,
    pub overlap: Option<Overlap>,
}

#[derive(Clone, Debug)]
pub struct TakeCron {
    /// As the partition that gave it up told.
    pub cron: Cron,
    /// The payload of its template, as that of a [`NewItem`]; unset if it is lost.
    pub body: Option<Bytes>,
    /// Of its template, as those of a [`NewItem`].
    pub facts: Option<Bytes>,
}

#[derive(Clone, Debug)]
pub struct NameCron {
    pub home: CronHome,
    /// Whose the name is now, as far as the caller knows: if that is another's by now, it is refused.
    pub instead_of: Option<PartitionId>,
}
