//! What is durable: rows under keys, and the changes that move a partition from one state to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::codec;
use crate::cron::{Cron, CronHome, CronName};
use crate::event::EventBatch;
use crate::group::Group;
use crate::id::{GroupNumber, ItemNumber, PartitionId};
use crate::item::{Item, ItemError, MoveNumber, State};
use crate::refusal::Refusal;
use crate::route::{Slot, SlotMap, SlotSet};
use crate::rule::{Rule, RuleKey, RulesVersion};
use crate::settings::Settings;
use crate::time::Timestamp;
use crate::verbs::{Arrived, Digest, Produced};

/// Everything a state machine must remember. Indexes and counters are derived from rows and never stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    // Of a partition.
    Item(Item),
    Numbers(Numbers),
    Settings(Settings),
    Cleared(Cleared),
    Taken(Taken),
    Once(Box<Once>),
    Group(Box<Group>),
    Intake(Box<Intake>),
    Events(EventBatch),
    Cron(Box<Cron>),

    // Of the registry, and copies in the partitions of the queue.
    Rules(RulesVersion),
    Rule(Box<Rule>),

    // Of the registry.
    Queue(Box<Queue>),
    Partitions(Partitions),
    CronHome(Box<CronHome>),
    Dropped(Dropped),
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
    Intake,
    /// Of the version of a queue's rules: see [`RuleKey::queue`].
    Rules(Option<QueueName>),
    Rule(RuleKey),
    Cron(Arc<str>),
    /// By item and the number of the first event. Without that it is no row's: all batches of the item, to be removed at
    /// once, whatever number there is.
    Events(ItemNumber, Option<u64>),
    CronHome(CronName),
    Dropped(Stored),
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

/// Moves taken from another partition: the last one and those before it are not taken again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub source: PartitionId,
    /// What the latest moves became is kept for as long as the source may ask: it has forgotten all moves before the first that
    /// it sends.
    pub arrived: Arrived,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// What the partition takes in, as the registry has it: copied like the settings, so that a partition that has given
/// something up never takes it again by mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// The version of the queue's routes, or another number while the queue is about to be deleted: see [`Intake::closing`].
    pub version: u64,
    /// Nothing new at all.
    pub closed: bool,
    /// The keys that are at home here. Unset: any.
    pub at_home: Option<SlotSet>,
    /// The queue that the partition is of: told by listings once the registry has lost the queue.
    pub queue: Option<QueueName>,
    /// How many partitions share what the queue may keep. 0: this one alone.
    pub shares: u32,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// Set in the version of an intake that is closed for a deletion: no version of routes has this bit.
const CLOSING: u64 = 1 << 63;

impl Intake {
    /// The intake for a queue that is about to be deleted: nothing new is taken in. The version differs, so the partition is opened
    /// again as soon as it is told what the registry says.
    pub fn closing(self) -> Self {
        Self { version: self.version | CLOSING, closed: true, ..self }
    }

    pub fn is_closing(&self) -> bool {
        self.version & CLOSING != 0
    }
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
    /// Which items of the call were answered here, in their order. Empty: the first ones.
    pub indexes: Box<[u16]>,
    pub answers: Answers,
    /// The slots whose keys brought the call here, ascending: those of its items, and that of the call's own key where it
    /// was claimed here. Repetitions of the call come by them.
    pub slots: Box<[Slot]>,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

impl Once {
    /// About what it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        const FIXED: usize = 128;
        FIXED
            + 2 * self.key.len()
            + 2 * (self.indexes.len() + self.slots.len())
            + self.answers.0.len()
            + self.unknown.len()
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
    pub suspended_before: u32,
    /// When the items of an era were cleared: only of eras in which the sweep has still to find some that are kept.
    pub times: BTreeMap<(Clearable, u32), Timestamp>,
    /// The eras of `times` that were cleared while the queue kept all that ended.
    pub keeps_all: BTreeSet<(Clearable, u32)>,
    /// The eras of `times` that were cleared while the queue kept no payload of a cancelled item.
    pub drops_payload: BTreeSet<(Clearable, u32)>,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// The states that can be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clearable {
    Waiting,
    Scheduled,
    Leased,
    Suspended,
}

impl Clearable {
    /// What is final is never cleared.
    pub fn of(state: &State) -> Option<Self> {
        match state {
            State::Waiting { .. } => Some(Self::Waiting),
            State::Scheduled { .. } => Some(Self::Scheduled),
            State::Leased(_) => Some(Self::Leased),
            State::Suspended(_) => Some(Self::Suspended),
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
            Clearable::Suspended => self.suspended_before,
        }
    }

