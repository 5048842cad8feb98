//! What can be asked of a partition, and what it answers. How each is carried out is in the file of the verb under
//! [`crate::partition`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::cron::{Cron, CronRefusal};
use crate::event::NewEvent;
use crate::group::{GroupView, Member};
use crate::id::{ItemId, ItemNumber, PartitionId, Permit};
use crate::item::{End, Item, ItemError, LeaseEnd, MoveNumber, MoveReason, Origin, Phase, Suspension};
use crate::limits::Invalid;
use crate::partition::Totals;
use crate::route::SlotSet;
use crate::row::{BodyCopy, Change, Intake, QueueName, StoreNames, Stored};
use crate::rule::{RuleSet, Stop};
use crate::settings::{Settings, SettingsChange};
use crate::time::{Span, Timestamp};

/// One answer for each item of a verb, in the order given.
pub type Each<T> = Vec<Result<T, Refusal>>;

/// Ends leased items whose work is done.
#[derive(Clone, Debug)]
pub struct Complete(pub Vec<Completion>);

/// Ends the leases of items that failed, for now or for good.
#[derive(Clone, Debug)]
pub struct Retry(pub Vec<RetryItem>);

/// Gives leased items back, uncharged.
#[derive(Clone, Debug)]
pub struct Release(pub Vec<Held>);

/// Takes leased items away from their workers.
#[derive(Clone, Debug)]
pub struct Revoke(pub Vec<Held>);

/// Ends leased items that no worker can be given, because a body of theirs is lost.
#[derive(Clone, Debug)]
pub struct FailDamaged(pub Vec<Damaged>);

/// Workers give items up until somebody answers.
#[derive(Clone, Debug)]
pub struct Suspend(pub Vec<SuspendItem>);

#[derive(Clone, Copy, Debug)]
pub struct Cancel(pub ItemNumber);

/// Takes items out without a trace that have not ended.
#[derive(Clone, Debug)]
pub struct Delete(pub Vec<ItemNumber>);

#[derive(Clone, Debug)]
pub struct StartGroup(pub Arc<str>);

#[derive(Clone, Debug)]
pub struct CancelGroup(pub Arc<str>);

#[derive(Clone, Debug)]
pub struct DeleteGroup(pub Arc<str>);

/// Takes the queue's settings over, unless their version is the one the partition has. An older version counts too: the
/// registry may have been restored from a backup.
#[derive(Clone, Debug)]
pub struct Configure(pub Settings);

/// Takes over what the partition is to take in, as [`Configure`] does the settings.
#[derive(Clone, Debug)]
pub struct Route(pub Intake);

/// Takes the queue's rules over, as [`Configure`] does the settings.
#[derive(Clone, Debug)]
pub struct TakeRules(pub Arc<RuleSet>);

/// Registry only.
#[derive(Clone, Debug)]
pub struct DeleteQueue(pub QueueName);

/// Registry only: a partition that was draining is empty.
#[derive(Clone, Debug)]
pub struct Retire {
    pub queue: QueueName,
    pub partition: PartitionId,
}

/// Registry only: a retired partition keeps nothing any more.
#[derive(Clone, Debug)]
pub struct ForgetPartition {
    pub queue: QueueName,
    pub partition: PartitionId,
}

/// Registry only: takes note that numbers up to this one were given out, by a registry that has forgotten it.
#[derive(Clone, Copy, Debug)]
pub struct SkipPartitions(pub PartitionId);

/// Registry only: records that a partition is to be dropped which no queue names.
#[derive(Clone, Debug)]
pub struct DropUnclaimed(pub Stored);

/// Registry only: these were dropped by their stores, and their records go.
#[derive(Clone, Debug)]
pub struct ForgetDropped(pub Vec<Stored>);

