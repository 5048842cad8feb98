//! A disk in memory: what is live, what of it is durable, and what goes wrong on request.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use windlass_engine::env::BoxFuture;
use windlass_engine::store::log::disk::{Disk, File};

const EIO: i32 = 5;

#[derive(Debug, Default)]
pub(crate) struct MemDisk {
    state: Mutex<State>,
    faults: Arc<Faults>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Arc<MemFile>>,
    durable_names: BTreeMap<String, Arc<MemFile>>,
    locked: bool,
}

/// How many of the next calls fail; how many bytes all files together may have; and what was asked of the disk.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) creates: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    /// Of the directory.
    pub(crate) directory_syncs: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) room: AtomicU64,
    /// While set, whoever makes a file panics.
    pub(crate) panics: AtomicBool,
    /// While set, a sync panics.
    pub(crate) sync_panics: AtomicBool,
    /// `free_bytes` tells nothing.
    pub(crate) hides_room: AtomicBool,
    /// Writes need room for what they replace too, as on file systems that copy on write.
    pub(crate) copies_on_write: AtomicBool,
    /// While set, writes do not come to an end.
    pub(crate) held: AtomicBool,
    used: AtomicU64,
    pub(crate) synced: AtomicU64,
    /// Bytes that were read.
    pub(crate) read: AtomicU64,
    /// Files that were to be made, whether or not they could be.
    pub(crate) created: AtomicU64,
    /// Bytes that were to be written, whether or not they could be.
    pub(crate) written: AtomicU64,
}

impl Default for Faults {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            creates: zero(),
            writes: zero(),
            syncs: zero(),
            directory_syncs: zero(),
            reads: zero(),
            room: AtomicU64::new(u64::MAX),
            panics: AtomicBool::new(false),
            sync_panics: AtomicBool::new(false),
            hides_room: AtomicBool::new(false),
            copies_on_write: AtomicBool::new(false),
            held: AtomicBool::new(false),
            used: zero(),
            synced: zero(),
            read: zero(),
            created: zero(),
            written: zero(),
        }
    }
}

impl Faults {
    fn strikes(counter: &AtomicU64) -> bool {
        counter.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    /// How many bytes must be free to write `bytes`, of which `more` make the file longer.
    fn needed(&self, bytes: usize, more: u64) -> u64 {
        if self.copies_on_write.load(Ordering::SeqCst) { bytes as u64 } else { more }
    }
}

#[derive(Debug, Default)]
pub(crate) struct MemFile {
    bytes: Mutex<Images>,
    unreadable: AtomicBool,
    /// Reads that touch a byte of one of these ranges fail with `EIO`.
    bad: Mutex<Vec<Range<u64>>>,
    faults: Arc<Faults>,
}

#[derive(Debug, Default)]
struct Images {
    live: Vec<u8>,
    durable: Vec<u8>,
    dirty: Vec<(usize, usize)>,
}

impl MemDisk {
    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// What another process finds after this one was killed.
    pub(crate) fn after_kill(&self) -> Arc<Self> {
        let state = self.state.lock().unwrap();
        let live = |file: &MemFile| file.bytes.lock().unwrap().live.clone();
        Self::of(state.files.iter().map(|(name, file)| (name.clone(), live(file))).collect())
    }

    /// What is left after the machine lost its power.
    pub(crate) fn after_power_loss(&self) -> Arc<Self> {
        let state = self.state.lock().unwrap();
        let durable = |file: &MemFile| file.bytes.lock().unwrap().durable.clone();
        Self::of(state.durable_names.iter().map(|(name, file)| (name.clone(), durable(file))).collect())
    }

    pub(crate) fn of(images: BTreeMap<String, Vec<u8>>) -> Arc<Self> {
        let disk = Self::default();
        let mut state = disk.state.lock().unwrap();
        for (name, bytes) in images {
            disk.faults.used.fetch_add(bytes.len() as u64, Ordering::SeqCst);
            let images = Images { live: bytes.clone(), durable: bytes, dirty: Vec::new() };
            let file = Arc::new(MemFile {
                bytes: Mutex::new(images),
                faults: Arc::clone(&disk.faults),
                ..MemFile::default()
            });
            state.files.insert(name, file);
        }
        state.durable_names = state.files.clone();
        drop(state);
        Arc::new(disk)
    }

