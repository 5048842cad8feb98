//! A final item rerun: in its own partition and one commit, or, where that takes nothing new or is not the home of the
//! item's address any more, in another partition of the queue.

use std::sync::Arc;

use windlass_core::id::{ItemId, ItemNumber};
use windlass_core::item::{MoveReason, Outgoing, Phase, State};
use windlass_core::partition::Partition;
use windlass_core::refusal::Refusal;
use windlass_core::row::Part;
use windlass_core::time::Span;
use windlass_core::verbs::{Produced, Rerun, RerunElsewhere};

use super::QueueHandle;
use super::keyed::refused;
use super::produce::ProducedItem;
use super::shares::{Share, shares};
use crate::commit::{Commit, Committed};
use crate::error::EngineError;
use crate::machine::call::{Answer, Awaited, received};
use crate::partition::handle::Handle;
use crate::partition::places::Reserved;
use crate::store::Body;

/// Payloads that are read at once.
const READ_SLICE: usize = 16;

/// How far an item has come that left for another partition or queue.
pub(crate) enum Came {
    /// The item goes on as this one.
    To(ItemId),
    UnderWay(MoveReason),
    /// The item was kept here, or is gone.
    Nowhere,
}

/// What came of a rerun in the item's own partition.
enum Done {
    Made(Committed<ProducedItem>),
    /// The item is to be made in another partition, with the place that it has there.
    Elsewhere(Sent, Reserved),
}

/// An item that was sent to another partition of its queue.
struct Sent {
    partition: Arc<Handle>,
    asked: Awaited<()>,
}

impl QueueHandle {
    /// Exactly one of several reruns makes an item; the others are refused with the id of that item.
    pub(crate) async fn rerun(
        &self,
        id: ItemId,
        delay: Option<Span>,
    ) -> Result<Committed<ProducedItem>, EngineError> {
        match self.rerun_all(&[id], delay).await.pop().expect("one answer for each item") {
            Err(EngineError::Refused(Refusal::Leaving)) => {
                Err(self.moved_on(self.find(id.partition)?, id.number).await)
            }
            done => done,
        }
    }

    /// Several items rerun: those of one partition are committed together, because an answer comes only after the commit of
    /// what was sent before. An item that is on its way already is refused as leaving, and is not waited for.
    pub(super) async fn rerun_all(
        &self,
        ids: &[ItemId],
        delay: Option<Span>,
    ) -> Vec<Result<Committed<ProducedItem>, EngineError>> {
        let addresses = self.addresses_to_rerun(ids).await;
        let checked = self.check_addresses(addresses).await;
        let checked = self.check_payloads(ids, checked).await;
        let mut begun = Vec::with_capacity(ids.len());
        for (id, checked) in ids.iter().zip(checked) {
            begun.push(match checked {
                Ok(()) => self.begin(*id, delay).await,
                Err(error) => Err(error),
            });
        }
        let mut done = Vec::with_capacity(ids.len());
        for (id, begun) in ids.iter().zip(begun) {
            done.push(match begun {
                Ok(asked) => self.made_or_sent(*id, delay, asked).await,
                Err(error) => Err(error),
            });
        }
        // All that go elsewhere are under way before the first is waited for.
        let mut reruns = Vec::with_capacity(ids.len());
        for (id, done) in ids.iter().zip(done) {
            reruns.push(match done {
                Ok(Done::Made(made)) => Ok(made),
                Ok(Done::Elsewhere(sent, place)) => self.arrived(id.number, sent, place).await,
                Err(error) => Err(error),
            });
        }
        reruns
    }