/// Registry only: a partition knows no key any more of slots that it was home to.
#[derive(Clone, Debug)]
pub struct ForgetFormerHome {
    pub queue: QueueName,
    pub partition: PartitionId,
    pub slots: SlotSet,
    /// The routes that the partition knew when it said so. By later ones it may have been home to the slots again.
    pub route_version: u64,
}

#[derive(Clone, Debug)]
pub struct Produce {
    pub items: Vec<NewItem>,
}

/// What one partition is to produce of a call that is carried out once, however often it is sent.
#[derive(Clone, Debug)]
pub struct ProduceOnce {
    /// The client's name for the call.
    pub key: Arc<str>,
    /// Of all items of the call, those for other partitions included.
    pub digest: Digest,
    pub claim: Claim,
    /// Which items of the call these are. Empty: all of them.
    pub indexes: Vec<u16>,
    /// Those of them whose address an item of another partition holds, which was home to it before.
    pub held: BTreeMap<u16, ItemId>,
    /// None at the home of the key, if all belong elsewhere.
    pub items: Vec<NewItem>,
}

/// Calls with the same digest are the same.
pub type Digest = [u8; 16];

/// Who decides whether a key is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The home of the key does.
    First,
    /// Another partition goes by the moment at which the home did.
    Of(Timestamp),
}

#[derive(Clone, Debug)]
pub struct NewItem {
    pub kind: Arc<str>,
    pub priority: u8,
    /// The name of the group it is to be a member of.
    pub group: Option<Arc<str>>,
    /// In the past or unset: waiting at once.
    pub enqueue_at: Option<Timestamp>,
    /// How long after the command the item is due. At most one of `enqueue_at` and `delay` is set.
    pub delay: Option<Span>,
    pub max_attempts: Option<u32>,
    /// Unset: the queue's. Zero: it may grow any age.
    pub dead_timeout: Option<Span>,
    /// Refused, by itself, while an item of that address is not final.
    pub address: Option<Arc<str>>,
    /// Passed through to the store, which may keep it in memory: let it not be a small part of something large. The
    /// core never looks inside and does not keep it.
    pub body: Bytes,
    /// What of the body is still to be seen once the item is final, and counts against the queue's retention: passed
    /// through like it.
    pub facts: Option<Bytes>,
}

impl NewItem {
    /// Waiting at once, and with nothing special about it.
    pub fn plain(kind: impl Into<Arc<str>>, body: Bytes) -> Self {
        Self {
            kind: kind.into(),
            priority: 0,
            group: None,
            enqueue_at: None,
            delay: None,
            max_attempts: None,
            dead_timeout: None,
            address: None,
            body,
            facts: None,
        }
    }

    /// When an item is due that is made at `now`; unset: at once.
    pub(crate) fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.delay.map(|delay| now + delay).or(self.enqueue_at)
    }

    /// What it is at home by, if anything.
    pub fn key(&self) -> Option<&str> {
        self.group.as_deref().or(self.address.as_deref())
    }

    pub(crate) fn bytes(&self) -> usize {
        stored_bytes(&self.body, self.facts.as_ref(), self.address.as_ref())
    }
}

fn stored_bytes(body: &Bytes, facts: Option<&Bytes>, address: Option<&Arc<str>>) -> usize {
    body.len() + facts.map_or(0, Bytes::len) + address.map_or(0, |address| address.len())
}

/// Brings items in as they were elsewhere.
#[derive(Clone, Debug)]
pub struct Import {
    pub items: Vec<ImportItem>,
}

