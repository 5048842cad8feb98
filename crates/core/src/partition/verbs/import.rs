//! Items from elsewhere: as they were there, under new numbers, in the order given behind all there is.

use std::sync::Arc;

use bytes::Bytes;

use super::produce::stored_bytes;
use crate::footprint::Footprint;
use crate::headers::Hashes;
use crate::id::Permit;
use crate::item::{CronRun, Extras, ItemError, LastLease, LeaseEnd, Origin, State, Suspension};
use crate::limits::{Invalid, check_imports};
use crate::partition::create::{Bodies, Draft};
use crate::partition::verbs::route::Keys;
use crate::partition::verbs::suspend::suspended;
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::time::{Span, Timestamp};
use crate::verb::{Decided, Verb};
use crate::verbs::Produced;

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
    /// As that of a [`crate::verbs::NewItem`].
    pub group: Option<Arc<str>>,
    /// Unset: now.
    pub created_at: Option<Timestamp>,
    /// Unset, or before `created_at`: since it was made. In the future: now.
    pub changed_at: Option<Timestamp>,
    /// When its latest lease began, and who had it.
    pub started: Option<(Timestamp, Arc<str>)>,
    pub attempts: u32,
    /// Unset: waiting at once. In the past: it is started with whatever else is due.
    pub due_at: Option<Timestamp>,
    /// Unset: the queue's counts.
    pub max_attempts: Option<u32>,
    /// Counted from its making. Unset: any age, whatever the queue says of new items.
    pub dead_timeout: Option<Span>,
    /// As that of a [`crate::verbs::NewItem`].
    pub address: Option<Arc<str>>,
    /// The queue that the item was moved from before it came here.
    pub origin: Option<Box<Origin>>,
    /// The cron that made the item.
    pub cron: Option<Box<CronRun>>,
    pub error: Option<ItemError>,
    /// Set: the item waits for an answer, whenever it is due.
    pub suspended: Option<Box<Suspension>>,
    /// `body`, `facts` and `hashes` are as in [`crate::verbs::NewItem`].
    pub body: Bytes,
    pub facts: Option<Bytes>,
    pub hashes: Hashes,
}

impl ImportItem {
    /// As that of a [`crate::verbs::NewItem`].
    pub fn key(&self) -> Option<&str> {
        self.group.as_deref().or(self.address.as_deref())
    }

    pub(crate) fn bytes(&self) -> usize {
        let origin = self.origin.as_ref().and_then(|origin| origin.error.as_ref());
        let errors = self.error.iter().chain(origin);
        let errors = errors
            .map(|ItemError { code, message }| message.len() + code.as_ref().map_or(0, |code| code.len()));
        let clients = self.started.iter().map(|(_, client_id)| client_id.len());
        errors.chain(clients).sum::<usize>()
            + stored_bytes(&self.body, self.facts.as_ref(), self.address.as_ref())
    }
}

impl Verb for Import {
    type Reply = Each<Produced>;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        check_imports(&self.items)
    }

    fn body_bytes(&self) -> usize {
        self.items.iter().map(ImportItem::bytes).sum()
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.import(now, self, out)
    }
}

impl Partition {
    /// All of them or none, but for those whose group does not take them or whose address is taken.
    fn import(
        &mut self,
        now: Timestamp,
        import: Import,
        out: &mut Output,
    ) -> Result<Each<Produced>, Refusal> {
        self.check_intake(import.items.iter().map(Keys::of_import))?;
        self.check_kinds_left(import.items.iter().map(|item| &*item.kind))?;
        self.check_numbers_left(now, import.items.len())?;
        out.changes.reserve(2 * import.items.len() + 1);
        let import_one = |item| self.import_one(now, item, out);
        Ok(import.items.into_iter().map(import_one).collect())
    }

    fn import_one(
        &mut self,
        now: Timestamp,
        item: ImportItem,
        out: &mut Output,
    ) -> Result<Produced, Refusal> {
        let group = self.group_to_join(item.group.as_deref())?;
        self.check_address_free(item.address.as_ref())?;
        let created_at = item.created_at.unwrap_or(now);
        let changed_at = item.changed_at.map(|at| at.min(now)).filter(|at| *at > created_at);
        // Also if it is due by now: the sweep starts those that are, in the order of their times.
        let state = match (item.suspended, item.due_at) {
            (Some(suspension), _) => suspended(suspension.reason),
            (None, Some(due_at)) => State::Scheduled { due_at },
            (None, None) => State::Waiting { since: changed_at.unwrap_or(created_at) },
        };
        let changed_at = changed_at.filter(|_| !matches!(state, State::Waiting { .. }));
        let last_lease =
            item.started.map(|(leased_at, client_id)| before_import(leased_at, client_id, &state));
        let extras = Extras {
            last_lease,
            changed_at,
            max_attempts: item.max_attempts,
            dead_timeout: item.dead_timeout.filter(|timeout| *timeout != Span::ZERO),
            address: item.address,
            origin: item.origin,
            cron: item.cron,
            error_attempt: if item.error.is_some() { item.attempts } else { 0 },
            error: item.error,
            ..Extras::default()
        };
        out.totals.produced += 1;
        let draft = Draft {
            kind: &item.kind,
            priority: item.priority,
            group,
            created_at,
            attempts: item.attempts,
            state,
            extras,
            bodies: Bodies::Given { payload: Some(item.body), facts: item.facts, attempts: Vec::new() },
            hashes: item.hashes,
        };
        Ok(self.create(now, draft, out))
    }
}

/// The latest lease of an imported item. No permit to it is worth anything here, and what became of it matters only for the
/// place of the item.
fn before_import(leased_at: Timestamp, client_id: Arc<str>, state: &State) -> LastLease {
    let end = match state {
        State::Suspended(_) => LeaseEnd::Suspended,
        State::Scheduled { .. } | State::Waiting { .. } | State::Leased(_) | State::Final(_) => {
            LeaseEnd::Retried
        }
    };
    LastLease { permit: Permit::NONE, end, client_id, leased_at }
}
