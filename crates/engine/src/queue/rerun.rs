//! A final item rerun: in its own partition and one commit, or, where that takes nothing new or is not the home of the
//! item's address any more, in another partition of the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::attempt;
use windlass_core::id::{ItemId, ItemNumber};
use windlass_core::item::{MoveReason, MovedTo, Outgoing, Phase, State};
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
    To(Box<MovedTo>),
    UnderWay(MoveReason),
    /// The item was kept here, or is gone.
    Nowhere,
}

/// A rerun that was sent to the item's own partition.
enum Begun {
    /// The item is made there.
    Here(Awaited<Produced>),
    Elsewhere(Sent),
}

/// A rerun that the item's own partition has answered.
enum Done {
    Made(Committed<ProducedItem>),
    Elsewhere(Sent),
}

/// An item that its partition sends to another one of the queue.
struct Sent {
    partition: Arc<Handle>,
    asked: Awaited<()>,
    /// The place of the new item, kept until it has arrived.
    _place: Reserved,
}

/// An item as it is looked at before it is rerun.
struct Candidate {
    address: Option<Arc<str>>,
    /// Whether its own partition makes the new item.
    is_made_here: bool,
    attempts_logged: u32,
}

impl Candidate {
    /// What is copied with the item, the payload first.
    fn parts(&self) -> impl Iterator<Item = Part> {
        [Part::Payload, Part::Facts].into_iter().chain(attempt::parts(self.attempts_logged))
    }
}

impl QueueHandle {
    /// Exactly one of several reruns makes an item; the others are refused with the id of that item. What is on its way to
    /// another partition is waited for until `deadline`.
    pub(crate) async fn rerun(
        &self,
        id: ItemId,
        delay: Option<Span>,
        deadline: Duration,
    ) -> Result<Committed<ProducedItem>, EngineError> {
        match self.rerun_all(&[id], delay, deadline).await.pop().expect("one answer for each item") {
            Err(EngineError::Refused(Refusal::Leaving)) => Err(self.moved_on(id, deadline).await),
            done => done,
        }
    }

    /// Several items rerun, in rounds: of items with the same address one round has the first alone, so that the next is not
    /// judged, and takes no place, before it is known what became of that. An item that is on its way already is refused as
    /// leaving, and is not waited for.
    pub(super) async fn rerun_all(
        &self,
        ids: &[ItemId],
        delay: Option<Span>,
        deadline: Duration,
    ) -> Vec<Result<Committed<ProducedItem>, EngineError>> {
        let mut reruns = Vec::with_capacity(ids.len());
        reruns.resize_with(ids.len(), || Err(Refusal::NotFound.into()));
        let mut left: Vec<usize> = (0..ids.len()).collect();
        while !left.is_empty() {
            let checked = self.check_addresses(self.candidates(&of(ids, &left)).await).await;
            let (mut round, mut candidates, mut later) = (Vec::new(), Vec::new(), Vec::new());
            let mut addresses = BTreeSet::new();
            for (index, checked) in left.into_iter().zip(checked) {
                match checked {
                    Ok(candidate) => {
                        let address = candidate.address.clone();
                        if address.is_none_or(|address| addresses.insert(address)) {
                            round.push(index);
                            candidates.push(Ok(candidate));
                        } else {
                            later.push(index);
                        }
                    }
                    Err(error) => reruns[index] = Err(error),
                }
            }
            let done = self.rerun_round(&of(ids, &round), candidates, delay, deadline).await;
            for (index, rerun) in round.into_iter().zip(done) {
                reruns[index] = rerun;
            }
            left = later;
        }
        self.look_again(ids, &mut reruns).await;
        reruns
    }