/// An item as it was elsewhere. Its number is new, and its place behind all there is.
#[derive(Clone, Debug)]
pub struct ImportItem {
    pub kind: Arc<str>,
    pub priority: u8,
    /// As that of a [`NewItem`].
    pub group: Option<Arc<str>>,
    /// Unset: now.
    pub created_at: Option<Timestamp>,
    pub attempts: u32,
    /// Unset: waiting at once. In the past: it is started with whatever else is due.
    pub due_at: Option<Timestamp>,
    /// Unset: the queue's counts.
    pub max_attempts: Option<u32>,
    /// Counted from its making. Unset: any age, whatever the queue says of new items.
    pub dead_timeout: Option<Span>,
    /// As that of a [`NewItem`].
    pub address: Option<Arc<str>>,
    /// Where it was moved from before it came here.
    pub origin: Option<Box<Origin>>,
    pub error: Option<ItemError>,
    /// It waits for an answer, whenever it is due.
    pub suspended: Option<Box<Suspension>>,
    /// `body` and `facts` are as in [`NewItem`].
    pub body: Bytes,
    pub facts: Option<Bytes>,
}

impl ImportItem {
    /// As that of a [`NewItem`].
    pub fn key(&self) -> Option<&str> {
        self.group.as_deref().or(self.address.as_deref())
    }

    pub(crate) fn bytes(&self) -> usize {
        let origin = self.origin.as_ref().and_then(|origin| origin.error.as_ref());
        let errors = [self.error.as_ref(), origin].into_iter().flatten();
        let errors = errors.map(|error| error.message.len()).sum::<usize>();
        errors + stored_bytes(&self.body, self.facts.as_ref(), self.address.as_ref())
    }
}

/// Makes a group, its first members with it, and starts it if it is asked to.
#[derive(Clone, Debug)]
pub struct CreateGroup {
    pub name: Arc<str>,
    pub end: Option<NewEnd>,
    pub abort: Option<NewEnd>,
    /// Members from the first, whatever group they name.
    pub items: Vec<NewItem>,
    pub start: bool,
}

/// Says what is made at the end of a group.
#[derive(Clone, Debug)]
pub struct SetGroupEnd {
    pub name: Arc<str>,
    /// Unset: as it was.
    pub end: Option<NewEnd>,
    /// Unset: as it was.
    pub abort: Option<NewEnd>,
}

/// What is made when a group is done or aborted. No member of it.
#[derive(Clone, Debug)]
pub struct NewEnd {
    /// Unset: its own queue.
    pub queue: Option<Arc<str>>,
    pub item: NewItem,
}

/// Which items to show, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Waiting, held, leased and suspended ones as they are leased: by priority, then by place.
    Queue,
    /// Those due later: by their time, then as they were produced.
    Scheduled,
}

/// Leases the best items that a worker takes.
#[derive(Clone, Debug)]
pub struct LeaseItems {
    pub client_id: Arc<str>,
    pub batch_size: usize,
    /// Unset: the queue's.
    pub lease_timeout: Option<Span>,
    pub filter: Filter,
}

/// Which items a worker will take.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filter {
    /// Unset: every kind. Sorted and without doubles when set through [`Filter::new`].
    pub kinds: Option<Arc<[Arc<str>]>>,
    /// Inclusive.
    pub max_priority: u8,
}

impl Filter {
    pub const ANY: Self = Self { kinds: None, max_priority: u8::MAX };

    pub fn new(kinds: Option<Vec<Arc<str>>>, max_priority: u8) -> Self {
        let kinds = kinds.map(|mut kinds| {
            kinds.sort();
            kinds.dedup();
            kinds.into()
        });
        Self { kinds, max_priority }
    }
}

/// Leased items that are to wait for so long, uncharged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutOff {
    pub items: Vec<Held>,
    pub delay: Span,
}

/// A leased item with a body that the store has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    pub held: Held,
    /// The payload is lost. If not, the input of a resumed item is.
    pub payload_lost: bool,
}

/// An item and the permit its caller believes to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub number: ItemNumber,
    pub permit: Permit,
}

#[derive(Clone, Debug)]
pub struct Completion {
    pub held: Held,
    /// Passed through to the store.
    pub result: Option<Bytes>,
}

#[derive(Clone, Debug)]
pub struct RetryItem {
    pub held: Held,
    /// `retry_at` in the past: at once. Without `retry_at` and `delay` the queue's policy decides.
    pub retry_at: Option<Timestamp>,
    /// How long after the command the item is due again. At most one of `retry_at` and `delay` is set.
    pub delay: Option<Span>,
    /// No further attempt, whatever is left.
    pub dead: bool,
    pub error: Option<ItemError>,
}

