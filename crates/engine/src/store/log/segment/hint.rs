//! The hint at the end of a segment: in which one the log goes on.
//!
//! A hint is no frame of the chain, and nothing rests on it: written without a sync, it tells of a file that is gone or
//! lost its start when nothing else speaks of it yet. It is left only once the start of the next segment is durable,
//! so whoever finds a hint but not that start knows that it was there.

use std::sync::Arc;

use super::frame::{self, HEADER_BYTES, Header, Kind};
use crate::store::log::segment::Segment;

#[derive(Debug)]
pub(crate) struct Hint {
    segment: Arc<Segment>,
    offset: u32,
    frame: [u8; HEADER_BYTES],
}

impl Hint {
    /// In a segment, at the place behind its last frame, whose header is given.
    pub(crate) fn behind(last: Header, segment: &Arc<Segment>, offset: u32, next: &Segment) -> Self {
        let header = Header { kind: Kind::End, lsn: last.lsn + 1, partition: next.number, ..last };
        Self { segment: Arc::clone(segment), offset, frame: frame::bare(&header) }
    }

    pub(crate) async fn leave(self) {
        if self.segment.has_room(self.offset, 0) {
            let _only_a_hint = self.segment.write(self.offset, &self.frame).await;
            self.segment.file.leave_unsynced();
        }
    }
}
