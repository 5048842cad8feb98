//! After a failed write or sync: forgets what is not durable, and goes on in a fresh segment.

use std::sync::Arc;

use windlass_core::mutant::{Mutant, active};

use super::committer::Committer;
use crate::store::StoreError;
use crate::store::log::Durability;
use crate::store::log::recovery::replay::Replay;
use crate::store::log::tables::{Slot, Tables};

impl Committer {
    /// Called before anything else is done after a failure. May fail, and is tried again then.
    pub(crate) async fn repair(&mut self) -> Result<(), StoreError> {
        let durable = match self.shared.options.durability {
            // The tables never held anything else.
            Durability::Always => None,
            Durability::Interval(_) | Durability::None => Some(self.durable_tables().await?),
        };
        if let Some(durable) = durable {
            self.roll_back(durable);
        }
        let segment = self.shared.take_segment().await?;
        let begun = self.begin_anew(Arc::clone(&segment)).await;
        match &begun {
            Ok(()) => self.shared.count(|events| events.repairs += 1),
            // Nothing was written to it: what holds no start frame can be begun another time.
            Err(StoreError::Full) => self.shared.no_room_to_write(Some(segment)),
            Err(_) => self.shared.discard(segment),
        }
        begun
    }

    /// The tables as of the last durable frame, read from the files.
    async fn durable_tables(&self) -> Result<Tables, StoreError> {
        let (bare, synced) = {
            let mut tables = self.shared.tables();
            tables.frozen = true;
            (bare_copy(&tables), tables.synced)
        };
        let durable = Replay::new(bare, self.shared.log).up_to(synced).await;
        if durable.is_err() {
            self.shared.tables().frozen = false;
        }
        durable
    }

    fn roll_back(&self, mut durable: Tables) {
        let mut tables = self.shared.tables();
        // An owner that wrote on top of commits that are gone must read anew.
        for (partition, before) in &tables.partitions {
            let table = durable.partitions.entry(*partition).or_default();
            table.epoch = before.epoch + u64::from(!active(Mutant::RollBackWithoutFencing));
        }
        for (number, slot) in &mut durable.slots {
            // A snapshot that was being finished may point to where compaction has moved bodies.
            slot.retired = !durable.chain.iter().any(|link| link.segment == *number);
        }
        let lost = tables.applied > tables.synced;
        self.shared.count(|events| events.rollbacks += u64::from(lost));
        durable.synced = tables.synced;
        durable.applied = tables.synced;
        durable.next_generation = tables.next_generation;
        durable.era = tables.era + u64::from(!active(Mutant::RollBackInOldEra));
        *tables = durable;
        drop(tables);
        if !active(Mutant::RollBackWithOldCache) {
            self.shared.cache().clear();
        }
    }
}

/// The part of the tables that the files would not tell quicker: which segments there are, and which of them are the log.
fn bare_copy(tables: &Tables) -> Tables {
    let slots = tables
        .slots
        .iter()
        .map(|(number, slot)| (*number, Slot::new(Arc::clone(&slot.segment), slot.generation, slot.role)));
    Tables {
        slots: slots.collect(),
        chain: tables.chain.clone(),
        snapshot: tables.snapshot.clone(),
        next_generation: tables.next_generation,
        ..Tables::default()
    }
}
