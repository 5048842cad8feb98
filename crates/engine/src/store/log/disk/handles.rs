//! The files of a real directory, of which only so many are open at once: a log of a thousand segments must not take a
//! thousand of the handles that a process may have.
//!
//! A [`LazyFile`] is opened again by its name when it is needed. Three kinds are never closed for others: a file in use,
//! a file with writes that were not synced (their errors are told to the handle that wrote), and a file that lost its
//! name while somebody still reads it.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rustix::fs::IFlags;
use rustix::io::Errno;

use super::real::{FILE_MODE, done};
use crate::env::BoxFuture;
use crate::lock::lock;
use crate::store::log::disk::File;
use crate::store::log::segment;

#[expect(clippy::disallowed_types, reason = "files come in here")]
pub(crate) type Handle = std::fs::File;

#[derive(Debug)]
pub(crate) struct Handles {
    directory: PathBuf,
    read_only: bool,
    open_max: usize,
    /// Files that somebody holds, by name.
    named: Mutex<BTreeMap<String, Weak<LazyFile>>>,
    /// Files that may have an open handle.
    open: Mutex<Vec<Weak<LazyFile>>>,
    /// Grows with every use of a file.
    uses: AtomicU64,
}

impl Handles {
    pub(crate) fn new(directory: PathBuf, read_only: bool, open_max: usize) -> Arc<Self> {
        let (named, open, uses) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { directory, read_only, open_max, named, open, uses })
    }

    pub(crate) fn open(self: &Arc<Self>, name: &str) -> io::Result<Arc<LazyFile>> {
        let mut named = lock(&self.named);
        if let Some(file) = named.get(name).and_then(Weak::upgrade) {
            return Ok(file);
        }
        let handle = self.open_handle(name)?;
        Ok(self.enlist(&mut named, name, handle))
    }

    pub(crate) fn create(self: &Arc<Self>, name: &str) -> io::Result<Arc<LazyFile>> {
        let mut named = lock(&self.named);
        let path = self.directory.join(name);
        let create = || Handle::options().read(true).write(true).create_new(true).mode(FILE_MODE).open(&path);
        let handle = self.with_a_handle_to_spare(create)?;
        if segment::is_being_made(name) {
            overwrite_in_place(&handle);
        }
        Ok(self.enlist(&mut named, name, handle))
    }

    #[expect(clippy::disallowed_methods, reason = "files come in here")]
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut named = lock(&self.named);
        keep_open(named.get(to));
        let file = named.get(from).and_then(Weak::upgrade);
        // Held, so that nobody opens it by the old name meanwhile.
        let mut slot = file.as_ref().map(|file| lock(&file.slot));
        std::fs::rename(self.directory.join(from), self.directory.join(to))?;
        if let Some(slot) = &mut slot {
            to.clone_into(&mut slot.name);
        }
        named.remove(to);
        if let Some(weak) = named.remove(from) {
            named.insert(to.to_owned(), weak);
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "files come in here")]
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let mut named = lock(&self.named);
        keep_open(named.get(name));
        std::fs::remove_file(self.directory.join(name))?;
        named.remove(name);
        Ok(())
    }

    pub(crate) fn sync_directory(&self) -> io::Result<()> {
        self.with_a_handle_to_spare(|| Handle::open(&self.directory))?.sync_all()
    }

    fn open_handle(&self, name: &str) -> io::Result<Handle> {
        let path = self.directory.join(name);
        self.with_a_handle_to_spare(|| Handle::options().read(true).write(!self.read_only).open(&path))
    }

    /// Opens something. If the process may not have more files open, others are closed for it.
    pub(crate) fn with_a_handle_to_spare<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        loop {
            match open() {
                Err(error) if is_out_of_handles(&error) && close_one(&mut lock(&self.open)) => {}
                opened => return opened,
            }
        }
    }

    fn enlist(
        self: &Arc<Self>,
        named: &mut BTreeMap<String, Weak<LazyFile>>,
        name: &str,
        handle: Handle,
    ) -> Arc<LazyFile> {
        let slot = Slot { name: name.to_owned(), handle: Some(Arc::new(handle)), nameless: false };
        let file = Arc::new_cyclic(|this| LazyFile {
            this: Weak::clone(this),
            handles: Arc::clone(self),
            slot: Mutex::new(slot),
            used_at: AtomicU64::new(self.uses.fetch_add(1, Ordering::Relaxed)),
            writes: AtomicU64::new(0),
            synced: AtomicU64::new(0),
        });
        named.insert(name.to_owned(), Arc::downgrade(&file));
        self.opened(&file);
        file
    }

    /// Takes note of an open file, and closes others beyond the limit.
    fn opened(&self, file: &LazyFile) {
        let mut open = lock(&self.open);
        open.retain(|other| other.strong_count() > 0);
        open.push(Weak::clone(&file.this));
        while open.len() > self.open_max && close_one(&mut open) {}
    }
}