    /// What [`Partition::address_to_rerun`] says of each item.
    async fn addresses_to_rerun(&self, ids: &[ItemId]) -> Vec<Result<Option<Arc<str>>, EngineError>> {
        let ask = |id: &ItemId| {
            let (handle, number) = (self.find(id.partition)?, id.number);
            Ok((handle, handle.ask(move |partition, _| partition.address_to_rerun(number))?))
        };
        let asked: Vec<Result<_, EngineError>> = ids.iter().map(ask).collect();
        let mut addresses = Vec::with_capacity(ids.len());
        for (id, asked) in ids.iter().zip(asked) {
            addresses.push(match asked {
                Ok((handle, answer)) => match answer.await {
                    Ok(address) => address.map_err(|refusal| refused(id.partition, refusal)),
                    Err(_dropped) => Err(handle.no_answer()),
                },
                Err(error) => Err(error),
            });
        }
        addresses
    }

    /// Whether the address of each item is free in the queue. Whatever refuses an item comes before a queue that has no room.
    async fn check_addresses(
        &self,
        addresses: Vec<Result<Option<Arc<str>>, EngineError>>,
    ) -> Vec<Result<(), EngineError>> {
        let wanted: Vec<Arc<str>> = addresses.iter().flatten().flatten().cloned().collect();
        let mut holders = self.holders_of(&wanted).await.into_iter();
        let mut check = |address: Option<Arc<str>>| match address {
            None => Ok(()),
            Some(_) => match holders.next().expect("one answer for each address")? {
                Some(id) => Err(EngineError::DuplicateAddress { id }),
                None => Ok(()),
            },
        };
        addresses.into_iter().map(|address| check(address?)).collect()
    }

    /// Whether the payload of each item can be read: a copy of a damaged one would be an item that nobody can be given.
    async fn check_payloads(
        &self,
        ids: &[ItemId],
        mut checked: Vec<Result<(), EngineError>>,
    ) -> Vec<Result<(), EngineError>> {
        let open: Vec<usize> = (0..ids.len()).filter(|index| checked[*index].is_ok()).collect();
        // In slices: the sizes of bodies are only known once they were read.
        for slice in open.chunks(READ_SLICE) {
            let of_slice = slice.iter().map(|index| (*index, ids[*index]));
            for (partition, Share { indexes, items }) in shares(of_slice, |id| id.partition) {
                let wanted = items.iter().map(|id| (id.number, Part::Payload)).collect();
                let payloads = self.store.read(partition, wanted).await;
                for ((index, id), payload) in indexes.into_iter().zip(items).zip(payloads) {
                    checked[index] = match payload {
                        Body::Found(_) => Ok(()),
                        Body::Absent | Body::Damaged(_) => Err(self.payload_lost(id).await),
                        Body::Unreadable(error) => Err(EngineError::not_applied(error.to_string())),
                    };
                }
            }
        }
        checked
    }

    /// Why an item is refused whose payload is not there: because it is lost, unless the item went on meanwhile.
    async fn payload_lost(&self, id: ItemId) -> EngineError {
        match self.addresses_to_rerun(&[id]).await.pop().expect("one answer for each item") {
            Ok(_still_rerunnable) => Refusal::NoPayload { lost: true }.into(),
            Err(error) => error,
        }
    }

    async fn begin(&self, id: ItemId, delay: Option<Span>) -> Result<Awaited<Produced>, EngineError> {
        let handle = self.find(id.partition)?;
        let place = Some(self.places.reserve(1, self.queue.settings.max_items)?);
        let rerun = self.verb(id, delay);
        // By the routes by which the holder of the address was asked for.
        self.pass_with_routes(|| handle.submit_with(rerun, place)).await?
    }

    fn verb(&self, id: ItemId, delay: Option<Span>) -> Rerun {
        Rerun { number: id.number, queue: Arc::clone(&self.queue.name.name), delay }
    }

