//! One item as callers see it: its row, and its bodies from the store.

use bytes::Bytes;
use windlass_core::attempt::{self, Attempt};
use windlass_core::group::Member;
use windlass_core::id::{ItemId, ItemNumber};
use windlass_core::item::{Item, Phase};
use windlass_core::partition::Partition;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Part, Queue, QueueName};
use windlass_core::verbs::{Cancel, Cancelled};

use crate::commit::{Commit, Committed};
use crate::error::EngineError;
use crate::host::Home;
use crate::machine::call::Answer;
use crate::store::{Body, Store, StoreError, sound};

#[derive(Clone, Debug)]
pub struct ItemView {
    pub queue: QueueName,
    pub id: ItemId,
    pub item: Item,
    /// The item's standing in its group, if it has one.
    pub member: Option<Member>,
    /// The item's own limit, else the queue's. 0: no limit.
    pub max_attempts: u32,
    /// Unset once the item is final, unless its queue keeps it.
    pub payload: Option<Bytes>,
    pub result: Option<Bytes>,
    /// The part of the payload's record that is shown for as long as the item is, if there is one.
    pub facts: Option<Bytes>,
}

impl ItemView {
    /// The name of the item's state, as clients see it.
    pub fn phase(&self) -> Phase {
        match &self.member {
            Some(Member { held: true, .. }) => Phase::Held,
            Some(_) | None => self.item.state.phase(),
        }
    }
}

pub(crate) const SHOWN: [Part; 3] = [Part::Payload, Part::Result, Part::Facts];

pub(crate) async fn get(home: &Home, store: &dyn Store, id: ItemId) -> Result<ItemView, EngineError> {
    let mut before = None;
    loop {
        let seen = home.partition.query(move |partition, _| seen(partition, id.number)).await?;
        let (item, member) = seen.ok_or(Refusal::NotFound)?;
        let view = with_bodies(home, store, id, item, member).await?;
        if !view.may_have_ended() || before.as_ref() == Some(&view.item) {
            return Ok(view);
        }
        before = Some(view.item);
    }
}

/// The newest attempts of an item that did not complete, in the order in which they ended. Damaged ones are left out.
/// `to_log`: the last of them, if the item counts it and the store does not have it yet.
pub(crate) async fn attempt_log(
    store: &dyn Store,
    view: &ItemView,
    to_log: Option<Attempt>,
) -> Result<Vec<Attempt>, EngineError> {
    let logged = view.item.extras.as_ref().map_or(0, |extras| extras.attempts_logged);
    let mut wanted: Vec<_> = attempt::parts(logged).map(|part| (view.id.number, part)).collect();
    if to_log.is_some() {
        // What stands in its place is the oldest, which goes.
        wanted.pop();
    }
    if wanted.is_empty() {
        return Ok(to_log.into_iter().collect());
    }
    let bodies = sound(store.read(view.id.partition, wanted).await);
    let bodies = bodies.map_err(|error| EngineError::not_applied(error.to_string()))?;
    let attempts = bodies.into_iter().flatten().filter_map(|body| Attempt::decode(&body).ok());
    let mut attempts: Vec<Attempt> = attempts.chain(to_log).collect();
    // One that was logged since the item was looked at stands in the place of the oldest.
    attempts.sort_by_key(|attempt| attempt.ended_at);
    Ok(attempts)
}

/// The item as it was looked at, with its bodies as they are now.
pub(crate) async fn with_bodies(
    home: &Home,
    store: &dyn Store,
    id: ItemId,
    item: Item,
    member: Option<Member>,
) -> Result<ItemView, EngineError> {
    let bodies = read(store, id).await.map_err(|error| EngineError::not_applied(error.to_string()))?;
    Ok(of(&home.queue.queue, id, item, member, bodies))
}

impl ItemView {
    /// Whether the item may have ended, or may have been rerun, between the look at it and that at its bodies: then the first no longer counts. If a
    /// second look shows the same, its payload is lost: the item is shown without it.
    pub(crate) fn may_have_ended(&self) -> bool {
        self.payload.is_none() && self.item.keeps_payload()
    }
}

/// An item, and what it is to its group.
fn seen(partition: &Partition, number: ItemNumber) -> Option<(Item, Option<Member>)> {
    let item = partition.get(number)?;
    let member = partition.member(&item);
    Some((item, member))
}

/// Tells the item as the cancel left it. If it has ended since, its payload may be gone.
pub(crate) async fn cancel(
    home: &Home,
    store: &dyn Store,
    id: ItemId,
) -> Result<Committed<ItemView>, EngineError> {
    // Read the facts before the cancel: an item that is not kept has none afterwards.
    let facts_before = facts(store, id).await?;
    let Answer { reply: Cancelled { item, member }, sequence } =
        home.partition.apply(Cancel(id.number)).await?;
    let unread = |error| EngineError::unknown(format!("cancelled, but its payload cannot be read: {error}"));
    let [payload, result, facts] = read(store, id).await.map_err(unread)?;
    let facts = facts.or(facts_before).filter(|_| has_facts(&item));
    let value = of(&home.queue.queue, id, item, member, [payload, result, facts]);
    Ok(Committed { value, commits: vec![Commit { partition: id.partition, sequence }] })
}

/// Payload, result and facts, as far as they are there and not damaged.
pub(crate) async fn read(store: &dyn Store, id: ItemId) -> Result<[Option<Bytes>; 3], StoreError> {
    let wanted = SHOWN.map(|part| (id.number, part)).to_vec();
    let [payload, result, facts]: [Body; 3] =
        store.read(id.partition, wanted).await.try_into().expect("a store answers for each body");
    Ok([payload.sound()?, result.sound()?, facts.sound()?])
}

pub(crate) async fn facts(store: &dyn Store, id: ItemId) -> Result<Option<Bytes>, EngineError> {
    let facts = sound(store.read(id.partition, vec![(id.number, Part::Facts)]).await);
    let facts = facts.map_err(|error| EngineError::not_applied(error.to_string()))?;
    Ok(facts.into_iter().next().flatten())
}

/// Whether the record of the item has a part that is shown for as long as the item is.
pub(crate) fn has_facts(item: &Item) -> bool {
    item.extras.as_ref().is_some_and(|extras| extras.facts_bytes > 0)
}

/// With payload, result and facts.
pub(crate) fn of(
    queue: &Queue,
    id: ItemId,
    item: Item,
    member: Option<Member>,
    bodies: [Option<Bytes>; 3],
) -> ItemView {
    let [payload, result, facts] = bodies;
    let own = item.extras.as_ref().and_then(|extras| extras.max_attempts);
    let max_attempts = own.unwrap_or(queue.settings.max_attempts);
    // The store still has that of one that was cleared until the sweep comes by, and that of one on its way
    // to another queue until it is there.
    let payload = payload.filter(|_| item.keeps_payload());
    // The store may have it before the item is seen to have ended.
    let result = result.filter(|_| item.state.phase().is_final());
    ItemView { queue: queue.name.clone(), id, item, member, max_attempts, payload, result, facts }
}
