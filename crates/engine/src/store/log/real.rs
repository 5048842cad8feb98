//! A disk with files behind it. Its futures block and never wait: they belong on threads of their own.

use std::fmt;
use std::future::ready;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::disk::{Disk, File};
use super::format::LOCK_NAME;
use crate::env::BoxFuture;
use crate::lock::lock;

#[expect(clippy::disallowed_types, reason = "this is where files come in")]
type Handle = std::fs::File;

pub struct RealDisk {
    directory: PathBuf,
    /// Nothing is written, not even to lock it.
    read_only: bool,
    lock: Mutex<Option<Handle>>,
}

impl RealDisk {
    /// Makes the directory if it is not there.
    pub fn new(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        std::fs::create_dir_all(&directory)?;
        Ok(Self { directory, read_only: false, lock: Mutex::new(None) })
    }

    /// To look at a directory that is there: works also where nothing may be written.
    pub fn read_only(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), read_only: true, lock: Mutex::new(None) }
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
        for entry in std::fs::read_dir(&self.directory)? {
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
fn done<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
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
        let opened = Handle::options().read(true).write(!self.read_only).open(self.at(name));
        done(opened.map(RealFile::shared))
    }

    fn create(&self, name: &str) -> BoxFuture<'_, io::Result<Arc<dyn File>>> {
        let created = Handle::options().read(true).write(true).create_new(true).open(self.at(name));
        done(created.map(RealFile::shared))
    }

    #[expect(clippy::disallowed_methods, reason = "this is where files come in")]
    fn rename(&self, from: &str, to: &str) -> BoxFuture<'_, io::Result<()>> {
        done(std::fs::rename(self.at(from), self.at(to)))
    }

    #[expect(clippy::disallowed_methods, reason = "this is where files come in")]
    fn remove(&self, name: &str) -> BoxFuture<'_, io::Result<()>> {
        done(std::fs::remove_file(self.at(name)))
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        done(Handle::open(&self.directory).and_then(|directory| directory.sync_all()))
    }

    fn path(&self, name: &str) -> String {
        let path = if name.is_empty() { self.directory.clone() } else { self.at(name) };
        path.display().to_string()
    }
}

#[derive(Debug)]
struct RealFile(Handle);

impl RealFile {
    fn shared(file: Handle) -> Arc<dyn File> {
        Arc::new(Self(file))
    }
}

impl File for RealFile {
    fn write_at<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<usize>> {
        done(retried(|| self.0.write_at(bytes, offset)))
    }

    fn read_at<'a>(&'a self, offset: u64, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<usize>> {
        done(retried(|| self.0.read_at(buffer, offset)))
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        done(self.0.sync_data())
    }

    fn len(&self) -> BoxFuture<'_, io::Result<u64>> {
        done(self.0.metadata().map(|metadata| metadata.len()))
    }
}

fn retried(mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
