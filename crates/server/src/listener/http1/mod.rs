//! HTTP/1.1 on bytes alone: heads of requests, chunked bodies, heads of replies. Sockets and time are not known here.

mod chunks;
mod head;
mod reply_head;

pub(super) use self::chunks::{Chunks, LAST_CHUNK, chunk_start};
pub(super) use self::head::{BadHead, Framing, Head, HeadLimits};
pub(super) use self::reply_head::{Body, ReplyHead};
