//! The names of crons, and making and deleting the crons that bear them. A name belongs to one cron of its namespace, and the
//! registry knows the queue of each name; the partitions of that queue know whether there is a cron. The name is written first
//! and removed last, so that whatever is left half done by a crash is a name without a cron, which is as good as none.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::cron::{CronHome, CronName, CronRefusal, CronView, Schedule};
use windlass_core::refusal::Refusal;
use windlass_core::registry;
use windlass_core::row::QueueName;
use windlass_core::time::Timestamp;
use windlass_core::verbs::{NameCron, NewCron, UnnameCron};

use super::Registry;
use crate::commit::Commit;
use crate::error::EngineError;
use crate::machine::Served;
use crate::machine::call::{Answer, received};
use crate::machine::mailbox::Mailbox;
use crate::partition::handle::Handle;
use crate::queue::QueueHandle;

/// A cron, its queue, and the partition that has it.
pub(crate) struct Found {
    pub(crate) queue: Arc<QueueHandle>,
    pub(crate) home: Arc<Handle>,
    pub(crate) view: CronView,
}

/// Some of the crons, in the order of names.
pub(crate) struct CronPage {
    pub(crate) crons: Vec<Found>,
    /// The last name that was looked at; unset at the end of the list.
    pub(crate) last_name: Option<Arc<str>>,
}

/// How often a cron's home is looked for anew, because other routes came to count meanwhile.
const ROUTES_MAX: usize = 8;
const NOT_FOUND: EngineError = EngineError::Refused(Refusal::Cron(CronRefusal::NotFound));

impl Registry {
    /// With so many of its next times.
    pub(crate) async fn find_cron(&self, name: &CronName, times: usize) -> Result<Found, EngineError> {
        let queue = self.queue_of_cron(name).await?;
        let (home, view) = queue.find_cron(&name.name, times).await?.ok_or(NOT_FOUND)?;
        Ok(Found { queue, home, view })
    }

    /// The queue that the name belongs to, whether or not it has a cron of the name.
    pub(crate) async fn queue_of_cron(&self, name: &CronName) -> Result<Arc<QueueHandle>, EngineError> {
        let named_for = self.named_for(name).await?.ok_or(NOT_FOUND)?;
        self.host.queue(&named_for).ok_or(NOT_FOUND)
    }

    pub(super) async fn named_for(&self, name: &CronName) -> Result<Option<QueueName>, EngineError> {
        let name = name.clone();
        self.home.query(move |registry, _| registry.cron_home(&name).map(|home| home.queue.clone())).await
    }

    /// A partition that cannot serve now is passed over, as in other lists.
    pub(crate) async fn list_crons(
        &self,
        namespace: Arc<str>,
        pivot: Option<Arc<str>>,
        limit: usize,
    ) -> Result<CronPage, EngineError> {
        let homes = move |registry: &registry::Registry, _| {
            registry.cron_homes(&namespace, pivot.as_ref()).take(limit).cloned().collect::<Vec<_>>()
        };
        let homes = self.home.query(homes).await?;
        let last_name = homes.last().map(|home| Arc::clone(&home.name));
        let mut by_queue: BTreeMap<QueueName, Vec<Arc<str>>> = BTreeMap::new();
        for CronHome { name, queue, .. } in homes {
            by_queue.entry(queue).or_default().push(name);
        }
        let (mut crons, mut unavailable) = (Vec::new(), None);
        for (name, names) in by_queue {
            let Some(queue) = self.host.queue(&name) else { continue };
            let (found, unsure) = queue.find_crons(names, 0).await;
            let found = found.into_values();
            crons.extend(found.map(|(home, view)| Found { queue: Arc::clone(&queue), home, view }));
            unavailable = unavailable.or(unsure);
        }
        crons.sort_by(|one, other| one.view.cron.name.cmp(&other.view.cron.name));
        match unavailable {
            Some(error) if crons.is_empty() => Err(error),
            Some(_) | None => Ok(CronPage { crons, last_name }),
        }
    }

    pub(crate) async fn create_cron(
        self: &Arc<Self>,
        queue: QueueName,
        new: NewCron,
    ) -> Result<(Found, Vec<Commit>), EngineError> {
        check_schedule(&new, self.host.now())?;
        let name = CronName { namespace: Arc::clone(&queue.namespace), name: Arc::clone(&new.name) };
        let registry = Arc::clone(self);
        let created = async move { registry.name_and_create(&queue, new).await };
        self.in_turn(&self.cron_turns, name, created).await
    }

