//! The machine that servers run on: its disks can fill up, and lose their power.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::loop_disk::LoopDisk;

#[derive(Debug)]
pub(super) enum Machine {
    /// Directories of the machine that runs the test: they neither fill up nor lose anything.
    Directories(Vec<TempDir>),
    /// Loop-mounted disks, which lose all unsynced writes with their power.
    Disks(Vec<LoopDisk>),
}

impl Machine {
    pub(super) fn with_directories(count: usize) -> Self {
        Self::Directories((0..count).map(|_| tempfile::tempdir().expect("a temporary directory")).collect())
    }

    /// `None`, with the reason printed, where loop devices cannot be mounted.
    pub(super) fn with_disks(count: usize, bytes: u64) -> Option<Self> {
        let disks: Result<Vec<_>, String> = (0..count).map(|_| LoopDisk::make(bytes)).collect();
        match disks {
            Ok(disks) => Some(Self::Disks(disks)),
            Err(reason) => {
                println!("SKIPPED: there can be no disks of its own here: {reason}");
                None
            }
        }
    }

    /// One data directory for each store.
    pub(super) fn data(&self) -> Vec<PathBuf> {
        let data = |root: &Path| root.join("data");
        match self {
            Self::Directories(directories) => directories.iter().map(|dir| data(dir.path())).collect(),
            Self::Disks(disks) => disks.iter().map(|disk| data(&disk.mount_point())).collect(),
        }
    }

    /// Fills every disk but for so many bytes.
    pub(super) fn fill(&self, bytes_left: u64) {
        self.disks().iter().for_each(|disk| disk.fill(bytes_left));
    }

    /// Cuts the power of all disks, before the process is killed that still writes to them.
    pub(super) fn cut_power(&self) {
        self.disks().iter().for_each(LoopDisk::cut_power);
    }

    /// Makes the machine ready for the next server: disks are mounted again, and have room.
    pub(super) fn start_again(&self) {
        self.disks().iter().for_each(LoopDisk::mount_again);
    }

    fn disks(&self) -> &[LoopDisk] {
        match self {
            Self::Directories(_) => &[],
            Self::Disks(disks) => disks,
        }
    }
}