    pub(crate) fn before_mut(&mut self, which: Clearable) -> &mut u32 {
        match which {
            Clearable::Waiting => &mut self.waiting_before,
            Clearable::Scheduled => &mut self.scheduled_before,
            Clearable::Leased => &mut self.leased_before,
            Clearable::Suspended => &mut self.suspended_before,
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
    /// A JSON object of the owner's, shown with the queue. Not among the settings: no partition needs a copy of it.
    pub meta: Option<Arc<str>>,
    pub created_at: Timestamp,
    /// When `settings` or `meta` were last updated; `created_at` at first. Partitions that come and go do not count.
    pub updated_at: Timestamp,
    pub partitions: Vec<PartitionId>,
    pub stores: StoreNames,
    /// Where items with a key are at home.
    pub slots: SlotMap,
    /// Counts how often partitions came, went, or passed slots on.
    pub route_version: u64,
    /// The last ones of the list: they are leased until they are empty, and take nothing new.
    pub draining: BTreeSet<PartitionId>,
    /// They are empty, and stay for what they still keep. With the store that each is in; none is the first of all.
    pub retired: BTreeMap<PartitionId, Option<Arc<str>>>,
    /// The slots that a partition was home to and is not any more. It may still know some of their keys.
    pub former: BTreeMap<PartitionId, SlotSet>,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

/// The name of the store that each partition is in, in their order. Where it ends or is empty, the first store of all
/// is meant: every server has that one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreNames(pub Vec<Arc<str>>);

impl Queue {
    /// Its partitions and the stores they are in, retired ones too; none is the first store of all.
    pub fn homes(&self) -> impl Iterator<Item = (PartitionId, Option<&Arc<str>>)> {
        let serving = self.partitions.iter().enumerate().map(|(index, id)| (*id, self.store(index)));
        serving.chain(self.retired.iter().map(|(id, store)| (*id, store.as_ref())))
    }

    /// The same, as values that can be compared.
    pub fn stored(&self) -> impl Iterator<Item = Stored> {
        self.homes().map(|(partition, store)| Stored { partition, store: store.cloned() })
    }

    pub(crate) fn store(&self, index: usize) -> Option<&Arc<str>> {
        self.stores.0.get(index).filter(|name| !name.is_empty() && ***name != *FIRST_STORE)
    }

    /// How many partitions it is to have: those that drain are about to go.
    pub fn width(&self) -> usize {
        self.partitions.len() - self.draining.len()
    }

    /// Whether it is the same queue, however it has changed since: the first partition never leaves, and its number is
    /// not given to another.
    pub fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.partitions.first() == other.partitions.first()
    }

    /// What one of its partitions is to take in.
    pub fn intake(&self, partition: PartitionId) -> Intake {
        let place = self.partitions.iter().position(|id| *id == partition);
        // With one partition nobody can be wrong about keys.
        let several = self.partitions.len() > 1 || !self.slots.0.is_empty();
        let at_home = || Slot::all().filter(|slot| place.is_some() && self.home(*slot) == place).collect();
        Intake {
            version: self.route_version,
            closed: place.is_none() || self.draining.contains(&partition),
            at_home: several.then(at_home),
            queue: Some(self.name.clone()),
            // 0 stands for one partition, so that a queue of one writes no field.
            shares: if several { self.partitions.len() as u32 } else { 0 },
            unknown: Vec::new(),
        }
    }

    /// Who else may know a key of that slot.
    pub fn former_homes(&self, slot: Slot) -> impl Iterator<Item = PartitionId> {
        let were = self.former.iter().filter(move |(_, slots)| slots.contains(slot));
        were.map(|(partition, _)| *partition)
    }

    /// The partition that takes what has a key of this slot, by its place in the list.
    pub fn home(&self, slot: Slot) -> Option<usize> {
        self.slots.home(slot, self.width())
    }
}

/// The name of the first store of all, which holds the registry.
pub const FIRST_STORE: &str = "default";

/// A partition in a store. Two stores may hold something under the same number, and only one of the two is the partition
/// that the registry names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored {
    pub partition: PartitionId,
    /// Unset for the first store of all: see [`Stored::new`].
    pub store: Option<Arc<str>>,
}

impl Stored {
    pub fn new(partition: PartitionId, store: &Arc<str>) -> Self {
        Self { partition, store: (**store != *FIRST_STORE).then(|| Arc::clone(store)) }
    }

