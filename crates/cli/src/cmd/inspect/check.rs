//! How much there is, and what of it is damaged.

use std::sync::Arc;

use serde::Serialize;
use windlass_api::Time;
use windlass_engine::store::StoreError;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::inspect::{self, FileReport, PartitionReport, Report, Use};
use windlass_server::http::show::time;

use super::bar::Bar;
use super::failure;
use super::loss::Items;
use super::unclaimed::{self, Unclaimed};
use crate::exit::{Exit, Failure};
use crate::human::{bytes, count, counted};
use crate::output::Output;
use crate::table::Align::{Left, Right};
use crate::table::Table;

#[derive(Debug, Serialize)]
struct Document {
    segments: Vec<Segment>,
    snapshot: Option<Snapshot>,
    partitions: Vec<Partition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unclaimed: Option<Vec<Unclaimed>>,
    /// Why a server does not start on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    damage: Vec<Damage>,
    harmless: Vec<Damage>,
    items: Items,
}

#[derive(Debug, Serialize)]
struct Segment {
    file: String,
    used_for: &'static str,
    bytes: u64,
    frames: u64,
    frame_bytes: u64,
    live_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Snapshot {
    file: String,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Partition {
    partition: u32,
    sequence: u64,
    last_commit_at: Time,
    rows: u64,
    bodies: u64,
    body_bytes: u64,
    commits_since_snapshot: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Damage {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    what: String,
}

pub(super) async fn run(disk: Arc<dyn Disk>, out: Output) -> Result<Exit, Failure> {
    let mut bar = Bar::new(out, "checked");
    let report = inspect::check_with(disk, &mut |done, total| bar.tell(done, total)).await;
    bar.end();
    let report = report.map_err(|error| failure(&error))?;
    let document = Document::of(report);
    out.reply(&document, |_| document.shown())?;
    Ok(if document.damage.is_empty() { Exit::Done } else { Exit::Damaged })
}

impl Document {
    fn of(report: Report) -> Self {
        let partitions = report.partitions.iter();
        let unclaimed = unclaimed::of(report.unclaimed);
        let numbers = unclaimed.iter().flatten().map(|unclaimed| unclaimed.partition).collect();
        Self {
            segments: report.segments.into_iter().map(Segment::of).collect(),
            snapshot: report.snapshot.map(|(file, bytes)| Snapshot { file, bytes }),
            partitions: partitions.map(|(id, partition)| Partition::of(id.0, partition)).collect(),
            unclaimed,
            refused: report.refused.as_ref().map(ToString::to_string),
            damage: report.damage.iter().map(Damage::of).collect(),
            harmless: report.harmless.iter().map(Damage::of).collect(),
            items: Items::of(&report.account, numbers),
        }
    }

    fn shown(&self) -> String {
        let snapshot = self.snapshot.as_ref();
        let snapshot =
            snapshot.map_or("none".into(), |found| format!("{}, {}", found.file, bytes(found.bytes)));
        let refused = self.refused.as_ref().map(|why| format!("a server does not start on it: {why}\n"));
        format!(
            "{}\n{}\nsnapshot: {snapshot}\nunclaimed partitions: {}\n{}damage: {}\n{}items: {}\n{}",
            segments(&self.segments),
            partitions(&self.partitions),
            unclaimed::shown(self.unclaimed.as_deref()),
            refused.unwrap_or_default(),
            Damage::shown(&self.damage),
            Damage::shown_harmless(&self.harmless),
            self.items.total(),
            self.items.shown(),
        )
    }
}

impl Segment {
    fn of(report: FileReport) -> Self {
        let used_for = match report.used_for {
            Use::Log { .. } => "log",
            Use::Compacted { .. } => "compacted",
            Use::Free => "free",
        };
        let FileReport { name, bytes, frames, frame_bytes, live_bytes, .. } = report;
        Self { file: name, used_for, bytes, frames, frame_bytes, live_bytes }
    }
}

impl Partition {
    fn of(partition: u32, report: &PartitionReport) -> Self {
        let PartitionReport { sequence, now, rows, bodies, body_bytes, commits_since_snapshot } = *report;
        let last_commit_at = time(now);
        Self { partition, sequence, last_commit_at, rows, bodies, body_bytes, commits_since_snapshot }
    }
}

impl Damage {
    pub(super) fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Damaged { file, offset, what } => {
                Self { file: Some(file.clone()), offset: Some(*offset), what: what.clone() }
            }
            StoreError::Fenced
            | StoreError::Full
            | StoreError::TooLarge { .. }
            | StoreError::Closed
            | StoreError::Io { .. }
            | StoreError::Incomplete { .. }
            | StoreError::Unusable(_) => Self { file: None, offset: None, what: error.to_string() },
        }
    }

    pub(super) fn shown(damage: &[Self]) -> String {
        if damage.is_empty() {
            return "none".into();
        }
        let lines = damage.iter().map(|damage| match (&damage.file, damage.offset) {
            (Some(file), Some(offset)) => format!("\n  {file}, byte {}: {}", count(offset), damage.what),
            _ => format!("\n  {}", damage.what),
        });
        format!("{}{}", counted(damage.len() as u64, "place"), lines.collect::<String>())
    }
}

impl Damage {
    /// Nothing if there is none.
    pub(super) fn shown_harmless(damage: &[Self]) -> String {
        if damage.is_empty() {
            return String::new();
        }
        format!("harmless damage, by which nothing is lost: {}\n", Self::shown(damage))
    }
}

fn segments(segments: &[Segment]) -> String {
    let mut table = Table::new(&[
        ("SEGMENT", Left),
        ("USE", Left),
        ("SIZE", Right),
        ("FRAMES", Right),
        ("IN FRAMES", Right),
        ("BODIES WANTED", Right),
    ]);
    for segment in segments {
        table.row([
            segment.file.clone(),
            segment.used_for.into(),
            bytes(segment.bytes),
            count(segment.frames),
            bytes(segment.frame_bytes),
            bytes(segment.live_bytes),
        ]);
    }
    table.show()
}

fn partitions(partitions: &[Partition]) -> String {
    let mut table = Table::new(&[
        ("PARTITION", Left),
        ("COMMITS", Right),
        ("SINCE SNAPSHOT", Right),
        ("ROWS", Right),
        ("BODIES", Right),
        ("IN BODIES", Right),
        ("LAST COMMIT", Left),
    ]);
    for partition in partitions {
        let name = match partition.partition {
            0 => "0 (queues)".to_owned(),
            number => number.to_string(),
        };
        table.row([
            name,
            count(partition.sequence),
            count(partition.commits_since_snapshot),
            count(partition.rows),
            count(partition.bodies),
            bytes(partition.body_bytes),
            partition.last_commit_at.to_string(),
        ]);
    }
    table.show()
}
