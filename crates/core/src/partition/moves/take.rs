//! The target's side of moves: each item and each cron is taken once, whatever is sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::cron::Cron;
use crate::footprint::Footprint;
use crate::headers::Hashes;
use crate::id::{ItemNumber, PartitionId};
use crate::item::{CronRun, Extras, MoveNumber, MoveReason, Origin};
use crate::limits::{Invalid, check_batch, check_kind};
use crate::mutant::{self, Mutant};
use crate::partition::create::{Bodies, Draft};
use crate::partition::{Output, Partition};
use crate::refusal::Refusal;
use crate::row::{Row, Taken};
use crate::time::{Span, Timestamp};
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};

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
    /// `body` is the payload as in [`crate::verbs::NewItem::body`], unset if it is lost. For a cron: the payload of the items that it makes.
    pub body: Option<Bytes>,
    /// `facts` are encoded as in [`crate::verbs::NewItem::facts`].
    pub facts: Option<Bytes>,
    /// The attempt log of an item, the oldest first: see [`crate::attempt`].
    pub attempts: Vec<Bytes>,
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
    pub cron: Option<Box<CronRun>>,
    /// The address that the item gets if it is free. If not, a rerun is turned away, and any other item is taken without the
    /// address, which its origin tells then.
    pub address: Option<Arc<str>>,
    /// Whether a live item has the address in its former home, which does not see this item.
    pub address_taken: bool,
    /// `enqueue_at`, `max_attempts` and `dead_timeout` are unset except for group end items and reruns; see
    /// [`crate::verbs::NewItem`].
    pub enqueue_at: Option<Timestamp>,
    pub max_attempts: Option<u32>,
    pub dead_timeout: Option<Span>,
    /// Header hashes; see `hashes` of [`crate::verbs::NewItem`].
    pub hashes: Hashes,
}

/// Answers [`Take`], and tells the source of moves what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// The last move that was taken.
    pub last: MoveNumber,
    /// The items that the latest moves became. Crons are not in it.
    pub items: BTreeMap<MoveNumber, ItemNumber>,
    /// Reruns among the latest moves whose address was not free.
    pub turned_away: BTreeSet<MoveNumber>,
}

impl Verb for Take {
    type Reply = Arrived;
    const FOOTPRINT: Footprint = Footprint::Grows;
    const URGENCY: Urgency = Urgency::Settling;

    fn check(&self) -> Result<(), Invalid> {
        check_batch("moves", self.moves.len())?;
        self.moves.iter().try_for_each(|moved| check_kind(moved.what.kind()))
    }

    fn body_bytes(&self) -> usize {
        let bodies =
            self.moves.iter().flat_map(|moved| moved.body.iter().chain(&moved.facts).chain(&moved.attempts));
        bodies.map(Bytes::len).sum()
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.take(now, self, out)
    }
}

impl Partition {
    /// What was taken before is passed over. `max_items` does not count here: what is moved was accepted once.
    fn take(&mut self, now: Timestamp, take: Take, out: &mut Output) -> Result<Arrived, Refusal> {
        let Take { source, mut moves } = take;
        let Arrived { last, mut items, mut turned_away } = self.arrived_from(source);
        let first = moves.first().map(|moved| moved.number);
        moves.retain(|moved| moved.number > last || mutant::active(Mutant::TakeTwice));
        let Some(newest) = moves.iter().map(|moved| moved.number).max() else {
            return Ok(Arrived { last, items, turned_away });
        };
        // The source has forgotten all moves before the first that it sends.
        let is_remembered = |moved: &MoveNumber| first.is_none_or(|first| *moved >= first);
        items.retain(|moved, _| is_remembered(moved));
        turned_away.retain(is_remembered);
        self.check_arrivals(&moves)?;
        self.check_kinds_left(moves.iter().map(|moved| moved.what.kind()))?;
        self.check_numbers_left(now, moves.len())?;
        out.changes.reserve(2 * moves.len() + 2);
        for Move { number, what, body, facts, attempts } in moves {
            match what {
                Arriving::Item(item) => {
                    let bodies = Bodies::Given { payload: body, facts, attempts };
                    match self.take_item(now, *item, bodies, out) {
                        Some(item) => {
                            items.insert(number, item);
                        }
                        None => {
                            turned_away.insert(number);
                        }
                    }
                }
                Arriving::Cron(cron) => self.take_cron(now, source, *cron, body, facts, out),
            }
        }
        let unknown = self.taken.get(&source).map_or_else(Vec::new, |taken| taken.unknown.clone());
        let arrived = Arrived { last: newest.max(last), items, turned_away };
        self.record(Row::Taken(Taken { source, arrived: arrived.clone(), unknown }), out);
        Ok(arrived)
    }

    /// What was taken from a partition.
    pub fn arrived_from(&self, source: PartitionId) -> Arrived {
        self.taken.get(&source).map_or_else(Arrived::default, |taken| taken.arrived.clone())
    }

    /// The last move that was taken from a partition.
    pub fn last_taken(&self, source: PartitionId) -> MoveNumber {
        self.taken.get(&source).map_or(MoveNumber::default(), |taken| taken.arrived.last)
    }

    /// Those that something was taken from.
    pub fn taken_from(&self) -> Vec<PartitionId> {
        self.taken.keys().copied().collect()
    }

    /// `None`: the item is turned away, because the work that has its address must not run twice.
    fn take_item(
        &mut self,
        now: Timestamp,
        mut moved: ArrivingItem,
        bodies: Bodies<'_>,
        out: &mut Output,
    ) -> Option<ItemNumber> {
        let is_taken = moved.address_taken || self.check_address_free(moved.address.as_ref()).is_err();
        if is_taken
            && moved.origin.reason == MoveReason::Rerun
            && !mutant::active(Mutant::RerunWithoutAddress)
        {
            return None;
        }
        if is_taken {
            moved.origin.address = moved.address.take();
        }
        out.totals.moved_in += 1;
        let extras = Extras {
            max_attempts: moved.max_attempts,
            dead_timeout: self.dead_timeout(moved.dead_timeout),
            address: moved.address,
            origin: Some(Box::new(moved.origin)),
            cron: moved.cron,
            ..Extras::default()
        };
        let draft = Draft {
            priority: moved.priority,
            extras,
            hashes: moved.hashes,
            ..Draft::new(now, &moved.kind, moved.enqueue_at, bodies)
        };
        Some(self.create(now, draft, out).number)
    }
}
