//! Reads everything there is, and tells how much it is and what of it is damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::id::PartitionId;
use windlass_core::time::Timestamp;

use super::loss::verdict::{self, Verdict};
use super::unclaimed::{self, Unclaimed};
use super::{Account, Locked, Progress, guess, reading, refused};
use crate::store::StoreError;
use crate::store::bodies::BodyKey;
use crate::store::log::disk::Disk;
use crate::store::log::format::{Format, Found};
use crate::store::log::opening;
use crate::store::log::read::fetch::{Piece, fetch};
use crate::store::log::recovery::survey::{self, Survey};
use crate::store::log::recovery::{End, Recovered};
use crate::store::log::segment::frame::Role;
use crate::store::log::segment::{self, Segment, Start};
use crate::store::log::tables::{Place, Tables};

const SLICE: usize = 1024;

/// The result of a check.
#[derive(Debug)]
pub struct Report {
    pub log: u64,
    /// In the order of generations; then those that are free.
    pub segments: Vec<FileReport>,
    pub snapshot: Option<(String, u64)>,
    /// Empty if the log cannot be opened.
    pub partitions: BTreeMap<PartitionId, PartitionReport>,
    /// Partitions that no queue names: nothing is wrong with them, but nobody serves them.
    pub unclaimed: Unclaimed,
    /// Where something is or may be lost, and whatever keeps a server from opening the log or from serving one of its
    /// partitions. Each with file and offset where that can be told.
    pub damage: Vec<StoreError>,
    /// Damage that costs nothing and keeps no server from opening the log and serving all of it.
    pub harmless: Vec<StoreError>,
    /// Why a server does not open the log.
    pub refused: Option<StoreError>,
    /// Items that are there and items that are missing. Items that a start cuts are there.
    pub account: Account,
    /// Partitions that lose commits if a server starts on the log, because the start takes them for a torn tail. Salvage
    /// keeps what can be read of such commits.
    pub cut: BTreeSet<PartitionId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    pub name: String,
    pub bytes: u64,
    pub used_for: Use,
    pub frames: u64,
    pub frame_bytes: u64,
    /// Bytes of bodies that are still wanted.
    pub live_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Log {
        generation: u64,
    },
    /// Bodies that outlived the segments they were written to.
    Compacted {
        generation: u64,
    },
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionReport {
    pub sequence: u64,
    pub now: Timestamp,
    pub rows: u64,
    pub bodies: u64,
    pub body_bytes: u64,
    pub commits_since_snapshot: u64,
}

/// Reads every frame, row and body of a log that no server has open.
pub async fn check(disk: Arc<dyn Disk>) -> Result<Report, StoreError> {
    check_with(disk, &mut |_, _| {}).await
}

/// Like [`check`], and tells how many bytes of segments are read, of how many.
pub async fn check_with(disk: Arc<dyn Disk>, progress: Progress<'_>) -> Result<Report, StoreError> {
    let locked = Locked::take(&*disk).await?;
    let (format, damage) = match locked.found().await {
        Ok(Found { format, damage }) => (Ok(format), damage),
        Err(error) => (Err(error), None),
    };
    let (mut report, tables) = report(&*disk, format, progress).await?;
    report.harmless.extend(damage);
    if let Some(tables) = tables {
        report.unclaimed = unclaimed::find(&tables).await;
    }
    Ok(report)
}

/// The damage of a log that is locked already and may have no `format` file yet. Which partitions nobody claims is not
/// looked for.
pub(in crate::store::log) async fn examine(
    disk: &dyn Disk,
    format: &Format,
) -> Result<Vec<StoreError>, StoreError> {
    let (report, _tables) = report(disk, Ok(format.clone()), &mut |_, _| {}).await?;
    Ok(report.damage)
}

async fn report(
    disk: &dyn Disk,
    format: Result<Format, StoreError>,
    progress: Progress<'_>,
) -> Result<(Report, Option<Tables>), StoreError> {
    let log = guess::log_of(disk, &format).await?;
    let (survey, failed) = survey::survey_readable(disk, log).await?;
    let read = reading::read(disk, log, &survey, failed, None, progress).await?;
    let segments = segments(&survey, &read.frames);
    let Verdict { lost, harmless, account } = read.verdict;
    let mut report = Report {
        log,
        segments,
        snapshot: None,
        partitions: BTreeMap::new(),
        unclaimed: Unclaimed::NotKnown,
        damage: lost,
        harmless,
        refused: None,
        account,
        cut: BTreeSet::new(),
    };
    let recovered = match format {
        Ok(format) => opening::recover(disk, &format).await,
        Err(error) => Err(error),
    };
    match recovered {
        Ok(recovered) => {
            report.tell(&recovered);
            recovered.end.iter().for_each(|end| report.tell_cut(end));
            let is_damaged = !report.damage.is_empty() || !report.harmless.is_empty();
            for (partition, error) in refused::find(&recovered.tables, is_damaged).await {
                report.refuse_partition(partition, error);
            }
            Ok((report, Some(recovered.tables)))
        }
        Err(error) => {
            report.refuse(error);
            Ok((report, None))
        }
    }
}

impl Report {
    /// Whatever keeps a server from opening the log is damage, also where nothing is lost by it.
    fn refuse(&mut self, error: StoreError) {
        let place = verdict::place(&error);
        let is_told = place.is_some() && self.damage.iter().any(|known| verdict::place(known) == place);
        if !is_told {
            self.harmless.retain(|known| place.is_none() || verdict::place(known) != place);
            self.damage.push(error.clone());
        }
        self.refused = Some(error);
    }

