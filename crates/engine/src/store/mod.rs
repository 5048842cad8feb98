//! Where rows are durable. A store knows rows, epochs and durability, and no rule.
//!
//! [`memory`] forgets everything with the process, [`log`] is the embedded default, [`spread`] makes one of several.
//!
//! The parts that any durable store needs are apart from the log: [`entries`] is a batch as bytes, [`bodies`] tells where bodies are
//! and keeps some in memory, [`merge`] makes a snapshot of an older one and the batches since. The log uses them, and they
//! know nothing of the log.

mod bodies;
mod cursor;
pub mod double;
mod entries;
mod events;
pub mod log;
pub mod memory;
mod merge;
pub mod spread;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Sum;
use std::sync::Arc;
use std::{fmt, io};

use bytes::Bytes;
use tokio::sync::watch;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Change, Key, Part, StoreNames};
use windlass_core::time::Timestamp;

pub use self::events::StoreEvents;
use crate::env::BoxFuture;

/// The name of the first store, which holds the registry.
pub const DEFAULT_STORE: &str = windlass_core::row::FIRST_STORE;

pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Takes the partition over: fences every earlier owner, and tells what is durable. A partition that was never
    /// heard of is empty and at sequence 0.
    fn acquire(&self, partition: PartitionId) -> BoxFuture<'_, Result<Acquired, StoreError>>;

    /// Makes a batch durable, whole or not at all.
    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<(), CommitError>>;

    /// Makes durable what was committed to a partition within a term, where commits are answered before they are durable.
    /// [`StoreError::Fenced`] if the term is over: some of its commits may have been taken back.
    fn sync(&self, term: Term) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The epoch of the partition's owner; 0 if it has none. An owner asks before it gives an answer that commits nothing.
    fn epoch(&self, partition: PartitionId) -> u64;

    /// Bodies in the order asked for. Each is answered by itself: one that cannot be read takes no other with it.
    fn read(&self, partition: PartitionId, bodies: Vec<(ItemNumber, Part)>) -> BoxFuture<'_, Vec<Body>>;

    /// The batches of an item's events in their order, each with the number of its first: from the one that holds `from` on,
    /// or the one before that if it is gone; as many as come to about so many bytes, and one at least. Whatever is durable,
    /// told by anybody or not.
    fn read_events(
        &self,
        partition: PartitionId,
        number: ItemNumber,
        from: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Bytes)>, StoreError>>;

    /// The durable rows of a partition, without taking it over: for a partition that nobody serves.
    fn peek(&self, partition: PartitionId) -> BoxFuture<'_, Result<Box<dyn Rows>, StoreError>>;

    /// Forgets a partition and everything in it, durably. Its number is never used again.
    fn drop_partition(&self, partition: PartitionId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Every partition that has something durable, in order.
    fn partitions(&self) -> BoxFuture<'_, Result<Vec<PartitionId>, StoreError>>;

    /// The most bytes of bodies that one batch may hold. Asked before a verb is applied.
    fn batch_bytes_max(&self) -> usize;

    /// How much room there is for a partition. Asked before a verb is applied.
    fn room(&self, partition: PartitionId) -> Room;

    /// Counters and sizes, of all stores together where there are several.
    fn stats(&self) -> StoreStats;

    /// A word for how the store keeps things: `log`, `memory`.
    fn kind(&self) -> &'static str;

    // The methods from here on are for several stores in one; a single store keeps the defaults.

    /// The state of each store by itself, in a fixed order.
    fn stores(&self) -> Vec<StoreState> {
        let (name, room) = (DEFAULT_STORE.into(), self.room(PartitionId::REGISTRY));
        vec![StoreState { name, kind: self.kind(), is_open: true, room, stats: self.stats() }]
    }

    /// The names of the stores that are open.
    fn open_stores(&self) -> Vec<Arc<str>> {
        vec![DEFAULT_STORE.into()]
    }

    /// The store of a name.
    fn find_member(&self, name: &str) -> Found<'_> {
        if name == DEFAULT_STORE { Found::This } else { Found::NotOpen }
    }

    /// Counts the stores that have been opened later than the first. Unset for a single store.
    fn openings(&self) -> Option<watch::Receiver<usize>> {
        None
    }

    /// The name of the store that a partition is in.
    fn name_of(&self, _partition: PartitionId) -> Arc<str> {
        DEFAULT_STORE.into()
    }

    /// Says, before it is acquired, which store a partition is in by the registry; none is the first.
    fn assign(&self, _partition: PartitionId, _store: Option<&Arc<str>>) {}

    /// Takes back what [`Store::assign`] said of a partition that is dropped.
    fn unassign(&self, _partition: PartitionId) {}

    /// The stores for so many new partitions, out of those that are named.
    fn choose(&self, _partitions: usize, _among: &BTreeSet<Arc<str>>) -> StoreNames {
        StoreNames::default()
    }

    /// Finishes what is under way, stops the store's threads, and lets the directory go.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The answer of [`Store::find_member`].
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// The store that was asked.
    This,
    /// One of several stores that the asked one consists of.
    Member(&'a dyn Store),
    /// A store that is not open, or not configured.
    NotOpen,
}

