//! Calls that change an item after it was produced: update and rerun.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
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
use crate::env;
use crate::error::{EngineError, was_moved};
use crate::machine::call::{Answer, Awaited, received};
use crate::queue::{Action, ChangePage, ProducedItem, Search, Walk};
use crate::turns::Turn;
use crate::view::{self, ItemView};

/// For how long a call waits at most for items that it sent to other partitions: the caller is to be told of all others before it
/// gives up.
const ARRIVAL_MAX: Duration = Duration::from_secs(20);

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
        let turn = match rewrite {
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
        let asked = home.partition.submit(Update(vec![update]))?;
        let Answer { reply, sequence } = received(self.keep_turn(turn, asked).await)?;
        let Updated { item, member } = reply.into_iter().next().expect("a verb judges each item")?;
        let view = view::with_bodies(&home, &*self.store, id, item, member).await;
        let unread =
            |error| EngineError::unknown(format!("changed, but its payload cannot be read: {error}"));
        let commits = vec![Commit { partition: id.partition, sequence }];
        Ok(Committed { value: view.map_err(unread)?, commits })
    }

    /// The answer of a verb. The turn is kept until there is one, also if the caller goes away: the next to read the record must
    /// not read it before the verb has changed it.
    fn keep_turn<R: Send + 'static>(&self, turn: Option<Turn<ItemId>>, asked: Awaited<R>) -> Awaited<R> {
        let Some(turn) = turn else { return asked };
        let (answer, awaited) = oneshot::channel();
        let waiting = async move {
            let answered = received(asked.await);
            drop(turn);
            let _caller_gone = answer.send(answered);
        };
        // Nobody awaits it: closing waits for the verbs under way.
        let _not_awaited = env::spawn(&**self.host.env(), "update", waiting);
        awaited
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
        let deadline = self.arrival_deadline();
        let changing = handle.change(handle.scans(walk), &search, action, dry_run, deadline, is_gone);
        let mut page = changing.await?;
        for (id, result) in page.results.iter_mut().filter(|(_, result)| was_moved(result)) {
            let made = self.rerun_by(*id, None, deadline).await;
            *result = made.map(|made| page.commits.extend(made.commits));
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
        self.rerun_by(id, delay, self.arrival_deadline()).await
    }

    async fn rerun_by(
        &self,
        id: ItemId,
        delay: Option<Span>,
        deadline: Duration,
    ) -> Result<Committed<ProducedItem>, EngineError> {
        for _ in 0..REROUTES_MAX {
            match self.home_of(id)?.queue.rerun(id, delay, deadline).await {
                Err(EngineError::Refused(Refusal::Moved)) => {}
                done => return done,
            }
        }
        Err(unsettled())
    }

    /// Until when a call waits for what it sent to another partition.
    fn arrival_deadline(&self) -> Duration {
        self.host.boot() + ARRIVAL_MAX
    }
}
