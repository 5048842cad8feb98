//! Waiting for an item to end: nobody looks again and again, its commit tells.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::id::ItemId;
use windlass_core::item::{Item, MoveReason, State};
use windlass_core::news::Ended;
use windlass_core::refusal::Refusal;
use windlass_core::time::Span;

use crate::Engine;
use crate::error::EngineError;
use crate::host::Home;
use crate::partition::watchers::{Told, Watching};
use crate::queue::Came;
use crate::stream::HOLD_BACK;
use crate::view;
use crate::view::ItemView;

impl Engine {
    /// The item once it has ended, also when nothing of it is kept; or as it is after `wait`. `Span::ZERO` answers at
    /// once. A letter that was redriven is told with where it went, if it gets there soon.
    pub async fn wait(&self, id: ItemId, wait: Span) -> Result<ItemView, EngineError> {
        self.wait_on(id, wait, HOLD_BACK).await
    }

    /// As [`Engine::wait`]. The end of a letter that was redriven is held back for so long until the letter has arrived.
    async fn wait_on(&self, id: ItemId, wait: Span, hold_back: Duration) -> Result<ItemView, EngineError> {
        let _call = self.host.enter()?;
        let home = self.home_of(id)?;
        if wait == Span::ZERO {
            return view::get(&home, &*self.store, id).await;
        }
        let deadline = self.host.boot() + Duration::from(wait);
        // The facts are read before the item ends, too: they are gone afterwards if nothing of the item is kept.
        let facts = view::facts(&*self.store, id).await?;
        let (mut watching, seen) = home.partition.watch(id.number)?;
        let seen = seen.await.map_err(|_dropped| home.partition.no_answer())?;
        let mut told = None;
        if seen.is_some_and(|item| !item.state.phase().is_final()) {
            tokio::select! {
                biased;
                heard = watching.told() => told = Some(heard),
                () = self.host.sleep_until(deadline) => {}
            }
        }
        let view = match told {
            Some(Told::Ended(ended)) => self.ended(&home, id, *ended, facts).await,
            Some(Told::Closed(closed)) => return Err(closed.error()),
            Some(Told::Look) | None => self.look(&home, id, watching, facts).await?,
        };
        if !is_redriven(&view.item) {
            return Ok(view);
        }
        let deadline = deadline.min(self.host.boot().saturating_add(hold_back));
        let is_redrive = |reason| reason == MoveReason::Redrive;
        let arrived = home.queue.arrival(&home.partition, id.number, is_redrive, deadline).await;
        let changed = match arrived {
            // One that came nowhere fell back, or was deleted on its way.
            Ok(Came::To(_) | Came::Nowhere) => true,
            Ok(Came::UnderWay(_)) | Err(_) => false,
        };
        let seen = if changed { view::get(&home, &*self.store, id).await.ok() } else { None };
        Ok(seen.unwrap_or(view))
    }

    /// As [`Engine::wait`], going on to the item that this one became, as [`Engine::follow`] does, until the latest has ended.
    pub async fn wait_for_latest(&self, id: ItemId, wait: Span) -> Result<ItemView, EngineError> {
        let deadline = self.host.boot().saturating_add(Duration::from(wait));
        let left = || Span::from(deadline.saturating_sub(self.host.boot()));
        // The next item is what is waited for: so all that is left is waited for it.
        let wait_on = |latest| async move { self.wait_on(latest, left(), Duration::MAX).await };
        let mut view = self.of_latest(id, wait_on).await?;
        while view.item.state.phase().is_final() {
            let Some(next) = self.latest_after(view.id).await? else { break };
            match wait_on(next).await {
                // Gone since: the one before is the last that is there.
                Err(EngineError::Refused(Refusal::NotFound)) => break,
                waited => view = waited?,
            }
        }
        Ok(view)
    }

    /// The item as it is. If it ended just now, what was told of it counts.
    async fn look(
        &self,
        home: &Home,
        id: ItemId,
        mut watching: Watching,
        facts: Option<Bytes>,
    ) -> Result<ItemView, EngineError> {
        let seen = view::get(home, &*self.store, id).await;
        match (seen, watching.told_so_far()) {
            (Ok(view), _) => Ok(view),
            (Err(_gone), Some(Told::Ended(ended))) => Ok(self.ended(home, id, *ended, facts).await),
            (Err(_gone), Some(Told::Closed(closed))) => Err(closed.error()),
            (Err(error), Some(Told::Look) | None) => Err(error),
        }
    }

    /// `facts_before`: those of the item as the wait began. An update may have changed them since.
    async fn ended(&self, home: &Home, id: ItemId, ended: Ended, facts_before: Option<Bytes>) -> ItemView {
        let [payload, _, facts] = view::read(&*self.store, id).await.unwrap_or_default();
        let payload = payload.filter(|_| ended.item.keeps_payload());
        let facts = facts.or(facts_before).filter(|_| view::has_facts(&ended.item));
        // With the settings that count now, unless the queue has gone since.
        let home_now = self.host.home_of(id.partition);
        let queue = home_now.as_ref().map_or(&home.queue, |home| &home.queue);
        view::of(&queue.queue, id, ended.item, ended.member, [payload, ended.result, facts])
    }
}

/// Whether the item is a dead letter on its way to where it was redriven to: its end is told with where it went.
fn is_redriven(item: &Item) -> bool {
    match &item.state {
        State::Final(outcome) => {
            outcome.outgoing.as_ref().is_some_and(|outgoing| outgoing.reason == MoveReason::Redrive)
        }
        State::Waiting { .. } | State::Scheduled { .. } | State::Leased(_) | State::Suspended(_) => false,
    }
}
