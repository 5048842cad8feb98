//! [`Fleet`]: the servers of all contenders, of which one at a time is awake.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::leftovers;
use crate::peers::bare::{self, SyncedFile};
use crate::peers::{Contender, Peer};
use crate::server::Server;
use crate::server::place::Place;

/// How long a server that was woken is left alone, to run the timers that it missed.
const SETTLE: Duration = Duration::from_millis(200);

/// Servers end before their directory is removed: fields are dropped in this order.
#[derive(Debug)]
pub(crate) struct Fleet {
    running: Vec<Running>,
    directory: TempDir,
}

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) contender: Contender,
    pub(crate) place: Place,
    pub(crate) seat: Seat,
}

pub(crate) enum Seat {
    Bare(Arc<SyncedFile>),
    Served { server: Server, peer: Box<dyn Peer> },
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bare(_) => out.write_str("Bare"),
            Self::Served { server, .. } => out.debug_tuple("Served").field(server).finish(),
        }
    }
}

impl Fleet {
    pub(crate) fn new(parent: &Path) -> Result<Self> {
        let made = std::fs::create_dir_all(parent)
            .and_then(|()| tempfile::Builder::new().prefix(leftovers::PREFIX).tempdir_in(parent));
        let directory = made.with_context(|| {
            format!("cannot make a directory in {}: choose another place with --data-dir", parent.display())
        })?;
        leftovers::claim(directory.path())?;
        open_to_all(directory.path())?;
        Ok(Self { running: Vec::new(), directory })
    }

    /// Starts the server of a contender, which sleeps until its turn.
    pub(crate) async fn add(&mut self, contender: Contender, windlass: &Path) -> Result<()> {
        let name = contender.name().replace(' ', "-");
        let place = Place::new(self.directory.path(), &name, windlass)?;
        let seat = match contender.start(&place).await? {
            None => Seat::Bare(bare::file(place.directory())?),
            Some((server, peer)) => Seat::Served { server, peer },
        };
        let running = Running { contender, place, seat };
        running.halt();
        self.running.push(running);
        Ok(())
    }

    pub(crate) fn get(&self, contender: Contender) -> Option<&Running> {
        self.running.iter().find(|running| running.contender == contender)
    }
}

impl Running {
    /// Syncs the disk, so that no data of others is left to be written, and wakes the server.
    pub(crate) async fn wake(&self, disk: &Path) -> Result<()> {
        let disk = std::fs::File::open(disk)?;
        tokio::task::spawn_blocking(move || rustix::fs::syncfs(disk))
            .await?
            .context("cannot sync the disk")?;
        if let Seat::Served { server, .. } = &self.seat {
            server.wake();
            tokio::time::sleep(SETTLE).await;
        }
        Ok(())
    }

    pub(crate) fn halt(&self) {
        if let Seat::Served { server, .. } = &self.seat {
            server.halt();
        }
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.seat {
            Seat::Bare(_) => Vec::new(),
            Seat::Served { server, .. } => server.pids(),
        }
    }

    pub(crate) fn peer(&self) -> Result<&dyn Peer> {
        match &self.seat {
            Seat::Bare(_) => anyhow::bail!("the bare loop is no queue"),
            Seat::Served { peer, .. } => Ok(peer.as_ref()),
        }
    }
}

/// A server that runs as another user must be able to get to its directory.
fn open_to_all(directory: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755))?)
}
