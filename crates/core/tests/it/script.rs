//! A partition to try things on. After every verb and sweep it is counted in full and rebuilt from its rows.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::event::NewEvent;
use windlass_core::headers::Hashes;
use windlass_core::id::{ItemNumber, PartitionId, Permit};
use windlass_core::item::{Item, ItemError, MoveNumber, Phase};
use windlass_core::machine::Applied;
use windlass_core::news::News;
use windlass_core::partition::{Partition, Totals};
use windlass_core::refusal::Refusal;
use windlass_core::row::{BodyCopy, Change};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verb::Verb;
pub(crate) use windlass_core::verbs::RetryItem;
use windlass_core::verbs::{
    Arrived, Assign, Cancel, Clear, Complete, Completion, Configure, CreateGroup, Emit, Emitted, Extend,
    Extended, Filter, Held, ImportItem, Input, LeaseItems, Leased, NewItem, Produce, Produced, Release,
    Resume, Retried, Retry, Revoke, Suspend, SuspendItem,
};

pub(crate) const START: Timestamp = Timestamp(1_800_000_000_000_000);

use crate::bodies::Bodies;

pub(crate) struct Script {
    pub(crate) partition: Partition,
    pub(crate) now: Timestamp,
    /// What the last verb or sweep changed.
    pub(crate) changes: Vec<Change>,
    pub(crate) copies: Vec<BodyCopy>,
    pub(crate) news: Vec<News>,
    /// The totals of all verbs and sweeps.
    pub(crate) totals: Totals,
    /// How long the items that the last verb leased had waited.
    pub(crate) waited: Vec<Span>,
    bodies: Bodies,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self::of(PartitionId(7))
    }

    pub(crate) fn of(id: PartitionId) -> Self {
        Self {
            partition: Partition::new(id, START),
            now: START,
            changes: Vec::new(),
            copies: Vec::new(),
            news: Vec::new(),
            totals: Totals::default(),
            waited: Vec::new(),
            bodies: Bodies::default(),
        }
    }

    pub(crate) fn with_settings(settings: Settings) -> Self {
        let mut script = Self::new();
        script.apply(Configure(Settings { version: 1, ..settings })).unwrap();
        script
    }

    pub(crate) fn apply<V: Verb>(&mut self, verb: V) -> Result<V::Reply, Refusal> {
        let applied = self.partition.apply(self.now, verb);
        self.note(applied)
    }

    /// Keeps what a verb or a sweep did, and checks the partition in full.
    fn note<R>(&mut self, applied: Applied<R>) -> Result<R, Refusal> {
        self.changes = applied.changes;
        self.copies = applied.copies;
        self.news = applied.news;
        self.totals += applied.totals;
        self.waited = applied.waited;
        self.bodies.follow(&self.copies, &self.changes);
        self.bodies.check(&self.partition);
        self.partition.audit().unwrap();
        assert_same(&self.partition, &rebuilt(&self.partition, START));
        applied.reply
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now = self.now + span;
    }

    pub(crate) fn produce(&mut self, items: impl IntoIterator<Item = NewItem>) -> Vec<ItemNumber> {
        self.produced(items).into_iter().map(|produced| produced.number).collect()
    }

    pub(crate) fn produced(&mut self, items: impl IntoIterator<Item = NewItem>) -> Vec<Produced> {
        let produced = self.apply(Produce { items: items.into_iter().collect() }).unwrap();
        produced.into_iter().map(Result::unwrap).collect()
    }

    pub(crate) fn produce_one(&mut self) -> ItemNumber {
        self.produce([item("default")])[0]
    }

    pub(crate) fn lease(&mut self, batch_size: usize) -> Vec<Leased> {
        self.lease_with(batch_size, Filter::ANY)
    }

    pub(crate) fn lease_with(&mut self, batch_size: usize, filter: Filter) -> Vec<Leased> {
        let client_id = "worker".into();
        self.apply(LeaseItems { client_id, batch_size, lease_timeout: None, filter }).unwrap()
    }

    pub(crate) fn lease_one(&mut self) -> Held {
        let leased = self.lease(1).pop().expect("something to lease");
        leased.held()
    }

    pub(crate) fn complete(&mut self, held: Held, result: Option<&'static str>) -> Result<(), Refusal> {
        let completion = Completion { held, result: result.map(|text| Bytes::from_static(text.as_bytes())) };
        self.apply(Complete(vec![completion])).unwrap().pop().unwrap()
    }

    pub(crate) fn retry(&mut self, retry: RetryItem) -> Result<Retried, Refusal> {
        self.apply(Retry(vec![retry])).unwrap().pop().unwrap()
    }

    pub(crate) fn extend(&mut self, held: Held, lease_timeout: Option<Span>) -> Result<Extended, Refusal> {
        self.apply(Extend { lease_timeout, items: vec![held] }).unwrap().pop().unwrap()
    }

    pub(crate) fn release(&mut self, held: Held) -> Result<(), Refusal> {
        self.apply(Release(vec![held])).unwrap().pop().unwrap()
    }

    pub(crate) fn revoke(&mut self, held: Held) -> Result<(), Refusal> {
        self.apply(Revoke(vec![held])).unwrap().pop().unwrap()
    }

    pub(crate) fn emit(&mut self, held: Held, events: Vec<NewEvent>) -> Result<Emitted, Refusal> {
        self.emit_after(held, None, events)
    }

    pub(crate) fn emit_after(
        &mut self,
        held: Held,
        after: Option<u64>,
        events: Vec<NewEvent>,
    ) -> Result<Emitted, Refusal> {
        self.apply(Emit { held, after, events })
    }

    pub(crate) fn suspend(&mut self, held: Held, reason: Option<&str>) -> Result<(), Refusal> {
        let suspend = SuspendItem { held, reason: reason.map(Arc::from) };
        self.apply(Suspend(vec![suspend])).unwrap().pop().unwrap()
    }

    pub(crate) fn resume(&mut self, number: ItemNumber, answer: Option<&'static str>) -> Result<(), Refusal> {
        let input =
            answer.map(|answer| Input { event: event(answer), body: Bytes::from_static(answer.as_bytes()) });
        self.apply(Resume { number, input })
    }

    pub(crate) fn cancel(&mut self, number: ItemNumber) -> Result<Phase, Refusal> {
        self.cancelled(number).map(|item| item.state.phase())
    }

    pub(crate) fn cancelled(&mut self, number: ItemNumber) -> Result<Item, Refusal> {
        self.apply(Cancel(number)).map(|cancelled| cancelled.item)
    }

    /// Has `taker` take up to `limit` items that are on their way to `queue`.
    pub(crate) fn assign(&mut self, queue: &str, taker: PartitionId, limit: usize) -> usize {
        let (to, queue) = (queue.into(), queue.into());
        self.apply(Assign { queue, to, partition: taker, instead_of: None, limit, addressed: Vec::new() })
            .unwrap()
    }

    /// Has `taker` take items that are to have an address in `queue`.
    pub(crate) fn assign_addressed(&mut self, queue: &str, taker: PartitionId, addressed: Vec<ItemNumber>) {
        let (to, queue) = (queue.into(), queue.into());
        self.apply(Assign { queue, to, partition: taker, instead_of: None, limit: 1, addressed }).unwrap();
    }

    /// Emits `count` events one by one, without counting the partition in full in between.
    pub(crate) fn emit_singly(&mut self, held: Held, count: usize) {
        for _ in 0..count {
            let emit = Emit { held, after: None, events: events(1) };
            self.partition.apply(self.now, emit).reply.unwrap();
        }
    }

    pub(crate) fn clear(&mut self, clear: Clear) -> u64 {
        self.apply(clear).unwrap()
    }

    pub(crate) fn sweep(&mut self) -> usize {
        self.sweep_some(usize::MAX)
    }

    pub(crate) fn sweep_some(&mut self, limit: usize) -> usize {
        let applied = self.partition.sweep(self.now, limit);
        self.note(applied).unwrap()
    }

    pub(crate) fn get(&self, number: ItemNumber) -> Item {
        self.partition.get(number).expect("the item is there")
    }

    pub(crate) fn phase(&self, number: ItemNumber) -> Option<Phase> {
        self.partition.get(number).map(|item| item.state.phase())
    }

    /// The numbers of what a lease of everything would give, in order. Leases it.
    pub(crate) fn order(&mut self) -> Vec<ItemNumber> {
        self.lease(1000).into_iter().map(|leased| leased.id.number).collect()
    }
}

