//! [`Wire`]: one TCP connection, read through one buffer. All protocols that are framed by hand use it.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Room for what the next read brings.
const READ_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    input: BytesMut,
}

impl Wire {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream =
            TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: BytesMut::new() })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await.context("the server closed the connection while it was written to")
    }

    /// Bytes that were read and not taken yet.
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.input
    }

    /// Reads at least one more byte into the buffer.
    pub(crate) async fn read_more(&mut self) -> Result<()> {
        self.input.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.input).await.context("cannot read from the server")? {
            0 => bail!("the server closed the connection"),
            _ => Ok(()),
        }
    }

    /// The next `length` bytes.
    pub(crate) async fn take(&mut self, length: usize) -> Result<Bytes> {
        while self.input.len() < length {
            self.read_more().await?;
        }
        Ok(self.input.split_to(length).freeze())
    }

    /// The next line, without its CR LF.
    pub(crate) async fn line(&mut self) -> Result<Bytes> {
        let mut searched = 0;
        loop {
            if let Some(end) = line_end(&self.input, searched) {
                let mut line = self.input.split_to(end + 2);
                line.truncate(end);
                return Ok(line.freeze());
            }
            searched = self.input.len().saturating_sub(1);
            self.read_more().await?;
        }
    }
}

/// Where the first CR LF at or after `from` begins.
fn line_end(bytes: &[u8], from: usize) -> Option<usize> {
    bytes[from..].windows(2).position(|pair| pair == b"\r\n").map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_the_first_cr_lf_and_not_at_a_lone_cr() {
        assert_eq!(line_end(b"OK\r\nrest\r\n", 0), Some(2));
        assert_eq!(line_end(b"a\rb\r\n", 0), Some(3));
        assert_eq!(line_end(b"unfinished\r", 0), None);
    }
}
