//! Filling leases, from what there is or what comes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_core::command::{Command, LeaseItems, Leased, Refusal};
use windlass_core::id::{ItemId, PartitionId};
use windlass_core::limits;
use windlass_core::partition::Head;
use windlass_core::row::Part;
use windlass_core::time::{Span, Timestamp};

use super::{QueueHandle, fault};
use crate::error::EngineError;
use crate::partition::grant::GrantPart;
use crate::partition::handle::Handle;
use crate::partition::message::{Answer, Done};
use crate::partition::sound;
use crate::partition::waiters::Waited;
use crate::store::StoreError;
use crate::types::{Grant, Granted};

/// An answer takes no further bodies once it has come to so many bytes.
const GRANT_BYTES_MAX: usize = 32 << 20;
/// Bodies that are read at first, when nothing is known of their sizes.
const FIRST_SLICE: usize = 4;

impl QueueHandle {
    /// What there is, up to the batch size; waits up to `wait` for the first item.
    pub(crate) async fn lease(&self, lease: LeaseItems, wait: Span) -> Result<Grant, EngineError> {
        limits::check_lease(&lease).map_err(Refusal::Invalid)?;
        if lease.filter.kinds.as_ref().is_some_and(|kinds| kinds.is_empty()) {
            return Ok(Grant::default());
        }
        let deadline = self.env.boot() + Duration::from(wait);
        let mut grant = Vec::new();
        let refused = self.fill(&lease, &mut grant).await;
        if let Err(error) = &refused
            && grant.is_empty()
            && error.is_store_full()
        {
            return Err(error.clone());
        }
        if grant.is_empty() && wait > Span::ZERO {
            self.wait_for_work(&lease, deadline, &mut grant).await?;
        }
        if grant.is_empty() && wait == Span::ZERO {
            self.check_serving()?;
            refused?;
        }
        self.with_bodies(grant).await
    }

    fn check_serving(&self) -> Result<(), EngineError> {
        let serving = self.partitions.iter().any(|handle| fault(handle).is_none());
        if serving { Ok(()) } else { Err(self.unavailable()) }
    }

    async fn wait_for_work(
        &self,
        lease: &LeaseItems,
        deadline: Duration,
        grant: &mut Vec<GrantPart>,
    ) -> Result<(), EngineError> {
        let waiting = self.waiters.join(lease.clone())?;
        match waiting.outcome(self.env.sleep_until(deadline)).await {
            Waited::Granted(part) => {
                grant.push(part);
                // More may be had elsewhere, but what is in hand is not held back for it beyond the time asked for.
                tokio::select! {
                    biased;
                    _refused = self.fill(lease, grant) => {}
                    () = self.env.sleep_until(deadline) => {}
                }
                Ok(())
            }
            Waited::TimedOut | Waited::Closed => Ok(()),
            Waited::Refused(error) => Err(error),
        }
    }

    /// Takes what can be had at once, from the partition with the best head first. One that cannot give anything just
    /// now does not keep the others from it; the last such refusal is told.
    async fn fill(&self, lease: &LeaseItems, grant: &mut Vec<GrantPart>) -> Result<(), EngineError> {
        let now = self.env.wall();
        let mut with_work: Vec<_> =
            self.partitions.iter().filter_map(|handle| Some((work_of(handle, now)?, handle))).collect();
        with_work.sort_by_key(|(work, _)| *work);
        let mut refused = Ok(());
        for (_, handle) in with_work {
            let missing = lease.batch_size.saturating_sub(granted_count(grant));
            if missing == 0 {
                break;
            }
            let command = Command::Lease(LeaseItems { batch_size: missing, ..lease.clone() });
            match handle.command(command).await {
                Ok(Answer { reply: Done::Granted(part), .. }) if part.items().is_empty() => {}
                Ok(Answer { reply: Done::Granted(part), .. }) => grant.push(part),
                Ok(Answer { reply: Done::Reply(_), .. }) => unreachable!("a lease is answered by a grant"),
                Err(error) => refused = Err(error),
            }
        }
        refused
    }

