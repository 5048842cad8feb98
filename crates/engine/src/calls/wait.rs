//! Waiting for an item to end: nobody looks again and again, its commit tells.

use std::time::Duration;

use bytes::Bytes;
use windlass_core::id::ItemId;
use windlass_core::news::Ended;
use windlass_core::time::Span;

use crate::Engine;
use crate::error::EngineError;
use crate::host::Home;
use crate::partition::watchers::{Told, Watching};
use crate::view;
use crate::view::ItemView;

impl Engine {
    /// The item once it has ended, also when nothing of it is kept; or as it is after `wait`. `Span::ZERO` answers at
    /// once.
    pub async fn wait(&self, id: ItemId, wait: Span) -> Result<ItemView, EngineError> {
        let _call = self.host.enter()?;
        let home = self.home_of(id)?;
        if wait == Span::ZERO {
            return view::get(&home, &*self.store, id).await;
        }
        let deadline = self.host.boot() + Duration::from(wait);
        // The facts are read before the item ends: they never change, and are gone afterwards if nothing of the item is kept.
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
        match told {
            Some(Told::Ended(ended)) => Ok(self.ended(home, id, *ended, facts).await),
            Some(Told::Closed(closed)) => Err(closed.error()),
            Some(Told::Look) | None => self.look(home, id, watching, facts).await,
        }
    }

    /// The item as it is. If it ended just now, what was told of it counts.
    async fn look(
        &self,
        home: Home,
        id: ItemId,
        mut watching: Watching,
        facts: Option<Bytes>,
    ) -> Result<ItemView, EngineError> {
        let seen = view::get(&home, &*self.store, id).await;
        match (seen, watching.told_so_far()) {
            (Ok(view), _) => Ok(view),
            (Err(_gone), Some(Told::Ended(ended))) => Ok(self.ended(home, id, *ended, facts).await),
            (Err(_gone), Some(Told::Closed(closed))) => Err(closed.error()),
            (Err(error), Some(Told::Look) | None) => Err(error),
        }
    }

    async fn ended(&self, home: Home, id: ItemId, ended: Ended, facts: Option<Bytes>) -> ItemView {
        // Nothing of it is there if it was not kept.
        let payload = match ended.item.keeps_payload() {
            true => view::read(&*self.store, id).await.ok().and_then(|[payload, ..]| payload),
            false => None,
        };
        // With the settings that count now, unless the queue has gone since.
        let queue = self.host.home_of(id.partition).map_or(home.queue, |home| home.queue);
        view::of(&queue.queue, id, ended.item, ended.member, [payload, ended.result, facts])
    }
}
