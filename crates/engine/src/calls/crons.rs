//! The engine's calls for crons. The registry tells which queue a cron is of; the partitions of that queue, where it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use windlass_core::cron::{CronName, CronRefusal, CronView};
use windlass_core::id::ItemId;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::verb::Verb;
use windlass_core::verbs::{CronChange, DeleteCron, NewCron, PauseCron, ResumeCron, TriggerCron, UpdateCron};

use crate::Engine;
use crate::commit::{Commit, Committed};
use crate::error::EngineError;
use crate::machine::call::Answer;
use crate::partition::handle::Handle;
use crate::queue::{ProducedItem, QueueHandle};
use crate::registry::{CRON_LOOKS_MAX, CRON_TIMES_SHOWN, CronInfo, Ensured, Found, GivenCron};

/// How long a verb waits for a cron that is on its way.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// A page takes no further cron once their bodies have come to so many bytes.
const PAGE_BYTES_MAX: u64 = 8 << 20;

const ON_ITS_WAY: &str = "the cron is on its way to another partition: send it again";

/// The reply to a verb about a cron, and the partition that carried it out.
struct Changed<R> {
    reply: R,
    commit: Commit,
    queue: Arc<QueueHandle>,
    home: Arc<Handle>,
}

impl Engine {
    /// Refused if there is one of that name in any queue of the namespace.
    pub async fn create_cron(
        &self,
        queue: &QueueName,
        mut new: NewCron,
    ) -> Result<Committed<CronInfo>, EngineError> {
        let _call = self.host.enter()?;
        self.host.index(queue, std::iter::once((&new.item.facts, &mut new.item.hashes)));
        let name = CronName { namespace: Arc::clone(&queue.namespace), name: Arc::clone(&new.name) };
        let (made, commits) = self.registry.create_cron(queue.clone(), new).await?;
        self.shown(&name, made, commits).await
    }

    /// As [`Engine::create_cron`]; but a cron of that name is answered as it is, if it has all that was given.
    pub async fn ensure_cron(
        &self,
        queue: &QueueName,
        mut new: NewCron,
        given: GivenCron,
    ) -> Result<Committed<CronInfo>, EngineError> {
        let _call = self.host.enter()?;
        self.host.index(queue, std::iter::once((&new.item.facts, &mut new.item.hashes)));
        let name = CronName { namespace: Arc::clone(&queue.namespace), name: Arc::clone(&new.name) };
        match self.registry.ensure_cron(queue.clone(), new, given).await? {
            Ensured::Made(made, commits) => self.shown(&name, *made, commits).await,
            Ensured::There(cron) => Ok(Committed { value: *cron, commits: Vec::new() }),
        }
    }

    /// Changes what is named and nothing else.
    pub async fn update_cron(
        &self,
        name: &CronName,
        mut change: CronChange,
    ) -> Result<Committed<CronInfo>, EngineError> {
        let _call = self.host.enter()?;
        if let Some(item) = &mut change.item {
            // A cron stays in its queue.
            let queue = self.registry.queue_of_cron(name).await?;
            self.host.headers().index(&queue.queue.settings, item.facts.as_ref(), &mut item.hashes);
        }
        let update = |name| UpdateCron { name, change: change.clone() };
        let changed = self.change(name, update).await?;
        self.shown_changed(name, changed).await
    }

    pub async fn delete_cron(&self, name: &CronName) -> Result<Committed<()>, EngineError> {
        let _call = self.host.enter()?;
        let (engine, of) = (self.clone(), name.clone());
        let delete = || async move { Ok(engine.change(&of, DeleteCron).await?.commit) };
        let commits = self.registry.delete_cron(name.clone(), delete).await?;
        Ok(Committed { value: (), commits })
    }

    /// Its times pass, and none of them is missed.
    pub async fn pause_cron(&self, name: &CronName) -> Result<Committed<CronInfo>, EngineError> {
        let _call = self.host.enter()?;
        let changed = self.change(name, PauseCron).await?;
        self.shown_changed(name, changed).await
    }

    pub async fn resume_cron(&self, name: &CronName) -> Result<Committed<()>, EngineError> {
        let _call = self.host.enter()?;
        let Changed { commit, .. } = self.change(name, ResumeCron).await?;
        Ok(Committed { value: (), commits: vec![commit] })
    }

    /// Makes its item now, also when it is paused. Its times stay as they are.
    pub async fn trigger_cron(&self, name: &CronName) -> Result<Committed<ProducedItem>, EngineError> {
        let _call = self.host.enter()?;
        let Changed { reply: made, commit, .. } = self.change(name, TriggerCron).await?;
        let id = ItemId { partition: commit.partition, number: made.number };
        Ok(Committed { value: ProducedItem { id, phase: made.phase }, commits: vec![commit] })
    }

