//! A disk that does everything a disk may do. It outlives processes; each process has a [`SimDisk`] of its own.

mod image;
mod names;
mod rot;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use windlass_engine::env::BoxFuture;
use windlass_engine::store::log::disk::{Disk, File};

use self::image::Image;
pub use self::image::SECTOR;
use self::names::{FileId, Names};
pub use self::rot::RotTarget;
use crate::executor::Handle;
use crate::fault::{Fault, Rates};
use crate::rng::Rng;

/// How many of the last writes are remembered, for a bit to flip in one of them.
const LAST_WRITES: usize = 4;
/// About as much as a file's first frame or block takes.
const BEGINNING: usize = 80;

/// Told of every fault as it happens.
pub type FaultLog = Arc<dyn Fn(Fault) + Send + Sync>;

/// What is in the machine.
#[derive(Clone)]
pub struct Hardware {
    state: Arc<Mutex<State>>,
    log: FaultLog,
}

struct State {
    rng: Rng,
    rates: Rates,
    names: Names,
    images: BTreeMap<FileId, Image>,
    next_file: FileId,
    /// How many bytes the files may have together.
    capacity: u64,
    locked_by: Option<u64>,
    /// Nobody can begin to use the disk: it is not mounted yet.
    absent: bool,
    /// Where the last few were.
    last_writes: VecDeque<(FileId, Range<usize>)>,
    /// Nothing that is asked of it comes to an end before then.
    stalled_until_nanos: u64,
    /// So many more changes (writes, syncs, names), then the power goes.
    crash_in: Option<u64>,
    /// So many more syncs of the directory, then it is over: see [`Hardware::stop_at_directory_sync`].
    stop_in_syncs: Option<u64>,
}

/// What a step of I/O came to.
enum Done<T> {
    Ok(T),
    Err(io::Error),
    /// The power went: nobody is left to be told.
    PowerGone,
}

impl fmt::Debug for Hardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hardware").finish_non_exhaustive()
    }
}

impl Hardware {
    pub fn new(rng: Rng, log: FaultLog) -> Self {
        let state = State {
            rng,
            rates: Rates::CALM,
            names: Names::default(),
            images: BTreeMap::new(),
            next_file: 0,
            capacity: u64::MAX,
            locked_by: None,
            absent: false,
            last_writes: VecDeque::new(),
            stalled_until_nanos: 0,
            crash_in: None,
            stop_in_syncs: None,
        };
        Self { state: Arc::new(Mutex::new(state)), log }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }

    /// The disk as one process has it.
    pub fn disk(&self, handle: Handle) -> SimDisk {
        SimDisk { hardware: self.clone(), handle }
    }

    pub fn set_rates(&self, rates: Rates) {
        self.state().rates = rates;
    }

    /// `None`: as much as anybody wants.
    pub fn set_room(&self, room: Option<u64>) {
        let mut state = self.state();
        state.capacity = room.map_or(u64::MAX, |room| state.used() + room);
    }

    /// An absent disk cannot be locked, and so no log on it opened. A process that has it open is not concerned.
    pub fn set_absent(&self, absent: bool) {
        self.state().absent = absent;
    }

    /// The disk answers nobody before then, and fails nothing. 0: it answers.
    pub fn stall_until_nanos(&self, at_nanos: u64) {
        self.state().stalled_until_nanos = at_nanos;
    }

    /// The power goes in the middle of the n-th change from now.
    pub fn crash_in(&self, changes: Option<u64>) {
        self.state().crash_in = changes;
    }

    /// Everything stops before the n-th sync of the directory from now: names are given, and nothing says that they last.
    pub fn stop_at_directory_sync(&self, syncs: u64) {
        self.state().stop_in_syncs = Some(syncs);
    }

    /// The power went: what was not synced is lost, kept or torn as the dice fall, and the lock is free.
    pub fn crash(&self) {
        let mut state = self.state();
        let State { rng, names, images, .. } = &mut *state;
        let mut faults = Vec::new();
        for image in images.values_mut() {
            faults.extend(image.crash(rng));
        }
        if names.crash(rng) {
            faults.push(Fault::LostName);
        }
        state.locked_by = None;
        state.crash_in = None;
        state.stop_in_syncs = None;
        state.forget_nameless();
        drop(state);
        faults.into_iter().for_each(|fault| (self.log)(fault));
    }

