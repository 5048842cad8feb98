//! The kinds of work that contenders are measured with.

mod backlog;
mod cycles;
mod pace;
mod pickup;
pub(crate) mod plan;
mod scheduled;
mod stamp;
mod switches;
mod team;
mod waiting;
mod window;

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use crate::fleet::Running;
use crate::peers::Contender;
use crate::report::sheet::Column;

/// One load: all contenders carry it in turns, several times, and the result is one sheet.
#[async_trait]
pub(crate) trait Scenario: Send + Sync {
    /// The scenario's name in flags and in JSON. Scenarios of one name share their servers.
    fn name(&self) -> &'static str;

    fn title(&self) -> String;

    /// The load in a few words: tells scenarios of one name apart.
    fn label(&self) -> String;

    fn columns(&self) -> &'static [Column];

    /// How long a run takes, roughly.
    fn planned(&self) -> Duration;

    /// How much longer than planned a run may take before it is given up.
    fn patience(&self) -> Duration {
        Duration::from_secs(120)
    }

    /// Whether a contender is named in the sheet at all.
    fn has(&self, contender: Contender) -> bool {
        contender != Contender::Bare
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