/// Where a file system copies on write (btrfs), a segment that was written with zeros beforehand would need as much room
/// again, and the reserve would be none. Such file systems can be told to overwrite a file in place while it is empty;
/// what they lose by that, their checksums, the log has of its own. Others refuse, and overwrite in place anyway.
fn overwrite_in_place(handle: &Handle) {
    if let Ok(flags) = rustix::fs::ioctl_getflags(handle) {
        let _not_supported = rustix::fs::ioctl_setflags(handle, flags | IFlags::NOCOW);
    }
}

/// A file that is about to lose its name can be read on by whoever holds it.
fn keep_open(file: Option<&Weak<LazyFile>>) {
    let Some(file) = file.and_then(Weak::upgrade) else { return };
    let _reads_fail_then = file.handle();
    lock(&file.slot).nameless = true;
}

fn is_out_of_handles(error: &io::Error) -> bool {
    let out = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|error| out.contains(&error))
}

/// Closes the file that was not used for longest, of those that may be closed. Tells whether there was one.
fn close_one(open: &mut Vec<Weak<LazyFile>>) -> bool {
    let mut files: Vec<_> = open.iter().filter_map(Weak::upgrade).collect();
    // Each key is read once: others go on using files meanwhile, and a sort whose keys change panics.
    files.sort_by_cached_key(|file| file.used_at.load(Ordering::Relaxed));
    let Some(closed) = files.into_iter().find(|file| file.close_if_idle()) else { return false };
    open.retain(|file| !std::ptr::eq(file.as_ptr(), Arc::as_ptr(&closed)));
    true
}

/// A file that is open only when it has to be.
#[derive(Debug)]
pub(crate) struct LazyFile {
    this: Weak<LazyFile>,
    handles: Arc<Handles>,
    slot: Mutex<Slot>,
    /// The use of a file in this directory that was the last one of this.
    used_at: AtomicU64,
    /// Writes that were begun, and how many of the first are durable or need not be.
    writes: AtomicU64,
    synced: AtomicU64,
}

#[derive(Debug)]
struct Slot {
    name: String,
    handle: Option<Arc<Handle>>,
    /// Removed or replaced: its name leads nowhere, or to another file.
    nameless: bool,
}

impl LazyFile {
    fn handle(&self) -> io::Result<Arc<Handle>> {
        self.used_at.store(self.handles.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let mut slot = lock(&self.slot);
        if let Some(handle) = &slot.handle {
            return Ok(Arc::clone(handle));
        }
        if slot.nameless {
            return Err(io::ErrorKind::NotFound.into());
        }
        let handle = Arc::new(self.handles.open_handle(&slot.name)?);
        slot.handle = Some(Arc::clone(&handle));
        drop(slot);
        self.handles.opened(self);
        Ok(handle)
    }

    fn close_if_idle(&self) -> bool {
        let Ok(mut slot) = self.slot.try_lock() else { return false };
        let in_use = slot.handle.as_ref().is_none_or(|handle| Arc::strong_count(handle) > 1);
        if in_use || slot.nameless || self.has_unsynced_writes() {
            return false;
        }
        slot.handle = None;
        true
    }

    fn has_unsynced_writes(&self) -> bool {
        self.synced.load(Ordering::SeqCst) < self.writes.load(Ordering::SeqCst)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        // Counted before the handle is taken: from here on it is not closed until a sync.
        self.writes.fetch_add(1, Ordering::SeqCst);
        let handle = self.handle()?;
        retried(|| handle.write_at(bytes, offset))
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let handle = self.handle()?;
        retried(|| handle.read_at(buffer, offset))
    }

    fn sync_data(&self) -> io::Result<()> {
        let writes = self.writes.load(Ordering::SeqCst);
        self.handle()?.sync_data()?;
        self.synced.fetch_max(writes, Ordering::SeqCst);
        Ok(())
    }
}

impl File for LazyFile {
    fn write_at<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<usize>> {
        done(self.write(offset, bytes))
    }

    fn read_at<'a>(&'a self, offset: u64, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<usize>> {
        done(self.read(offset, buffer))
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        done(self.sync_data())
    }

    fn leave_unsynced(&self) {
        self.synced.fetch_max(self.writes.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    fn len(&self) -> BoxFuture<'_, io::Result<u64>> {
        done(self.handle().and_then(|handle| Ok(handle.metadata()?.len())))
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
