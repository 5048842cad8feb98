//! A partition to try things on. After every command it is counted in full and rebuilt from its rows.

use std::sync::Arc;

use bytes::Bytes;
pub(crate) use windlass_core::command::Retry;
use windlass_core::command::{
    Clear, Command, Completion, Emit, Emitted, Extend, Extended, Filter, Held, Input, LeaseItems, Leased,
    NewItem, News, Produce, Produced, Refusal, Reply, Resume, Retried, Suspend,
};
use windlass_core::event::NewEvent;
use windlass_core::id::{ItemNumber, PartitionId, Permit};
use windlass_core::item::{Item, ItemError, Phase};
use windlass_core::partition::{Partition, Totals};
use windlass_core::row::{BodyCopy, Change};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};

pub(crate) const START: Timestamp = Timestamp(1_800_000_000_000_000);

pub(crate) struct Script {
    pub(crate) partition: Partition,
    pub(crate) now: Timestamp,
    /// Those of the last command.
    pub(crate) changes: Vec<Change>,
    pub(crate) copies: Vec<BodyCopy>,
    pub(crate) news: Vec<News>,
    /// Those of all commands.
    pub(crate) totals: Totals,
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
        }
    }

    pub(crate) fn with_settings(settings: Settings) -> Self {
        let mut script = Self::new();
        script.apply(Command::Configure(Box::new(Settings { version: 1, ..settings }))).unwrap();
        script
    }

    pub(crate) fn apply(&mut self, command: Command) -> Result<Reply, Refusal> {
        let applied = self.partition.apply(self.now, command);
        self.changes = applied.changes;
        self.copies = applied.copies;
        self.news = applied.news;
        self.totals += applied.totals;
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
        match self.apply(Command::Produce(Produce { items: items.into_iter().collect() })).unwrap() {
            Reply::Produced(produced) => produced.into_iter().map(Result::unwrap).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn produce_one(&mut self) -> ItemNumber {
        self.produce([item("default")])[0]
    }

    pub(crate) fn lease(&mut self, batch_size: usize) -> Vec<Leased> {
        self.lease_with(batch_size, Filter::ANY)
    }

    pub(crate) fn lease_with(&mut self, batch_size: usize, filter: Filter) -> Vec<Leased> {
        let client_id = "worker".into();
        match self
            .apply(Command::Lease(LeaseItems { client_id, batch_size, lease_timeout: None, filter }))
            .unwrap()
        {
            Reply::Leased(leased) => leased,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn lease_one(&mut self) -> Held {
        let leased = self.lease(1).pop().expect("something to lease");
        Held { number: leased.number, permit: leased.permit }
    }

    pub(crate) fn complete(&mut self, held: Held, result: Option<&'static str>) -> Result<(), Refusal> {
        let completion = Completion { held, result: result.map(|text| Bytes::from_static(text.as_bytes())) };
        match self.apply(Command::Complete(vec![completion])).unwrap() {
            Reply::Done(mut done) => done.pop().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn retry(&mut self, retry: Retry) -> Result<Retried, Refusal> {
        match self.apply(Command::Retry(vec![retry])).unwrap() {
            Reply::Retried(mut retried) => retried.pop().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn extend(&mut self, held: Held, lease_timeout: Option<Span>) -> Result<Extended, Refusal> {
        match self.apply(Command::Extend(Extend { lease_timeout, items: vec![held] })).unwrap() {
            Reply::Extended(mut extended) => extended.pop().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn release(&mut self, held: Held) -> Result<(), Refusal> {
        match self.apply(Command::Release(vec![held])).unwrap() {
            Reply::Done(mut done) => done.pop().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn revoke(&mut self, held: Held) -> Result<(), Refusal> {
        match self.apply(Command::Revoke(vec![held])).unwrap() {
            Reply::Done(mut done) => done.pop().unwrap(),
            other => panic!("{other:?}"),
        }
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
        match self.apply(Command::Emit(Emit { held, after, events }))? {
            Reply::Emitted(emitted) => Ok(emitted),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn suspend(&mut self, held: Held, reason: Option<&str>) -> Result<(), Refusal> {
        let suspend = Suspend { held, reason: reason.map(Arc::from) };
        match self.apply(Command::Suspend(vec![suspend])).unwrap() {
            Reply::Done(mut done) => done.pop().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn resume(&mut self, number: ItemNumber, answer: Option<&'static str>) -> Result<(), Refusal> {
        let input =
            answer.map(|answer| Input { event: event(answer), body: Bytes::from_static(answer.as_bytes()) });
        match self.apply(Command::Resume(Resume { number, input }))? {
            Reply::Resumed => Ok(()),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn cancel(&mut self, number: ItemNumber) -> Result<Phase, Refusal> {
        self.cancelled(number).map(|item| item.state.phase())
    }

    pub(crate) fn cancelled(&mut self, number: ItemNumber) -> Result<Item, Refusal> {
        match self.apply(Command::Cancel(number))? {
            Reply::Cancelled(item, _) => Ok(item),
            other => panic!("{other:?}"),
        }
    }

    /// One event at a time, for many: counts nothing in full in between.
    pub(crate) fn emit_singly(&mut self, held: Held, count: usize) {
        for _ in 0..count {
            let emit = Emit { held, after: None, events: events(1) };
            self.partition.apply(self.now, Command::Emit(emit)).reply.unwrap();
        }
    }

    pub(crate) fn clear(&mut self, clear: Clear) -> u64 {
        match self.apply(Command::Clear(clear)).unwrap() {
            Reply::Cleared { count } => count,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn sweep(&mut self) -> usize {
        self.sweep_some(usize::MAX)
    }

    pub(crate) fn sweep_some(&mut self, limit: usize) -> usize {
        match self.apply(Command::Sweep { limit }).unwrap() {
            Reply::Swept { count } => count,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn get(&self, number: ItemNumber) -> Item {
        self.partition.get(number).expect("the item is there")
    }

    pub(crate) fn phase(&self, number: ItemNumber) -> Option<Phase> {
        self.partition.get(number).map(|item| item.state.phase())
    }

    /// The numbers of what a lease of everything would give, in order. Leases it.
    pub(crate) fn order(&mut self) -> Vec<ItemNumber> {
        self.lease(1000).into_iter().map(|leased| leased.number).collect()
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

pub(crate) fn event(content: &'static str) -> NewEvent {
    NewEvent { content: Bytes::from_static(content.as_bytes()), bytes: content.len() as u64 }
}

pub(crate) fn events(count: usize) -> Vec<NewEvent> {
    vec![event("done"); count]
}

pub(crate) fn kinds(names: &[&str]) -> Filter {
    Filter::new(Some(names.iter().map(|&name| Arc::from(name)).collect()), u8::MAX)
}

pub(crate) fn again(held: Held) -> Retry {
    Retry { held, retry_at: None, delay: None, dead: false, error: None }
}

pub(crate) fn at_once(held: Held) -> Retry {
    Retry { retry_at: Some(Timestamp(0)), ..again(held) }
}

pub(crate) fn error(message: &str) -> ItemError {
    ItemError { code: Some("broken".into()), message: message.into() }
}

pub(crate) fn held(leased: &Leased) -> Held {
    Held { number: leased.number, permit: leased.permit }
}

pub(crate) fn stranger(held: Held) -> Held {
    Held { permit: Permit(held.permit.0 + 1), ..held }
}
