//! One server after the other on the same data, and how each of them ends.

use std::ffi::OsString;
use std::path::PathBuf;

use tempfile::TempDir;
use windlass_sim::fault::Fault;
use windlass_sim::recorder::Recorder;

use super::machine::Machine;
use crate::server_process::ServerProcess;

/// Room for the segments of thousands of lives.
const DISK_BYTES: u64 = 256 << 20;
/// Room that a few lives fill.
const SMALL_DISK_BYTES: u64 = 24 << 20;
/// Less than a segment.
const BYTES_LEFT_STEP: u64 = 100 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    Kill,
    PowerCut,
}

#[derive(Debug)]
pub(super) struct Site {
    machine: Machine,
    /// Holds the configuration of all servers.
    home: TempDir,
    pub(super) deaths: usize,
    death: Death,
    /// Whether disks fill up while servers run, or before they start.
    pub(super) fills_up: bool,
}

impl Site {
    /// Servers on so many directories, each of which is a store.
    pub(super) fn with_directories(count: usize, deaths: usize) -> Self {
        Self::new(Machine::with_directories(count), deaths_of(Death::Kill, deaths), Death::Kill)
    }

    /// Servers on so many disks, each of which is a store. `None` where there can be no such disks.
    pub(super) fn with_disks(count: usize, deaths: usize, death: Death) -> Option<Self> {
        let machine = Machine::with_disks(count, DISK_BYTES)?;
        Some(Self::new(machine, deaths_of(death, deaths), death))
    }

    /// Servers whose disks fill up. `None` where there can be no such disks.
    pub(super) fn with_full_disks(count: usize, deaths: usize, death: Death) -> Option<Self> {
        let machine = Machine::with_disks(count, SMALL_DISK_BYTES)?;
        Some(Self { fills_up: true, ..Self::new(machine, deaths_of(death, deaths), death) })
    }

    fn new(machine: Machine, deaths: usize, death: Death) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let store = |(index, data): (usize, &PathBuf)| {
            format!("[[stores]]\nname = \"store{index}\"\ndata = {data:?}\n")
        };
        let config: String = machine.data().iter().skip(1).enumerate().map(store).collect();
        std::fs::write(home.path().join("windlass.toml"), config).expect("the configuration can be written");
        Self { machine, home, deaths, death, fills_up: false }
    }

    pub(super) async fn start(&self) -> ServerProcess {
        let config = self.home.path().join("windlass.toml");
        let flags: [OsString; 3] = ["--small-segments".into(), "--config".into(), config.into()];
        ServerProcess::start_with(&self.machine.data()[0], &flags).await
    }

    /// Whether the disks are full already when that server starts.
    pub(super) fn begins_full(&self, process: usize) -> bool {
        self.fills_up && process % 3 == 2
    }

    /// Leaves less room than a segment takes, and now and then none at all.
    pub(super) fn fill(&self, recorder: &Recorder, process: usize) {
        recorder.fault(Fault::DiskFull);
        self.machine.fill(process as u64 % 5 * BYTES_LEFT_STEP);
    }

    /// Ends the server, and makes the machine ready for the next one.
    pub(super) async fn end(&self, recorder: &Recorder, server: ServerProcess) {
        if self.death == Death::PowerCut {
            // Until it is killed, the server finds that no write succeeds.
            recorder.fault(Fault::WriteError);
            self.machine.cut_power();
        }
        recorder.process_ended(if self.death == Death::Kill { "is killed" } else { "loses its power" });
        server.kill().await;
        self.machine.start_again();
    }

    /// The highest number of a segment in each store: segments that are used again get a new one.
    pub(super) fn last_segments(&self) -> Vec<String> {
        let last = |data: PathBuf| {
            let files = std::fs::read_dir(data).expect("the data can be listed");
            let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
            names.filter(|name| name.ends_with(".seg")).max().unwrap_or_default()
        };
        self.machine.data().into_iter().map(last).collect()
    }
}

/// The environment may ask for another number than usual.
fn deaths_of(death: Death, usual: usize) -> usize {
    let variable = match death {
        Death::Kill => "WINDLASS_KILLS",
        Death::PowerCut => "WINDLASS_POWER_CUTS",
    };
    std::env::var(variable).map_or(usual, |deaths| deaths.parse().expect("a number of deaths"))
}