    /// What does not fit the bytes of one answer is given back, uncharged.
    async fn with_bodies(&self, mut parts: Vec<GrantPart>) -> Result<Grant, EngineError> {
        let mut items = Vec::with_capacity(granted_count(&parts));
        let mut sizes = Sizes::default();
        for part in &mut parts {
            let mut read = 0;
            while read < part.items().len() && sizes.bytes < GRANT_BYTES_MAX {
                let slice = read..part.items().len().min(read + sizes.next_slice());
                let granted = self.read_slice(part, slice.clone()).await?;
                granted
                    .iter()
                    .for_each(|item| sizes.add(item.body.len() + item.input.as_ref().map_or(0, Bytes::len)));
                items.extend(granted);
                read = slice.end;
            }
            part.give_back_after(read);
        }
        Ok(Grant { items, parts })
    }

    async fn read_slice(&self, part: &GrantPart, slice: Range<usize>) -> Result<Vec<Granted>, EngineError> {
        let partition = part.commit().partition;
        let leased = &part.items()[slice];
        let wanted = leased.iter().map(|item| (item.number, Part::Payload)).collect();
        let bodies = sound::read(&*self.store, partition, wanted).await;
        // The leases are given back as they are dropped.
        let given_back = |error| EngineError::not_applied(format!("the items were given back: {error}"));
        let bodies = bodies.map_err(given_back)?;
        let mut inputs = self.read_inputs(partition, leased).await.map_err(given_back)?.into_iter();
        let mut granted = |(item, body): (&Leased, Option<Bytes>)| {
            Some(Granted {
                id: ItemId { partition, number: item.number },
                permit: item.permit,
                kind: Arc::clone(&item.kind),
                priority: item.priority,
                attempts: item.attempts,
                deadline: item.deadline,
                created_at: item.created_at,
                dead_timeout: item.dead_timeout,
                address: item.address.clone(),
                origin: item.origin.clone(),
                group: item.group.clone(),
                // Taken out before anything else can end this one.
                input: if item.has_input { Some(inputs.next().flatten()?) } else { None },
                event_count: item.event_count,
                // Gone already: cleared, or expired and done by another. The permit is void then. Or damaged: then nobody
                // can work on it, and the lease costs an attempt until none is left.
                body: body?,
            })
        };
        Ok(leased.iter().zip(bodies).filter_map(&mut granted).collect())
    }

    /// The answers to those that were suspended, in their order. Most were not.
    async fn read_inputs(
        &self,
        partition: PartitionId,
        leased: &[Leased],
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        let answered = leased.iter().filter(|item| item.has_input);
        let wanted: Vec<_> = answered.map(|item| (item.number, Part::Input)).collect();
        if wanted.is_empty() { Ok(Vec::new()) } else { sound::read(&*self.store, partition, wanted).await }
    }
}

/// The bodies of an answer so far. The size of one is known only once it is read, so those before it must tell how many
/// to read at once.
#[derive(Default)]
struct Sizes {
    count: usize,
    bytes: usize,
    largest: usize,
}

impl Sizes {
    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
    }

    /// As many as fit if none is larger than those before; and no more than as many again, because a few small ones say
    /// little about many.
    fn next_slice(&self) -> usize {
        let room = GRANT_BYTES_MAX.saturating_sub(self.bytes);
        (room / self.largest.max(1)).clamp(1, self.count.max(FIRST_SLICE))
    }
}

/// What a partition may have to give: the smaller is asked first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Waiting(Head),
    /// Something may be waiting by the time it is asked: it sees to what is due before it answers.
    Due,
}

fn work_of(handle: &Handle, now: Timestamp) -> Option<Work> {
    let summary = handle.published.summary();
    let due = summary.next_due.is_some_and(|due| due <= now).then_some(Work::Due);
    summary.head.map(Work::Waiting).or(due)
}

fn granted_count(grant: &[GrantPart]) -> usize {
    grant.iter().map(|part| part.items().len()).sum()
}
