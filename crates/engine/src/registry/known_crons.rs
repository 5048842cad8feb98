//! Crons that are there already: shown with their bodies, and compared with what a caller gave who takes such a cron for its own.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::cron::{CronName, CronRefusal, CronView};
use windlass_core::id::ItemId;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Part, QueueName};
use windlass_core::verbs::{CronChange, NewCron};

use super::Registry;
use super::crons::{Found, check_schedule};
use crate::commit::Commit;
use crate::error::EngineError;
use crate::store::sound;

/// How many of its next times a cron is shown with.
pub(crate) const CRON_TIMES_SHOWN: usize = 10;
/// How often a cron is looked for anew, because it is on its way to another partition.
pub(crate) const CRON_LOOKS_MAX: usize = 8;

/// A cron, the queue it makes items in, and the body of those items.
#[derive(Clone, Debug)]
pub struct CronInfo {
    pub queue: QueueName,
    pub view: CronView,
    /// Unset only if the body is lost because the log was damaged.
    pub body: Option<Bytes>,
    /// The item that it made last: it may be gone by now.
    pub last_item: Option<ItemId>,
}

/// The fields that a caller gave of a cron that may be there already.
#[derive(Clone, Debug)]
pub struct GivenCron {
    pub fields: CronChange,
    /// Whether two bodies of items say the same: the caller alone knows what is in a body.
    pub is_same_body: fn(&Bytes, &Bytes) -> bool,
}

/// What came of a call for a cron that may be there already.
pub(crate) enum Ensured {
    Made(Box<Found>, Vec<Commit>),
    There(Box<CronInfo>),
}

impl Registry {
    /// In the turn of the name: no cron of the name is made or deleted between the look and the creation.
    pub(crate) async fn ensure_cron(
        self: &Arc<Self>,
        queue: QueueName,
        new: NewCron,
        given: GivenCron,
    ) -> Result<Ensured, EngineError> {
        check_schedule(&new, self.host.now())?;
        let name = CronName { namespace: Arc::clone(&queue.namespace), name: Arc::clone(&new.name) };
        let (registry, of) = (Arc::clone(self), name.clone());
        let ensured = async move {
            if let Some(found) = registry.find_named(&of).await? {
                let cron = registry.with_body(found).await?;
                check_given(&cron, &queue, &given)?;
                return Ok(Ensured::There(Box::new(cron)));
            }
            let (made, commits) = registry.name_and_create(&queue, new).await?;
            Ok(Ensured::Made(Box::new(made), commits))
        };
        self.in_turn(&self.cron_turns, name, ensured).await
    }

    async fn find_named(&self, name: &CronName) -> Result<Option<Found>, EngineError> {
        match self.named_for(name).await? {
            Some(queue) => self.find_of(&name.name, &queue, CRON_TIMES_SHOWN).await,
            None => Ok(None),
        }
    }

    /// A cron that has moved since it was found left no body behind: its body is read where it is now.
    pub(crate) async fn with_body(&self, mut found: Found) -> Result<CronInfo, EngineError> {
        let mut body = self.body_of(&found).await?;
        for _ in 0..CRON_LOOKS_MAX {
            if body.is_some() {
                break;
            }
            let (name, times) = (&found.view.cron.name, found.view.next_times.len());
            let Some((home, view)) = found.queue.find_cron(name, times).await? else { break };
            let stays = home.id == found.home.id && view.cron.template.body == found.view.cron.template.body;
            if stays {
                break;
            }
            found = Found { home, view, ..found };
            body = self.body_of(&found).await?;
        }
        let last_item = found.view.cron.last_made(found.home.id);
        Ok(CronInfo { queue: found.queue.queue.name.clone(), view: found.view, body, last_item })
    }

    async fn body_of(&self, found: &Found) -> Result<Option<Bytes>, EngineError> {
        let wanted = vec![(found.view.cron.template.body, Part::Payload)];
        let body = sound(self.store.read(found.home.id, wanted).await);
        let mut body = body.map_err(|error| EngineError::not_applied(error.to_string()))?.into_iter();
        Ok(body.next().flatten())
    }
}

fn check_given(cron: &CronInfo, queue: &QueueName, given: &GivenCron) -> Result<(), Refusal> {
    let body = given.fields.item.as_ref().map(|item| &item.body);
    let is_same_body = body.is_none_or(|given_body| {
        cron.body.as_ref().is_some_and(|body| body == given_body || (given.is_same_body)(body, given_body))
    });
    let other_queue = (cron.queue != *queue).then_some("queue");
    match other_queue.or_else(|| cron.view.cron.first_difference(&given.fields, is_same_body)) {
        Some(field) => Err(CronRefusal::Differs { field }.into()),
        None => Ok(()),
    }
}
