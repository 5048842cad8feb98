//! Segment files: written with zeros beforehand, so that a sync has only data to write and no sizes, and reused.
//!
//! A segment holds frames ([`frame`]), which a [`scan`] finds again, and at its end a [`hint`] at the segment that the log
//! goes on in. [`reuse`] tells which segments nobody needs any more; the [`keeper`] takes these back, and has one ready and
//! one in reserve in the [`pool`].

pub(crate) mod frame;
pub(crate) mod hint;
pub(crate) mod keeper;
pub(crate) mod pool;
mod reuse;
pub(crate) mod scan;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use windlass_core::mutant::{Mutant, active};

use crate::store::log::disk::{Disk, File, read_full, write_all};
use crate::store::{StoreError, is_full};
use frame::{HEADER_BYTES, Header, Kind};

/// Small slices, so that making a segment does not hold up those who sync meanwhile.
const ZERO_SLICE: usize = 1 << 20;
const SUFFIX: &str = ".seg";
pub(crate) const TEMPORARY_SUFFIX: &str = ".tmp";

/// One segment file. Whoever keeps an `Arc` of it can go on reading: only a segment nobody else holds is reused.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The file's number, not its place in the log.
    pub(crate) number: u32,
    pub(crate) path: String,
    pub(crate) file: Arc<dyn File>,
    pub(crate) bytes: u32,
    /// The keeper would reuse it, if nobody read it any more.
    wanted: Arc<AtomicBool>,
    /// Frames were written to it, in this process or before.
    was_used: AtomicBool,
}

impl Segment {
    pub(crate) fn new(disk: &dyn Disk, number: u32, file: Arc<dyn File>, bytes: u32) -> Arc<Self> {
        let path = disk.path(&name_of(number));
        Arc::new(Self { number, path, file, bytes, wanted: Arc::default(), was_used: AtomicBool::new(false) })
    }

    /// Whether nobody but the caller holds it. If somebody does, the keeper will hear when they let it go.
    pub(crate) fn is_unread(self: &Arc<Self>) -> bool {
        // `wanted` is set before the count is taken, or a reader that ends in between would tell nobody.
        self.wanted.store(true, Ordering::SeqCst);
        let unread = Arc::strong_count(self) == 1;
        if unread {
            self.wanted.store(false, Ordering::SeqCst);
        }
        unread || active(Mutant::FreeWhileRead)
    }

    /// Whether a frame fits, and after it the one that closes the log.
    pub(crate) fn has_room(&self, offset: u32, frame_bytes: usize) -> bool {
        offset as usize + frame_bytes + HEADER_BYTES <= self.bytes as usize
    }

    pub(crate) async fn read(&self, offset: u32, length: usize) -> Result<Vec<u8>, StoreError> {
        let mut buffer = vec![0; length];
        let read = read_full(&*self.file, offset.into(), &mut buffer).await;
        match read {
            Ok(read) if read == length => Ok(buffer),
            Ok(read) => Err(self.damaged(offset + read as u32, "the file ends too early")),
            Err(error) => Err(self.failed("cannot read", error)),
        }
    }