    /// Reruns of one partition are committed together, because an answer comes only after the commit of what was sent before.
    async fn rerun_round(
        &self,
        ids: &[ItemId],
        candidates: Vec<Result<Candidate, EngineError>>,
        delay: Option<Span>,
        deadline: Duration,
    ) -> Vec<Result<Committed<ProducedItem>, EngineError>> {
        let checked = self.check_bodies(ids, candidates).await;
        let mut begun = Vec::with_capacity(ids.len());
        for (id, checked) in ids.iter().zip(checked) {
            begun.push(match checked {
                Ok(candidate) if candidate.is_made_here => self.begin_here(*id, delay).await.map(Begun::Here),
                Ok(_of_another_partition) => self.send(*id, delay).await.map(Begun::Elsewhere),
                Err(error) => Err(error),
            });
        }
        let mut done = Vec::with_capacity(ids.len());
        for (id, begun) in ids.iter().zip(begun) {
            done.push(match begun {
                Ok(Begun::Here(asked)) => self.made_or_sent(*id, delay, asked).await,
                Ok(Begun::Elsewhere(sent)) => Ok(Done::Elsewhere(sent)),
                Err(error) => Err(error),
            });
        }
        // All that go elsewhere are under way before the first is waited for.
        let mut reruns = Vec::with_capacity(ids.len());
        for (id, done) in ids.iter().zip(done) {
            reruns.push(match done {
                Ok(Done::Made(made)) => Ok(made),
                Ok(Done::Elsewhere(sent)) => self.arrived(*id, sent, deadline).await,
                Err(error) => Err(error),
            });
        }
        reruns
    }

    /// An item that is refused for its address or for want of room is looked at again: if another rerun of the same item caused
    /// that, the answer is [`Refusal::MovedOn`] or [`Refusal::Leaving`].
    async fn look_again(&self, ids: &[ItemId], reruns: &mut [Result<Committed<ProducedItem>, EngineError>]) {
        let is_doubtful = |index: &usize| {
            matches!(
                reruns[*index],
                Err(EngineError::DuplicateAddress { .. } | EngineError::Overloaded { .. })
            )
        };
        let doubtful: Vec<usize> = (0..ids.len()).filter(is_doubtful).collect();
        let looked = self.candidates(&of(ids, &doubtful)).await;
        for (index, looked) in doubtful.into_iter().zip(looked) {
            if let Err(error @ EngineError::Refused(Refusal::MovedOn { .. } | Refusal::Leaving)) = looked {
                reruns[index] = Err(error);
            }
        }
    }

    /// What [`QueueHandle::rerun_all`] would answer, as far as that can be known. Where an address is that of several items, the
    /// first of them would have it.
    pub(super) async fn try_reruns(&self, ids: &[ItemId]) -> Vec<Result<(), EngineError>> {
        let mut room = self.places.left(self.queue.settings.max_items);
        let mut given: BTreeMap<Arc<str>, ItemId> = BTreeMap::new();
        let mut judge = |id: ItemId, candidate: Candidate| {
            if let Some(first) = candidate.address.as_ref().and_then(|address| given.get(address)) {
                return Err(EngineError::DuplicateAddress { id: *first });
            }
            room.take()?;
            given.extend(candidate.address.map(|address| (address, id)));
            Ok(())
        };
        let checked = self.check_reruns(ids).await;
        ids.iter().zip(checked).map(|(id, candidate)| judge(*id, candidate?)).collect()
    }

    /// Whatever refuses an item comes before a queue that has no room.
    async fn check_reruns(&self, ids: &[ItemId]) -> Vec<Result<Candidate, EngineError>> {
        let checked = self.check_addresses(self.candidates(ids).await).await;
        self.check_bodies(ids, checked).await
    }

    /// The items that can be rerun, as [`Partition::to_rerun`] says.
    async fn candidates(&self, ids: &[ItemId]) -> Vec<Result<Candidate, EngineError>> {
        let ask = |id: &ItemId| {
            let (handle, number) = (self.find(id.partition)?, id.number);
            Ok((handle, handle.ask(move |partition, _| candidate(partition, number))?))
        };
        let asked: Vec<Result<_, EngineError>> = ids.iter().map(ask).collect();
        let mut candidates = Vec::with_capacity(ids.len());
        for (id, asked) in ids.iter().zip(asked) {
            candidates.push(match asked {
                Ok((handle, answer)) => match answer.await {
                    Ok(candidate) => candidate.map_err(|refusal| refused(id.partition, refusal)),
                    Err(_dropped) => Err(handle.no_answer()),
                },
                Err(error) => Err(error),
            });
        }
        candidates
    }

    /// Whether the address of each item is free in the queue.
    async fn check_addresses(
        &self,
        candidates: Vec<Result<Candidate, EngineError>>,
    ) -> Vec<Result<Candidate, EngineError>> {
        let addresses = candidates.iter().flatten().filter_map(|candidate| candidate.address.clone());
        let wanted: Vec<Arc<str>> = addresses.collect();
        let mut holders = self.holders_of(&wanted).await.into_iter();
        let mut check = |candidate: Candidate| {
            let holder = match candidate.address {
                None => None,
                Some(_) => holders.next().expect("one answer for each address")?,
            };
            holder.map_or(Ok(candidate), |id| Err(EngineError::DuplicateAddress { id }))
        };
        candidates.into_iter().map(|candidate| check(candidate?)).collect()
    }

