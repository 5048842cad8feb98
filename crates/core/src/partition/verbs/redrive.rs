//! Waiting items sent on to other queues, mostly back to where they came from.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::footprint::Footprint;
use crate::id::ItemNumber;
use crate::item::{End, MoveReason};
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
    /// The last item that was made before the redrive began. Later ones may have been sent back already.
    pub(crate) until: ItemNumber,
}

/// Answers [`Redrive`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Redriven {
    pub count: u64,
    /// Unset when there was nothing more to look at.
    pub next: Option<RedriveCursor>,
}

/// Items that one slice looks at, fewer if they have many events to be forgotten.
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
    /// The items leave in the same step, so that nobody leases what is on its way; nothing of them is kept here.
    fn redrive(&mut self, now: Timestamp, redrive: &Redrive, out: &mut Output) -> Redriven {
        let until = redrive.from.map_or(ItemNumber(self.numbers.item), |from| from.until);
        let mut heads = self.lanes_after(redrive);
        let mut count = 0;
        let mut next = None;
        for looked in 0..LOOK_MAX {
            if out.weight(looked) >= LOOK_MAX {
                break;
            }
            let Some((key, lane)) = heads.pop_first() else { return Redriven { count, next: None } };
            if count as usize == redrive.limit {
                return Redriven { count, next };
            }
            heads.extend(self.key_after(lane, key));
            if let Some(to) = self.redrive_to(now, key.1, until, redrive) {
                self.redrive_one(now, key.1, to, out);
                count += 1;
            }
            next = Some(RedriveCursor { after: key, until });
        }
        Redriven { count, next }
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
                queues.get(&origin.queue).cloned()
            }
        }
    }

    fn redrive_one(&mut self, now: Timestamp, number: ItemNumber, to: Arc<str>, out: &mut Output) {
        let last = self.items.get(&number).expect("items in lanes are always in `items`").clone();
        out.totals.redriven += 1;
        // Cancelled, for whoever looks at the row: it was taken away from here.
        self.send(now, number, last, End::Cancelled, outgoing(to, MoveReason::Redrive, true), out);
    }
}