    /// The process ended by itself, and the machine runs on: nothing is lost.
    pub fn process_ended(&self) {
        let mut state = self.state();
        (state.locked_by, state.crash_in, state.stop_in_syncs) = (None, None, None);
    }

    /// One bit flips where it is stored: of what was written last, of how a file begins, or anywhere.
    pub fn flip_a_bit(&self) {
        let mut state = self.state();
        let State { rng, names, images, last_writes, .. } = &mut *state;
        let files: Vec<FileId> = names.files().collect();
        if files.is_empty() {
            return;
        }
        let any = *rng.pick(&files);
        let last: Vec<(FileId, Range<usize>)> =
            last_writes.iter().filter(|(file, _)| files.contains(file)).cloned().collect();
        let (file, bytes) = match rng.below(3) {
            0 if !last.is_empty() => rng.pick(&last).clone(),
            1 => (any, 0..BEGINNING),
            _ => (any, 0..usize::MAX),
        };
        images.get_mut(&file).expect("every name is of an image").flip_a_bit(bytes, rng);
    }

    /// What a program would read from each file now.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let read = |name: String| {
            let image = &state.images[&state.names.get(&name).expect("it was just listed")];
            let mut bytes = vec![0; image.len()];
            image.read(0, &mut bytes);
            (name, bytes)
        };
        state.names.list().into_iter().map(read).collect()
    }
}

impl State {
    fn used(&self) -> u64 {
        self.names.files().map(|file| self.images[&file].len() as u64).sum()
    }

    fn forget_nameless(&mut self) {
        let named: Vec<FileId> = self.names.files().collect();
        self.images.retain(|file, _| named.contains(file));
    }

    fn image(&mut self, file: FileId) -> io::Result<&mut Image> {
        self.images.get_mut(&file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn named(&self, name: &str) -> io::Result<FileId> {
        self.names.get(name).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no file {name}")))
    }

    fn stops_at_directory_sync(&mut self) -> bool {
        let Some(left) = self.stop_in_syncs.as_mut() else { return false };
        *left = left.saturating_sub(1);
        *left == 0
    }

    /// Counts a change; true if the power goes in the middle of it.
    fn power_goes(&mut self) -> bool {
        let Some(left) = self.crash_in.as_mut() else { return false };
        *left = left.saturating_sub(1);
        *left == 0
    }
}

fn eio() -> io::Error {
    io::Error::other("input/output error (simulated)")
}

fn disk_full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "no space left on device (simulated)")
}

#[derive(Clone)]
pub struct SimDisk {
    hardware: Hardware,
    handle: Handle,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").field("process", &self.handle.process()).finish_non_exhaustive()
    }
}

impl SimDisk {
    /// Takes as long as such an operation takes on a disk of this mood, and lets others run meanwhile.
    async fn take_time(&self, micros_max: u64) {
        let slow = {
            let mut state = self.hardware.state();
            let rate = state.rates.slow;
            state.rng.per_million(rate)
        };
        if slow {
            (self.hardware.log)(Fault::SlowDisk);
        }
        let micros = {
            let mut state = self.hardware.state();
            if slow { state.rng.skewed(1_000, 300_000) } else { state.rng.between(1, micros_max) }
        };
        self.handle.sleep_micros(micros).await;
        let stalled_until_nanos = self.hardware.state().stalled_until_nanos;
        if stalled_until_nanos > self.handle.now_nanos() {
            self.handle.sleep_until_nanos(stalled_until_nanos).await;
        }
    }

    /// Does one step of I/O, tells of its faults, and never returns if the power went.
    async fn step<T>(&self, act: impl FnOnce(&mut State, &mut Vec<Fault>) -> Done<T>) -> io::Result<T> {
        let mut faults = Vec::new();
        let done = act(&mut self.hardware.state(), &mut faults);
        faults.into_iter().for_each(|fault| (self.hardware.log)(fault));
        match done {
            Done::Ok(value) => Ok(value),
            Done::Err(error) => Err(error),
            Done::PowerGone => {
                self.handle.crash();
                std::future::pending().await
            }
        }
    }

