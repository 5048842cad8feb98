//! Where the log ends: a frame that is missing or rotten is the torn tail, and cut, unless anything that can still be read
//! says that it was durable.

use std::sync::Arc;

use windlass_core::mutant::{Mutant, active};

use super::Cut;
use super::replay::{Replay, Walked};
use super::survey::Survey;
use crate::store::StoreError;
use crate::store::log::segment::Segment;
use crate::store::log::segment::frame::{Header, Kind};
use crate::store::log::segment::scan::{Found, Scanner};
use crate::store::log::tables::Link;

/// A frame found by a search.
struct Heard {
    header: Header,
    end: u32,
    /// Whether its entries are right.
    is_readable: bool,
}

impl Heard {
    /// Whether the frame changes its partition, and says how.
    fn tells_a_change(&self) -> bool {
        match self.header.kind {
            Kind::Commit | Kind::Drop => self.is_readable,
            Kind::SegmentStart | Kind::Open | Kind::Survivors | Kind::Close | Kind::End => false,
        }
    }
}

/// Frames that a search found.
struct Searched {
    heard: Vec<Heard>,
    /// Why a piece could not be read: a frame in it was not heard.
    failed: Option<StoreError>,
}

impl Replay {
    /// Whether anything that can be read says that a frame with rotten entries or bodies was durable. If nothing does, the
    /// frame is the torn tail.
    pub(super) async fn was_durable(
        &mut self,
        segment: &Segment,
        found: &Found<'_>,
        survey: &Survey,
    ) -> Result<bool, StoreError> {
        let lsn = found.header.lsn;
        let mut failed = None;
        if self.synced < lsn {
            failed = self.search(segment, found.search_from()).await?.failed;
        }
        for other in survey.without_start() {
            if self.synced < lsn {
                failed = failed.or(self.search(other, 0).await?.failed);
            }
        }
        // The frame that would say so may be in a piece that cannot be read: that is no torn tail.
        match failed {
            Some(error) if self.synced < lsn => Err(error),
            Some(_) | None => Ok(self.synced >= lsn),
        }
    }

    /// The next frame is not there: a torn tail, unless anything that can still be read says it was durable.
    pub(super) async fn check_end(
        &mut self,
        link: Link,
        walked: &Walked,
        survey: &Survey,
    ) -> Result<Cut, StoreError> {
        let next = walked.lsn + 1;
        let slot = &self.tables.slots[&link.segment];
        let (segment, generation) = (Arc::clone(&slot.segment), slot.generation);
        let mut damaged = segment.damaged(walked.offset, format!("frame {next} is missing or damaged"));
        let Searched { heard, mut failed } = self.search(&segment, walked.offset).await?;
        for other in survey.without_start() {
            let searched = self.search(other, 0).await?;
            failed = failed.or(searched.failed);
            let first = searched.heard.into_iter().next();
            if first.is_some_and(|first| first.header.lsn <= next) && self.synced >= next {
                damaged = other.damaged(0, "the segment's first frame is damaged");
            }
        }
        if self.synced >= next && !active(Mutant::NoDamageCheck) {
            return Err(damaged);
        }
        // The next frame, or one that says it was durable, may be in a piece that cannot be read.
        if let Some(error) = failed {
            return Err(error);
        }
        let is_cut = |heard: &&Heard| {
            let Header { generation: of, lsn, open, .. } = heard.header;
            of == generation && lsn >= next && open >= self.last_open
        };
        let cut: Vec<&Heard> = heard.iter().filter(is_cut).collect();
        let bytes = cut.last().map_or(0, |last| last.end - walked.offset);
        let readable = cut.iter().filter(|heard| heard.tells_a_change());
        let readable = readable.map(|heard| heard.header.partition).collect();
        Ok(Cut { frames: cut.len() as u64, bytes, readable })
    }

    /// Hears every frame of this log that can be found, whole or not.
    async fn search(&mut self, segment: &Segment, from: u32) -> Result<Searched, StoreError> {
        let mut scanner = Scanner::new(segment);
        let mut offset = from;
        let mut heard = Vec::new();
        while let Some(found) = scanner.search(offset, self.log).await? {
            offset = found.search_from();
            let (header, end, is_readable) = (found.header, found.next_offset(), found.is_readable);
            heard.push(Heard { header, end, is_readable });
        }
        heard.iter().for_each(|heard| self.hear_frame(&heard.header));
        Ok(Searched { heard, failed: scanner.failed_behind(from) })
    }
}
