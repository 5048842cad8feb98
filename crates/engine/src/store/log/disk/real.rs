//! A disk with files behind it. Its futures block and never wait: they belong on threads of their own.

use std::fmt;
use std::future::ready;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::handles::{Handle, Handles};
use crate::env::BoxFuture;
use crate::lock::lock;
use crate::store::log::disk::{Disk, File};
use crate::store::log::format;

/// Files of one directory that are open at once: enough for the segments that are read again and again.
const OPEN_FILES_MAX: usize = 64;

/// Payloads are nobody's business but the server's.
const DIRECTORY_MODE: u32 = 0o700;
pub(crate) const FILE_MODE: u32 = 0o600;

pub struct RealDisk {
    directory: PathBuf,
    lock: Mutex<Option<DirectoryLock>>,
    handles: Arc<Handles>,
}

/// A directory taken for this process, until this is dropped. The lock is on the directory itself: a lock file could be
/// deleted while it is in use, and a second process would lock the next one.
#[derive(Debug)]
pub struct DirectoryLock {
    _directory: Handle,
}

impl DirectoryLock {
    /// An error of kind `WouldBlock` means another process has it.
    pub fn take(directory: &Path) -> io::Result<Self> {
        let directory = Handle::open(directory)?;
        directory.try_lock().map_err(io::Error::from)?;
        Ok(Self { _directory: directory })
    }
}

/// Makes a directory and those above it that are missing, for this user alone, durably. One that is there and empty is
/// closed to other users.
pub fn make_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return close_to_others_if_empty(directory);
    }
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    if !parent.is_dir() {
        make_directory(parent)?;
    }
    match std::fs::DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        made => made.and_then(|()| sync_directory(parent)),
    }
}

fn close_to_others_if_empty(directory: &Path) -> io::Result<()> {
    if std::fs::read_dir(directory)?.next().is_some() {
        return Ok(());
    }
    let closed = std::fs::set_permissions(directory, std::fs::Permissions::from_mode(DIRECTORY_MODE));
    if let Err(error) = closed {
        // Only its owner may do that. Its files are closed to others all the same.
        tracing::warn!(directory = %directory.display(), %error, "other users can list a data directory");
    }
    Ok(())
}

/// Makes the names in a directory durable.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    Handle::open(directory)?.sync_all()
}

/// Whether there is a log in a directory. Creates nothing.
pub fn holds_log(directory: &Path) -> bool {
    directory.join(format::NAME).exists()
}

impl RealDisk {
    /// Makes the directory if it is not there.
    pub fn new(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        make_directory(&directory)?;
        Ok(Self::of(directory, false))
    }

    /// To look at a directory that is there: works also where nothing may be written.
    pub fn read_only(directory: impl Into<PathBuf>) -> Self {
        Self::of(directory.into(), true)
    }

    fn of(directory: PathBuf, read_only: bool) -> Self {
        let handles = Handles::new(directory.clone(), read_only, OPEN_FILES_MAX);
        Self { directory, lock: Mutex::new(None), handles }
    }

    fn take_lock(&self) -> io::Result<()> {
        let taken = DirectoryLock::take(&self.directory)?;
        *lock(&self.lock) = Some(taken);
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in self.handles.with_a_handle_to_spare(|| std::fs::read_dir(&self.directory))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl fmt::Debug for RealDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RealDisk").field(&self.directory).finish()
    }
}

/// Done before anybody asks.
pub(crate) fn done<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(ready(value))
}

impl Disk for RealDisk {
    fn lock(&self) -> BoxFuture<'_, io::Result<()>> {
        done(self.take_lock())
    }

    fn unlock(&self) {
        lock(&self.lock).take();
    }

    fn list(&self) -> BoxFuture<'_, io::Result<Vec<String>>> {
        done(self.names())
    }

    fn open(&self, name: &str) -> BoxFuture<'_, io::Result<Arc<dyn File>>> {
        done(self.handles.open(name).map(|file| file as Arc<dyn File>))
    }

    fn create(&self, name: &str) -> BoxFuture<'_, io::Result<Arc<dyn File>>> {
        done(self.handles.create(name).map(|file| file as Arc<dyn File>))
    }

    fn rename(&self, from: &str, to: &str) -> BoxFuture<'_, io::Result<()>> {
        done(self.handles.rename(from, to))
    }

    fn remove(&self, name: &str) -> BoxFuture<'_, io::Result<()>> {
        done(self.handles.remove(name))
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        done(self.handles.sync_directory())
    }

    /// The bytes that `df` shows as available: blocks that a file system keeps for root do not count.
    fn free_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.directory).ok()?;
        disk.f_bavail.checked_mul(disk.f_frsize)
    }

    fn path(&self, name: &str) -> String {
        let path = if name.is_empty() { self.directory.clone() } else { self.at(name) };
        path.display().to_string()
    }
}