    /// A partition that is refused to its next owner is damaged, also if salvage finds all of its items.
    fn refuse_partition(&mut self, partition: u32, error: StoreError) {
        let account = self.account.partitions.get(&PartitionId(partition));
        let is_whole = account.is_none_or(|account| !account.hurt());
        let keeps = if is_whole { "; salvage keeps all of it" } else { "" };
        let consequence = format!("a server would not serve partition {partition}{keeps}");
        let place = verdict::place(&error);
        self.harmless.retain(|known| place.is_none() || verdict::place(known) != place);
        let known = self.damage.iter_mut().find(|known| place.is_some() && verdict::place(known) == place);
        match known {
            Some(known) => verdict::add(known, &consequence),
            None => {
                let mut error = error;
                verdict::add(&mut error, &consequence);
                self.damage.push(error);
            }
        }
    }

    /// Commits that can be read and that a start takes for a torn tail are damage, also if no body of theirs is lost: an
    /// answered commit with a rotten body looks like a torn write.
    fn tell_cut(&mut self, end: &End) {
        self.cut = end.cut.readable.iter().copied().map(PartitionId).collect();
        if self.cut.is_empty() {
            return;
        }
        let partitions: Vec<String> = self.cut.iter().map(ToString::to_string).collect();
        let cut = format!(
            "a start cuts the log here, because nothing tells whether this was durable. It loses commits of which salvage \
             keeps what can be read, in partition {}",
            partitions.join(", ")
        );
        let error = end.segment.damaged(end.offset, &cut);
        let place = verdict::place(&error);
        self.harmless.retain(|known| verdict::place(known) != place);
        let told = self.damage.iter_mut().find(|known| verdict::place(known) == place);
        match told {
            Some(StoreError::Damaged { what, .. }) => *what = format!("{what}; {cut}"),
            Some(_) | None => self.damage.push(error),
        }
    }

    fn tell(&mut self, recovered: &Recovered) {
        let tables = &recovered.tables;
        self.snapshot = tables.snapshot.as_ref().map(|snapshot| (snapshot.name.clone(), snapshot.bytes));
        for file in &mut self.segments {
            let slot = segment::number_of(&file.name).and_then(|number| tables.slots.get(&number));
            match slot {
                Some(slot) => file.live_bytes = slot.live_bytes,
                None => file.used_for = Use::Free,
            }
        }
        for (partition, table) in &tables.partitions {
            let id = PartitionId(*partition);
            let counted = PartitionReport {
                sequence: table.sequence,
                now: Timestamp(table.now),
                rows: self.account.partitions.get(&id).map_or(0, |account| account.rows),
                bodies: table.bodies.len() as u64,
                body_bytes: table.bodies.iter().map(|(_, place)| u64::from(place.length)).sum(),
                commits_since_snapshot: table.frames.len() as u64,
            };
            self.partitions.insert(id, counted);
        }
    }
}

fn segments(survey: &Survey, frames: &BTreeMap<u32, (u64, u64)>) -> Vec<FileReport> {
    let mut sorted: Vec<_> = survey.starts.iter().collect();
    sorted.sort_by_key(|(_, start)| match start {
        Start::Valid(header) => header.generation,
        Start::Blank | Start::Bad => u64::MAX,
    });
    let report = |(segment, start): &(Arc<Segment>, Start)| {
        let (frames, frame_bytes) = frames.get(&segment.number).copied().unwrap_or_default();
        let used_for = match start {
            Start::Valid(header) => match header.role {
                Role::Main => Use::Log { generation: header.generation },
                Role::Compacted => Use::Compacted { generation: header.generation },
            },
            Start::Blank | Start::Bad => Use::Free,
        };
        let (name, bytes) = (segment::name_of(segment.number), segment.bytes.into());
        FileReport { name, bytes, used_for, frames, frame_bytes, live_bytes: 0 }
    };
    sorted.into_iter().map(report).collect()
}

/// Some bodies of a partition from a key on, and where they are.
pub(super) fn body_slice(tables: &Tables, partition: u32, from: BodyKey) -> Vec<(BodyKey, Place)> {
    let bodies = &tables.partitions[&partition].bodies;
    bodies.range(from).take(SLICE).map(|(key, place)| (key, *place)).collect()
}

/// Reads and checks bodies.
pub(super) async fn read_bodies(
    tables: &Tables,
    slice: Vec<(BodyKey, Place)>,
) -> Vec<(BodyKey, Result<bytes::Bytes, StoreError>)> {
    let piece = |(_, place): &(BodyKey, Place)| Piece {
        segment: Arc::clone(&tables.slots[&place.segment].segment),
        offset: place.offset,
        length: place.length,
    };
    let pieces: Vec<Piece> = slice.iter().map(piece).collect();
    let found = fetch(&pieces).await.into_iter().zip(slice).zip(&pieces);
    let checked = found.map(|((body, (key, place)), piece)| {
        let body = body.and_then(|body| {
            let sound = crc32c::crc32c(&body) == place.crc;
            if sound {
                Ok(body)
            } else {
                Err(piece.segment.damaged(place.offset, "a body has a wrong checksum"))
            }
        });
        (key, body)
    });
    checked.collect()
}