    pub async fn cron(&self, name: &CronName) -> Result<CronInfo, EngineError> {
        let _call = self.host.enter()?;
        self.show(name).await
    }

    /// By name, from the first one after `pivot` on, without their next times. Empty only at the end of the list.
    pub async fn crons(
        &self,
        namespace: &Arc<str>,
        pivot: Option<Arc<str>>,
        limit: usize,
    ) -> Result<Vec<CronInfo>, EngineError> {
        let _call = self.host.enter()?;
        let mut crons = Vec::new();
        let mut bytes = 0;
        let mut pivot = pivot;
        loop {
            let page = self.registry.list_crons(Arc::clone(namespace), pivot, limit - crons.len()).await?;
            let Some(last) = page.last_name else { return Ok(crons) };
            for found in page.crons {
                bytes += found.view.cron.template.body_bytes;
                if bytes > PAGE_BYTES_MAX && !crons.is_empty() {
                    return Ok(crons);
                }
                crons.push(self.registry.with_body(found).await?);
            }
            if crons.len() >= limit {
                return Ok(crons);
            }
            // Some names were nobody's any more.
            pivot = Some(last);
        }
    }

    /// Sends a verb about a cron to the partition that has the cron, also if that is another one by the time it gets there.
    async fn change<V: Verb>(
        &self,
        name: &CronName,
        verb: impl Fn(Arc<str>) -> V,
    ) -> Result<Changed<V::Reply>, EngineError> {
        let deadline = self.host.boot() + WAIT_MAX;
        let mut looks = 0;
        while looks < CRON_LOOKS_MAX {
            let queue = self.registry.queue_of_cron(name).await?;
            // From before the cron is looked for: so no end of a move is missed.
            let carried = queue.carried();
            let found = queue.find_cron(&name.name, 0).await?;
            let (home, view) = found.ok_or(Refusal::Cron(CronRefusal::NotFound))?;
            if view.cron.leaves.is_some() {
                self.until_carried(&home, carried, deadline).await?;
                continue;
            }
            match home.apply(verb(Arc::clone(&name.name))).await {
                Ok(Answer { reply, sequence }) => {
                    let commit = Commit { partition: home.id, sequence };
                    return Ok(Changed { reply, commit, queue, home });
                }
                Err(EngineError::Refused(Refusal::DuplicateAddress { number })) => {
                    return Err(EngineError::DuplicateAddress { id: ItemId { partition: home.id, number } });
                }
                Err(EngineError::Refused(Refusal::Cron(CronRefusal::Leaves | CronRefusal::NotFound))) => {
                    looks += 1;
                }
                Err(EngineError::Refused(Refusal::Moved)) => {
                    self.until_carried(&home, carried, deadline).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(EngineError::not_applied(ON_ITS_WAY))
    }

    /// Waits until something was carried from some partition of the queue to another, but not for ever.
    async fn until_carried(
        &self,
        from: &Handle,
        mut carried: watch::Receiver<u64>,
        deadline: Duration,
    ) -> Result<(), EngineError> {
        from.sends();
        tokio::select! {
            biased;
            () = self.host.sleep_until(deadline) => Err(EngineError::not_applied(ON_ITS_WAY)),
            _carried = carried.changed() => Ok(()),
        }
    }

    async fn shown_changed(
        &self,
        name: &CronName,
        changed: Changed<CronView>,
    ) -> Result<Committed<CronInfo>, EngineError> {
        let Changed { reply: view, commit, queue, home } = changed;
        self.shown(name, Found { queue, home, view }, vec![commit]).await
    }

    /// The cron as it is now; as it was after the change, if somebody has deleted it since.
    async fn shown(
        &self,
        name: &CronName,
        changed: Found,
        commits: Vec<Commit>,
    ) -> Result<Committed<CronInfo>, EngineError> {
        let shown = match self.show(name).await {
            Err(EngineError::Refused(Refusal::Cron(CronRefusal::NotFound))) => {
                self.registry.with_body(changed).await
            }
            shown => shown,
        };
        let unseen = |error| EngineError::unknown(format!("done, but it cannot be shown: {error}"));
        Ok(Committed { value: shown.map_err(unseen)?, commits })
    }

    async fn show(&self, name: &CronName) -> Result<CronInfo, EngineError> {
        self.registry.with_body(self.registry.find_cron(name, CRON_TIMES_SHOWN).await?).await
    }
}