    /// What came of a rerun that was sent. An item that is not made in its own partition is sent to another.
    async fn made_or_sent(
        &self,
        id: ItemId,
        delay: Option<Span>,
        asked: Awaited<Produced>,
    ) -> Result<Done, EngineError> {
        match received(asked.await) {
            Ok(Answer { reply: Produced { number, phase }, sequence }) => {
                let value = ProducedItem { id: ItemId { partition: id.partition, number }, phase };
                let commits = vec![Commit { partition: id.partition, sequence }];
                Ok(Done::Made(Committed { value, commits }))
            }
            Err(EngineError::Refused(Refusal::Moved)) => {
                let partition = Arc::clone(self.find(id.partition)?);
                let place = self.places.reserve(1, self.queue.settings.max_items)?;
                let rerun = RerunElsewhere(self.verb(id, delay));
                let asked = self.routes.pass(|_| partition.submit(rerun)).await??;
                Ok(Done::Elsewhere(Sent { partition, asked }, place))
            }
            Err(EngineError::Refused(refusal)) => Err(refused(id.partition, refusal)),
            Err(error) => Err(error),
        }
    }

    /// The item that the outbox of the partition carried to where it is made. Its place is kept until it has arrived.
    async fn arrived(
        &self,
        number: ItemNumber,
        Sent { partition, asked }: Sent,
        _place: Reserved,
    ) -> Result<Committed<ProducedItem>, EngineError> {
        let Answer { reply: (), sequence } = received(asked.await)?;
        let id = match self.arrival(&partition, number, MoveReason::Rerun).await.map_err(under_way)? {
            Came::To(id) => id,
            Came::UnderWay(_) | Came::Nowhere => return Err(under_way("the queue is being deleted")),
        };
        let mut commits = vec![Commit { partition: partition.id, sequence }];
        commits.extend(self.last_commit(id.partition));
        let phase = self.phase_of(id).await.map_err(under_way)?;
        Ok(Committed { value: ProducedItem { id, phase }, commits })
    }

    /// Why an item that is on its way cannot be rerun: once it has arrived, because it goes on as another.
    async fn moved_on(&self, handle: &Handle, number: ItemNumber) -> EngineError {
        match self.arrival(handle, number, MoveReason::Rerun).await {
            Ok(Came::To(id)) => Refusal::MovedOn { id }.into(),
            Ok(Came::UnderWay(_) | Came::Nowhere) => Refusal::Leaving.into(),
            Err(error) => error,
        }
    }

    /// Waits for an item that is on its way for a `reason`. One that leaves for another reason is not waited for: its queue may
    /// not exist.
    pub(crate) async fn arrival(
        &self,
        handle: &Handle,
        number: ItemNumber,
        reason: MoveReason,
    ) -> Result<Came, EngineError> {
        let (mut carried, mut stopping) = (self.carried(), handle.stopping());
        loop {
            carried.mark_unchanged();
            match handle.query(move |partition, _| came(partition, number)).await? {
                Came::UnderWay(under_way) if under_way == reason => {}
                came @ (Came::To(_) | Came::UnderWay(_) | Came::Nowhere) => return Ok(came),
            }
            tokio::select! {
                biased;
                _stop = stopping.wait_for(|stop| *stop) => return Ok(Came::UnderWay(reason)),
                _carried = carried.changed() => {}
            }
        }
    }

    /// The state of an item that was just made: it may be gone again.
    async fn phase_of(&self, id: ItemId) -> Result<Phase, EngineError> {
        let phase = move |partition: &Partition, _| partition.get(id.number).map(|item| item.state.phase());
        Ok(self.find(id.partition)?.query(phase).await?.unwrap_or(Phase::Waiting))
    }
}

fn came(partition: &Partition, number: ItemNumber) -> Came {
    let Some(item) = partition.get(number) else { return Came::Nowhere };
    let moved_to = item.extras.and_then(|extras| extras.moved_to);
    match (moved_to, item.state) {
        (Some(moved_to), _) => Came::To(moved_to.id),
        (None, State::Final(outcome)) => match outcome.outgoing.as_deref() {
            Some(Outgoing { reason, .. }) => Came::UnderWay(*reason),
            None => Came::Nowhere,
        },
        (None, State::Waiting { .. } | State::Scheduled { .. } | State::Leased(_) | State::Suspended(_)) => {
            Came::Nowhere
        }
    }
}

fn under_way(error: impl std::fmt::Display) -> EngineError {
    EngineError::unknown(format!("the item is on its way to another partition: {error}"))
}