    pub(crate) fn was_used(&self) -> bool {
        self.was_used.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_used(&self) {
        self.was_used.store(true, Ordering::Relaxed);
    }

    /// [`StoreError::Full`]: the disk had no room, and nothing was written. After any other error something may have been.
    pub(crate) async fn write(&self, offset: u32, bytes: &[u8]) -> Result<(), StoreError> {
        self.mark_used();
        let written = match self.file.write_at(offset.into(), bytes).await {
            Ok(first) => write_all(&*self.file, u64::from(offset) + first as u64, &bytes[first..]).await,
            Err(error) if is_full(&error) => return Err(StoreError::Full),
            Err(error) => Err(error),
        };
        written.map_err(|error| self.failed("cannot write", error))
    }

    pub(crate) async fn sync(&self) -> Result<(), StoreError> {
        self.file.sync().await.map_err(|error| self.failed("cannot sync", error))
    }

    /// The header of its first frame. It tells the file's size, because a file that was cut shows it by nothing else.
    pub(crate) fn start(&self, header: Header) -> Header {
        Header { kind: Kind::SegmentStart, sequence: self.bytes.into(), ..header }
    }

    /// If the file is shorter than it was made. No crash does that: it bears its name only once it has its full size.
    pub(crate) fn cut(&self, start: &Header) -> Option<StoreError> {
        let made = start.sequence;
        (u64::from(self.bytes) < made)
            .then(|| self.damaged(self.bytes, format!("the file ends here, and was made with {made} bytes")))
    }

    pub(crate) fn damaged(&self, offset: u32, what: impl Into<String>) -> StoreError {
        StoreError::Damaged { file: self.path.clone(), offset: offset.into(), what: what.into() }
    }

    fn failed(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError::Io { action, file: self.path.clone(), source: Arc::new(source) }
    }
}

/// Keeps a segment from being reused while somebody reads it.
#[derive(Debug)]
pub(crate) struct Pin {
    pub(crate) segment: Arc<Segment>,
    // After the segment, because fields are dropped in this order: who is told must find it let go.
    _release: Release,
}

#[derive(Debug)]
struct Release {
    wanted: Arc<AtomicBool>,
    released: Arc<Notify>,
}

impl Pin {
    pub(crate) fn new(segment: &Arc<Segment>, released: &Arc<Notify>) -> Self {
        let release = Release { wanted: Arc::clone(&segment.wanted), released: Arc::clone(released) };
        Self { segment: Arc::clone(segment), _release: release }
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if self.wanted.load(Ordering::SeqCst) {
            self.released.notify_one();
        }
    }
}

pub(crate) fn name_of(number: u32) -> String {
    format!("{number:08}{SUFFIX}")
}

/// The number in a segment's name, if the name is exactly as [`name_of`] makes it: two names of one number would be two segments in one place.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (name_of(number) == name).then_some(number)
}

/// Whether a file bears the name that a segment has until it is full of zeros.
pub(crate) fn is_being_made(name: &str) -> bool {
    name.strip_suffix(TEMPORARY_SUFFIX).is_some_and(|name| number_of(name).is_some())
}

/// Makes a segment full of zeros, durable with its name.
pub(crate) async fn create(disk: &dyn Disk, number: u32, bytes: u32) -> Result<Arc<Segment>, StoreError> {
    let name = name_of(number);
    let temporary = format!("{name}{TEMPORARY_SUFFIX}");
    let made = write_zeros_under(disk, &temporary, &name, bytes).await;
    match made {
        Ok(file) => Ok(Segment::new(disk, number, file, bytes)),
        Err(source) => {
            // The part that could be written is room that others need more.
            let _may_be_gone = disk.remove(&temporary).await;
            Err(io_failed("cannot make", disk.path(&name), source))
        }
    }
}

async fn write_zeros_under(
    disk: &dyn Disk,
    temporary: &str,
    name: &str,
    bytes: u32,
) -> io::Result<Arc<dyn File>> {
    let file = disk.create(temporary).await?;
    write_zeros(&*file, 0, bytes).await?;
    file.sync().await?;
    disk.rename(temporary, name).await?;
    if let Err(error) = disk.sync().await {
        // The file would be unknown until the next open, and the next attempt makes another.
        let _may_stay = disk.remove(name).await;
        return Err(error);
    }
    Ok(file)
}

async fn write_zeros(file: &dyn File, from: u32, to: u32) -> io::Result<()> {
    let zeros = vec![0; ZERO_SLICE.min((to - from) as usize)];
    let mut offset = from;
    while offset < to {
        let slice = zeros.len().min((to - offset) as usize);
        write_all(file, offset.into(), &zeros[..slice]).await?;
        offset += slice as u32;
    }
    Ok(())
}

pub(crate) fn io_failed(action: &'static str, file: String, source: io::Error) -> StoreError {
    StoreError::Io { action, file, source: Arc::new(source) }
}

/// The first frame of a segment, as found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Valid(Header),
    /// Never written to.
    Blank,
    /// Neither, nor a segment of this log: a start that was torn, or damage.
    Bad,
}

pub(crate) async fn read_start(segment: &Segment, log: u64) -> Result<Start, StoreError> {
    if (segment.bytes as usize) < HEADER_BYTES {
        return Ok(Start::Bad);
    }
    let bytes = segment.read(0, HEADER_BYTES).await?;
    Ok(match frame::open(&bytes) {
        Some(header) if header.kind == Kind::SegmentStart && header.log == log => Start::Valid(header),
        None if bytes.iter().all(|&byte| byte == 0) => Start::Blank,
        Some(_) | None => Start::Bad,
    })
}
