//! The kinds of work that contenders are measured with.

pub(crate) mod cycles;
pub(crate) mod plan;
pub(crate) mod team;
pub(crate) mod window;

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use crate::fleet::Running;
use crate::peers::Contender;
use crate::report::sheet::Column;

/// One load: all contenders carry it in turns, several times, and the result is one sheet.
#[async_trait]
pub(crate) trait Scenario: Send + Sync {
    /// Its name in flags and in JSON. Scenarios of one name share their servers.
    fn name(&self) -> &'static str;

    fn title(&self) -> String;

    /// What tells it from others of its name, in a few characters.
    fn label(&self) -> String;

    fn columns(&self) -> &'static [Column];

    /// How long a run takes, roughly.
    fn planned(&self) -> Duration;

    /// Whether the bare loop takes part.
    fn has_bare(&self) -> bool {
        false
    }

    /// Why a contender cannot carry this load.
    fn cannot(&self, _contender: Contender) -> Option<&'static str> {
        None
    }

    /// Called once for each contender, before its first run.
    async fn prepare(&self, _running: &Running) -> Result<()> {
        Ok(())
    }

    /// One run: a figure for each column.
    async fn run(&self, running: &Running) -> Result<Vec<f64>>;
}