/// Extends leases.
#[derive(Clone, Debug)]
pub struct Extend {
    /// Unset: the timeout each lease has.
    pub lease_timeout: Option<Span>,
    pub items: Vec<Held>,
}

/// Appends to the events of a leased item.
#[derive(Clone, Debug)]
pub struct Emit {
    pub held: Held,
    /// Refused unless this is the number of the last event: so that sending again is safe.
    pub after: Option<u64>,
    pub events: Vec<NewEvent>,
}

#[derive(Clone, Debug)]
pub struct SuspendItem {
    pub held: Held,
    pub reason: Option<Arc<str>>,
}

/// Answers a suspended item.
#[derive(Clone, Debug)]
pub struct Resume {
    pub number: ItemNumber,
    pub input: Option<Input>,
}

/// What a suspended item was waiting for: an event of its stream, and a body for the workers that come after.
#[derive(Clone, Debug)]
pub struct Input {
    pub event: NewEvent,
    /// Passed through to the store.
    pub body: Bytes,
}

/// Takes all items away that are in the chosen states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clear {
    pub waiting: bool,
    pub scheduled: bool,
    pub leased: bool,
    pub suspended: bool,
}

/// One slice of a redrive: in the order in which items wait.
#[derive(Clone, Debug)]
pub struct Redrive {
    pub to: RedriveTo,
    /// Unset: every kind.
    pub kind: Option<Arc<str>>,
    /// How many items to send at most. Others are looked at too, but no more than a slice of them.
    pub limit: usize,
    /// Unset: from the beginning.
    pub from: Option<RedriveCursor>,
}

#[derive(Clone, Debug)]
pub enum RedriveTo {
    Queue(Arc<str>),
    /// Where each came from, if that is one of these: those that came from nowhere, or from a queue that is gone, stay.
    Origins(Arc<BTreeSet<Arc<str>>>),
}

/// How far a redrive has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedriveCursor {
    /// The order and the number of the last item looked at.
    pub(crate) after: (u64, ItemNumber),
    /// What was made after the redrive began is none of its business: it may have been sent back already.
    pub(crate) until: ItemNumber,
}

/// Chooses who is to take some of the items that are on their way to a queue.
#[derive(Clone, Debug)]
pub struct Assign {
    /// Where the items were to go.
    pub queue: Arc<str>,
    /// Where they go. If that is another queue, only what died goes there: who sends something else names its target.
    pub to: Arc<str>,
    /// Who is to take them: a partition of that queue.
    pub partition: PartitionId,
    /// A partition that is gone, whose moves are assigned anew; unset: those that never were.
    pub instead_of: Option<PartitionId>,
    pub limit: usize,
}

/// Chooses the partitions that are to take crons, of those that belong elsewhere.
#[derive(Clone, Debug)]
pub struct AssignCrons {
    /// The queue of the crons and of the partitions.
    pub queue: Arc<str>,
    /// The name of each cron, and the partition that is to take the cron.
    pub crons: Vec<(Arc<str>, PartitionId)>,
}

/// Makes the first moves to a partition wait for another taker to be chosen: the partition is gone, or takes nothing new.
#[derive(Clone, Copy, Debug)]
pub struct Unassign {
    pub partition: PartitionId,
    pub limit: usize,
}

/// Takes items and crons over that another partition sends.
#[derive(Clone, Debug)]
pub struct Take {
    pub source: PartitionId,
    /// In the order of their numbers.
    pub moves: Vec<Move>,
}

/// An item or a cron on its way in.
#[derive(Clone, Debug)]
pub struct Move {
    pub number: MoveNumber,
    pub what: Arriving,
    /// `body` is the payload as in [`NewItem::body`], unset if it is lost. For a cron: the payload of the items that it makes.
    pub body: Option<Bytes>,
    /// `facts` are encoded as in [`NewItem::facts`].
    pub facts: Option<Bytes>,
}

