//! Bodies for leased items. An item whose payload or input is lost fails, one whose bodies cannot be read now is put off
//! for a while, and the lease goes on with others.

use std::ops::Range;

use bytes::Bytes;
use tracing::{error, warn};
use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::row::Part;
use windlass_core::time::Span;
use windlass_core::verbs::{Damaged, FailDamaged, Leased, PutOff};

use super::QueueHandle;
use super::grant::{Grant, Granted};
use crate::error::EngineError;
use crate::machine::call::Answer;
use crate::partition::grant::GrantPart;
use crate::store::{Body, StoreError};

/// An answer takes no further bodies once it has come to so many bytes.
const GRANT_BYTES_MAX: usize = 32 << 20;
/// Bodies that are read at first, when nothing is known of their sizes.
const FIRST_SLICE: usize = 4;
/// Items that one lease puts off because their bodies cannot be read now. Each read of a failing disk may take seconds:
/// the next lease goes on behind them.
const UNREADABLE_MAX: usize = 16;
/// For how long they are put off: the error may pass, as on a network disk, or last for ever.
const PUT_OFF: Span = Span::from_secs(30);

/// What a lease has come to so far.
#[derive(Default)]
pub(super) struct Filled {
    grant: Grant,
    sizes: Sizes,
    /// Items whose bodies cannot be read now.
    unreadable: usize,
    /// Leases of those that could not be put off: kept so that this lease does not meet them again, and given back
    /// uncharged when it ends.
    aside: Vec<GrantPart>,
    /// Why the lease is refused if it comes to nothing.
    refused: Option<EngineError>,
}

impl Filled {
    pub(super) fn count(&self) -> usize {
        self.grant.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.grant.items.is_empty()
    }

    /// Whether nothing was unreadable: then a lease ends with what it has, and does not wait while it keeps leases aside.
    pub(super) fn may_wait(&self) -> bool {
        self.is_empty() && self.unreadable == 0
    }

    /// Whether further items may be asked for.
    pub(super) fn has_room(&self, batch_size: usize) -> bool {
        let may_read_on = self.unreadable <= UNREADABLE_MAX;
        self.count() < batch_size && self.sizes.bytes < GRANT_BYTES_MAX && may_read_on
    }

    pub(super) fn into_grant(self) -> Result<Grant, EngineError> {
        match self.refused {
            Some(error) if self.grant.items.is_empty() => Err(error),
            Some(_) | None => Ok(self.grant),
        }
    }
}

/// What was found of a leased item.
enum Found {
    Sound(Box<Granted>),
    /// A body is missing, or damaged with this error.
    Lost(Damaged, Option<StoreError>),
    Unreadable(ItemId, StoreError),
}

impl QueueHandle {
    /// Adds leased items with their bodies. Tells whether some could not be added, so that others may be asked for. What
    /// does not fit the bytes of one answer is given back, uncharged.
    pub(super) async fn add_bodies(&self, parts: Vec<GrantPart>, filled: &mut Filled) -> bool {
        let mut missed = false;
        for mut part in parts {
            let (mut lost, mut unreadable) = (Vec::new(), Vec::new());
            let mut read = 0;
            while read < part.items().len() && filled.sizes.bytes < GRANT_BYTES_MAX {
                let slice = read..part.items().len().min(read + filled.sizes.next_slice());
                read = slice.end;
                for found in self.read_slice(&part, slice).await {
                    match found {
                        Found::Sound(item) => filled.add(*item),
                        Found::Lost(damaged, damage) => lost.push((damaged, damage)),
                        Found::Unreadable(id, error) => unreadable.push((id, error)),
                    }
                }
            }
            part.give_back_after(read);
            missed |= !lost.is_empty() || !unreadable.is_empty();
            self.put_off(&mut part, unreadable, filled).await;
            self.fail_lost(&mut part, lost, filled).await;
            filled.grant.parts.extend((!part.items().is_empty()).then_some(part));
        }
        missed
    }

    async fn read_slice(&self, part: &GrantPart, slice: Range<usize>) -> Vec<Found> {
        let partition = part.commit().partition;
        let leased = &part.items()[slice];
        let payloads = leased.iter().map(|item| (item.id.number, Part::Payload)).collect();
        let payloads = self.read_twice(partition, payloads).await;
        let mut inputs = self.read_inputs(partition, leased).await.into_iter();
        let mut found = |(item, payload): (&Leased, Body)| {
            let input = if item.has_input { inputs.next() } else { None };
            found(item, payload, input)
        };
        leased.iter().zip(payloads).map(&mut found).collect()
    }