/// The store of a name, if it is open.
pub(crate) fn member<'a>(store: &'a dyn Store, name: &str) -> Option<&'a dyn Store> {
    match store.find_member(name) {
        Found::This => Some(store),
        Found::Member(member) => Some(member),
        Found::NotOpen => None,
    }
}

/// The time in which a partition has one and the same owner. A term ends when the partition is acquired, and when a
/// store takes back commits that were answered but not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    pub partition: PartitionId,
    pub epoch: u64,
}

impl Term {
    /// The term of now. Whoever is going to rest something on a partition's answer looks before asking: if the term is
    /// not over after [`Store::sync`], the answer is durable.
    pub fn now(store: &dyn Store, partition: PartitionId) -> Self {
        Self { partition, epoch: store.epoch(partition) }
    }
}

/// One body as a store can give it.
#[derive(Clone, Debug)]
pub enum Body {
    Found(Bytes),
    /// Nothing is stored under this key (any more).
    Absent,
    /// The body was written and is lost: reading again does not help.
    Damaged(StoreError),
    /// The store cannot read it now. Nothing is known to be lost: reading again may help.
    Unreadable(StoreError),
}

impl Body {
    /// The body as far as it can be had: a damaged one counts as absent.
    pub fn sound(self) -> Result<Option<Bytes>, StoreError> {
        match self {
            Self::Found(body) => Ok(Some(body)),
            Self::Absent | Self::Damaged(_) => Ok(None),
            Self::Unreadable(error) => Err(error),
        }
    }
}

/// Bodies for a caller that needs all that can be had: an error if the store cannot read one of them now.
pub(crate) fn sound(bodies: Vec<Body>) -> Result<Vec<Option<Bytes>>, StoreError> {
    bodies.into_iter().map(Body::sound).collect()
}

impl From<Option<Bytes>> for Body {
    fn from(body: Option<Bytes>) -> Self {
        body.map_or(Self::Absent, Self::Found)
    }
}

impl From<StoreError> for Body {
    fn from(error: StoreError) -> Self {
        if error.is_damage() { Self::Damaged(error) } else { Self::Unreadable(error) }
    }
}

/// A partition as its new owner finds it.
#[derive(Debug)]
pub struct Acquired {
    /// Greater than that of every earlier owner; every commit carries it.
    pub epoch: u64,
    /// The last commit that is durable: what was in flight after it never happened, what was at or before it did.
    pub sequence: u64,
    /// The `now` of that commit.
    pub now: Timestamp,
    pub rows: Box<dyn Rows>,
}

/// The durable rows as puts and removes, in an order that ends in the present state. No bodies.
pub trait Rows: Send + fmt::Debug {
    /// The next slice; `None` after the last.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Change>>, StoreError>>;
}

#[derive(Clone, Debug)]
pub struct Batch {
    pub partition: PartitionId,
    pub epoch: u64,
    /// One more than the last.
    pub sequence: u64,
    pub now: Timestamp,
    pub changes: Vec<Change>,
    /// Whether it may be carried out on the thread that brings it: one caller waits for it, and that thread has woken nobody
    /// who would have to wait too.
    pub may_block: bool,
}

/// How much room a store has. Which verbs may still be carried out is the core's to say:
/// [`windlass_core::footprint`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    #[default]
    Enough,
    /// The disk is full, and the log goes on in its reserve: for what does not make the store grow.
    Full,
    /// The last of the reserve: for what ends or removes items.
    Last,
}

