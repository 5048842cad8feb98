//! Waiting items sent on to other queues, mostly back to where they came from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::footprint::Footprint;
use crate::id::ItemNumber;
use crate::item::{End, MoveReason, Outgoing};
use crate::limits::{Invalid, check_kind, check_name};
use crate::partition::death::outgoing;
use crate::partition::index::lanes::{Key, Lane};
use crate::partition::{Output, Partition};
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};

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
    /// The dead letters that are to have an address, as [`Partition::addressed_letters`] tells of them, and whether that address
    /// is free. The slice ends before a dead letter that was not asked about.
    pub asked: BTreeMap<ItemNumber, Asked>,
}

/// Whether a dead letter can have the address that it had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Free,
    /// The dead letter stays.
    Taken,
}

/// A dead letter that had an address where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressedLetter {
    pub number: ItemNumber,
    /// The queue that the dead letter would go to.
    pub to: Arc<str>,
    pub address: Arc<str>,
}

#[derive(Clone, Debug)]
pub enum RedriveTo {
    Queue(Arc<str>),
    /// Where each came from, if that is one of these: those that came from nowhere, or from a queue that is gone, stay,
    /// and so does what was rerun.
    Origins(Arc<BTreeSet<Arc<str>>>),
}

/// How far a redrive has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedriveCursor {
    /// The order and the number of the last item looked at.
    pub(crate) after: (u64, ItemNumber),
    /// The last item that was made before the redrive began. Later ones may have been sent back already.
    pub(crate) until: ItemNumber,
}

/// Answers [`Redrive`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Redriven {
    pub count: u64,
    /// Dead letters that stay because their address is taken.
    pub skipped: u64,
    /// Unset when there was nothing more to look at.
    pub next: Option<RedriveCursor>,
}

/// Items that one slice looks at.
const LOOK_MAX: usize = 100;

impl Verb for Redrive {
    type Reply = Redriven;
    const FOOTPRINT: Footprint = Footprint::Rewrites;

    fn check(&self) -> Result<(), Invalid> {
        if let RedriveTo::Queue(to) = &self.to {
            check_name("to", to)?;
        }
        self.kind.as_deref().map_or(Ok(()), check_kind)
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        Ok(partition.redrive(now, &self, out))
    }
}

impl Partition {
    /// The items leave in the same step, so that nobody leases what is on its way.
    fn redrive(&mut self, now: Timestamp, redrive: &Redrive, out: &mut Output) -> Redriven {
        let begin = redrive.from.unwrap_or_else(|| self.redrive_begin());
        let until = begin.until;
        let mut heads = self.lanes_after(redrive);
        let mut done = Redriven { count: 0, skipped: 0, next: Some(begin) };
        for _ in 0..LOOK_MAX {
            let Some((key, lane)) = heads.pop_first() else { return Redriven { next: None, ..done } };
            if done.count as usize == redrive.limit {
                break;
            }
            heads.extend(self.key_after(lane, key));
            if let Some(to) = self.redrive_to(now, key.1, until, redrive) {
                let address = self.address_before(key.1);
                match address.as_ref().map(|_| redrive.asked.get(&key.1)) {
                    None | Some(Some(Asked::Free)) => {
                        self.redrive_one(now, key.1, to, address, out);
                        done.count += 1;
                    }
                    Some(Some(Asked::Taken)) => done.skipped += 1,
                    Some(None) => break,
                }
            }
            done.next = Some(RedriveCursor { after: key, until });
        }
        done
    }

    /// Where a redrive of all that waits now begins.
    pub fn redrive_begin(&self) -> RedriveCursor {
        RedriveCursor { after: (0, ItemNumber(0)), until: ItemNumber(self.numbers.item) }
    }

    /// The dead letters of the next slice that had an address where they came from.
    pub fn addressed_letters(&self, now: Timestamp, redrive: &Redrive) -> Vec<AddressedLetter> {
        let until = redrive.from.unwrap_or_else(|| self.redrive_begin()).until;
        let mut heads = self.lanes_after(redrive);
        let mut letters = Vec::new();
        for _ in 0..LOOK_MAX {
            let Some((key, lane)) = heads.pop_first() else { break };
            heads.extend(self.key_after(lane, key));
            let letter = self.redrive_to(now, key.1, until, redrive).zip(self.address_before(key.1));
            letters.extend(letter.map(|(to, address)| AddressedLetter { number: key.1, to, address }));
        }
        letters
    }

    /// The address that a dead letter had where it came from.
    fn address_before(&self, number: ItemNumber) -> Option<Arc<str>> {
        self.items.get(&number)?.extras.as_ref()?.origin.as_ref()?.address.clone()
    }

    /// The first item of each lane it takes from that it has not looked at yet.
    fn lanes_after(&self, redrive: &Redrive) -> BTreeSet<(Key, Lane)> {
        let wanted =
            |lane: &Lane| redrive.kind.as_ref().is_none_or(|kind| self.kinds.name(lane.kind) == kind);
        let lanes = self.lanes.open().map(|(lane, _)| lane).filter(wanted);
        match redrive.from {
            None => lanes.filter_map(|lane| Some((self.lanes.first_of(lane)?, lane))).collect(),
            Some(from) => lanes.filter_map(|lane| self.key_after(lane, from.after)).collect(),
        }
    }

    fn key_after(&self, lane: Lane, (rank, number): Key) -> Option<(Key, Lane)> {
        let keys = self.lanes.open_lane(lane)?;
        keys.range((rank, ItemNumber(number.0 + 1))..).next().map(|(key, ())| (key, lane))
    }

    /// What is overdue is left to expire.
    fn redrive_to(
        &self,
        now: Timestamp,
        number: ItemNumber,
        until: ItemNumber,
        redrive: &Redrive,
    ) -> Option<Arc<str>> {
        let entry = self.items.get(&number).expect("items in lanes are always in `items`");
        if number > until || entry.is_overdue(now) {
            return None;
        }
        match &redrive.to {
            RedriveTo::Queue(to) => Some(to.clone()),
            RedriveTo::Origins(queues) => {
                let origin = entry.extras.as_ref()?.origin.as_ref()?;
                // What was rerun came from this very queue.
                if origin.reason == MoveReason::Rerun {
                    return None;
                }
                queues.get(&origin.queue).cloned()
            }
        }
    }

    fn redrive_one(
        &mut self,
        now: Timestamp,
        number: ItemNumber,
        to: Arc<str>,
        address: Option<Arc<str>>,
        out: &mut Output,
    ) {
        let last = self.items.get(&number).expect("items in lanes are always in `items`").clone();
        out.totals.redriven += 1;
        let outgoing = Outgoing { address, ..outgoing(to, MoveReason::Redrive) };
        self.send(now, number, last, End::Cancelled, outgoing, out);
    }
}