    /// A change of names: at once or not at all.
    async fn rename_step<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.take_time(40).await;
        self.step(|state, faults| {
            let power_goes = state.power_goes();
            if power_goes && state.rng.percent(50) {
                faults.push(Fault::CrashAtWrite);
                return Done::PowerGone;
            }
            let rate = state.rates.write_error;
            if state.rng.per_million(rate) {
                faults.push(Fault::WriteError);
                return Done::Err(eio());
            }
            match act(state) {
                _ if power_goes => {
                    faults.push(Fault::CrashAtWrite);
                    Done::PowerGone
                }
                Ok(value) => Done::Ok(value),
                Err(error) => {
                    if error.kind() == io::ErrorKind::StorageFull {
                        faults.push(Fault::DiskFull);
                    }
                    Done::Err(error)
                }
            }
        })
        .await
    }

    fn file(&self, id: FileId) -> Arc<dyn File> {
        Arc::new(SimFile { disk: self.clone(), id })
    }
}

impl Disk for SimDisk {
    fn lock(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async {
            self.take_time(10).await;
            self.step(|state, faults| match state.locked_by {
                _ if state.absent => {
                    faults.push(Fault::AbsentDisk);
                    Done::Err(io::Error::new(io::ErrorKind::NotFound, "no such device (simulated)"))
                }
                Some(process) if process != self.handle.process() => {
                    Done::Err(io::ErrorKind::WouldBlock.into())
                }
                Some(_) | None => {
                    state.locked_by = Some(self.handle.process());
                    Done::Ok(())
                }
            })
            .await
        })
    }

    fn unlock(&self) {
        let mut state = self.hardware.state();
        if state.locked_by == Some(self.handle.process()) {
            state.locked_by = None;
        }
    }

    fn list(&self) -> BoxFuture<'_, io::Result<Vec<String>>> {
        Box::pin(async {
            self.take_time(10).await;
            Ok(self.hardware.state().names.list())
        })
    }

    fn open(&self, name: &str) -> BoxFuture<'_, io::Result<Arc<dyn File>>> {
        let name = name.to_owned();
        Box::pin(async move {
            self.take_time(10).await;
            let id = self.hardware.state().named(&name)?;
            Ok(self.file(id))
        })
    }

    fn create(&self, name: &str) -> BoxFuture<'_, io::Result<Arc<dyn File>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let made = self.rename_step(|state| {
                if state.names.get(&name).is_some() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                if state.used() >= state.capacity {
                    return Err(disk_full());
                }
                let id = state.next_file;
                state.next_file += 1;
                state.images.insert(id, Image::default());
                state.names.create(&name, id);
                Ok(id)
            });
            Ok(self.file(made.await?))
        })
    }

    fn rename(&self, from: &str, to: &str) -> BoxFuture<'_, io::Result<()>> {
        let (from, to) = (from.to_owned(), to.to_owned());
        Box::pin(async move {
            self.rename_step(|state| {
                let file = state.named(&from)?;
                state.names.rename(&from, &to, file);
                Ok(())
            })
            .await
        })
    }

    fn remove(&self, name: &str) -> BoxFuture<'_, io::Result<()>> {
        let name = name.to_owned();
        Box::pin(async move {
            self.rename_step(|state| {
                state.named(&name)?;
                state.names.remove(&name);
                Ok(())
            })
            .await
        })
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async {
            let mark = self.hardware.state().names.mark();
            self.take_time(100).await;
            self.step(|state, faults| {
                if state.power_goes() || state.stops_at_directory_sync() {
                    faults.push(Fault::CrashAtSync);
                    return Done::PowerGone;
                }
                let rate = state.rates.sync_error;
                if state.rng.per_million(rate) {
                    faults.push(Fault::SyncError);
                    return Done::Err(eio());
                }
                state.names.synced(mark);
                Done::Ok(())
            })
            .await
        })
    }

    /// A disk whose room is short and says so may be taken for full, though no write ever fails for it.
    fn free_bytes(&self) -> Option<u64> {
        let (free, is_short) = {
            let state = self.hardware.state();
            (state.capacity.saturating_sub(state.used()), state.capacity < u64::MAX)
        };
        if is_short {
            (self.hardware.log)(Fault::DiskFull);
        }
        Some(free)
    }

    fn path(&self, name: &str) -> String {
        format!("/sim/{name}")
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    id: FileId,
}

