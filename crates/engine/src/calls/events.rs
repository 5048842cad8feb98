//! Calls about the events of an item: emitting and following them, answering the item, closing its streams.

use windlass_core::event::NewEvent;
use windlass_core::id::ItemId;
use windlass_core::mutant::{self, Mutant};
use windlass_core::refusal::Refusal;
use windlass_core::verbs::{Emit, Emitted, Held, Input, Resume};

use crate::Engine;
use crate::commit::Committed;
use crate::error::EngineError;
use crate::partition::streams::{Close, event_count};
use crate::stream::{CloseMode, Subscription};

impl Engine {
    /// Appends to the events of a leased item. They are durable when this is answered, and nobody sees them before.
    pub async fn emit(
        &self,
        held: Held,
        after: Option<u64>,
        events: Vec<NewEvent>,
    ) -> Result<Committed<Emitted>, EngineError> {
        let _call = self.host.enter()?;
        let emit = Emit { held, after, events };
        let answer = self.home_of(held.id)?.partition.apply(emit).await?;
        Ok(Committed::by(held.id.partition, answer))
    }

    /// Answers a suspended item, which waits again at its own place.
    pub async fn resume(&self, id: ItemId, input: Option<Input>) -> Result<Committed<()>, EngineError> {
        let _call = self.host.enter()?;
        let resume = Resume { number: id.number, input };
        Ok(Committed::by(id.partition, self.home_of(id)?.partition.apply(resume).await?))
    }

    /// Follows an item: from its present state on, or from the event after a number on.
    pub async fn subscribe(&self, id: ItemId, after: Option<u64>) -> Result<Subscription, EngineError> {
        let _call = self.host.enter()?;
        Subscription::open(self.home_of(id)?, self.host.env(), &self.store, id, after).await
    }

    /// Follows an item, or the latest that it goes on as: see [`Engine::follow`].
    pub async fn subscribe_to_latest(&self, id: ItemId) -> Result<Subscription, EngineError> {
        self.of_latest(id, |latest| self.subscribe(latest, None)).await
    }

    /// Has the subscriptions of an item end that there are now, and tells how many. The item and its events stay.
    pub async fn close_streams(&self, id: ItemId, mode: CloseMode) -> Result<usize, EngineError> {
        let _call = self.host.enter()?;
        let partition = self.home_of(id)?.partition;
        let number = id.number;
        let there = partition.query(move |partition, _| Some(event_count(&partition.get(number)?))).await?;
        let last_seq = there.ok_or(Refusal::NotFound)?;
        let close = match mode {
            CloseMode::Graceful if !mutant::active(Mutant::CloseAtOnce) => Close::After(last_seq),
            CloseMode::Graceful | CloseMode::Immediate => Close::AtOnce,
        };
        Ok(partition.streams.close_item(number, close))
    }
}
