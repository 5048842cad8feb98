//! What is durable: rows under keys, and the changes that move a partition from one state to the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::codec;
use crate::command::{Digest, Produced, Refusal};
use crate::cron::{Cron, CronHome};
use crate::group::Group;
use crate::id::{GroupNumber, ItemNumber, PartitionId};
use crate::item::{Item, ItemError, MoveNumber, State};
use crate::route::{Slot, SlotMap};
use crate::settings::Settings;
use crate::time::Timestamp;

/// Everything a partition must remember. Indexes and counters are derived from these and never stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    Item(Item),
    Numbers(Numbers),
    Settings(Settings),
    Cleared(Cleared),
    Taken(Taken),
    Once(Box<Once>),
    Group(Box<Group>),
    /// Registry only.
    Queue(Box<Queue>),
    /// Registry only.
    Partitions(Partitions),
    Cron(Box<Cron>),
    /// Registry only.
    CronHome(Box<CronHome>),
}

/// The order of keys is the order in which a snapshot holds them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Numbers,
    Settings,
    Cleared,
    Partitions,
    Queue(QueueName),
    Item(ItemNumber),
    /// By the partition that was taken from.
    Taken(PartitionId),
    /// By the idempotency key.
    Once(Arc<str>),
    Group(GroupNumber),
    Cron(Arc<str>),
    /// By the name of the cron.
    CronHome(Arc<str>),
}

/// The highest numbers issued so far: durable, because the item that bore one may be gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    pub item: u64,
    pub permit: u64,
    pub moved: MoveNumber,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// The last move that was taken from another partition: it and those before it are not taken again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub source: PartitionId,
    pub last: MoveNumber,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// A call that was carried out, or this partition's part of it: remembered for a while, so that it is not carried out
/// again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// The client's name for it.
    pub key: Arc<str>,
    pub digest: Digest,
    /// When the home of the key took note of it.
    pub claimed_at: Timestamp,
    pub answers: Answers,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

impl Once {
    /// About what it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        const FIXED: usize = 128;
        FIXED + 2 * self.key.len() + self.answers.0.len() + self.unknown.len()
    }
}

/// What the items of a call were answered, in the order given: packed, for there may be many calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers(Box<[u8]>);

impl Answers {
    pub fn of(answers: &[Result<Produced, Refusal>]) -> Self {
        Self(codec::pack_answers(answers).into())
    }

    /// Of bytes that can be unpacked.
    pub(crate) fn of_packed(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub(crate) fn packed(&self) -> &[u8] {
        &self.0
    }

    pub fn unpack(&self) -> Vec<Result<Produced, Refusal>> {
        codec::unpack_answers(&self.0).expect("they were packed here, or checked when they were read")
    }
}

/// The marker of a clear: for each state, how often it has been cleared. A row is written in the present era of its
/// item's state, so an item of an earlier era has been cleared: all of them at once, whatever the backlog. The sweep
/// writes down by and by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    pub waiting_before: u32,
    pub scheduled_before: u32,
    pub leased_before: u32,
    /// When the items of an era were cleared: only of eras in which the sweep has still to find some that are kept.
    pub times: BTreeMap<(Clearable, u32), Timestamp>,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// The states that can be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clearable {
    Waiting,
    Scheduled,
    Leased,
}

impl Clearable {
    /// What is final is never cleared.
    pub fn of(state: &State) -> Option<Self> {
        match state {
            State::Waiting => Some(Self::Waiting),
            State::Scheduled { .. } => Some(Self::Scheduled),
            State::Leased(_) => Some(Self::Leased),
            State::Final(_) => None,
        }
    }
}

impl Cleared {
    /// The era that a row of an item in this state is written in now.
    pub fn era(&self, state: &State) -> u32 {
        Clearable::of(state).map_or(0, |which| self.before(which))
    }

    /// Items of an earlier era than this were cleared.
    pub fn before(&self, which: Clearable) -> u32 {
        match which {
            Clearable::Waiting => self.waiting_before,
            Clearable::Scheduled => self.scheduled_before,
            Clearable::Leased => self.leased_before,
        }
    }

    pub(crate) fn before_mut(&mut self, which: Clearable) -> &mut u32 {
        match which {
            Clearable::Waiting => &mut self.waiting_before,
            Clearable::Scheduled => &mut self.scheduled_before,
            Clearable::Leased => &mut self.leased_before,
        }
    }

    /// When an item was cleared, if it was.
    pub fn cleared_at(&self, item: &Item) -> Option<Timestamp> {
        let which = Clearable::of(&item.state).filter(|which| item.era < self.before(*which))?;
        // Not known if the marker was salvaged without its times.
        Some(self.times.get(&(which, item.era)).copied().unwrap_or(item.created_at))
    }
}

