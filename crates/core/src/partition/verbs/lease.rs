//! Handing items to workers: the best first, by priority and place, over the kinds the worker will take.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::footprint::Footprint;
use crate::id::{ItemId, ItemNumber, Permit};
use crate::item::{CronRun, ItemError, Lease, Origin, State};
use crate::limits::{Invalid, check_lease};
use crate::partition::entry::Entry;
use crate::partition::index::kinds::KindIndex;
use crate::partition::index::lanes::Key;
use crate::partition::rows::priority_of;
use crate::partition::{Output, Partition};
use crate::time::{Span, Timestamp};
use crate::verb::{Decided, Verb};
use crate::verbs::Held;

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

/// An item as it is leased: what a worker is told besides the bodies, which only the store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    pub id: ItemId,
    pub permit: Permit,
    pub kind: Arc<str>,
    pub priority: u8,
    /// Attempts, this lease included.
    pub attempts: u32,
    /// The item's own limit, else the queue's. 0: no limit.
    pub max_attempts: u32,
    pub deadline: Timestamp,
    pub created_at: Timestamp,
    /// Unset: the item may grow any age.
    pub dead_timeout: Option<Span>,
    pub address: Option<Arc<str>>,
    /// Set for an item that was moved.
    pub origin: Option<Box<Origin>>,
    /// The cron that made the item.
    pub cron: Option<Box<CronRun>>,
    /// Of the attempt before, if its worker reported one.
    pub error: Option<ItemError>,
    /// The name of the group that the item is a member of.
    pub group: Option<Arc<str>>,
    /// The store holds the answer that the item was resumed with.
    pub has_input: bool,
    /// The number of the item's last event, or 0.
    pub event_count: u64,
}

impl Leased {
    pub fn held(&self) -> Held {
        Held { id: self.id, permit: self.permit }
    }
}

/// Items that one lease ends in passing, because they are overdue or lack their payload. Later leases end the rest, and
/// the sweep those that are overdue.
pub const PASSED_MAX: usize = 100;

/// Never refused.
impl Verb for LeaseItems {
    type Reply = Vec<Leased>;
    const FOOTPRINT: Footprint = Footprint::Rewrites;

    fn check(&self) -> Result<(), Invalid> {
        check_lease(self)
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        Ok(partition.lease(now, self, out))
    }
}

impl Partition {
    pub(in crate::partition) fn lease(
        &mut self,
        now: Timestamp,
        lease: LeaseItems,
        out: &mut Output,
    ) -> Vec<Leased> {
        let timeout = lease.lease_timeout.unwrap_or(self.settings.lease_timeout);
        let mut source = self.source(&lease.filter);
        let expected = lease.batch_size.min(self.counts.waiting as usize);
        out.changes.reserve(expected + 1);
        out.waited.reserve(expected);
        let mut leased = Vec::with_capacity(expected);
        let mut passed = 0;
        while leased.len() < lease.batch_size {
            let Some((rank, number)) = self.next_of(&mut source) else { break };
            if priority_of(rank) > lease.filter.max_priority {
                break;
            }
            let is_overdue = self.is_overdue(number, now);
            if is_overdue || self.lacks_payload(number) {
                if passed == PASSED_MAX {
                    break;
                }
                passed += 1;
                if is_overdue {
                    self.expire(number, out);
                } else {
                    self.fail_without_payload(now, number, out);
                }
                self.moved_on(&mut source);
                continue;
            }
            let Some(permit) = self.issue_permit(now, out) else { break };
            leased.push(self.grant(now, number, permit, &lease, timeout, out));
            self.moved_on(&mut source);
        }
        leased
    }

    fn grant(
        &mut self,
        now: Timestamp,
        number: ItemNumber,
        permit: Permit,
        asked: &LeaseItems,
        timeout: Span,
        out: &mut Output,
    ) -> Leased {
        let entry = self.items.get(&number).expect("items in lanes are always in `items`");
        out.waited.push(self.waited(now, entry));
        let lease = Lease {
            permit,
            client_id: asked.client_id.clone(),
            leased_at: now,
            deadline: now + timeout,
            timeout,
            cancel_requested: false,
        };
        let mut next = entry.with_state(State::Leased(Box::new(lease)));
        // Counted when granted: a worker that dies must still use up an attempt.
        next.attempts = next.attempts.saturating_add(1);
        let extras = next.extras.as_deref();
        let leased = Leased {
            id: ItemId { number, partition: self.id },
            permit,
            kind: self.kinds.name(next.kind).clone(),
            priority: next.priority,
            attempts: next.attempts,
            max_attempts: self.max_attempts(&next),
            deadline: now + timeout,
            created_at: next.created_at,
            dead_timeout: extras.and_then(|extras| extras.dead_timeout),
            address: next.address().cloned(),
            origin: extras.and_then(|extras| extras.origin.clone()),
            cron: extras.and_then(|extras| extras.cron.clone()),
            error: extras.and_then(|extras| extras.error_before(next.attempts)),
            group: next.group.and_then(|group| self.group_name(group)),
            has_input: extras.is_some_and(|extras| extras.has_input),
            event_count: next.event_count(),
        };
        self.write(number, next, out);
        out.totals.leased += 1;
        leased
    }

    /// How long an item of a lane has waited.
    fn waited(&self, now: Timestamp, entry: &Entry) -> Span {
        let State::Waiting { since } = entry.state else { unreachable!("only waiting items are leased") };
        now - self.waiting_since(since, entry)
    }

    fn source(&self, filter: &Filter) -> Source {
        match &filter.kinds {
            None => Source::AllKinds,
            Some(kinds) => {
                let kinds = kinds.iter().filter_map(|kind| self.kinds.find(kind));
                Source::Kinds(kinds.filter_map(|kind| self.head_of(kind)).collect())
            }
        }
    }

    fn head_of(&self, kind: KindIndex) -> Option<(Key, KindIndex)> {
        self.lanes.first_of_kind(kind).map(|key| (key, kind))
    }

    fn next_of(&self, source: &mut Source) -> Option<Key> {
        match source {
            Source::AllKinds => self.lanes.first(),
            Source::Kinds(heads) => heads.first().map(|(key, _)| *key),
        }
    }

    /// After the first item of a kind was taken, the next one stands for the kind.
    fn moved_on(&self, source: &mut Source) {
        match source {
            Source::AllKinds => {}
            Source::Kinds(heads) => {
                if let Some((_, kind)) = heads.pop_first() {
                    heads.extend(self.head_of(kind));
                }
            }
        }
    }
}

/// Where a lease takes from.
enum Source {
    AllKinds,
    /// The first item of each kind: a set, so that a kind named twice counts once.
    Kinds(BTreeSet<(Key, KindIndex)>),
}