    pub(crate) fn images(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state.lock().unwrap();
        let live = |file: &MemFile| file.bytes.lock().unwrap().live.clone();
        state.files.iter().map(|(name, file)| (name.clone(), live(file))).collect()
    }

    /// Flips a bit in every place where the bytes are found, behind the back of who wrote them.
    pub(crate) fn spoil(&self, wanted: &[u8]) -> usize {
        let mut spoilt = 0;
        for file in self.state.lock().unwrap().files.values() {
            let live = &mut file.bytes.lock().unwrap().live;
            while let Some(at) = live.windows(wanted.len()).position(|bytes| bytes == wanted) {
                live[at] ^= 1;
                spoilt += 1;
            }
        }
        spoilt
    }

    /// Flips bits of a byte, behind the back of who has the file open.
    pub(crate) fn flip(&self, name: &str, at: usize) {
        self.state.lock().unwrap().files[name].bytes.lock().unwrap().live[at] ^= 0x10;
    }

    /// From now on every read of the file fails.
    pub(crate) fn make_unreadable(&self, name: &str) {
        self.state.lock().unwrap().files[name].unreadable.store(true, Ordering::SeqCst);
    }

    /// From now on every read of these bytes fails with `EIO`, and of no others.
    pub(crate) fn set_bad(&self, name: &str, bytes: Range<u64>) {
        *self.state.lock().unwrap().files[name].bad.lock().unwrap() = vec![bytes];
    }

    pub(crate) fn make_readable(&self, name: &str) {
        self.state.lock().unwrap().files[name].unreadable.store(false, Ordering::SeqCst);
    }

    /// From now on every read fails that touches these bytes of the file.
    pub(crate) fn make_range_unreadable(&self, name: &str, from: usize, to: usize) {
        let state = self.state.lock().unwrap();
        state.files[name].bad.lock().unwrap().push(from as u64..to as u64);
    }

    /// Cuts a file, behind the back of who has it open.
    pub(crate) fn cut(&self, name: &str, length: usize) {
        self.state.lock().unwrap().files[name].bytes.lock().unwrap().live.truncate(length);
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.state.lock().unwrap().files.keys().cloned().collect()
    }

    /// The process that had it is gone, as far as this disk is concerned.
    pub(crate) fn unlock_for_the_next(&self) {
        Disk::unlock(self);
    }

    pub(crate) fn used(&self) -> u64 {
        self.faults.used.load(Ordering::SeqCst)
    }
}

fn done<'a, T: Send + 'a>(value: io::Result<T>) -> BoxFuture<'a, io::Result<T>> {
    Box::pin(ready(value))
}

fn broken() -> io::Error {
    io::Error::other("the fake disk fails as asked")
}

