//! What is asked about crons, and how a trace tells of it.

use std::fmt;
use std::sync::Arc;

use windlass_core::cron::{CatchUp, Overlap};
use windlass_core::time::{Span, Timestamp};

use crate::history::{Made, QueueIndex, ShownCron};
use crate::recorder::show_made;

#[derive(Clone, Debug)]
pub struct CronOp {
    pub name: Arc<str>,
    pub ask: CronAsk,
}

#[derive(Clone, Debug)]
pub enum CronAsk {
    Create {
        queue: QueueIndex,
        spec: CronSpec,
    },
    /// Changes all of it.
    Update(CronSpec),
    Pause,
    Resume,
    Trigger,
    Delete,
    Info,
}

/// A cron as it is to be. The serial of its item is one that no other has: it tells which create or update an item is made by.
#[derive(Clone, Debug)]
pub struct CronSpec {
    pub made: Made,
    /// Whole seconds: it runs so often, counted from its creation.
    pub every: Span,
    pub catch_up: CatchUp,
    pub overlap: Overlap,
}

impl CronSpec {
    pub fn schedule(&self) -> Arc<str> {
        format!("@every {}s", self.every.0 / 1_000_000).into()
    }
}

impl CronOp {
    pub fn spec(&self) -> Option<&CronSpec> {
        match &self.ask {
            CronAsk::Create { spec, .. } | CronAsk::Update(spec) => Some(spec),
            CronAsk::Pause | CronAsk::Resume | CronAsk::Trigger | CronAsk::Delete | CronAsk::Info => None,
        }
    }
}

impl CronAsk {
    /// As the coverage counts it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create cron",
            Self::Update(_) => "update cron",
            Self::Pause => "pause cron",
            Self::Resume => "resume cron",
            Self::Trigger => "trigger cron",
            Self::Delete => "delete cron",
            Self::Info => "show cron",
        }
    }
}

impl fmt::Display for CronOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ask.name(), self.name)?;
        if let CronAsk::Create { queue, .. } = &self.ask {
            write!(f, " in q{queue}")?;
        }
        let Some(spec) = self.spec() else { return Ok(()) };
        let CronSpec { made, catch_up, overlap, .. } = spec;
        write!(f, " {} catch up {catch_up:?} overlap {overlap:?}{}", spec.schedule(), show_made(made))
    }
}

pub(crate) fn show_cron(cron: &ShownCron) -> String {
    let serial = cron.serial.unwrap_or_default();
    let at = |time: Option<Timestamp>| time.map_or(0, |time| time.0);
    let paused = if cron.paused { " paused" } else { "" };
    format!(
        "{} of {} in {} [{serial}] {}{paused} next {} last {}",
        cron.name,
        cron.created_at.0,
        cron.queue,
        cron.schedule,
        at(cron.next_at),
        at(cron.last_at)
    )
}
