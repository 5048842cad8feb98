//! [`Inlet`]: what a client sends. [`Incoming`]: the part of it that is the body of one request.

use std::io::{self, ErrorKind};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::net::TcpStream;

use super::http1::{Chunks, Framing};
use super::scratch;

/// The interim reply for a client that does not send its body before.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A socket, and what has come from it and was not taken yet. A connection reads heads from here, and its handler bodies.
#[derive(Debug)]
pub(super) struct Inlet {
    stream: TcpStream,
    unread: Mutex<Bytes>,
}

impl Inlet {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, unread: Mutex::default() }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn unread(&self) -> MutexGuard<'_, Bytes> {
        self.unread.lock().expect("nothing panics while this lock is held")
    }

    /// Reads what the client has sent, at most `bytes_max`, behind what is unread. Tells how much came: 0 at the end.
    pub(super) fn poll_fill(&self, cx: &mut Context<'_>, bytes_max: usize) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match scratch::read(&self.stream, bytes_max, |bytes| append(&mut self.unread(), bytes)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }
}

fn append(unread: &mut Bytes, bytes: &[u8]) {
    if unread.is_empty() {
        *unread = Bytes::copy_from_slice(bytes);
        return;
    }
    let mut both = mem::take(unread).try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    both.extend_from_slice(bytes);
    *unread = both.freeze();
}

/// The body of a request, as it comes.
#[derive(Debug)]
pub(super) struct Incoming {
    inlet: Arc<Inlet>,
    left: Left,
    /// The part of [`CONTINUE`] that is not written yet. Empty if the client does not wait for an interim reply.
    unsaid: &'static [u8],
}

#[derive(Debug)]
enum Left {
    Bytes(u64),
    Chunks(Chunks),
}

/// Why a body cannot be read to its end.
#[derive(Debug)]
pub(super) enum Cut {
    /// The client sent no more, or something else than a body.
    Early,
    /// The connection is broken.
    Broken,
}

impl Incoming {
    pub(super) fn new(inlet: Arc<Inlet>, framing: Framing, expects_continue: bool) -> Self {
        let left = match framing {
            Framing::Length(bytes) => Left::Bytes(bytes),
            Framing::Chunked => Left::Chunks(Chunks::default()),
        };
        Self { inlet, left, unsaid: if expects_continue { CONTINUE } else { b"" } }
    }

    /// How many bytes are still to come, unless only the last chunk tells.
    pub(super) fn declared(&self) -> Option<u64> {
        match &self.left {
            Left::Bytes(bytes) => Some(*bytes),
            Left::Chunks(chunks) => chunks.is_over().then_some(0),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.declared() == Some(0)
    }

    /// All that is left, if it has come already and its length was declared.
    pub(super) fn take_whole(&mut self) -> Option<Bytes> {
        let Left::Bytes(left) = &mut self.left else { return None };
        let unread = &mut *self.inlet.unread();
        let bytes = usize::try_from(*left).ok().filter(|bytes| *bytes <= unread.len())?;
        *left = 0;
        Some(unread.split_to(bytes))
    }

    /// `None` at the end.
    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Cut>> {
        loop {
            let here = self.take_unread()?;
            if here.is_some() || self.is_over() {
                return Poll::Ready(Ok(here));
            }
            ready!(self.poll_say_continue(cx)).map_err(|_| Cut::Broken)?;
            if ready!(self.inlet.poll_fill(cx, usize::MAX)).map_err(|_| Cut::Broken)? == 0 {
                return Poll::Ready(Err(Cut::Early));
            }
        }
    }

    /// Data that has come already.
    fn take_unread(&mut self) -> Result<Option<Bytes>, Cut> {
        let unread = &mut *self.inlet.unread();
        match &mut self.left {
            Left::Chunks(chunks) => chunks.take(unread).map_err(|_| Cut::Early),
            Left::Bytes(left) => {
                let here = usize::try_from(*left).map_or(unread.len(), |left| left.min(unread.len()));
                *left -= here as u64;
                Ok((here > 0).then(|| unread.split_to(here)))
            }
        }
    }

    fn poll_say_continue(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsaid.is_empty() {
            ready!(self.inlet.stream.poll_write_ready(cx))?;
            match self.inlet.stream.try_write(self.unsaid) {
                Ok(bytes) => self.unsaid = &self.unsaid[bytes..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}