    pub fn store_name(&self) -> &str {
        self.store.as_deref().unwrap_or(FIRST_STORE)
    }
}

/// A partition that is to be dropped, written in the commit that takes it from its queue. A store drops a partition for no
/// other reason; the record goes once the store has done so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    pub stored: Stored,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
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
    /// Payload, headers and reference: dropped when the item is final, unless it is kept or on its way elsewhere.
    Payload,
    /// What a completion left behind.
    Result,
    /// Headers and reference once more, without the payload, for items that have any: kept as long as the item.
    Facts,
    /// The answer that a suspended item was resumed with, for the workers that come after.
    Input,
    /// One of the newest attempts that did not complete: see [`crate::attempt`]. Removed by the core, not with its item.
    Attempt(u8),
    /// A batch of events, by the number of its first: see [`crate::event::pack`].
    Events(u64),
}

impl Part {
    /// Those that an item has at most once, and that go with it.
    pub const ALL: [Self; 4] = [Self::Payload, Self::Result, Self::Facts, Self::Input];
}

/// One step of durable state. A batch of them is committed whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Put(Row),
    /// Removing an item removes its bodies too, but for its attempts and events; and removing a batch of events its body.
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
            Self::Intake(_) => Key::Intake,
            Self::Events(batch) => Key::Events(batch.item, Some(batch.first_seq)),
            Self::Queue(queue) => Key::Queue(queue.name.clone()),
            Self::Partitions(_) => Key::Partitions,
            Self::Rules(rules) => Key::Rules(rules.queue.clone()),
            Self::Rule(rule) => Key::Rule(rule.key.clone()),
            Self::Cron(cron) => Key::Cron(Arc::clone(&cron.name)),
            Self::CronHome(home) => Key::CronHome(home.cron_name()),
            Self::Dropped(dropped) => Key::Dropped(dropped.stored.clone()),
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
                let slots = 4 * queue.slots.0.len() + 2 * FIXED * queue.former.len();
                let retired = FIXED * queue.retired.len();
                let partitions = 16 * queue.partitions.len();
                let meta = queue.meta.as_ref().map_or(0, |meta| meta.len());
                8 * FIXED + partitions + slots + retired + queue.stores.bytes() + meta + queue.unknown.len()
            }
            Self::Put(Row::Settings(settings)) => {
                let indexed = settings.indexed_headers.iter().map(|name| 2 * (name.len() + 8)).sum::<usize>();
                8 * FIXED + indexed + settings.unknown.len()
            }
            Self::Put(Row::Cleared(cleared)) => {
                let eras = cleared.times.len() + cleared.keeps_all.len() + cleared.drops_payload.len();
                FIXED + 16 * eras
            }
            Self::Put(Row::Once(once)) => FIXED + once.bytes(),
            Self::Put(Row::Group(group)) => 4 * FIXED + group.bytes(),
            Self::Put(Row::Intake(intake)) => 6 * FIXED + intake.unknown.len(),
            Self::Put(Row::Rule(rule)) => 4 * FIXED + rule.bytes(),
            Self::Put(Row::Cron(cron)) => 2 * FIXED + cron.bytes(),
            Self::Put(Row::CronHome(home)) => FIXED + home.name.len() + home.queue.name.len(),
            Self::Put(Row::Numbers(_) | Row::Events(_) | Row::Partitions(_)) => FIXED,
            Self::Put(Row::Taken(taken)) => {
                FIXED + 20 * (taken.arrived.items.len() + taken.arrived.turned_away.len())
            }
            Self::Put(Row::Rules(_)) => 4 * FIXED,
            Self::Put(Row::Dropped(dropped)) => FIXED + dropped.stored.store_name().len(),
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
    let moved_to = extras.moved_to.as_ref().map_or(0, |moved_to| 32 + moved_to.queue.len());
    let cron = extras.cron.as_ref().map_or(0, |run| 16 + run.name.len());
    let client_id = extras.last_lease.as_ref().map_or(0, |last| last.client_id.len());
    let texts =
        errors.map(ItemError::bytes).sum::<usize>() + addresses.map(|address| address.len()).sum::<usize>();
    let hashes = 8 * extras.header_hashes.len();
    texts + origin_bytes + moved_to + cron + client_id + hashes + extras.unknown.bytes().len()
}
