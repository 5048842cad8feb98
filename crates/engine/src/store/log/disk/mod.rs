//! The narrow door to the disk: all that the log needs of a directory and its files, and all that a simulated disk
//! has to imitate. Futures, so that a simulated disk can let others run meanwhile; on a real one they block, which
//! is why the log's work is done on threads of its own. [`real`] is the disk with files behind it, of which [`handles`]
//! keeps few open.

mod handles;
pub mod real;

use std::sync::Arc;
use std::{fmt, io};

use crate::env::BoxFuture;

/// One directory, without subdirectories.
pub trait Disk: Send + Sync + fmt::Debug + 'static {
    /// Takes the directory for this process, until the disk is dropped or [`Disk::unlock`] is called. An error of
    /// kind `WouldBlock` means another process has it.
    fn lock(&self) -> BoxFuture<'_, io::Result<()>>;

    fn unlock(&self);

    /// The names of all files, sorted.
    fn list(&self) -> BoxFuture<'_, io::Result<Vec<String>>>;

    fn open(&self, name: &str) -> BoxFuture<'_, io::Result<Arc<dyn File>>>;

    /// Makes an empty file. One that exists is an error. Its name is durable after [`Disk::sync`].
    fn create(&self, name: &str) -> BoxFuture<'_, io::Result<Arc<dyn File>>>;

    /// Replaces what bears the new name. Durable after [`Disk::sync`].
    fn rename(&self, from: &str, to: &str) -> BoxFuture<'_, io::Result<()>>;

    /// Durable after [`Disk::sync`].
    fn remove(&self, name: &str) -> BoxFuture<'_, io::Result<()>>;

    /// Makes names durable.
    fn sync(&self) -> BoxFuture<'_, io::Result<()>>;

    /// How many bytes may still be written, if the disk tells.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// How to speak of a file in an error: its whole path on a real disk.
    fn path(&self, name: &str) -> String;
}

#[expect(clippy::len_without_is_empty, reason = "a file that may be empty is nothing to ask about")]
pub trait File: Send + Sync + fmt::Debug + 'static {
    /// May write less than given, as `pwrite` may.
    fn write_at<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<usize>>;

    /// May read less than asked for, as `pread` may; 0 at the end of the file.
    fn read_at<'a>(&'a self, offset: u64, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<usize>>;

    /// `fdatasync`: what was written is durable when it returns well. After an error nobody knows.
    fn sync(&self) -> BoxFuture<'_, io::Result<()>>;

    /// Bytes written since the last sync need not become durable: the file may be closed before it is.
    fn leave_unsynced(&self) {}

    fn len(&self) -> BoxFuture<'_, io::Result<u64>>;
}

pub async fn write_all(file: &dyn File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = file.write_at(offset, bytes).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        offset += written as u64;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends, and tells how much that was.
pub async fn read_full(file: &dyn File, mut offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(offset, &mut buffer[filled..]).await? {
            0 => break,
            read => {
                filled += read;
                offset += read as u64;
            }
        }
    }
    Ok(filled)
}

/// The bytes that a disk reads whole or not at all.
const PIECE_BYTES: u64 = 4 << 10;

/// Bytes of a file that cannot be read.
#[derive(Clone, Debug)]
pub struct Unreadable {
    pub from: u64,
    pub to: u64,
    pub error: Arc<io::Error>,
}

/// Fills the buffer with what can be read, and with zeros in place of the pieces that cannot. Tells those, neighbours as
/// one.
pub async fn read_pieces(file: &dyn File, offset: u64, buffer: &mut [u8]) -> Vec<Unreadable> {
    if read_exactly(file, offset, buffer).await.is_ok() {
        return Vec::new();
    }
    let (mut unreadable, mut from, mut rest) = (Vec::<Unreadable>::new(), offset, buffer);
    while !rest.is_empty() {
        let to = (from + 1).next_multiple_of(PIECE_BYTES).min(from + rest.len() as u64);
        let (piece, after) = rest.split_at_mut((to - from) as usize);
        if let Err(error) = read_exactly(file, from, piece).await {
            piece.fill(0);
            match unreadable.last_mut().filter(|last| last.to == from) {
                Some(last) => last.to = to,
                None => unreadable.push(Unreadable { from, to, error: Arc::new(error) }),
            }
        }
        (from, rest) = (to, after);
    }
    unreadable
}

async fn read_exactly(file: &dyn File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    match read_full(file, offset, buffer).await? {
        read if read == buffer.len() => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends too early")),
    }
}
