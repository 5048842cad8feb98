//! A disk with files behind it. Its futures block and never wait: they belong on threads of their own.

use std::fmt;
use std::future::ready;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::disk::{Disk, File};
use super::format::LOCK_NAME;
use super::handles::{Handle, Handles};
use crate::env::BoxFuture;
use crate::lock::lock;

/// Files of one directory that are open at once: enough for the segments that are read again and again.
const OPEN_FILES_MAX: usize = 64;

pub struct RealDisk {
    directory: PathBuf,
    /// Nothing is written, not even to lock it.
    read_only: bool,
    lock: Mutex<Option<Handle>>,
    handles: Arc<Handles>,
}

impl RealDisk {
    /// Makes the directory if it is not there.
    pub fn new(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        std::fs::create_dir_all(&directory)?;
        Ok(Self::of(directory, false))
    }

    /// To look at a directory that is there: works also where nothing may be written.
    pub fn read_only(directory: impl Into<PathBuf>) -> Self {
        Self::of(directory.into(), true)
    }

    fn of(directory: PathBuf, read_only: bool) -> Self {
        let handles = Handles::new(directory.clone(), read_only, OPEN_FILES_MAX);
        Self { directory, read_only, lock: Mutex::new(None), handles }
    }

    fn take_lock(&self) -> io::Result<()> {
        let Some(file) = self.lock_file()? else { return Ok(()) };
        file.try_lock().map_err(io::Error::from)?;
        *lock(&self.lock) = Some(file);
        Ok(())
    }

    /// None if nobody has ever opened this log to write to it, and we shall not either.
    fn lock_file(&self) -> io::Result<Option<Handle>> {
        let path = self.at(LOCK_NAME);
        if !self.read_only {
            return Handle::options().create(true).truncate(false).write(true).open(path).map(Some);
        }
        match Handle::open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
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
pub(super) fn done<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
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

    /// What `df` shows as available: blocks that a file system keeps for root do not count.
    fn free_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.directory).ok()?;
        disk.f_bavail.checked_mul(disk.f_frsize)
    }

    fn path(&self, name: &str) -> String {
        let path = if name.is_empty() { self.directory.clone() } else { self.at(name) };
        path.display().to_string()
    }
}
