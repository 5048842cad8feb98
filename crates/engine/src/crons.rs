//! The engine's calls for crons. Which partition a cron is in is told by the registry; whether there is one, by that partition.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::command::{Command, Refusal, Reply};
use windlass_core::cron::{CronChange, CronCommand, CronRefusal, CronView, NewCron};
use windlass_core::id::ItemId;
use windlass_core::row::{Part, QueueName};

use crate::Engine;
use crate::error::EngineError;
use crate::partition::handle::Handle;
use crate::partition::message::{Answer, Done, received};
use crate::queue::QueueHandle;
use crate::store::sound;
use crate::types::{Commit, Committed, CronInfo, ProducedItem};

/// How many of its next times a cron is shown with.
const NEXT_TIMES: usize = 10;
/// A cron may be on its way to another partition: so often it is looked for anew.
const LOOKS_MAX: usize = 3;
/// A page takes no further cron once their bodies have come to so many bytes.
const PAGE_BYTES_MAX: u64 = 8 << 20;

impl Engine {
    /// Refused if there is one of that name in any queue.
    pub async fn create_cron(
        &self,
        queue: &QueueName,
        new: NewCron,
    ) -> Result<Committed<CronInfo>, EngineError> {
        let _call = self.registry.enter()?;
        let name = Arc::clone(&new.name);
        let commits = self.registry.create_cron(queue.clone(), new).await?;
        self.shown(&name, commits).await
    }

    /// Changes what is named and nothing else.
    pub async fn update_cron(&self, change: CronChange) -> Result<Committed<CronInfo>, EngineError> {
        let _call = self.registry.enter()?;
        let name = Arc::clone(&change.name);
        let commits = self.registry.update_cron(change).await?;
        self.shown(&name, commits).await
    }

    pub async fn delete_cron(&self, name: &Arc<str>) -> Result<Committed<()>, EngineError> {
        let _call = self.registry.enter()?;
        let commits = self.registry.delete_cron(Arc::clone(name)).await?;
        Ok(Committed { value: (), commits })
    }

    /// Its times pass, and none of them is missed.
    pub async fn pause_cron(&self, name: &Arc<str>) -> Result<Committed<CronInfo>, EngineError> {
        let _call = self.registry.enter()?;
        let (_, commit) = self.change(name, || CronCommand::Pause(Arc::clone(name))).await?;
        self.shown(name, vec![commit]).await
    }

    pub async fn resume_cron(&self, name: &Arc<str>) -> Result<Committed<()>, EngineError> {
        let _call = self.registry.enter()?;
        let (_, commit) = self.change(name, || CronCommand::Resume(Arc::clone(name))).await?;
        Ok(Committed { value: (), commits: vec![commit] })
    }

    /// Makes its item now, also when it is paused. Its times stay as they are.
    pub async fn trigger_cron(&self, name: &Arc<str>) -> Result<Committed<ProducedItem>, EngineError> {
        let _call = self.registry.enter()?;
        let (reply, commit) = self.change(name, || CronCommand::Trigger(Arc::clone(name))).await?;
        let Reply::Triggered(made) = reply else { unreachable!("a trigger is answered by the item") };
        let id = ItemId { partition: commit.partition, number: made.number };
        Ok(Committed { value: ProducedItem { id, phase: made.phase }, commits: vec![commit] })
    }

    pub async fn cron(&self, name: &Arc<str>) -> Result<CronInfo, EngineError> {
        let _call = self.registry.enter()?;
        self.show(name).await
    }

    /// By name, from the first one after `pivot` on, without their next times. Empty only at the end of the list.
    pub async fn crons(&self, pivot: Option<Arc<str>>, limit: usize) -> Result<Vec<CronInfo>, EngineError> {
        let _call = self.registry.enter()?;
        let mut crons = Vec::new();
        let mut bytes = 0;
        let mut pivot = pivot;
        loop {
            let page = self.registry.list_crons(pivot, limit - crons.len()).await?;
            let Some(last) = page.last_name else { return Ok(crons) };
            for (queue, home, view) in page.crons {
                bytes += view.cron.template.body_bytes;
                if bytes > PAGE_BYTES_MAX && !crons.is_empty() {
                    return Ok(crons);
                }
                crons.push(self.with_body(&queue, &home, view).await?);
            }
            if crons.len() >= limit {
                return Ok(crons);
            }
            // Some names were nobody's any more.
            pivot = Some(last);
        }
    }

    /// A command about a cron that needs nobody else's consent, sent to where it is.
    async fn change(
        &self,
        name: &Arc<str>,
        command: impl Fn() -> CronCommand,
    ) -> Result<(Reply, Commit), EngineError> {
        let mut looks = 0;
        loop {
            let (queue, home, _) = self.registry.find_cron(name, 0).await?;
            // What may make an item must not come after the queue was found empty.
            let asked = queue.door.pass(|| home.submit(Command::from(command()))).await?;
            match received(asked?.await) {
                Ok(Answer { reply: Done::Reply(reply), sequence }) => {
                    return Ok((reply, Commit { partition: home.id, sequence }));
                }
                Ok(other) => unreachable!("a cron's command is answered by a reply, not {other:?}"),
                Err(EngineError::Refused(Refusal::DuplicateAddress { number })) => {
                    return Err(EngineError::DuplicateAddress { id: ItemId { partition: home.id, number } });
                }
                Err(EngineError::Refused(Refusal::Cron(CronRefusal::Leaves | CronRefusal::NotFound)))
                    if looks < LOOKS_MAX =>
                {
                    looks += 1;
                }
                Err(EngineError::Refused(Refusal::Moved)) if looks < LOOKS_MAX => {
                    looks += 1;
                    self.registry.mend_crons_alone().await?;
                }
                Err(EngineError::Refused(Refusal::Moved)) => {
                    return Err(EngineError::not_applied("the cron waits to go to another partition"));
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn shown(&self, name: &Arc<str>, commits: Vec<Commit>) -> Result<Committed<CronInfo>, EngineError> {
        let unseen = |error| EngineError::unknown(format!("done, but it cannot be shown: {error}"));
        let value = self.show(name).await.map_err(unseen)?;
        Ok(Committed { value, commits })
    }

    async fn show(&self, name: &Arc<str>) -> Result<CronInfo, EngineError> {
        let (queue, home, view) = self.registry.find_cron(name, NEXT_TIMES).await?;
        self.with_body(&queue, &home, view).await
    }

    async fn with_body(
        &self,
        queue: &QueueHandle,
        home: &Handle,
        view: CronView,
    ) -> Result<CronInfo, EngineError> {
        let wanted = vec![(view.cron.template.body, Part::Payload)];
        let body = sound(self.store.read(home.id, wanted).await);
        let body: Option<Bytes> =
            body.map_err(|error| EngineError::not_applied(error.to_string()))?.into_iter().next().flatten();
        Ok(CronInfo { queue: queue.queue.name.clone(), view, body })
    }
}