/// Why a commit did not return. Memory is thrown away after any of them.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// Nothing of the batch is or will be durable.
    #[error("not committed: {0}")]
    NotApplied(StoreError),
    /// The batch may or may not be durable: the next acquire tells.
    #[error("commit with unknown outcome: {0}")]
    Unknown(StoreError),
}

impl CommitError {
    pub fn cause(&self) -> &StoreError {
        match self {
            Self::NotApplied(cause) | Self::Unknown(cause) => cause,
        }
    }

    pub fn into_cause(self) -> StoreError {
        match self {
            Self::NotApplied(cause) | Self::Unknown(cause) => cause,
        }
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("another owner has taken the partition over")]
    Fenced,
    #[error("the disk is full: free some space, or let workers complete items")]
    Full,
    #[error(
        "a batch of {bytes} bytes does not fit the store's limit of {max}: send fewer or smaller items at once"
    )]
    TooLarge { bytes: usize, max: usize },
    #[error("the store is closed")]
    Closed,
    #[error(
        "{file}: damaged at byte {offset}: {what}. Restore a backup, or salvage what is readable with `inspect`"
    )]
    Damaged { file: String, offset: u64, what: String },
    #[error(
        "{directory}: {what}: files are missing. Restore a backup, or salvage what is readable with `inspect`"
    )]
    Incomplete { directory: String, what: String },
    #[error("{action} {file}: {source}")]
    Io { action: &'static str, file: String, source: Arc<io::Error> },
    #[error("{0}")]
    Unusable(String),
}

impl StoreError {
    /// Whether something of what was stored is lost: a backup helps, and trying again does not.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Incomplete { .. })
    }

    /// Whether there was no room: no other failure of a disk is a full one.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full => true,
            Self::Io { source, .. } => is_full(source),
            Self::Fenced
            | Self::TooLarge { .. }
            | Self::Closed
            | Self::Damaged { .. }
            | Self::Incomplete { .. }
            | Self::Unusable(_) => false,
        }
    }
}

/// Whether an operation failed for want of room, of the disk or of a quota. No other failure is a full disk.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Takes a row out of those that are held in the order of their keys, or several that go at once.
fn remove_row<V>(rows: &mut BTreeMap<Key, V>, key: &Key) {
    if let Key::Events(number, None) = key {
        let all = Key::Events(*number, Some(0))..=Key::Events(*number, Some(u64::MAX));
        let gone: Vec<Key> = rows.range(all).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| drop(rows.remove(key)));
    } else {
        rows.remove(key);
    }
}

/// One of several stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreState {
    pub name: Arc<str>,
    /// See [`Store::kind`].
    pub kind: &'static str,
    pub is_open: bool,
    pub room: Room,
    pub stats: StoreStats,
}

/// Counters since the store was opened, and sizes now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    pub commits: u64,
    pub syncs: u64,
    pub bytes_written: u64,
    /// Bytes that the store takes up now.
    pub bytes_stored: u64,
    /// Bytes of bodies that are still wanted.
    pub bytes_live: u64,
    pub snapshots: u64,
    pub compactions: u64,
    /// Partitions of which something cannot be read back: refused to their next owner.
    pub damaged_partitions: u64,
    /// Wanted bodies that were found damaged when the store was opened.
    pub damaged_bodies: u64,
    /// Bytes that the store's disk has left, if the disk tells.
    pub bytes_free: Option<u64>,
    pub events: StoreEvents,
}

impl Sum for StoreStats {
    fn sum<I: Iterator<Item = Self>>(stats: I) -> Self {
        stats.fold(Self::default(), |one, other| Self {
            commits: one.commits + other.commits,
            syncs: one.syncs + other.syncs,
            bytes_written: one.bytes_written + other.bytes_written,
            bytes_stored: one.bytes_stored + other.bytes_stored,
            bytes_live: one.bytes_live + other.bytes_live,
            snapshots: one.snapshots + other.snapshots,
            compactions: one.compactions + other.compactions,
            damaged_partitions: one.damaged_partitions + other.damaged_partitions,
            damaged_bodies: one.damaged_bodies + other.damaged_bodies,
            bytes_free: one.bytes_free.into_iter().chain(other.bytes_free).reduce(u64::saturating_add),
            events: [one.events, other.events].into_iter().sum(),
        })
    }
}