pub(crate) fn rebuilt(partition: &Partition, acquired_at: Timestamp) -> Partition {
    let mut copy = Partition::new(partition.id(), acquired_at);
    for row in partition.rows() {
        copy.put(row);
    }
    copy
}

pub(crate) fn replay(partition: &mut Partition, changes: &[Change]) {
    for change in changes {
        match change {
            Change::Put(row) => partition.put(row.clone()),
            Change::Remove(key) => partition.remove(key),
            Change::PutBody { .. } | Change::RemoveBody { .. } => {}
        }
    }
}

pub(crate) fn assert_same(one: &Partition, other: &Partition) {
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
    // A cron that is to leave is not waited for: a live partition may see that only when the cron is due.
    if one.stray_crons(1).is_empty() {
        assert_eq!(one.next_due(), other.next_due());
    }
}

pub(crate) fn item(kind: &str) -> NewItem {
    NewItem::plain(kind, Bytes::from_static(b"payload"))
}

pub(crate) fn items(count: usize) -> Vec<NewItem> {
    vec![item("default"); count]
}

/// An open group without members and end items.
pub(crate) fn open_group(name: &str) -> CreateGroup {
    CreateGroup { name: name.into(), end: None, abort: None, items: Vec::new(), start: false }
}

pub(crate) fn member(group: &str) -> NewItem {
    NewItem { group: Some(group.into()), ..item("default") }
}

