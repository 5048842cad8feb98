//! Readers of streams that take nothing, or are gone without a word.
//!
//! What the kernel takes does not tell: it says that there is room when a third of its buffer is free, and with a reader that
//! is slow but steady that may be once in minutes. So the kernel judges (`TCP_USER_TIMEOUT`): it knows what the other side
//! acknowledged, and ends a connection once nothing was for too long. It also counts for how long the other side has had no
//! room, and stops counting only when there is enough for all that it would send next. So that has to be little: otherwise
//! it takes a slow reader for one that takes nothing.

#[cfg(not(target_os = "linux"))]
pub(super) use self::elsewhere::{begin, end, write};
#[cfg(target_os = "linux")]
pub(super) use self::linux::{begin, end, write};

/// If not, whoever writes has to.
pub(super) const KERNEL_JUDGES: bool = cfg!(target_os = "linux");

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, IoSlice};
    use std::time::Duration;

    use rustix::net::{SendFlags, send, sockopt};
    use tokio::io::Interest;
    use tokio::net::TcpStream;
    use tracing::debug;

    use crate::listener::scratch;

    /// Whatever takes less than this within the timeout is as good as silent; and most pieces are one segment.
    const SEGMENT_BYTES: usize = 4096;
    /// The kernel doubles it, for what it needs itself. Left alone it would hold megabytes for each slow reader.
    const SEND_BUFFER_BYTES: usize = 128 * 1024;

    /// From now on the reader is given up when it takes nothing for so long.
    pub(in crate::listener) fn begin(stream: &TcpStream, stall_timeout: Duration) {
        let timeout_ms = u32::try_from(stall_timeout.as_millis()).unwrap_or(u32::MAX);
        let set = sockopt::set_tcp_user_timeout(stream, timeout_ms)
            .and_then(|()| sockopt::set_socket_send_buffer_size(stream, SEND_BUFFER_BYTES));
        if let Err(error) = set {
            debug!(%error, "connection gone before its stream began");
        }
    }

    /// Other replies have their own timeout. The buffer cannot be made to grow by itself again.
    pub(in crate::listener) fn end(stream: &TcpStream) {
        if let Err(error) = sockopt::set_tcp_user_timeout(stream, 0) {
            debug!(%error, "connection gone before its next reply");
        }
    }

    pub(in crate::listener) fn write(stream: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        // The end of a record: the kernel adds nothing to it.
        let flags = SendFlags::EOR | SendFlags::NOSIGNAL;
        scratch::gather(slices, |bytes| {
            stream.try_io(Interest::WRITABLE, || {
                in_segments(bytes, |segment| Ok(send(stream, segment, flags)?))
            })
        })
    }

    /// How many bytes were taken, one after the other.
    fn in_segments(bytes: &[u8], mut send: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
        let mut written = 0;
        for segment in bytes.chunks(SEGMENT_BYTES) {
            match send(segment) {
                Ok(taken) => {
                    written += taken;
                    // The rest of it goes before what comes after it.
                    if taken < segment.len() {
                        break;
                    }
                }
                // Told when nothing was written before it.
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    #[cfg(test)]
    mod tests {
        use tokio::net::TcpListener;

        use super::*;

        #[test]
        fn nothing_is_sent_after_a_segment_that_was_not_taken_whole() {
            let mut takes = [SEGMENT_BYTES, 700, SEGMENT_BYTES].into_iter();
            let written = in_segments(&[7; 4 * SEGMENT_BYTES], |_| Ok(takes.next().unwrap())).unwrap();
            assert_eq!((written, takes.len()), (SEGMENT_BYTES + 700, 1));
        }

        #[test]
        fn an_error_is_told_when_nothing_was_taken_before_it() {
            let full = || Err(io::ErrorKind::WouldBlock.into());
            let mut takes = [Ok(SEGMENT_BYTES), full(), full()].into_iter();
            let mut write = || in_segments(&[7; 2 * SEGMENT_BYTES], |_| takes.next().unwrap());
            assert_eq!(write().unwrap(), SEGMENT_BYTES);
            assert_eq!(write().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }

        #[tokio::test]
        async fn the_kernel_is_told_when_a_stream_begins_and_ends() {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            begin(&stream, Duration::from_secs(40));
            assert_eq!(sockopt::tcp_user_timeout(&stream), Ok(40_000));
            assert!(sockopt::socket_send_buffer_size(&stream).unwrap() <= 2 * SEND_BUFFER_BYTES);
            end(&stream);
            assert_eq!(sockopt::tcp_user_timeout(&stream), Ok(0));
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::io::{self, IoSlice};
    use std::time::Duration;

    use tokio::net::TcpStream;

    pub(in crate::listener) fn begin(_: &TcpStream, _: Duration) {}

    pub(in crate::listener) fn end(_: &TcpStream) {}

    pub(in crate::listener) fn write(stream: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        stream.try_write_vectored(slices)
    }
}
