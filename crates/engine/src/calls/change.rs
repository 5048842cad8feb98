//! Calls that change an item after it was produced: update and rerun.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::partition::Partition;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::time::Span;
use windlass_core::verbs::{Update, UpdateItem, Updated};

use super::{REROUTES_MAX, unsettled};
use crate::Engine;
use crate::commit::{Commit, Committed};
use crate::error::{EngineError, was_moved};
use crate::machine::call::Answer;
use crate::queue::{Action, ChangePage, ProducedItem, Search, Walk};
use crate::view::{self, ItemView};

/// Makes an item's payload and facts anew, from those that the store has of it.
pub type Rewrite =
    Box<dyn FnOnce(Option<Bytes>, Option<Bytes>) -> Result<(Bytes, Option<Bytes>), Refusal> + Send>;

impl Engine {
    /// Changes an item that nobody works on, all as asked for or nothing. `rewrite` fills in `update.record`.
    pub async fn update(
        &self,
        id: ItemId,
        mut update: UpdateItem,
        rewrite: Option<Rewrite>,
    ) -> Result<Committed<ItemView>, EngineError> {
        let _call = self.host.enter()?;
        let home = self.home_of(id)?;
        let _turn = match rewrite {
            Some(rewrite) => {
                self.memory.check()?;
                let turn = self.record_turns.take(&id).await;
                let look =
                    move |partition: &Partition, _| partition.get(id.number).map(|item| item.state.phase());
                match home.partition.query(look).await?.ok_or(Refusal::NotFound)? {
                    Phase::Held | Phase::Scheduled | Phase::Waiting | Phase::Suspended => {}
                    phase @ (Phase::Leased
                    | Phase::Completed
                    | Phase::Failed
                    | Phase::Cancelled
                    | Phase::Expired) => return Err(Refusal::WrongPhase { phase }.into()),
                }
                let stored = view::read(&*self.store, id).await;
                let [payload, _, facts] =
                    stored.map_err(|error| EngineError::not_applied(error.to_string()))?;
                let (payload, facts) = rewrite(payload, facts)?;
                let settings = &home.queue.queue.settings;
                self.host.headers().index(settings, facts.as_ref(), &mut update.hashes);
                update.record = Some((payload, facts));
                Some(turn)
            }
            None => None,
        };
        let Answer { reply, sequence } = home.partition.apply(Update(vec![update])).await?;
        let Updated { item, member } = reply.into_iter().next().expect("a verb judges each item")?;
        let view = view::with_bodies(&home, &*self.store, id, item, member).await;
        let unread =
            |error| EngineError::unknown(format!("changed, but its payload cannot be read: {error}"));
        let commits = vec![Commit { partition: id.partition, sequence }];
        Ok(Committed { value: view.map_err(unread)?, commits })
    }

    /// Changes a page of the items that the search finds, which is narrowed to those that the action applies to; `dry_run`
    /// only tells what can be known of it.
    pub async fn change_items(
        &self,
        queue: &QueueName,
        search: &Search,
        walk: Option<&Walk>,
        action: Action,
        dry_run: bool,
    ) -> Result<ChangePage, EngineError> {
        let _call = self.host.enter()?;
        if action == Action::Rerun && !dry_run {
            self.memory.check()?;
        }
        let search = Search { find: Arc::new(action.narrow(&search.find)), ..search.clone() };
        let handle = self.queue(queue)?;
        let is_gone = |partition| self.is_gone(partition);
        let mut page = handle.change(handle.scans(walk), &search, action, dry_run, is_gone).await?;
        for (id, result) in page.results.iter_mut().filter(|(_, result)| was_moved(result)) {
            *result = self.rerun(*id, None).await.map(|made| page.commits.extend(made.commits));
        }
        Ok(page)
    }

    /// Makes a final item anew, in its queue, with all that it had. The item stays as it ended, and tells the new one.
    pub async fn rerun(
        &self,
        id: ItemId,
        delay: Option<Span>,
    ) -> Result<Committed<ProducedItem>, EngineError> {
        let _call = self.host.enter()?;
        self.memory.check()?;
        for _ in 0..REROUTES_MAX {
            match self.home_of(id)?.queue.rerun(id, delay).await {
                Err(EngineError::Refused(Refusal::Moved)) => {}
                done => return done,
            }
        }
        Err(unsettled())
    }
}