pub(crate) fn import_item(kind: &str) -> ImportItem {
    ImportItem {
        kind: kind.into(),
        priority: 0,
        group: None,
        created_at: None,
        changed_at: None,
        started: None,
        attempts: 0,
        due_at: None,
        max_attempts: None,
        dead_timeout: None,
        address: None,
        origin: None,
        cron: None,
        error: None,
        suspended: None,
        body: Bytes::from_static(b"payload"),
        facts: None,
        hashes: Hashes::Unknown,
    }
}

pub(crate) fn event(content: &'static str) -> NewEvent {
    NewEvent { content: Bytes::from_static(content.as_bytes()), bytes: content.len() as u64 }
}

pub(crate) fn events(count: usize) -> Vec<NewEvent> {
    vec![event("done"); count]
}

pub(crate) fn kinds(names: &[&str]) -> Filter {
    Filter::new(Some(names.iter().map(|&name| Arc::from(name)).collect()), u8::MAX)
}

pub(crate) fn again(held: Held) -> RetryItem {
    RetryItem { held, retry_at: None, delay: None, dead: false, error: None }
}

pub(crate) fn at_once(held: Held) -> RetryItem {
    RetryItem { retry_at: Some(Timestamp(0)), ..again(held) }
}

pub(crate) fn error(message: &str) -> ItemError {
    ItemError { code: Some("broken".into()), message: message.into() }
}

pub(crate) fn stranger(held: Held) -> Held {
    Held { permit: Permit(held.permit.0 + 1), ..held }
}

/// What a taker tells of moves up to a number, without the items that they became.
pub(crate) fn arrived(last: MoveNumber) -> Arrived {
    Arrived { last, ..Arrived::default() }
}