impl State {
    fn write(&mut self, file: FileId, offset: u64, bytes: &[u8], faults: &mut Vec<Fault>) -> Done<usize> {
        let power_goes = self.power_goes();
        let rates = self.rates;
        let fails = self.rng.per_million(rates.write_error);
        let mut len = bytes.len();
        if power_goes || fails {
            len = self.rng.index(len + 1);
        } else if len > 1 && self.rng.per_million(rates.short_write) {
            // `pwrite` of something never writes nothing.
            len = 1 + self.rng.index(len - 1);
        }
        let free = self.capacity.saturating_sub(self.used());
        let Ok(image) = self.image(file) else { return Done::Err(io::ErrorKind::NotFound.into()) };
        let excess = image.growth(offset, len).saturating_sub(free) as usize;
        let full = excess > 0;
        len = len.saturating_sub(excess);
        if len > 0 {
            image.write(offset, &bytes[..len]);
            self.note_write(file, offset as usize, len);
        }
        self.written(bytes.len(), len, (power_goes, fails, full), faults)
    }

    fn note_write(&mut self, file: FileId, offset: usize, len: usize) {
        self.last_writes.push_back((file, offset..offset + len));
        if self.last_writes.len() > LAST_WRITES {
            self.last_writes.pop_front();
        }
    }

    fn written(
        &self,
        asked: usize,
        len: usize,
        (power_goes, fails, full): (bool, bool, bool),
        faults: &mut Vec<Fault>,
    ) -> Done<usize> {
        if power_goes {
            faults.push(Fault::CrashAtWrite);
            return Done::PowerGone;
        }
        if fails {
            faults.push(Fault::WriteError);
            return Done::Err(eio());
        }
        if full {
            faults.push(Fault::DiskFull);
        }
        if full && len == 0 {
            return Done::Err(disk_full());
        }
        if len < asked {
            faults.push(Fault::ShortWrite);
        }
        Done::Ok(len)
    }

    fn sync(&mut self, file: FileId, mark: u64, faults: &mut Vec<Fault>) -> Done<()> {
        if self.power_goes() {
            faults.push(Fault::CrashAtSync);
            return Done::PowerGone;
        }
        let fails = self.rng.per_million(self.rates.sync_error);
        let Self { images, rng, .. } = self;
        let Some(image) = images.get_mut(&file) else { return Done::Err(io::ErrorKind::NotFound.into()) };
        if fails {
            image.sync_failed(mark, rng);
            faults.push(Fault::SyncError);
            return Done::Err(eio());
        }
        image.synced(mark);
        Done::Ok(())
    }

    fn read(&mut self, file: FileId, offset: u64, buffer: &mut [u8], faults: &mut Vec<Fault>) -> Done<usize> {
        let rates = self.rates;
        if self.rng.per_million(rates.read_error) {
            faults.push(Fault::ReadError);
            return Done::Err(eio());
        }
        let mut wanted = buffer.len();
        if wanted > 1 && self.rng.per_million(rates.short_write) {
            wanted = 1 + self.rng.index(wanted - 1);
        }
        match self.image(file) {
            Ok(image) => Done::Ok(image.read(offset, &mut buffer[..wanted])),
            Err(error) => Done::Err(error),
        }
    }
}

impl File for SimFile {
    fn write_at<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<usize>> {
        Box::pin(async move {
            self.disk.take_time(30).await;
            self.disk.step(|state, faults| state.write(self.id, offset, bytes, faults)).await
        })
    }

    fn read_at<'a>(&'a self, offset: u64, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<usize>> {
        Box::pin(async move {
            self.disk.take_time(20).await;
            self.disk.step(|state, faults| state.read(self.id, offset, buffer, faults)).await
        })
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async {
            let mark = self.disk.hardware.state().image(self.id)?.mark();
            self.disk.take_time(200).await;
            self.disk.step(|state, faults| state.sync(self.id, mark, faults)).await
        })
    }

    fn len(&self) -> BoxFuture<'_, io::Result<u64>> {
        Box::pin(async { Ok(self.disk.hardware.state().image(self.id)?.len() as u64) })
    }
}
