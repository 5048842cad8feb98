//! A partition whose part of the last snapshot cannot be read must not keep the others from being snapshotted, and the
//! log from being shortened. Its blocks are carried over as they are, byte for byte, so that a salvage finds what it
//! would have found before; behind them comes what the commits since did. Its next owner is refused.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::changes::Saved;
use super::file::{Blocks, Carried, Content, Section, SnapshotFile};
use super::output::WRITE_BYTES;
use crate::store::StoreError;
use crate::store::bodies::BodyKey;
use crate::store::entries::Entry;
use crate::store::log::read::fetch::{fetch, piece};
use crate::store::log::read::rows::FrameSource;
use crate::store::log::read::unreadable::Unreadable;
use crate::store::log::read::view::PartitionFrames;
use crate::store::log::recovery::load::first_damage;
use crate::store::log::snapshot::{SLICE, Writer, record_of};
use crate::store::log::tables::{Damage, Place};
use crate::store::merge::{LastWord, Tail};

/// Bytes that are given up around a place that the disk reports an error for: the largest sector that disks have.
const PIECE_BYTES: usize = 4 << 10;

impl Writer<'_> {
    /// Why the partition cannot be merged, if it cannot. `lost` is what is wrong with a commit since the last snapshot.
    pub(crate) async fn damage_of(
        &self,
        partition: u32,
        since: &PartitionFrames,
        lost: Option<StoreError>,
    ) -> Result<Option<Damage>, StoreError> {
        if since.damage.is_some() {
            return Ok(since.damage.clone());
        }
        let found = match (lost, self.view.snapshot.clone().zip(since.section)) {
            (Some(lost), _) => Some(lost),
            (None, Some((snapshot, section))) => self.damage_in(snapshot, section).await?,
            (None, None) => None,
        };
        let Some(error) = found else { return Ok(None) };
        tracing::error!(partition, %error, "a partition is damaged: it works on, but will be refused to its next owner");
        // Where its bodies are is in the tables.
        let keeps_below = 0;
        // A piece that cannot be read is given up only with the file that has it: until this snapshot counts, the piece may
        // come back.
        if self.unreadable == Unreadable::MayPass {
            self.shared.tables().damage(partition, error.clone(), keeps_below);
        }
        Ok(Some(Damage { error, keeps_below }))
    }

    /// The damage to a partition's rows in the last snapshot.
    async fn damage_in(
        &self,
        snapshot: Arc<SnapshotFile>,
        section: Section,
    ) -> Result<Option<StoreError>, StoreError> {
        match first_damage(Blocks::of_rows(Arc::clone(&snapshot), section)).await {
            Err(error) if self.unreadable.loses(&error) => {
                Ok(Some(snapshot.damaged(section.rows, &format!("in the blocks from here on: {error}"))))
            }
            found => found,
        }
    }

    pub(crate) async fn carry(
        &mut self,
        partition: u32,
        since: &PartitionFrames,
        tail: &Tail<Place>,
        keeps_below: u64,
    ) -> Result<Section, StoreError> {
        let before = self.view.snapshot.clone().zip(since.section);
        let rows = self.begin(Content::Rows(partition)).await?;
        if let Some((snapshot, section)) = &before {
            self.carry_over(snapshot, section.rows..section.bodies).await?;
        }
        let bodies = self.begin(Content::Bodies(partition)).await?;
        match &before {
            Some((snapshot, section)) if keeps_below > 0 => {
                self.carry_over(snapshot, section.bodies..section.changes).await?;
            }
            Some(_) | None => self.write_bodies(partition).await?,
        }
        let changes = self.begin(Content::Changes(partition)).await?;
        if let Some((snapshot, section)) = &before {
            self.carry_over(snapshot, section.changes..section.end).await?;
        }
        self.write_changes(tail).await?;
        if keeps_below > 0 {
            self.write_body_changes(partition, since).await?;
        }
        let end = self.begin(Content::Index).await?;
        let PartitionFrames { epoch, sequence, now, .. } = *since;
        let carried = Some(Carried { keeps_below });
        Ok(Section { epoch, sequence, now, rows, bodies, changes, end, carried })
    }

    /// Copies a part of the last snapshot as it is, right or wrong.
    async fn carry_over(&mut self, from: &SnapshotFile, part: Range<u64>) -> Result<(), StoreError> {
        let mut at = part.start;
        while at < part.end {
            let mut bytes = vec![0; (part.end - at).min(WRITE_BYTES as u64) as usize];
            match from.read(at, &mut bytes).await {
                Err(error) if self.unreadable.loses(&error) => {
                    self.read_in_pieces(from, at, &mut bytes).await?;
                }
                read => read?,
            }
            at += bytes.len() as u64;
            self.output.put_raw(&bytes).await.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Pieces that cannot be read are zeros, so that the checksum of their block stays wrong.
    async fn read_in_pieces(&self, from: &SnapshotFile, at: u64, bytes: &mut [u8]) -> Result<(), StoreError> {
        for (piece, at) in bytes.chunks_mut(PIECE_BYTES).zip((at..).step_by(PIECE_BYTES)) {
            match from.read(at, piece).await {
                Err(error) if self.unreadable.loses(&error) => piece.fill(0),
                read => read?,
            }
        }
        Ok(())
    }

    /// The last word on each row.
    async fn write_changes(&mut self, tail: &Tail<Place>) -> Result<(), StoreError> {
        let mut words = tail.iter().peekable();
        while words.peek().is_some() {
            let slice: Vec<(Vec<u8>, LastWord<Place>)> = words.by_ref().take(SLICE).collect();
            let places = || slice.iter().filter_map(|(_, word)| word.place());
            let pieces: Vec<_> = places().map(|place| piece(&self.view.pins, &place)).collect();
            let mut values = fetch(&pieces).await.into_iter().zip(places());
            for (key, word) in &slice {
                match word {
                    LastWord::Removed => self.save(&Saved::RemoveRow { key }).await?,
                    LastWord::Value(_) => {
                        let (value, place) = values.next().expect("one value for each place");
                        let value = value?;
                        self.check_value(&value, place)?;
                        self.save(&Saved::PutRow { key, value: &value }).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Places or removals of the bodies that commits name. Bodies that went with a row go with its removal.
    async fn write_body_changes(
        &mut self,
        partition: u32,
        since: &PartitionFrames,
    ) -> Result<(), StoreError> {
        let pins = Arc::clone(&self.view.pins);
        let frames = FrameSource::new(partition, since.frames.clone(), pins).taking(self.unreadable);
        let named = named_bodies(frames).await?;
        for key in named {
            let saved = {
                let tables = self.shared.tables();
                match tables.body(partition, key) {
                    Some(place) => Saved::PutBody(record_of(&tables, key, &place)),
                    None => Saved::RemoveBody { key },
                }
            };
            self.save(&saved).await?;
        }
        Ok(())
    }

    async fn save(&mut self, saved: &Saved<'_>) -> Result<(), StoreError> {
        saved.put(&mut self.output.block);
        self.output.close_full_block().await.map_err(|error| self.failed(error))?;
        if self.shared.is_closing() { Err(StoreError::Closed) } else { Ok(()) }
    }
}

async fn named_bodies(mut frames: FrameSource) -> Result<BTreeSet<BodyKey>, StoreError> {
    let mut named = BTreeSet::new();
    loop {
        let slice = frames.next_of_some().await;
        if slice.is_empty() {
            return Ok(named);
        }
        for frame in slice {
            match frame {
                Ok(frame) => named.extend(frame.entries().filter_map(named_body)),
                // This damage was told already, and is why the partition is carried.
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn named_body<E>(entry: Result<Entry<'_>, E>) -> Option<BodyKey> {
    match entry.ok()? {
        Entry::PutBody { key, .. } | Entry::RemoveBody { key } => Some(key),
        Entry::PutRow { .. } | Entry::RemoveRow { .. } => None,
    }
}