/// A queue's name in its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueName {
    /// Always `default` for now.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    pub name: QueueName,
    pub settings: Settings,
    pub partitions: Vec<PartitionId>,
    pub stores: StoreNames,
    /// Where items with a key are at home.
    pub slots: SlotMap,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// The name of the store that each partition is in, in their order. Where it ends, the first store of all is meant:
/// every server has that one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreNames(pub Vec<Arc<str>>);

impl Queue {
    /// Its partitions and the stores they are in; none is the first store of all.
    pub fn homes(&self) -> impl Iterator<Item = (PartitionId, Option<&Arc<str>>)> {
        self.partitions.iter().enumerate().map(|(index, id)| (*id, self.stores.0.get(index)))
    }

    /// The partition that takes what has a key of this slot, by its place in the list.
    pub fn home(&self, slot: Slot) -> Option<usize> {
        self.slots.home(slot, self.partitions.len())
    }
}

/// The highest partition number given out so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partitions {
    pub last: u32,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// Which record of an item a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Payload, headers and reference: immutable, dropped when the item is final and not on its way elsewhere.
    Payload,
    /// What a completion left behind.
    Result,
    /// Headers and reference once more, without the payload, for items that have any: kept as long as the item.
    Facts,
}

impl Part {
    pub const ALL: [Self; 3] = [Self::Payload, Self::Result, Self::Facts];
}

/// One step of durable state. A batch of them is committed whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Put(Row),
    /// Removing an item removes its bodies too.
    Remove(Key),
    PutBody {
        number: ItemNumber,
        part: Part,
        body: Bytes,
    },
    RemoveBody {
        number: ItemNumber,
        part: Part,
    },
}

/// A body to be put under another number as well: one that the store has, or that was put before in the same batch. The
/// core knows no bodies, so whoever commits the batch makes a put of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyCopy {
    pub from: ItemNumber,
    pub to: ItemNumber,
    pub part: Part,
    /// How long it is.
    pub bytes: u64,
}

impl Row {
    pub fn key(&self) -> Key {
        match self {
            Self::Item(item) => Key::Item(item.number),
            Self::Numbers(_) => Key::Numbers,
            Self::Settings(_) => Key::Settings,
            Self::Cleared(_) => Key::Cleared,
            Self::Taken(taken) => Key::Taken(taken.source),
            Self::Once(once) => Key::Once(Arc::clone(&once.key)),
            Self::Group(group) => Key::Group(group.number),
            Self::Queue(queue) => Key::Queue(queue.name.clone()),
            Self::Partitions(_) => Key::Partitions,
            Self::Cron(cron) => Key::Cron(Arc::clone(&cron.name)),
            Self::CronHome(home) => Key::CronHome(Arc::clone(&home.name)),
        }
    }
}

impl Change {
    /// About how many bytes it takes in a store, rather more than less: what a batch is measured by.
    pub fn bytes(&self) -> usize {
        const FIXED: usize = 128;
        match self {
            Self::Put(Row::Item(item)) => FIXED + item.kind.len() + item.state.bytes() + extras_bytes(item),
            Self::Put(Row::Queue(queue)) => {
                let slots = 4 * queue.slots.0.len();
                8 * FIXED + 8 * queue.partitions.len() + slots + queue.stores.bytes() + queue.unknown.len()
            }
            Self::Put(Row::Settings(settings)) => 8 * FIXED + settings.unknown.len(),
            Self::Put(Row::Cleared(cleared)) => FIXED + 16 * cleared.times.len(),
            Self::Put(Row::Once(once)) => FIXED + once.bytes(),
            Self::Put(Row::Group(group)) => 4 * FIXED + group.bytes(),
            Self::Put(Row::Cron(cron)) => 2 * FIXED + cron.bytes(),
            Self::Put(Row::CronHome(home)) => FIXED + home.name.len() + home.queue.name.len(),
            Self::Put(Row::Numbers(_) | Row::Taken(_) | Row::Partitions(_)) => FIXED,
            Self::Remove(_) | Self::RemoveBody { .. } => FIXED / 4,
            Self::PutBody { body, .. } => FIXED / 4 + body.len(),
        }
    }
}

impl StoreNames {
    fn bytes(&self) -> usize {
        self.0.iter().map(|name| 2 + name.len()).sum()
    }
}

fn extras_bytes(item: &Item) -> usize {
    let Some(extras) = &item.extras else { return 0 };
    let origin = extras.origin.as_deref();
    let errors = extras.error.iter().chain(origin.and_then(|origin| origin.error.as_ref()));
    let names = origin.into_iter().flat_map(|origin| origin.group.iter().chain(&origin.address));
    let addresses = extras.address.iter().chain(names);
    let origin_bytes = origin.map_or(0, |origin| 64 + origin.queue.len() + origin.unknown.len());
    let texts =
        errors.map(ItemError::bytes).sum::<usize>() + addresses.map(|address| address.len()).sum::<usize>();
    texts + origin_bytes + extras.unknown.len()
}