#[derive(Clone, Debug)]
pub enum Arriving {
    Item(Box<ArrivingItem>),
    Cron(Box<Cron>),
}

impl Arriving {
    /// The kind of the item, or of the item that the cron makes.
    pub(crate) fn kind(&self) -> &str {
        match self {
            Self::Item(item) => &item.kind,
            Self::Cron(cron) => &cron.template.kind,
        }
    }
}

#[derive(Clone, Debug)]
pub struct ArrivingItem {
    pub kind: Arc<str>,
    pub priority: u8,
    pub origin: Origin,
    /// The next three as those of a [`NewItem`]: set at most for the end item of a group, which was no item before.
    pub enqueue_at: Option<Timestamp>,
    pub max_attempts: Option<u32>,
    pub dead_timeout: Option<Span>,
}

/// Forgets the moves that a partition has taken.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Who has taken them.
    pub partition: PartitionId,
    /// The last one that was taken.
    pub last: MoveNumber,
}

/// An item or a cron on its way out, as [`crate::partition::Partition::departures`] tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    pub number: MoveNumber,
    /// The number under which the store has the payload.
    pub body: ItemNumber,
    /// The payload was found lost before: there is none to read.
    pub payload_lost: bool,
    pub what: Departing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Departing {
    Item(DepartingItem),
    Cron(Box<Cron>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepartingItem {
    pub number: ItemNumber,
    pub kind: Arc<str>,
    pub priority: u8,
    pub attempts: u32,
    pub address: Option<Arc<str>>,
    pub reason: MoveReason,
    pub error: Option<ItemError>,
    /// The name of the group it was a member of, or whose end it is.
    pub group: Option<Arc<str>>,
    /// The next three as those of an [`ArrivingItem`].
    pub enqueue_at: Option<Timestamp>,
    pub max_attempts: Option<u32>,
    pub dead_timeout: Option<Span>,
    pub left_at: Timestamp,
}

/// Registry only.
#[derive(Clone, Debug)]
pub struct CreateQueue {
    pub name: QueueName,
    /// Its `version` is ignored: the registry counts.
    pub settings: Settings,
    pub partitions: u32,
    /// As in [`crate::row::Queue::meta`].
    pub meta: Option<Arc<str>>,
    /// Unset: refused if there is a queue of the name. Set: such a queue is answered as it is, if it has what was given.
    pub exists_ok: Option<Box<GivenQueue>>,
    /// Where the partitions are to be: chosen by the engine.
    pub stores: StoreNames,
}

impl CreateQueue {
    /// Without `meta`, and refused if there is a queue of the name.
    pub fn new(name: QueueName, settings: Settings, partitions: u32) -> Self {
        Self { name, settings, partitions, meta: None, exists_ok: None, stores: StoreNames::default() }
    }
}

/// What a caller gave of a queue, as opposed to what a queue has by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenQueue {
    pub partitions: Option<u32>,
    pub settings: SettingsChange,
    /// `Some(None)`: the queue is to have none.
    pub meta: Option<Option<Arc<str>>>,
}

/// Registry only: changes what is named and nothing else.
#[derive(Clone, Debug)]
pub struct UpdateQueue {
    pub name: QueueName,
    pub change: SettingsChange,
    /// Replaces [`crate::row::Queue::meta`]; `Some(None)` takes it away.
    pub meta: Option<Option<Arc<str>>>,
}

impl UpdateQueue {
    /// A change of settings alone.
    pub fn new(name: QueueName, change: SettingsChange) -> Self {
        Self { name, change, meta: None }
    }
}

/// Registry only: more partitions for a queue, or fewer once some are leased empty.
#[derive(Clone, Debug)]
pub struct Rebalance {
    pub name: QueueName,
    pub partitions: u32,
    /// For those that are new.
    pub stores: StoreNames,
}

/// Registry only: makes a partition that no queue names one of a queue's.
#[derive(Clone, Debug)]
pub struct Adopt {
    pub queue: QueueName,
    pub stored: Stored,
}

/// Registry only: sets a rule, or says anew what there is to say of it.
#[derive(Clone, Debug)]
pub struct SetRule {
    pub queue: QueueName,
    /// Unset: the whole queue.
    pub kind: Option<Arc<str>>,
    pub stop: Stop,
    pub reason: Option<Arc<str>>,
    /// When it lifts itself: in the future.
    pub until: Option<Timestamp>,
}

/// Registry only.
#[derive(Clone, Debug)]
pub struct LiftRule {
    pub queue: QueueName,
    /// Unset: the one on the whole queue.
    pub kind: Option<Arc<str>>,
    pub stop: Stop,
}

/// What a verb did.
#[derive(Debug)]
pub struct Applied<R> {
    /// For the caller, once the changes are durable. A refusal has no changes.
    pub reply: Result<R, Refusal>,
    pub changes: Vec<Change>,
    /// Part of the changes, and to be carried out before them.
    pub copies: Vec<BodyCopy>,
    pub news: Vec<News>,
    pub totals: Totals,
}

/// Answers [`ProduceOnce`].
#[derive(Clone, Debug, PartialEq)]
pub struct ProducedOnce {
    /// When the home of the key took note of the call for the first time.
    pub claimed_at: Timestamp,
    pub items: Each<Produced>,
}

/// Answers [`Cancel`]: the item after the cancel, also when nothing of it is kept. It is cancelled, or still leased with the
/// request noted, or as it ended before.
#[derive(Clone, Debug, PartialEq)]
pub struct Cancelled {
    pub item: Item,
    pub member: Option<Member>,
}

/// Answers [`CreateGroup`].
#[derive(Clone, Debug, PartialEq)]
pub struct GroupCreated {
    pub group: GroupView,
    pub items: Vec<Produced>,
}

/// Answers [`Redrive`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Redriven {
    pub count: u64,
    /// Unset when there was nothing more to look at.
    pub next: Option<RedriveCursor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Produced {
    pub number: ItemNumber,
    pub phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    pub number: ItemNumber,
    pub permit: Permit,
    pub kind: Arc<str>,
    pub priority: u8,
    /// This one included.
    pub attempts: u32,
    pub deadline: Timestamp,
    pub created_at: Timestamp,
    pub dead_timeout: Option<Span>,
    pub address: Option<Arc<str>>,
    pub origin: Option<Box<Origin>>,
    /// The name of the group it is a member of.
    pub group: Option<Arc<str>>,
    /// The store holds the answer that it was resumed with.
    pub has_input: bool,
    /// The number of its last event, or 0.
    pub event_count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// It will be leased again, at this time at the earliest.
    Again { due_at: Timestamp },
    /// It failed or expired, or was cancelled meanwhile.
    Ended(Phase),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    pub deadline: Timestamp,
    pub cancel_requested: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted {
    pub first_seq: u64,
    pub last_seq: u64,
    pub cancel_requested: bool,
}

/// A bound that waiting does not mend: something must be deleted, or the bound raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `limits.queues` of the configuration.
    Queues,
    /// `limits.partitions` of the configuration.
    Partitions,
    PartitionsPerQueue,
    Crons,
    CronsPerQueue,
    RulesPerQueue,
    // Numbers that are used up and never issued again.
    ItemNumbers,
    PartitionNumbers,
    QueueVersions,
    Clears,
}

/// Why a command was not carried out. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such item here, or one that is final and forgotten.
    NotFound,
    /// The permit is not, or no longer, the right to the item.
    LeaseLost {
        reason: Option<LeaseEnd>,
    },
    /// The last event is not the one that was to be the last.
    NotAfter {
        last_seq: u64,
    },
    /// Nobody waits for an answer to the item.
    NotSuspended,
    /// The item has ended, and what is asked for is for live ones.
    Ended,
    /// An item of that address is not final yet: this one.
    DuplicateAddress {
        number: ItemNumber,
    },
    /// As [`Refusal::DuplicateAddress`]; it is in a partition that was home to the address before.
    HeldElsewhere {
        id: ItemId,
    },
    /// Somebody else takes this by now: whoever sent it has not heard yet.
    Moved,
    /// Partitions of the queue are still being leased empty.
    Draining,
    /// The idempotency key was used for a call with other items.
    KeyTaken,
    /// Where to begin is not in the list, or not any more.
    NoSuchPivot,
    GroupExists,
    NoSuchGroup,
    /// The group is done or was cancelled, and what is asked for is for others.
    GroupFinished,
    /// The group is neither done nor aborted.
    GroupNotOver,
    QueueExists,
    /// There is a queue of that name, and this field of it, by its name in the API, is not as was given.
    QueueDiffers {
        field: &'static str,
    },
    /// The queue that a command names, or one that something of the command is to go to.
    NoSuchQueue {
        queue: Arc<str>,
    },
    /// The queue has no partition of that number.
    NoSuchPartition {
        queue: Arc<str>,
        partition: PartitionId,
    },
    /// No unclaimed partition of that number is in that store.
    NotUnclaimed,
    /// The unclaimed partition still has so many items that are not final, not yet where they are moved to, or owed by a
    /// group that ends; and so many crons.
    UnclaimedNotEmpty {
        live: u64,
        crons: u64,
    },
    /// The unclaimed partition cannot be read.
    UnclaimedDamaged {
        damage: Arc<str>,
    },
    /// A queue has a partition of that number, in another store.
    PartitionNamed {
        queue: Arc<str>,
    },
    /// A cron of the unclaimed partition has a name that another cron has.
    CronNamed {
        cron: Arc<str>,
    },
    /// The queue still has so many items that are not final, or not yet where they are moved to.
    NotEmpty {
        live: u64,
    },
    /// A bound of the partition is reached that time or work mends: what, and how many there may be.
    TooMany {
        what: &'static str,
        max: usize,
    },
    /// A bound is reached that waiting does not mend: which, and how many there may be.
    AtLimit {
        limit: Limit,
        max: usize,
    },
    /// A value that can never be right: which, and the rule it breaks.
    Invalid(Invalid),
    Cron(CronRefusal),
}

