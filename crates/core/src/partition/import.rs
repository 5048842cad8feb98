//! Items from elsewhere: as they were there, under new numbers, in the order given behind all there is.

use super::entry::Entry;
use super::intake::Keys;
use super::produce::{facts_bytes, put_bodies};
use super::suspend::suspended;
use super::{Output, Partition};
use crate::command::{Each, Import, ImportItem, Produced, Refusal};
use crate::footprint::Footprint;
use crate::item::{Extras, State};
use crate::limits::{Invalid, check_imports};
use crate::time::{Span, Timestamp};
use crate::verb::{Decided, Verb};

impl Verb for Import {
    type Reply = Each<Produced>;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        check_imports(&self.items)
    }

    fn body_bytes(&self) -> usize {
        self.items.iter().map(ImportItem::bytes).sum()
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.import(now, self, out)
    }
}

impl Partition {
    /// All of them or none, but for those whose group does not take them or whose address is taken.
    fn import(
        &mut self,
        now: Timestamp,
        import: Import,
        out: &mut Output,
    ) -> Result<Each<Produced>, Refusal> {
        self.check_intake(import.items.iter().map(Keys::of_import))?;
        self.check_kinds_left(import.items.iter().map(|item| &*item.kind))?;
        self.check_numbers_left(now, import.items.len())?;
        out.changes.reserve(2 * import.items.len() + 1);
        let import_one = |item| self.import_one(now, item, out);
        Ok(import.items.into_iter().map(import_one).collect())
    }

    fn import_one(
        &mut self,
        now: Timestamp,
        item: ImportItem,
        out: &mut Output,
    ) -> Result<Produced, Refusal> {
        let group = self.group_to_join(item.group.as_deref())?;
        self.check_address_free(item.address.as_ref())?;
        let number = self.issue_number(now, out);
        // Also if it is due by now: the sweep starts those that are, in the order of their times.
        let state = match (item.suspended, item.due_at) {
            (Some(suspension), _) => suspended(suspension.reason),
            (None, Some(due_at)) => State::Scheduled { due_at },
            (None, None) => State::Waiting,
        };
        let extras = Extras {
            max_attempts: item.max_attempts,
            dead_timeout: item.dead_timeout.filter(|timeout| *timeout != Span::ZERO),
            address: item.address,
            origin: item.origin,
            error: item.error,
            facts_bytes: facts_bytes(item.facts.as_ref()),
            ..Extras::default()
        };
        let entry = Entry {
            place: number.0,
            created_at: item.created_at.unwrap_or(now),
            state,
            extras: (extras != Extras::default()).then(|| Box::new(extras)),
            group,
            kind: self.kinds.index(&item.kind),
            attempts: item.attempts,
            era: 0,
            priority: item.priority,
        };
        let phase = self.phase(&entry);
        self.write(number, entry, out);
        out.totals.produced += 1;
        put_bodies(number, item.body, item.facts, out);
        Ok(Produced { number, phase })
    }
}