    pub(super) async fn name_and_create(
        &self,
        queue: &QueueName,
        new: NewCron,
    ) -> Result<(Found, Vec<Commit>), EngineError> {
        self.host.queue(queue).ok_or_else(|| Refusal::no_such_queue(queue))?;
        let named = CronHome { name: Arc::clone(&new.name), queue: queue.clone(), unknown: Vec::new() };
        let instead_of = self.named_for(&named.cron_name()).await?;
        if let Some(before) = &instead_of {
            self.check_name_free(&named.name, before).await?;
        }
        let name = NameCron { home: named.clone(), instead_of };
        let mut commits = vec![commit(&self.home, &self.home.apply(name).await?)];
        let created = self.create_at_home(queue, new).await;
        match &created {
            // A name that is left over is as good as none, but it counts. If there is a cron of the name, the name is that cron's.
            Err(EngineError::Refused(refusal)) if *refusal != Refusal::Cron(CronRefusal::Exists) => {
                self.home.apply(UnnameCron(named)).await?;
            }
            Ok(_) | Err(_) => {}
        }
        let (queue, home, created) = created?;
        commits.push(commit(&home, &created));
        Ok((Found { queue, home, view: created.reply }, commits))
    }

    /// Makes the cron where it belongs by the routes that count: a partition that drains has the cron before it is asked whether it
    /// is empty.
    async fn create_at_home(
        &self,
        name: &QueueName,
        new: NewCron,
    ) -> Result<(Arc<QueueHandle>, Arc<Handle>, Answer<CronView>), EngineError> {
        for _ in 0..ROUTES_MAX {
            let queue = self.host.queue(name).ok_or_else(|| Refusal::no_such_queue(name))?;
            let home = Arc::clone(queue.cron_home(&new.name, new.item.address.as_ref()).await?);
            match queue.pass_with_routes(|| home.submit(new.clone())).await {
                Err(EngineError::Refused(Refusal::Moved)) => {}
                asked => {
                    let answer = received(asked??.await)?;
                    return Ok((queue, home, answer));
                }
            }
        }
        Err(EngineError::not_applied("the partitions of the queue are changing"))
    }

    /// Gives the name of a cron to the queue that its partition was adopted into.
    pub(super) async fn name_adopted(&self, name: CronName, queue: &QueueName) -> Result<(), EngineError> {
        let instead_of = self.named_for(&name).await?;
        if instead_of.as_ref() != Some(queue) {
            let home = CronHome { name: name.name, queue: queue.clone(), unknown: Vec::new() };
            self.home.apply(NameCron { home, instead_of }).await?;
        }
        Ok(())
    }

    /// A name without a cron is as good as none, but nobody may say so for a partition that cannot be asked.
    async fn check_name_free(&self, name: &Arc<str>, named_for: &QueueName) -> Result<(), EngineError> {
        match self.find_of(name, named_for, 0).await? {
            Some(_) => Err(Refusal::Cron(CronRefusal::Exists).into()),
            None => Ok(()),
        }
    }

    /// The cron of a name that belongs to the queue, with so many of its next times.
    pub(super) async fn find_of(
        &self,
        name: &Arc<str>,
        named_for: &QueueName,
        times: usize,
    ) -> Result<Option<Found>, EngineError> {
        let Some(queue) = self.host.queue(named_for) else {
            let of = named_for.clone();
            let registered = self.home.query(move |registry, _| registry.queue(&of).is_some()).await?;
            let not_yet = "the queue that has a cron of the name does not run yet";
            return if registered { Err(EngineError::not_applied(not_yet)) } else { Ok(None) };
        };
        let found = queue.find_cron(name, times).await?;
        Ok(found.map(|(home, view)| Found { queue, home, view }))
    }

    /// Deletes the cron by `delete`, and then its name.
    pub(crate) async fn delete_cron<F>(
        self: &Arc<Self>,
        name: CronName,
        delete: impl FnOnce() -> F + Send + 'static,
    ) -> Result<Vec<Commit>, EngineError>
    where
        F: Future<Output = Result<Commit, EngineError>> + Send + 'static,
    {
        let (registry, of) = (Arc::clone(self), name.clone());
        let deleted = async move {
            let queue = registry.named_for(&of).await?.ok_or(NOT_FOUND)?;
            let deleted = delete().await;
            match &deleted {
                Ok(_) | Err(EngineError::Refused(Refusal::Cron(CronRefusal::NotFound))) => {}
                Err(_) => return deleted.map(|commit| vec![commit]),
            }
            // A name without a cron goes too.
            let named = CronHome { name: of.name, queue, unknown: Vec::new() };
            let unnamed = registry.home.apply(UnnameCron(named)).await;
            let deleted = deleted?;
            let left =
                |error| EngineError::unknown(format!("the cron is deleted, but not its name: {error}"));
            Ok(vec![deleted, commit(&registry.home, &unnamed.map_err(left)?)])
        };
        self.in_turn(&self.cron_turns, name, deleted).await
    }
}

/// To be called before the name of the cron is written.
pub(super) fn check_schedule(new: &NewCron, now: Timestamp) -> Result<(), Refusal> {
    let parsed = Schedule::parse(&new.schedule, &new.timezone, now);
    parsed.map(drop).map_err(|error| Refusal::Cron(CronRefusal::Schedule(error)))
}

fn commit<M: Served, R>(mailbox: &Mailbox<M>, answer: &Answer<R>) -> Commit {
    Commit { partition: mailbox.id, sequence: answer.sequence }
}
