//! Calls about one item: showing it, where it went on, cancelling it.

use std::sync::Arc;

use windlass_core::attempt::Attempt;
use windlass_core::id::ItemId;
use windlass_core::item::{Item, Phase};
use windlass_core::partition::Partition;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;

use super::REROUTES_MAX;
use crate::Engine;
use crate::commit::Committed;
use crate::error::EngineError;
use crate::view::{self, ItemView};

/// One item of a chain of moves.
#[derive(Clone)]
struct Link {
    moved_to: Option<ItemId>,
    /// Of a dead letter: the item that died, as far as the dead letter tells.
    letter_of: Option<Option<ItemId>>,
    is_final: bool,
}

impl Link {
    fn is_dead_letter(&self) -> bool {
        self.letter_of.is_some()
    }
}

impl Engine {
    /// The item that an address speaks of: the one that holds it now, else the latest that did and is still kept.
    pub async fn item_at(&self, queue: &QueueName, address: &str) -> Result<ItemId, EngineError> {
        let _call = self.host.enter()?;
        self.by_routes(queue, |handle| {
            let address = Arc::from(address);
            async move { handle.item_at(address).await }
        })
        .await
    }

    pub async fn get(&self, id: ItemId) -> Result<ItemView, EngineError> {
        let _call = self.host.enter()?;
        view::get(&self.home_of(id)?, &*self.store, id).await
    }

    /// The state of an item, as clients see it.
    pub async fn phase(&self, id: ItemId) -> Result<Phase, EngineError> {
        let _call = self.host.enter()?;
        let phase = move |partition: &Partition, _| {
            let item = partition.get(id.number)?;
            let is_held = partition.member(&item).is_some_and(|member| member.held);
            Some(if is_held { Phase::Held } else { item.state.phase() })
        };
        let seen = self.home_of(id)?.partition.query(phase).await?;
        seen.ok_or(EngineError::Refused(Refusal::NotFound))
    }

    /// The item with its attempt log.
    pub async fn get_with_attempts(&self, id: ItemId) -> Result<(ItemView, Vec<Attempt>), EngineError> {
        let view = self.get(id).await?;
        let to_log = move |partition: &Partition, _| partition.attempt_to_log(id.number);
        let is_final = view.item.state.phase().is_final();
        let to_log = if is_final { self.home_of(id)?.partition.query(to_log).await? } else { None };
        let attempts = view::attempt_log(&*self.store, &view, to_log).await?;
        Ok((view, attempts))
    }

    /// The latest item of the chain that an item belongs to: along `moved_to`, but passing over dead letters. Where a dead letter is
    /// the last, the item that died is the answer, unless a dead letter is asked for that is not final; where the next is gone, the
    /// last one that is there.
    pub async fn follow(&self, id: ItemId) -> Result<ItemId, EngineError> {
        let _call = self.host.enter()?;
        let first = self.link(id).await?.ok_or(EngineError::Refused(Refusal::NotFound))?;
        match self.after(id, first.clone()).await? {
            Some(latest) => Ok(latest),
            None if !first.is_dead_letter() || !first.is_final => Ok(id),
            None => self.died(id, first).await,
        }
    }

    /// The item with its attempt log, or the latest that it goes on as: see [`Engine::follow`].
    pub async fn get_latest_with_attempts(
        &self,
        id: ItemId,
    ) -> Result<(ItemView, Vec<Attempt>), EngineError> {
        self.of_latest(id, |latest| self.get_with_attempts(latest)).await
    }

    /// The item, or the latest that it goes on as: see [`Engine::follow`].
    pub async fn get_latest(&self, id: ItemId) -> Result<ItemView, EngineError> {
        self.of_latest(id, |latest| self.get(latest)).await
    }

    /// What `call` answers for the latest item of a chain. If that item is gone by then, the chain is followed again.
    pub(super) async fn of_latest<T, F: Future<Output = Result<T, EngineError>>>(
        &self,
        id: ItemId,
        call: impl Fn(ItemId) -> F,
    ) -> Result<T, EngineError> {
        for _ in 0..REROUTES_MAX {
            let latest = self.follow(id).await?;
            match call(latest).await {
                Err(EngineError::Refused(Refusal::NotFound)) if latest != id => {}
                done => return done,
            }
        }
        Err(Refusal::NotFound.into())
    }

    /// The latest item that an item goes on as, along `moved_to`, dead letters passed over; unset if it goes on as none, or is
    /// gone.
    pub(super) async fn latest_after(&self, id: ItemId) -> Result<Option<ItemId>, EngineError> {
        let _call = self.host.enter()?;
        match self.link(id).await? {
            Some(link) => self.after(id, link).await,
            None => Ok(None),
        }
    }

    async fn after(&self, id: ItemId, link: Link) -> Result<Option<ItemId>, EngineError> {
        let (mut latest, mut at, mut next) = (None, id, link);
        // Each item was made after the one before, so this ends.
        while let Some(id) = next.moved_to.filter(|id| *id != at) {
            let Some(found) = self.link(id).await? else { break };
            if !found.is_dead_letter() {
                latest = Some(id);
            }
            (at, next) = (id, found);
        }
        Ok(latest)
    }

    /// The item that died and became a dead letter, along all dead letters before; if that item is gone, the first dead letter
    /// that is there.
    async fn died(&self, id: ItemId, letter: Link) -> Result<ItemId, EngineError> {
        let (mut answer, mut at) = (id, letter);
        while let Some(before) = at.letter_of.flatten() {
            let Some(found) = self.link(before).await? else { break };
            (answer, at) = (before, found);
        }
        Ok(answer)
    }

    /// Unset if the item is gone.
    async fn link(&self, id: ItemId) -> Result<Option<Link>, EngineError> {
        let Ok(home) = self.home_of(id) else { return Ok(None) };
        let link = |item: Item| {
            let extras = item.extras.as_deref();
            let origin = extras.and_then(|extras| extras.origin.as_ref());
            Link {
                moved_to: extras.and_then(|extras| extras.moved_to.as_ref()).map(|moved_to| moved_to.id),
                letter_of: origin.filter(|origin| origin.reason.is_death()).map(|origin| origin.id),
                is_final: item.state.phase().is_final(),
            }
        };
        home.partition.query(move |partition, _| partition.get(id.number).map(link)).await
    }

    /// Tells the item as the cancel left it: cancelled, or still leased with the request noted, or as it ended before.
    pub async fn cancel(&self, id: ItemId) -> Result<Committed<ItemView>, EngineError> {
        let _call = self.host.enter()?;
        view::cancel(&self.home_of(id)?, &*self.store, id).await
    }
}
