//! Flushes of a disk, as the kernel counts them in `/proc/diskstats`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{major, minor};

/// The column of flush requests that were completed, counted from the device's major number.
const FLUSHES: usize = 18;

#[derive(Debug)]
pub(super) struct Disk {
    /// The disk's name in `/proc/diskstats`.
    name: String,
}

impl Disk {
    /// The disk that a directory is on: a partition's flushes are counted for its whole disk.
    pub(super) fn of(directory: &Path) -> Result<Self> {
        let device = std::fs::metadata(directory)?.dev();
        let link = format!("/sys/dev/block/{}:{}", major(device), minor(device));
        let path = std::fs::canonicalize(&link)
            .context("its syncs cannot be counted: install strace, or choose a --data-dir on a disk")?;
        let disk = if path.join("partition").exists() { path.parent() } else { Some(path.as_path()) };
        let name = disk.and_then(Path::file_name).context("the disk of --data-dir has no name")?;
        Ok(Self { name: name.to_string_lossy().into_owned() })
    }

    pub(super) fn flushes(&self) -> u64 {
        let stats = std::fs::read_to_string("/proc/diskstats").unwrap_or_default();
        flushes_of(&stats, &self.name).unwrap_or(0)
    }
}

fn flushes_of(stats: &str, name: &str) -> Option<u64> {
    let lines = stats.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let line = lines.into_iter().find(|line| line.get(2) == Some(&name))?;
    line.get(FLUSHES)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_are_found_by_the_name_of_the_disk() {
        let stats = "\
254 1 vda1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 77 17
254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 99 17
";
        assert_eq!(flushes_of(stats, "vda"), Some(99));
        assert_eq!(flushes_of(stats, "sda"), None);
    }
}