impl Disk for MemDisk {
    fn lock(&self) -> BoxFuture<'_, io::Result<()>> {
        let mut state = self.state.lock().unwrap();
        let was_locked = std::mem::replace(&mut state.locked, true);
        done(if was_locked { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) })
    }

    fn unlock(&self) {
        self.state.lock().unwrap().locked = false;
    }

    fn list(&self) -> BoxFuture<'_, io::Result<Vec<String>>> {
        done(Ok(self.state.lock().unwrap().files.keys().cloned().collect()))
    }

    fn open(&self, name: &str) -> BoxFuture<'_, io::Result<Arc<dyn File>>> {
        let file = self.state.lock().unwrap().files.get(name).cloned();
        done(file.map(|file| file as Arc<dyn File>).ok_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn create(&self, name: &str) -> BoxFuture<'_, io::Result<Arc<dyn File>>> {
        self.faults.created.fetch_add(1, Ordering::SeqCst);
        assert!(!self.faults.panics.load(Ordering::SeqCst), "a panic that was asked for");
        if Faults::strikes(&self.faults.creates) {
            return done(Err(broken()));
        }
        let mut state = self.state.lock().unwrap();
        if state.files.contains_key(name) {
            return done(Err(io::ErrorKind::AlreadyExists.into()));
        }
        let file = Arc::new(MemFile { faults: Arc::clone(&self.faults), ..MemFile::default() });
        state.files.insert(name.to_owned(), Arc::clone(&file));
        done(Ok(file as Arc<dyn File>))
    }

    fn rename(&self, from: &str, to: &str) -> BoxFuture<'_, io::Result<()>> {
        let mut state = self.state.lock().unwrap();
        let Some(file) = state.files.remove(from) else { return done(Err(io::ErrorKind::NotFound.into())) };
        if let Some(replaced) = state.files.insert(to.to_owned(), file) {
            self.faults.used.fetch_sub(replaced.bytes.lock().unwrap().live.len() as u64, Ordering::SeqCst);
        }
        done(Ok(()))
    }

    fn remove(&self, name: &str) -> BoxFuture<'_, io::Result<()>> {
        let removed = self.state.lock().unwrap().files.remove(name);
        let Some(file) = removed else { return done(Err(io::ErrorKind::NotFound.into())) };
        self.faults.used.fetch_sub(file.bytes.lock().unwrap().live.len() as u64, Ordering::SeqCst);
        done(Ok(()))
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        if Faults::strikes(&self.faults.directory_syncs) {
            return done(Err(broken()));
        }
        let mut state = self.state.lock().unwrap();
        state.durable_names = state.files.clone();
        done(Ok(()))
    }

    fn free_bytes(&self) -> Option<u64> {
        let room = self.faults.room.load(Ordering::SeqCst);
        (!self.faults.hides_room.load(Ordering::SeqCst)).then(|| room.saturating_sub(self.used()))
    }

    fn path(&self, name: &str) -> String {
        format!("mem/{name}")
    }
}

impl File for MemFile {
    fn write_at<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<usize>> {
        while self.faults.held.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        self.faults.written.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        if Faults::strikes(&self.faults.writes) {
            return done(Err(broken()));
        }
        let mut images = self.bytes.lock().unwrap();
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        let more = to.saturating_sub(images.live.len()) as u64;
        let used = self.faults.used.load(Ordering::SeqCst);
        let needed = self.faults.needed(bytes.len(), more);
        if needed > 0 && used + needed > self.faults.room.load(Ordering::SeqCst) {
            return done(Err(io::ErrorKind::StorageFull.into()));
        }
        self.faults.used.fetch_add(more, Ordering::SeqCst);
        let length = images.live.len().max(to);
        images.live.resize(length, 0);
        images.live[from..to].copy_from_slice(bytes);
        images.dirty.push((from, to));
        done(Ok(bytes.len()))
    }

    fn read_at<'a>(&'a self, offset: u64, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<usize>> {
        if Faults::strikes(&self.faults.reads) || self.unreadable.load(Ordering::SeqCst) {
            return done(Err(broken()));
        }
        let end = offset + buffer.len() as u64;
        if self.bad.lock().unwrap().iter().any(|bad| bad.start < end && offset < bad.end) {
            return done(Err(io::Error::from_raw_os_error(EIO)));
        }
        let images = self.bytes.lock().unwrap();
        let left = images.live.get(offset as usize..).unwrap_or_default();
        let length = buffer.len().min(left.len());
        buffer[..length].copy_from_slice(&left[..length]);
        self.faults.read.fetch_add(length as u64, Ordering::SeqCst);
        done(Ok(length))
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        assert!(!self.faults.sync_panics.load(Ordering::SeqCst), "a panic that was asked for");
        self.faults.synced.fetch_add(1, Ordering::SeqCst);
        let mut images = self.bytes.lock().unwrap();
        // After an error the kernel forgets that these were to be written: a later sync does not write them.
        let dirty = std::mem::take(&mut images.dirty);
        if Faults::strikes(&self.faults.syncs) {
            return done(Err(broken()));
        }
        let length = images.live.len();
        images.durable.resize(length, 0);
        for (from, to) in dirty {
            let Images { live, durable, .. } = &mut *images;
            durable[from..to].copy_from_slice(&live[from..to]);
        }
        done(Ok(()))
    }

    fn len(&self) -> BoxFuture<'_, io::Result<u64>> {
        done(Ok(self.bytes.lock().unwrap().live.len() as u64))
    }
}
