//! Reading and writing without a buffer for each connection.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};

use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::net::TcpStream;

const BYTES: usize = 32 * 1024;

thread_local! {
    /// Bytes pass through this buffer: it is not known before how many will come, and a piece of a stream may stand in several places.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; BYTES]);
}

/// Reads at most `bytes_max`, and shows what came.
pub(super) fn read(stream: &TcpStream, bytes_max: usize, show: impl FnOnce(&[u8])) -> io::Result<usize> {
    SCRATCH.with_borrow_mut(|scratch| {
        let bytes = read_ready(stream, &mut scratch[..bytes_max.min(BYTES)])?;
        show(&scratch[..bytes]);
        Ok(bytes)
    })
}

/// A read that does not fill the buffer has taken all there is. tokio is told so: otherwise the next attempt would ask the
/// kernel once more, for nothing.
fn read_ready(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut bytes = 0;
    let tried = stream.try_io(Interest::READABLE, || {
        (bytes, _) = recv(stream, &mut *buffer, RecvFlags::empty())?;
        let is_empty_now = 0 < bytes && bytes < buffer.len();
        if is_empty_now { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    if bytes == 0 {
        tried?;
    }
    Ok(bytes)
}

/// Shows in one piece what stands in several, as much as fits.
pub(super) fn gather<T>(slices: &[IoSlice<'_>], show: impl FnOnce(&[u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| {
        let mut bytes = 0;
        for slice in slices {
            let fits = slice.len().min(BYTES - bytes);
            scratch[bytes..bytes + fits].copy_from_slice(&slice[..fits]);
            bytes += fits;
        }
        show(&scratch[..bytes])
    })
}