    /// The answers to those that were suspended, in their order. Most were not.
    async fn read_inputs(&self, partition: PartitionId, leased: &[Leased]) -> Vec<Body> {
        let answered = leased.iter().filter(|item| item.has_input);
        let wanted: Vec<_> = answered.map(|item| (item.id.number, Part::Input)).collect();
        if wanted.is_empty() { Vec::new() } else { self.read_twice(partition, wanted).await }
    }

    /// Reads bodies, and once more those that could not be read.
    async fn read_twice(&self, partition: PartitionId, wanted: Vec<(ItemNumber, Part)>) -> Vec<Body> {
        let mut bodies = self.store.read(partition, wanted.clone()).await;
        let is_unreadable = |at: &usize| matches!(bodies[*at], Body::Unreadable(_));
        let unreadable: Vec<usize> = (0..bodies.len()).filter(is_unreadable).collect();
        if !unreadable.is_empty() {
            let again = unreadable.iter().map(|&at| wanted[at]).collect();
            for (at, body) in unreadable.into_iter().zip(self.store.read(partition, again).await) {
                bodies[at] = body;
            }
        }
        bodies
    }

    /// Gives leased items back for a while whose bodies cannot be read now, so that they do not stand in the way of others.
    /// If that cannot be written down now, they are kept aside.
    async fn put_off(
        &self,
        part: &mut GrantPart,
        unreadable: Vec<(ItemId, StoreError)>,
        filled: &mut Filled,
    ) {
        let Some((_, error)) = unreadable.last() else { return };
        let mut leases = part.split(|item| unreadable.iter().any(|(id, _)| *id == item.id));
        let queue = &*self.queue.name.name;
        warn!(queue, items = unreadable.len(), %error, "items are put off: their bodies cannot be read now");
        filled.unreadable += unreadable.len();
        filled.refused = Some(EngineError::not_applied(format!("the items were given back: {error}")));
        let put_off = PutOff { items: leases.held(), delay: PUT_OFF };
        match leases.handle().apply(put_off).await {
            // Items that PutOff refuses are not leased any more: they have ended, or another lease has them.
            Ok(_) => leases.accept(),
            Err(error) => {
                warn!(queue, %error, "items could not be put off");
                filled.aside.push(leases);
            }
        }
    }

    /// Fails leased items whose bodies are lost. If that cannot be written down now, they are given back, and the next
    /// lease meets them.
    async fn fail_lost(
        &self,
        part: &mut GrantPart,
        lost: Vec<(Damaged, Option<StoreError>)>,
        filled: &mut Filled,
    ) {
        if lost.is_empty() {
            return;
        }
        let mut leases = part.split(|item| lost.iter().any(|(lost, _)| lost.held.id == item.id));
        let fail = FailDamaged(lost.iter().map(|(damaged, _)| *damaged).collect());
        match leases.handle().apply(fail).await {
            Ok(Answer { reply: results, .. }) => {
                leases.accept();
                // Items that were refused have ended before, and their bodies are gone with them.
                let failed = lost.iter().zip(results).filter(|(_, result)| result.is_ok());
                failed.for_each(|((lost, damage), _)| self.log_lost(lost, damage.as_ref()));
            }
            Err(error) => {
                warn!(queue = &*self.queue.name.name, %error, "damaged items could not be failed yet");
                filled.refused = Some(error);
            }
        }
    }

    fn log_lost(&self, lost: &Damaged, damage: Option<&StoreError>) {
        let (item, queue) = (lost.held.id, &*self.queue.name.name);
        let damage = damage.map_or_else(|| "the store has no such body".to_owned(), StoreError::to_string);
        error!(queue, %item, damage, "item failed as damaged: a stored body of it is lost");
    }
}

impl Filled {
    fn add(&mut self, item: Granted) {
        self.sizes.add(item.body.len() + item.input.as_ref().map_or(0, Bytes::len));
        self.grant.items.push(item);
    }
}

fn found(item: &Leased, payload: Body, input: Option<Body>) -> Found {
    let held = item.held();
    let lost = |payload_lost, damage| Found::Lost(Damaged { held, payload_lost }, damage);
    let body = match payload {
        Body::Found(body) => body,
        Body::Absent => return lost(true, None),
        Body::Damaged(damage) => return lost(true, Some(damage)),
        Body::Unreadable(error) => return Found::Unreadable(item.id, error),
    };
    let input = match input {
        None => None,
        Some(Body::Found(input)) => Some(input),
        Some(Body::Absent) => return lost(false, None),
        Some(Body::Damaged(damage)) => return lost(false, Some(damage)),
        Some(Body::Unreadable(error)) => return Found::Unreadable(item.id, error),
    };
    Found::Sound(Box::new(Granted { leased: item.clone(), input, body }))
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
