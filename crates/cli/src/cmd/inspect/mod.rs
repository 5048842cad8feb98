//! `windlass inspect`: a data directory, looked at while no server has it open.

mod bar;
mod check;
mod contents;
mod export;
mod loss;
mod salvage;
mod unclaimed;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tokio::runtime::Handle;
use windlass_engine::store::StoreError;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::real::RealDisk;

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Check, export or salvage a data directory that no server has open
#[derive(Debug, Args)]
#[command(after_help = "\
Stop the server first, or look at a backup: a directory that a server has open is refused. \
Nothing is ever written to DIR itself.

  --check      reads all there is, tells what is damaged and how many items that costs (the default); exit code 5 if \
anything is or may be lost, or a server does not start on it
  --export     prints every queue and every item, one JSON document to a line, as the API shows them, for `windlass \
storage import`; with --partition the items of these partitions alone; an item whose payload is damaged comes without it, \
a partition that cannot be read is left out, and the exit code is 5; nothing if a server would not start on DIR: salvage \
it first
  --salvage TO writes what can still be read into the new data directory TO, and tells how many items are lost; exit \
code 5 if anything is or may be lost

Examples:
  windlass inspect ./windlass-data
  windlass inspect ./windlass-data --export | jq -c 'select(.item.state == \"waiting\")'
  windlass inspect ./windlass-data --export --partition 7 > items.ndjson
  windlass inspect ./windlass-data --salvage ./rescued
  windlass serve --data ./rescued")]
pub(crate) struct Inspect {
    /// The data directory
    dir: PathBuf,
    /// Read all there is, and tell what of it is damaged
    #[arg(long, group = "what")]
    check: bool,
    /// Print every queue and every item
    #[arg(long, group = "what")]
    export: bool,
    /// Export the items of this partition alone; may be given several times
    #[arg(long = "partition", value_name = "NUMBER", requires = "export")]
    partitions: Vec<u32>,
    /// Write what can still be read into a new data directory
    #[arg(long, value_name = "TO", group = "what")]
    salvage: Option<PathBuf>,
}

impl Inspect {
    pub(crate) async fn run(self, out: Output) -> Result<Exit, Failure> {
        let disk = open(&self.dir).await?;
        // It reads files, so it has a thread that may block.
        let runtime = Handle::current();
        let inspected = tokio::task::spawn_blocking(move || {
            runtime.block_on(async move {
                match self.salvage {
                    Some(to) => salvage::run(disk, &to, out).await,
                    None if self.export => export::run(disk, &self.partitions, out).await,
                    None => check::run(disk, out).await,
                }
            })
        });
        inspected.await.map_err(|error| Failure::local(error.to_string()))?
    }
}

/// Nothing comes into being by being looked at.
async fn open(dir: &Path) -> Result<Arc<RealDisk>, Failure> {
    if !dir.is_dir() {
        let message =
            format!("{} is not a directory: name the one a server was given by --data", dir.display());
        return Err(Failure::usage(message));
    }
    let disk = Arc::new(RealDisk::read_only(dir));
    match disk.lock().await {
        // Whoever looks takes it again.
        Ok(()) => disk.unlock(),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let dir = dir.display();
            let message =
                format!("{dir} is open in another process: stop that server first, or inspect a backup");
            return Err(Failure::local(message));
        }
        Err(error) => return Err(Failure::local(format!("cannot lock {}: {error}", dir.display()))),
    }
    Ok(disk)
}

fn failure(error: &StoreError) -> Failure {
    let exit = if error.is_damage() { Exit::Damaged } else { Exit::Refused };
    Failure::new(exit, error.to_string())
}