impl Refusal {
    pub fn no_such_queue(name: &QueueName) -> Self {
        Self::NoSuchQueue { queue: Arc::clone(&name.name) }
    }
}

/// What others may be waiting for. A hint: the state decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Some item can be leased that could not before.
    Available,
    /// Some item is on its way to another queue, or a cron to another partition.
    Outgoing,
    /// An item failed or expired, and there is no queue for it to go to.
    Died(Box<Died>),
    /// An item that is watched has ended: see [`crate::partition::Partition::watch`].
    Ended(Box<Ended>),
    /// An item that is followed has new events, or another state: see [`crate::partition::Partition::follow`].
    Changed(Box<Changed>),
}

/// How a live item stands after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub number: ItemNumber,
    pub phase: Phase,
    /// Whether that is another state than before.
    pub shifted: bool,
    /// Why, while it is suspended.
    pub reason: Option<Arc<str>>,
    pub at: Timestamp,
    /// The number of its last event.
    pub event_count: u64,
}

/// An item as it ended, whether or not anything of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub item: Item,
    /// What it was to its group, if it had one.
    pub member: Option<Member>,
    pub result: Option<Bytes>,
}

/// What there is to say of an item that nobody will work on any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Died {
    pub number: ItemNumber,
    pub kind: Arc<str>,
    pub attempts: u32,
    pub end: End,
    pub reason: MoveReason,
}
