//! The directory of backups: one subdirectory each, under a name of its own once the backup is whole.
//!
//! Until then the subdirectory has a name that no backup can have, and holds a marker. The directory is locked while a
//! backup is made, so that a subdirectory with such a name that holds a marker, or nothing, was left behind by a server
//! that was killed.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use windlass_engine::store::log::real::{DirectoryLock, make_directory, sync_directory};

/// `~` is in no name that [`windlass_core::limits::check_name`] allows.
const UNFINISHED: &str = "~unfinished";
/// A log takes no notice of names that end so.
const MARKER: &str = "unfinished-backup.tmp";
const FILE_MODE: u32 = 0o600;

/// A backup that is being made.
#[derive(Debug)]
pub(crate) struct Unfinished {
    _lock: DirectoryLock,
    directory: PathBuf,
    path: PathBuf,
    finished: PathBuf,
}

/// Why no backup can be made there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unavailable {
    #[error("there is a backup of that name")]
    NameTaken,
    #[error("another server makes a backup there")]
    InUse,
    #[error("{} is in the way: it is not what an unfinished backup leaves behind", .0.display())]
    InTheWay(PathBuf),
    #[error("cannot use {}: {source}", .directory.display())]
    Io { directory: PathBuf, source: io::Error },
}

impl Unfinished {
    pub(crate) fn begin(directory: &Path, name: &str) -> Result<Self, Unavailable> {
        let failed = |source| Unavailable::Io { directory: directory.to_owned(), source };
        // An operator chose the mode of a directory that is there.
        if !directory.is_dir() {
            make_directory(directory).map_err(failed)?;
        }
        let lock = DirectoryLock::take(directory).map_err(|error| {
            if error.kind() == io::ErrorKind::WouldBlock { Unavailable::InUse } else { failed(error) }
        })?;
        let (path, finished) = (directory.join(format!("{name}{UNFINISHED}")), directory.join(name));
        if finished.exists() {
            return Err(Unavailable::NameTaken);
        }
        remove_leftovers(directory).map_err(failed)?;
        if path.exists() {
            return Err(Unavailable::InTheWay(path));
        }
        make_marked(&path).map_err(failed)?;
        Ok(Self { _lock: lock, directory: directory.to_owned(), path, finished })
    }

    /// Where to copy to.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives a whole backup its name, durably.
    pub(crate) fn finish(self) -> io::Result<PathBuf> {
        fs::rename(&self.path, &self.finished)?;
        sync_directory(&self.directory)?;
        // A marker that stays behind means nothing under this name.
        let _means_nothing = fs::remove_file(self.finished.join(MARKER));
        Ok(self.finished)
    }

    pub(crate) fn give_up(self) -> io::Result<()> {
        fs::remove_dir_all(&self.path)?;
        sync_directory(&self.directory)
    }
}

/// Leaves nothing behind if it fails.
fn make_marked(unfinished: &Path) -> io::Result<()> {
    make_directory(unfinished)?;
    mark(unfinished).inspect_err(|_| {
        if let Err(error) = fs::remove_dir_all(unfinished) {
            tracing::warn!(path = %unfinished.display(), %error, "an unfinished backup cannot be removed");
        }
    })
}

fn mark(unfinished: &Path) -> io::Result<()> {
    let marker = unfinished.join(MARKER);
    fs::OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(marker)?.sync_all()?;
    sync_directory(unfinished)
}

fn remove_leftovers(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_unfinished = entry.file_name().to_string_lossy().ends_with(UNFINISHED);
        if is_unfinished && is_leftover(&entry.path())? {
            tracing::info!(path = %entry.path().display(), "removing what an unfinished backup left behind");
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// A directory with a marker, or an empty one: a server that is killed between the two leaves it without.
fn is_leftover(unfinished: &Path) -> io::Result<bool> {
    if !unfinished.is_dir() {
        return Ok(false);
    }
    Ok(unfinished.join(MARKER).exists() || fs::read_dir(unfinished)?.next().is_none())
}
