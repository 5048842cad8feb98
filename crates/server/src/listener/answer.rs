//! [`Answering`]: how a reply is written.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONNECTION;
use http::response::Parts;
use http::{Method, Response, StatusCode, Version};

use super::exchange::Exchange;
use super::http1::{Body, Head, LAST_CHUNK, ReplyHead, chunk_start};
use super::io::GuardedIo;
use super::reply::{Delivery, Reply, Source};

/// A body up to this size is copied behind its head, and both are written as one.
const COPIED_BYTES_MAX: usize = 4 * 1024;
/// Room for most replies, head and body.
const HEAD_BYTES_USUAL: usize = 512;
/// Room for most chunks of a stream.
const CHUNK_BYTES_USUAL: usize = 256;

/// The parts of a request that decide how its reply is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    version: Version,
    /// `HEAD`: the reply is told without its body.
    wants_head: bool,
    pub(super) keeps_alive: bool,
}

impl Asker {
    pub(super) fn of(head: &Head) -> Self {
        let wants_head = head.request.method() == Method::HEAD;
        Self { version: head.request.version(), wants_head, keeps_alive: head.keeps_alive }
    }
}

#[derive(Debug)]
pub(super) struct Answering<'a, 'b> {
    pub(super) io: &'a mut GuardedIo<'b>,
    pub(super) exchange: &'a Arc<Exchange>,
    pub(super) asker: Asker,
    /// Whether the connection can be used for another request, if the reply does not close it.
    pub(super) goes_on: bool,
}

impl Answering<'_, '_> {
    /// Tells whether the connection can be used for another request.
    pub(super) async fn write(mut self, reply: Response<Reply>) -> io::Result<bool> {
        let (parts, Reply { bytes, source, delivery }) = reply.into_parts();
        self.goes_on &= parts.headers.get(CONNECTION).is_none_or(|value| value != "close");
        match source {
            None => self.write_whole(&parts, bytes, delivery).await?,
            Some(source) => self.write_stream(&parts, source, delivery).await?,
        }
        Ok(self.goes_on)
    }

    async fn write_whole(&mut self, parts: &Parts, bytes: Bytes, delivery: Delivery) -> io::Result<()> {
        let has_body = !matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let mut head = self.head(parts, if has_body { Body::Length(bytes.len()) } else { Body::Never });
        let mut body = if has_body && !self.asker.wants_head { bytes } else { Bytes::new() };
        if body.len() <= COPIED_BYTES_MAX {
            head.extend_from_slice(&body);
            body = Bytes::new();
        }
        self.exchange.replies(delivery);
        self.io.write_all(&head, &body).await?;
        self.io.delivered();
        Ok(())
    }

    async fn write_stream(
        &mut self,
        parts: &Parts,
        source: Box<dyn Source>,
        delivery: Delivery,
    ) -> io::Result<()> {
        let chunked = self.asker.version != Version::HTTP_10;
        self.goes_on &= chunked;
        self.exchange.streams();
        let head = self.head(parts, if chunked { Body::Chunked } else { Body::UntilClosed });
        let last: &[u8] = if self.asker.wants_head {
            &head
        } else {
            self.io.write_all(&head, b"").await?;
            self.write_pieces(source, chunked).await?;
            if chunked { LAST_CHUNK } else { b"" }
        };
        self.exchange.replies(delivery);
        self.io.write_all(last, b"").await?;
        self.io.delivered();
        Ok(())
    }

    async fn write_pieces(&mut self, mut source: Box<dyn Source>, chunked: bool) -> io::Result<()> {
        while let Some(piece) = poll_fn(|cx| source.poll_piece(cx)).await {
            match (piece.is_empty(), chunked) {
                // A chunk without bytes would be the last.
                (true, _) => {}
                (false, false) => self.io.write_all(b"", &piece).await?,
                (false, true) => self.write_chunk(&piece).await?,
            }
        }
        Ok(())
    }

    async fn write_chunk(&mut self, piece: &Bytes) -> io::Result<()> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES_USUAL);
        chunk_start(&mut chunk, piece.len());
        if piece.len() > COPIED_BYTES_MAX {
            self.io.write_all(&chunk, piece).await?;
            chunk.clear();
        } else {
            chunk.extend_from_slice(piece);
        }
        chunk.extend_from_slice(b"\r\n");
        self.io.write_all(&chunk, b"").await
    }

    fn head(&self, parts: &Parts, body: Body) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD_BYTES_USUAL);
        let closes = !self.goes_on;
        ReplyHead { parts, version: self.asker.version, body, closes }.write(&mut head);
        head
    }
}
