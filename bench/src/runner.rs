//! [`Runner`]: all scenarios, with all contenders, in turns.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::args::Args;
use crate::busy;
use crate::fleet::{Fleet, Running};
use crate::output;
use crate::peers::Contender;
use crate::progress::Progress;
use crate::report::sheet::{Row, Sheet};
use crate::report::table::table;
use crate::scenario::Scenario;
use crate::scenario::plan::{self, Group};
use crate::server::limits;
use crate::syncs;

/// The longest that a sync check of one contender may take.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Runner<'a> {
    args: &'a Args,
    /// Contenders that take no part, and why.
    left_out: BTreeMap<Contender, String>,
    /// Steps of a contender that are not durable when they are answered.
    not_durable: BTreeMap<Contender, Vec<String>>,
    progress: Progress,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(args: &'a Args) -> Self {
        Self {
            args,
            left_out: BTreeMap::new(),
            not_durable: BTreeMap::new(),
            progress: Progress::new(planned(args)),
        }
    }

    /// Measures everything, and prints each table as soon as it is there.
    pub(crate) async fn run(&mut self) -> Result<Vec<Sheet>> {
        limits::raise();
        if let Some(warning) = busy::warning() {
            self.progress.note(&warning);
        }
        self.leave_out_missing();
        let mut sheets = Vec::new();
        if !self.args.skip_sync_check {
            sheets.push(self.check_syncs().await?);
        }
        for group in plan::groups(self.args) {
            self.group(&group, &mut sheets).await?;
        }
        self.progress.clear();
        Ok(sheets)
    }

    fn leave_out_missing(&mut self) {
        for contender in self.args.contenders().into_iter().filter(|contender| !contender.is_installed()) {
            let package = contender.package().map_or("", |(package, _)| package);
            let reason = format!("it is not installed: apt-get install {package}, or --install");
            self.leave_out(contender, reason);
        }
    }

    fn leave_out(&mut self, contender: Contender, reason: String) {
        self.progress.note(&format!("left out: {}: {reason}", contender.name()));
        self.left_out.insert(contender, reason);
    }

    /// Looks whether each contender syncs what it acknowledges. One that does not is left out.
    async fn check_syncs(&mut self) -> Result<Sheet> {
        let mut fleet = Fleet::new(&self.args.data_dir)?;
        let contenders = self.args.contenders().into_iter().filter(|contender| *contender != Contender::Bare);
        let contenders: Vec<Contender> = contenders.collect();
        self.start(&mut fleet, &contenders).await;
        let mut rows = Vec::new();
        for contender in contenders {
            let mut row = Row::new(contender);
            if let Some(running) = fleet.get(contender) {
                self.progress.say(&format!("syncs of {}", contender.name()));
                match self.check_syncs_of(running).await {
                    Ok(figures) => row.runs.push(figures),
                    Err(error) => self.leave_out(contender, format!("{error:#}")),
                }
            }
            row.left_out = self.left_out.get(&contender).cloned();
            row.not_durable = self.not_durable.get(&contender).cloned().unwrap_or_default();
            rows.push(row);
        }
        let title = format!("Syncs: requests of {} that waited for one", syncs::TURNS);
        let sheet = Sheet { scenario: "syncs", title, label: String::new(), columns: syncs::COLUMNS, rows };
        self.progress.clear();
        output::print(&table(&sheet));
        Ok(sheet)
    }

    async fn check_syncs_of(&mut self, running: &Running) -> Result<Vec<f64>> {
        running.wake(&self.args.data_dir).await?;
        let synced = tokio::time::timeout(PATIENCE, syncs::check(running)).await;
        running.halt();
        let synced =
            synced.unwrap_or_else(|_| Err(anyhow!("its syncs could not be watched in {PATIENCE:?}")))?;
        if let Some(refusal) = synced.refusal() {
            self.leave_out(running.contender, refusal);
        }
        self.not_durable.insert(running.contender, synced.not_durable(running.contender));
        Ok(synced.figures(running.contender))
    }

    /// Starts servers; a contender whose server does not start is left out.
    async fn start(&mut self, fleet: &mut Fleet, contenders: &[Contender]) {
        for contender in contenders.iter().copied() {
            if self.left_out.contains_key(&contender) {
                continue;
            }
            self.progress.say(&format!("starting {}", contender.name()));
            if let Err(error) = fleet.add(contender, &self.args.windlass).await {
                self.leave_out(contender, format!("{error:#}"));
            }
        }
    }

    /// Scenarios that share their servers.
    async fn group(&mut self, group: &Group, sheets: &mut Vec<Sheet>) -> Result<()> {
        let mut fleet = Fleet::new(&self.args.data_dir)?;
        let contenders = self.contenders(group);
        self.start(&mut fleet, &contenders).await;
        for scenario in group {
            let sheet = self.sheet(scenario.as_ref(), &fleet).await?;
            self.progress.clear();
            output::print(&table(&sheet));
            sheets.push(sheet);
        }
        Ok(())
    }

    /// Contenders whose servers a group needs.
    fn contenders(&self, group: &Group) -> Vec<Contender> {
        let needed = |contender: &Contender| {
            group.iter().any(|scenario| scenario.has(*contender) && scenario.cannot(*contender).is_none())
        };
        self.args.contenders().into_iter().filter(needed).collect()
    }

    async fn sheet(&mut self, scenario: &dyn Scenario, fleet: &Fleet) -> Result<Sheet> {
        let contenders = self.args.contenders().into_iter().filter(|contender| scenario.has(*contender));
        let mut rows: Vec<Row> = contenders.map(|contender| self.row(scenario, contender)).collect();
        for run in 1..=self.args.runs() {
            for row in &mut rows {
                let running = fleet.get(row.contender);
                if let (Some(running), None) = (running, &row.left_out) {
                    self.turn(scenario, running, run, row).await?;
                }
                self.progress.done(scenario.planned());
            }
        }
        let (title, label) = (scenario.title(), scenario.label());
        Ok(Sheet { scenario: scenario.name(), title, label, columns: scenario.columns(), rows })
    }

    fn row(&self, scenario: &dyn Scenario, contender: Contender) -> Row {
        let unable = scenario.cannot(contender).map(str::to_owned);
        let left_out = self.left_out.get(&contender).cloned().or(unable);
        let not_durable = self.not_durable.get(&contender).cloned().unwrap_or_default();
        Row { left_out, not_durable, ..Row::new(contender) }
    }

    /// One run of one contender. A contender that fails has no further runs.
    async fn turn(
        &mut self,
        scenario: &dyn Scenario,
        running: &Running,
        run: usize,
        row: &mut Row,
    ) -> Result<()> {
        let name = running.contender.name();
        self.progress.say(&format!("{}, {}: {name}, run {run}", scenario.name(), scenario.label()));
        running.wake(&self.args.data_dir).await?;
        let work = async {
            if run == 1 {
                scenario.prepare(running).await?;
            }
            scenario.run(running).await
        };
        let limit = scenario.planned() * 10 + scenario.patience();
        let done = tokio::time::timeout(limit, work).await;
        running.halt();
        match done.unwrap_or_else(|_| Err(anyhow!("a run did not end within {} s", limit.as_secs()))) {
            Ok(figures) => row.runs.push(figures),
            Err(error) => row.left_out = Some(format!("{error:#}")),
        }
        Ok(())
    }
}

/// How long everything takes, roughly.
fn planned(args: &Args) -> Duration {
    let turns = (args.runs() * args.contenders().len()) as u32;
    plan::groups(args).iter().flatten().map(|scenario| scenario.planned() * turns).sum()
}