    /// Whether the bodies of each item can be read: a copy of a damaged payload would be an item that nobody can be given, and a
    /// body that cannot be read now would fail the commit of all that is rerun with it.
    async fn check_bodies(
        &self,
        ids: &[ItemId],
        mut checked: Vec<Result<Candidate, EngineError>>,
    ) -> Vec<Result<Candidate, EngineError>> {
        let open: Vec<usize> = (0..ids.len()).filter(|index| checked[*index].is_ok()).collect();
        // In slices: the sizes of bodies are only known once they were read.
        for slice in open.chunks(READ_SLICE) {
            let of_slice = slice.iter().map(|index| (*index, ids[*index]));
            for (partition, Share { indexes, items }) in shares(of_slice, |id| id.partition) {
                let parts = |(index, id): (&usize, &ItemId)| {
                    let parts = checked[*index].iter().flat_map(Candidate::parts);
                    parts.map(|part| (id.number, part)).collect::<Vec<_>>()
                };
                let wanted: Vec<Vec<_>> = indexes.iter().zip(&items).map(parts).collect();
                let counts: Vec<usize> = wanted.iter().map(Vec::len).collect();
                let mut bodies = self.store.read(partition, wanted.concat()).await.into_iter();
                for ((index, id), count) in indexes.into_iter().zip(items).zip(counts) {
                    let bodies: Vec<Body> = bodies.by_ref().take(count).collect();
                    if let Err(error) = self.check_read(id, bodies).await {
                        checked[index] = Err(error);
                    }
                }
            }
        }
        checked
    }

    /// Whether what was read of an item can be copied. Of all but the payload, what is lost is left out.
    async fn check_read(&self, id: ItemId, bodies: Vec<Body>) -> Result<(), EngineError> {
        let is_lost = matches!(bodies.first(), None | Some(Body::Absent | Body::Damaged(_)));
        if is_lost {
            return Err(self.payload_lost(id).await);
        }
        let sound = bodies.into_iter().try_for_each(|body| body.sound().map(drop));
        sound.map_err(|error| EngineError::not_applied(error.to_string()))
    }

    /// Why an item is refused whose payload is not there: because it is lost, unless the item went on meanwhile.
    async fn payload_lost(&self, id: ItemId) -> EngineError {
        match self.candidates(&[id]).await.pop().expect("one answer for each item") {
            Ok(_still_rerunnable) => Refusal::NoPayload { lost: true }.into(),
            Err(error) => error,
        }
    }

    /// Nothing comes between the place and the verb: another rerun of the item that finds no place looks again after this verb.
    async fn begin_here(&self, id: ItemId, delay: Option<Span>) -> Result<Awaited<Produced>, EngineError> {
        let handle = self.find(id.partition)?;
        let rerun = self.verb(id, delay);
        // By the routes by which the holder of the address was asked for.
        let begin = || {
            let place = self.places.reserve(1, self.queue.settings.max_items)?;
            handle.submit_with(rerun, Some(place))
        };
        self.pass_with_routes(begin).await?
    }

    /// Sends the item to another partition. As with [`QueueHandle::begin_here`], nothing comes between the place and the verb.
    async fn send(&self, id: ItemId, delay: Option<Span>) -> Result<Sent, EngineError> {
        let partition = Arc::clone(self.find(id.partition)?);
        let rerun = RerunElsewhere(self.verb(id, delay));
        let send = || {
            let _place = self.places.reserve(1, self.queue.settings.max_items)?;
            let asked = partition.submit(rerun)?;
            Ok(Sent { partition, asked, _place })
        };
        self.pass_with_routes(send).await?
    }

    fn verb(&self, id: ItemId, delay: Option<Span>) -> Rerun {
        Rerun { number: id.number, queue: Arc::clone(&self.queue.name.name), delay }
    }

