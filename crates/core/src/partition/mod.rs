//! One partition: a state machine over its rows.
//!
//! `apply` decides; the files named after verbs hold what each decides. They write through two functions of
//! [`rows`], which alone touch the indexes, live and at recovery. Everything else here only reads.

mod attempts;
mod audit;
mod create;
pub(crate) mod crons;
mod death;
mod entry;
mod events;
mod finish;
pub(crate) mod groups;
mod headers;
pub(crate) mod held;
mod index;
pub(crate) mod moves;
pub(crate) mod numbers;
pub(crate) mod queries;
mod rows;
pub(crate) mod rules;
mod sweep;
pub(crate) mod verbs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use events::oldest_of as oldest_event_of;
pub use index::counts::{Counts, Totals};
pub use index::lingering::Lingering;
pub use moves::crons::StrayCron;
pub use moves::leave::Target;
pub use queries::errors::{ERROR_CODES_MAX, ErrorCode, OTHER_CODES};
pub use queries::explain::{Explained, Reason};
pub use queries::find::{Between, Find, FindOrder, FindSlice, Found, FoundItem};
pub use queries::head::Head;
pub use verbs::lease::PASSED_MAX;
pub use verbs::route::Remaining;

use crate::containers::SortedMap;
use crate::group::Ended;
use crate::id::{ItemNumber, PartitionId};
use crate::machine::{Applied, Machine};
use crate::news::News;
use crate::refusal::Refusal;
use crate::route::Slot;
use crate::row::{self, BodyCopy, Change, Clearable, Cleared, Intake, Numbers, Row, Taken};
use crate::rule::index::Rules;
use crate::settings::Settings;
use crate::time::{Span, Timestamp};
use crate::verb::Verb;
use attempts::Logged;
use crons::index::Crons;
use crons::run::LastRead;
use entry::Entry;
use events::Events;
use groups::index::{GroupIndex, Groups};
use index::addresses::Addresses;
use index::ages::Ages;
use index::eras::Eras;
use index::findable::Finders;
use index::kinds::Kinds;
use index::lanes::{Index, Key};
use moves::outbox::Outbox;
use sweep::OWN_BYTES_MAX;
use verbs::once::Calls;

pub struct Partition {
    id: PartitionId,
    /// An input like time, and in no row: see [`Partition::new`].
    acquired_at: Timestamp,
    /// Live items whose end is to be told: in no row either.
    watched: BTreeSet<ItemNumber>,
    /// Live items of which everything is to be told, also in no row.
    followed: BTreeSet<ItemNumber>,
    /// In no row: see [`Partition::hold_crons_until`].
    crons_held_until: Timestamp,
    /// In no row: see [`Partition::limit_own_bytes`].
    own_bytes_max: u64,
    /// The crons that belong to another partition and wait for one to be chosen, as far as they were looked at: in no row.
    crons_leaving: BTreeSet<Arc<str>>,

    // What the rows say.
    items: SortedMap<ItemNumber, Entry>,
    numbers: Numbers,
    settings: Settings,
    cleared: Cleared,
    intake: Intake,
    /// By the partition that was taken from.
    taken: BTreeMap<PartitionId, Taken>,
    /// Those that are not to be carried out again.
    calls: Calls,
    /// The spans of the batches that are kept.
    events: Events,
    /// Copies of the queue's rules.
    rules: Rules,
    crons: Crons,

    // Derived from it.
    kinds: Kinds,
    /// Their rows, and what is known of their members.
    groups: Groups,
    /// Waiting and held items by priority and place.
    lanes: Index,
    /// Scheduled items by the time they are due.
    schedule: Index,
    /// Leased items by the time their lease ends.
    deadlines: Index,
    /// Leased items by priority and place: so that they can be shown among those that wait.
    leased_places: Eras<Key>,
    /// Leased items as they were produced.
    leased: Eras<ItemNumber>,
    /// Suspended items by priority and place.
    suspended: Index,
    finders: Finders,
    /// Items that nobody holds and that may not grow any age, by the time they expire: those that were cleared too.
    expiry: SortedMap<Key, ()>,
    outbox: Outbox,
    addresses: Addresses,
    /// How many keys are known here of each slot that is at home elsewhere.
    lingering: BTreeMap<Slot, u64>,
    /// Final items by the time of their end.
    finished: SortedMap<Key, ()>,
    kept_bytes: u64,
    counts: Counts,
    /// How many live items have something to show, by state and era: what is left of them when they are taken away all at
    /// once.
    traces: BTreeMap<(Clearable, u32), u64>,
    /// How many of them are members of groups that were cancelled, and went away with them unless they were cleared before.
    kept_of_cancelled: BTreeMap<(Clearable, u32), u64>,
    /// Waiting items by era and priority. Not those of groups that are shut.
    priorities: BTreeMap<(u32, u8), u64>,
    ages: Ages,
    schedules: LastRead,
}