    /// What came of a rerun. An item that its own partition does not take any more is sent to another.
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
            Err(EngineError::Refused(Refusal::Moved)) => self.send(id, delay).await.map(Done::Elsewhere),
            Err(EngineError::Refused(refusal)) => Err(refused(id.partition, refusal)),
            Err(error) => Err(error),
        }
    }

    /// The item that the outbox of the partition carried to where it is made.
    async fn arrived(
        &self,
        old: ItemId,
        Sent { partition, asked, _place }: Sent,
        deadline: Duration,
    ) -> Result<Committed<ProducedItem>, EngineError> {
        let Answer { reply: (), sequence } = received(asked.await)?;
        let arrival = self.arrival(&partition, old.number, is_rerun, deadline).await.map_err(under_way)?;
        let id = match arrival {
            Came::To(moved_to) => moved_to.id,
            Came::UnderWay(_) => return Err(under_way("it has not arrived yet")),
            Came::Nowhere => {
                let error = self.turned_away(old).await;
                let is_gone = matches!(error, EngineError::Refused(Refusal::NotFound));
                return Err(if is_gone { under_way("the item was deleted meanwhile") } else { error });
            }
        };
        let mut commits = vec![Commit { partition: partition.id, sequence }];
        commits.extend(self.last_commit(id.partition));
        let phase = self.phase_of(id).await.map_err(under_way)?;
        Ok(Committed { value: ProducedItem { id, phase }, commits })
    }

    /// Why an item that was sent to another partition is where it was.
    async fn turned_away(&self, id: ItemId) -> EngineError {
        match self.check_reruns(&[id]).await.pop().expect("one answer for each item") {
            Ok(_rerunnable_again) => {
                EngineError::not_applied("the address of the item was taken for a moment: rerun it again")
            }
            Err(error) => error,
        }
    }

    /// Why an item that is on its way cannot be rerun: once it has arrived, because it goes on as another.
    pub(super) async fn moved_on(&self, id: ItemId, deadline: Duration) -> EngineError {
        let handle = match self.find(id.partition) {
            Ok(handle) => handle,
            Err(error) => return error,
        };
        match self.arrival(handle, id.number, is_rerun, deadline).await {
            Ok(Came::To(moved_to)) => Refusal::MovedOn { id: moved_to.id }.into(),
            Ok(Came::UnderWay(_)) => Refusal::Leaving.into(),
            Ok(Came::Nowhere) => self.turned_away(id).await,
            Err(error) => error,
        }
    }

    /// Waits until `deadline` for an item that is on its way for a reason that is waited for. The queue that it goes to may not
    /// exist.
    pub(crate) async fn arrival(
        &self,
        handle: &Handle,
        number: ItemNumber,
        is_waited_for: impl Fn(MoveReason) -> bool,
        deadline: Duration,
    ) -> Result<Came, EngineError> {
        let (mut carried, mut stopping) = (self.carried(), handle.stopping());
        let mut time_is_over = self.env.sleep_until(deadline);
        loop {
            carried.mark_unchanged();
            let came = handle.query(move |partition, _| came(partition, number)).await?;
            if !matches!(came, Came::UnderWay(reason) if is_waited_for(reason)) {
                return Ok(came);
            }
            tokio::select! {
                biased;
                _stop = stopping.wait_for(|stop| *stop) => return Ok(came),
                () = &mut time_is_over => return Ok(came),
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
        (Some(moved_to), _) => Came::To(moved_to),
        (None, State::Final(outcome)) => match outcome.outgoing.as_deref() {
            Some(Outgoing { reason, .. }) => Came::UnderWay(*reason),
            None => Came::Nowhere,
        },
        (None, State::Waiting { .. } | State::Scheduled { .. } | State::Leased(_) | State::Suspended(_)) => {
            Came::Nowhere
        }
    }
}

fn candidate(partition: &Partition, number: ItemNumber) -> Result<Candidate, Refusal> {
    let item = partition.to_rerun(number)?;
    let is_made_here = partition.reruns_here(&item);
    let (address, attempts_logged) =
        item.extras.map_or((None, 0), |extras| (extras.address, extras.attempts_logged));
    Ok(Candidate { address, is_made_here, attempts_logged })
}

fn of(ids: &[ItemId], indexes: &[usize]) -> Vec<ItemId> {
    indexes.iter().map(|index| ids[*index]).collect()
}

fn is_rerun(reason: MoveReason) -> bool {
    reason == MoveReason::Rerun
}

fn under_way(error: impl std::fmt::Display) -> EngineError {
    EngineError::unknown(format!("the item is on its way to another partition: {error}"))
}