/// Changes, news and totals of the verb that is being carried out.
#[derive(Debug, Default)]
pub struct Output {
    now: Timestamp,
    changes: Vec<Change>,
    copies: Vec<BodyCopy>,
    news: Vec<News>,
    /// Set once a number was issued.
    numbers: Option<Numbers>,
    /// An attempt that is to be stored with the item that is written next.
    attempt: Option<Logged>,
    /// Members that ended, of each group: their rows are written once, at the end of the verb.
    ended: BTreeMap<GroupIndex, Ended>,
    /// What items made by groups and crons have come to.
    made_bytes: u64,
    /// How many of `changes` are in `changes_bytes`.
    changes_weighed: usize,
    /// What the first `changes_weighed` of `changes` come to.
    changes_bytes: u64,
    /// Batches of events that are not kept any more: one change takes many.
    batches_erased: usize,
    /// Whether something can be leased that could not before.
    available: bool,
    /// Whether something is on its way to another queue that was not before.
    outgoing: bool,
    totals: Totals,
    /// How long each item that was leased had waited.
    waited: Vec<Span>,
}

impl Partition {
    /// No lease ends before the shorter of its timeout and ten seconds has passed since `acquired_at`: while the
    /// partition had no owner, its workers had nobody to extend their leases with.
    pub fn new(id: PartitionId, acquired_at: Timestamp) -> Self {
        Self {
            id,
            acquired_at,
            watched: BTreeSet::new(),
            followed: BTreeSet::new(),
            crons_held_until: Timestamp(0),
            own_bytes_max: OWN_BYTES_MAX,
            crons_leaving: BTreeSet::new(),
            items: SortedMap::new(),
            numbers: Numbers::default(),
            settings: Settings::default(),
            cleared: Cleared::default(),
            intake: Intake::default(),
            taken: BTreeMap::new(),
            calls: Calls::default(),
            events: Events::default(),
            rules: Rules::default(),
            crons: Crons::default(),
            kinds: Kinds::default(),
            groups: Groups::default(),
            lanes: Index::default(),
            schedule: Index::default(),
            deadlines: Index::default(),
            leased_places: Eras::default(),
            leased: Eras::default(),
            suspended: Index::default(),
            finders: Finders::default(),
            expiry: SortedMap::new(),
            outbox: Outbox::default(),
            addresses: Addresses::default(),
            lingering: BTreeMap::new(),
            finished: SortedMap::new(),
            kept_bytes: 0,
            counts: Counts::default(),
            traces: BTreeMap::new(),
            kept_of_cancelled: BTreeMap::new(),
            priorities: BTreeMap::new(),
            ages: Ages::default(),
            schedules: LastRead::default(),
        }
    }

    /// Carries the verb out, or refuses it and changes nothing. The changes are in force here at once; whoever calls makes
    /// them durable before anybody hears of them.
    pub fn apply<V: Verb>(&mut self, now: Timestamp, verb: V) -> Applied<V::Reply> {
        // Groups that had to wait are the sweep's: no verb grows by what was left over.
        let sees_to_groups = self.groups.first_due().is_none();
        self.act(now, sees_to_groups, |partition, out| {
            verb.check().map_err(Refusal::Invalid)?;
            verb.decide(partition, now, out)
        })
    }

    fn act<R>(
        &mut self,
        now: Timestamp,
        sees_to_groups: bool,
        decide: impl FnOnce(&mut Self, &mut Output) -> Result<R, Refusal>,
    ) -> Applied<R> {
        let mut out = Output { now, ..Output::default() };
        let reply = decide(self, &mut out);
        if reply.is_ok() {
            self.end_groups(now, sees_to_groups, &mut out);
        }
        if let Some(numbers) = out.numbers.take() {
            self.record(Row::Numbers(numbers), &mut out);
        }
        if out.available {
            out.news.push(News::Available);
        }
        if out.outgoing {
            out.news.push(News::Outgoing);
        }
        assert!(reply.is_ok() || out.changes.is_empty(), "a refused verb changed something");
        assert!(out.attempt.is_none(), "an attempt was logged of an item that was not written");
        let Output { changes, copies, news, totals, waited, .. } = out;
        Applied { reply, changes, copies, news, totals, waited }
    }

    /// Carries out one part of a verb as if the part were a verb of its own: groups that it leaves without live members end
    /// before the next part.
    fn carry_out_part(
        &mut self,
        now: Timestamp,
        out: &mut Output,
        decide: impl FnOnce(&mut Self, &mut Output),
    ) {
        let sees_to_groups = self.groups.first_due().is_none();
        decide(self, out);
        self.end_groups(now, sees_to_groups, out);
    }

    fn end_groups(&mut self, now: Timestamp, sees_to_groups: bool, out: &mut Output) {
        self.count_ended(now, out);
        while sees_to_groups && self.settle_next_group(now, out) {}
    }
}

impl Machine for Partition {
    type Output = Output;

    fn put(&mut self, row: Row) {
        self.put(row);
    }

    fn remove(&mut self, key: &row::Key) {
        self.remove(key);
    }

    fn rows(&self) -> impl Iterator<Item = Row> {
        self.rows()
    }

    fn apply<V: Verb>(&mut self, now: Timestamp, verb: V) -> Applied<V::Reply> {
        self.apply(now, verb)
    }

    fn sweep(&mut self, now: Timestamp, limit: usize) -> Applied<usize> {
        self.sweep(now, limit)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.next_due()
    }
}
