//! Where crons are, and what must be done about them one at a time: a name is one cron's of the whole server, and a cron is
//! in one partition. The name is written first and removed last, so that whatever is left half done by a crash is a name
//! without a cron, which is as good as none.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use tracing::{info, warn};
use windlass_core::command::{Command, Refusal, Reply};
use windlass_core::cron::{
    Cron, CronChange, CronCommand, CronHome, CronRefusal, CronView, NameCron, NewCron, Schedule, TakeCron,
};
use windlass_core::id::PartitionId;
use windlass_core::row::{Part, QueueName};
use windlass_core::time::Timestamp;

use super::Registry;
use crate::error::EngineError;
use crate::partition::handle::Handle;
use crate::partition::message::{Answer, Done};
use crate::queue::QueueHandle;
use crate::store::{Term, sound};
use crate::types::Commit;

/// A cron as a partition has it.
struct Seen {
    name: Arc<str>,
    address: Option<Arc<str>>,
    is_leaving: bool,
    is_to_leave: bool,
}

/// A cron, and where it is.
pub(crate) type Found = (Arc<QueueHandle>, Arc<Handle>, CronView);

/// Some of the crons, in the order of names.
pub(crate) struct CronPage {
    pub(crate) crons: Vec<Found>,
    /// The last name that was looked at; unset at the end of the list.
    pub(crate) last_name: Option<Arc<str>>,
}

const NOT_FOUND: EngineError = EngineError::Refused(Refusal::Cron(CronRefusal::NotFound));

impl Registry {
    /// With so many of its next times.
    pub(crate) async fn find_cron(
        self: &Arc<Self>,
        name: &Arc<str>,
        times: usize,
    ) -> Result<Found, EngineError> {
        let home = self.cron_home(name).await?.ok_or(NOT_FOUND)?;
        let mut found = self.look_for(&home, times).await?;
        if found.as_ref().is_some_and(|(.., view)| view.cron.leaves_to.is_some()) {
            let (registry, name) = (Arc::clone(self), Arc::clone(name));
            self.alone(async move { registry.finish_hand_over(&name).await }).await?;
            found = self.look_for(&home, times).await?;
        }
        found.ok_or(NOT_FOUND)
    }

    async fn cron_home(&self, name: &Arc<str>) -> Result<Option<CronHome>, EngineError> {
        let name = Arc::clone(name);
        self.home.query(move |registry, _| registry.cron_home(&name).cloned()).await
    }

    /// Where its name says; elsewhere in its queue, if it is on its way. One that leaves only if nobody has taken it.
    async fn look_for(&self, home: &CronHome, times: usize) -> Result<Option<Found>, EngineError> {
        let Some(queue) = self.queue(&home.queue) else { return Ok(None) };
        let (at_home, others): (Vec<_>, Vec<_>) =
            queue.partitions.iter().partition(|handle| handle.id == home.partition);
        let mut leaving = None;
        for handle in at_home.into_iter().chain(others) {
            let name = Arc::clone(&home.name);
            let view = handle.query(move |partition, now| partition.cron(&name, now, times)).await?;
            match view {
                Some(view) if view.cron.leaves_to.is_some() => leaving = Some((Arc::clone(handle), view)),
                Some(view) => return Ok(Some((Arc::clone(&queue), Arc::clone(handle), view))),
                None => {}
            }
        }
        Ok(leaving.map(|(handle, view)| (queue, handle, view)))
    }

    pub(crate) async fn list_crons(
        self: &Arc<Self>,
        pivot: Option<Arc<str>>,
        limit: usize,
    ) -> Result<CronPage, EngineError> {
        let homes = move |registry: &windlass_core::partition::Partition, _| {
            registry.cron_homes(pivot.as_deref()).take(limit).cloned().collect::<Vec<_>>()
        };
        let homes: Vec<CronHome> = self.home.query(homes).await?;
        let last_name = homes.last().map(|home| Arc::clone(&home.name));
        let mut found = self.ask_homes(&homes).await?;
        let (mut crons, mut unavailable) = (Vec::with_capacity(homes.len()), None);
        for home in homes {
            // One that was not found may be on its way.
            let looked = match found.remove(&home.name) {
                Some(found) => Ok(Some(found)),
                None => self.look_for(&home, 0).await,
            };
            match looked {
                Ok(found) => crons.extend(found),
                // A partition that cannot serve now is passed over, as in other lists.
                Err(error @ EngineError::Unavailable { .. }) => unavailable = Some(error),
                Err(error) => return Err(error),
            }
        }
        match unavailable {
            Some(error) if crons.is_empty() => Err(error),
            Some(_) | None => Ok(CronPage { crons, last_name }),
        }
    }

    /// One question for each partition, and all are asked before the first is waited for.
    async fn ask_homes(&self, homes: &[CronHome]) -> Result<BTreeMap<Arc<str>, Found>, EngineError> {
        let mut by_partition: BTreeMap<PartitionId, Vec<Arc<str>>> = BTreeMap::new();
        for home in homes {
            by_partition.entry(home.partition).or_default().push(Arc::clone(&home.name));
        }
        let mut asked = Vec::new();
        for (id, names) in by_partition {
            let Some(home) = self.home_of(id) else { continue };
            let question = move |partition: &windlass_core::partition::Partition, now: Timestamp| {
                names.iter().filter_map(|name| partition.cron(name, now, 0)).collect::<Vec<_>>()
            };
            // Who cannot be asked is looked for one by one.
            if let Ok(answer) = home.partition.ask(question) {
                asked.push((home, answer));
            }
        }
        let mut found = BTreeMap::new();
        for (home, answer) in asked {
            for view in answer.await.unwrap_or_default() {
                let name = Arc::clone(&view.cron.name);
                found.insert(name, (Arc::clone(&home.queue), Arc::clone(&home.partition), view));
            }
        }
        Ok(found)
    }

    pub(crate) async fn create_cron(
        self: &Arc<Self>,
        queue: QueueName,
        new: NewCron,
    ) -> Result<Vec<Commit>, EngineError> {
        // Before the name is written.
        Schedule::parse(&new.schedule, &new.timezone, self.now())
            .map_err(|error| Refusal::Cron(CronRefusal::Schedule(error)))?;
        let registry = Arc::clone(self);
        self.alone(async move { registry.create_alone(&queue, new).await }).await
    }

    async fn create_alone(&self, queue: &QueueName, new: NewCron) -> Result<Vec<Commit>, EngineError> {
        let queue = self.queue(queue).ok_or(Refusal::NoSuchQueue)?;
        let home = Arc::clone(queue.cron_home(&new.name, new.item.address.as_ref()).await?);
        let known = self.cron_home(&new.name).await?;
        if let Some(known) = &known {
            self.check_name_free(known).await?;
        }
        let name = Arc::clone(&new.name);
        let mut commits =
            vec![self.name_cron(&name, &queue, &home, known.map(|known| known.partition)).await?];
        match home.command(Command::from(CronCommand::Create(new))).await {
            Ok(answer) => commits.push(commit(&home, &answer)),
            Err(error) => {
                // A name that is left over is as good as none, but it counts.
                if let EngineError::Refused(_) = error {
                    self.unname_cron(&name, home.id).await?;
                }
                return Err(error);
            }
        }
        Ok(commits)
    }

    /// A name without a cron is as good as none, but nobody may say so for a partition that cannot be asked.
    async fn check_name_free(&self, known: &CronHome) -> Result<(), EngineError> {
        if self.look_for(known, 0).await?.is_some() {
            return Err(Refusal::Cron(CronRefusal::Exists).into());
        }
        let of = known.queue.clone();
        let registered =
            self.home.query(move |registry, _| registry.queues().any(|queue| queue.name == of)).await?;
        if registered && self.queue(&known.queue).is_none() {
            return Err(EngineError::not_applied("the queue that has a cron of the name does not run yet"));
        }
        Ok(())
    }

    async fn name_cron(
        &self,
        name: &Arc<str>,
        queue: &QueueHandle,
        home: &Handle,
        instead_of: Option<PartitionId>,
    ) -> Result<Commit, EngineError> {
        let home = CronHome {
            name: Arc::clone(name),
            queue: queue.queue.name.clone(),
            partition: home.id,
            unknown: Vec::new(),
        };
        let command = CronCommand::Name(NameCron { home, instead_of });
        let answer = self.home.command(Command::from(command)).await?;
        Ok(commit(&self.home, &answer))
    }

    async fn unname_cron(&self, name: &Arc<str>, partition: PartitionId) -> Result<Commit, EngineError> {
        let command = CronCommand::Unname { name: Arc::clone(name), partition };
        let answer = self.home.command(Command::from(command)).await?;
        Ok(commit(&self.home, &answer))
    }

    pub(crate) async fn delete_cron(self: &Arc<Self>, name: Arc<str>) -> Result<Vec<Commit>, EngineError> {
        let registry = Arc::clone(self);
        self.alone(async move { registry.delete_alone(&name).await }).await
    }

    async fn delete_alone(&self, name: &Arc<str>) -> Result<Vec<Commit>, EngineError> {
        let known = self.cron_home(name).await?.ok_or(NOT_FOUND)?;
        let mut commits = Vec::new();
        // One that is on its way may be in two partitions.
        let begun = |error, commits: &[Commit]| match commits {
            [] => error,
            _ => EngineError::unknown(format!("deleted in part: {error}")),
        };
        while let Some((_, home, _)) =
            self.look_for(&known, 0).await.map_err(|error| begun(error, &commits))?
        {
            let deleted = home.command(Command::from(CronCommand::Delete(Arc::clone(name)))).await;
            commits.push(commit(&home, &deleted.map_err(|error| begun(error, &commits))?));
        }
        let unnamed =
            self.unname_cron(name, known.partition).await.map_err(|error| begun(error, &commits))?;
        if commits.is_empty() {
            return Err(NOT_FOUND);
        }
        commits.push(unnamed);
        Ok(commits)
    }

    pub(crate) async fn update_cron(
        self: &Arc<Self>,
        change: CronChange,
    ) -> Result<Vec<Commit>, EngineError> {
        let registry = Arc::clone(self);
        self.alone(async move { registry.update_alone(change).await }).await
    }

    async fn update_alone(&self, change: CronChange) -> Result<Vec<Commit>, EngineError> {
        self.finish_hand_over(&change.name).await?;
        let known = self.cron_home(&change.name).await?.ok_or(NOT_FOUND)?;
        let (queue, mut home, view) = self.look_for(&known, 0).await?.ok_or(NOT_FOUND)?;
        let mut commits = Vec::new();
        if let Some(item) = &change.item {
            check_change(&change, &view.cron)?;
            // Without an address it is well where it is.
            let next = match &item.address {
                Some(address) => queue.cron_home(&change.name, Some(address)).await?,
                None => &Arc::clone(&home),
            };
            if next.id != home.id {
                let handed_over = self.hand_over(&change.name, &queue, &home, next).await;
                // A cron that has been given up runs nowhere until it is taken.
                commits.extend(handed_over.inspect_err(|_| self.stale.notify_one())?);
                home = Arc::clone(next);
            }
        }
        let answer = home.command(Command::from(CronCommand::Update(change))).await?;
        commits.push(commit(&home, &answer));
        Ok(commits)
    }

    /// If it is on its way.
    async fn finish_hand_over(&self, name: &Arc<str>) -> Result<(), EngineError> {
        let Some(known) = self.cron_home(name).await? else { return Ok(()) };
        let Some((queue, from, view)) = self.look_for(&known, 0).await? else { return Ok(()) };
        let Some(to) = view.cron.leaves_to else { return Ok(()) };
        let to = match queue.partitions.iter().find(|handle| handle.id == to) {
            Some(to) => to,
            // The partition has gone since, without the cron: a partition that has a cron stays.
            None => queue.cron_home(name, view.cron.address.as_ref()).await?,
        };
        // A cron that was leaving an adopted partition may be at home there by now: it comes back from another one.
        let elsewhere = || queue.partitions.iter().find(|handle| handle.id != from.id).unwrap_or(to);
        let to = if to.id == from.id { elsewhere() } else { to };
        self.hand_over(name, &queue, &from, to).await?;
        Ok(())
    }

    /// From one partition to another of its queue: it stops here and goes on there, and each of its times runs once. Whatever
    /// has been done of it before is not done again. Only with nobody else about to change crons.
    pub(crate) async fn hand_over(
        &self,
        name: &Arc<str>,
        queue: &QueueHandle,
        from: &Handle,
        to: &Handle,
    ) -> Result<Vec<Commit>, EngineError> {
        if from.id == to.id {
            return Err(EngineError::not_applied("the registry knows less than a partition about its crons"));
        }
        let given_up = Term::now(&*self.store, from.id);
        let give_up = CronCommand::GiveUp { name: Arc::clone(name), to: to.id };
        let given = from.command(Command::from(give_up)).await?;
        let mut commits = vec![commit(from, &given)];
        let Done::Reply(Reply::CronGivenUp(cron)) = given.reply else {
            unreachable!("what is given up is told")
        };
        let (body, facts) = self.bodies_of(from, &cron).await.map_err(on_its_way)?;
        // If `from` forgot that it gave the cron up, both would run it.
        self.store.sync(given_up).await.map_err(on_its_way)?;
        let took = Term::now(&*self.store, to.id);
        let take = TakeCron { cron: *cron, body, facts };
        let taken = to.command(Command::from(CronCommand::Take(Box::new(take)))).await.map_err(on_its_way)?;
        commits.push(commit(to, &taken));
        self.store.sync(took).await.map_err(on_its_way)?;
        commits.push(self.name_cron(name, queue, to, Some(self.named_at(name).await?)).await?);
        let forgotten = from.command(Command::from(CronCommand::Forget(Arc::clone(name)))).await?;
        commits.push(commit(from, &forgotten));
        Ok(commits)
    }

    async fn named_at(&self, name: &Arc<str>) -> Result<PartitionId, EngineError> {
        Ok(self.cron_home(name).await?.ok_or(NOT_FOUND)?.partition)
    }

    /// The payload and the facts of a cron's template. A lost payload stays lost: items are made without it, and fail.
    async fn bodies_of(
        &self,
        from: &Handle,
        cron: &Cron,
    ) -> Result<(Option<Bytes>, Option<Bytes>), EngineError> {
        let number = cron.template.body;
        let wanted = vec![(number, Part::Payload), (number, Part::Facts)];
        let read = sound(self.store.read(from.id, wanted).await);
        let mut read = read.map_err(|error| EngineError::not_applied(error.to_string()))?.into_iter();
        Ok((read.next().flatten(), read.next().flatten()))
    }

    /// With nobody else about to change crons.
    pub(crate) async fn mend_crons_alone(self: &Arc<Self>) -> Result<(), EngineError> {
        let registry = Arc::clone(self);
        self.alone(async move { registry.mend_crons().await.map(|_asked_all| ()) }).await
    }

    /// Brings crons to where they belong, finishes what a crash or a fault has left half done, and names crons whose names were lost. Tells whether all partitions
    /// could be asked.
    pub(super) async fn mend_crons(&self) -> Result<bool, EngineError> {
        let (mut asked_all, mut failed) = (true, None);
        let known = self.home.query(|registry, _| {
            registry
                .cron_homes(None)
                .map(|home| (Arc::clone(&home.name), home.clone()))
                .collect::<BTreeMap<_, _>>()
        });
        let known = known.await?;
        for name in self.queues().into_iter().map(|queue| queue.name) {
            let Some(queue) = self.queue(&name) else { continue };
            for handle in &queue.partitions {
                let ask = handle.query(|partition, _| {
                    let seen = |cron: &Cron| Seen {
                        name: Arc::clone(&cron.name),
                        address: cron.address.clone(),
                        is_leaving: cron.leaves_to.is_some(),
                        is_to_leave: partition.is_to_leave(cron),
                    };
                    partition.crons().map(seen).collect::<Vec<_>>()
                });
                let Ok(crons) = ask.await else {
                    asked_all = false;
                    continue;
                };
                for seen in crons {
                    let named = known.get(&seen.name);
                    if let Err(error) = self.mend_cron(&queue, handle, &seen, named).await {
                        warn!(cron = %seen.name, partition = %handle.id, %error, "a cron is not where it belongs yet");
                        // One that cannot be helped now keeps nobody else waiting.
                        failed = Some(error);
                    }
                }
            }
        }
        failed.map_or(Ok(asked_all), Err)
    }

    async fn mend_cron(
        &self,
        queue: &QueueHandle,
        at: &Arc<Handle>,
        seen: &Seen,
        named: Option<&CronHome>,
    ) -> Result<(), EngineError> {
        let Seen { name, address, is_leaving, is_to_leave } = seen;
        // Lost with the registry, or of the queue that the partition was of before it was adopted.
        let of_another_queue = |home: &CronHome| home.partition == at.id && home.queue != queue.queue.name;
        if named.is_none_or(of_another_queue) {
            warn!(cron = %name, partition = %at.id, "naming a cron whose name was lost");
            self.name_cron(name, queue, at, named.map(|home| home.partition)).await?;
        }
        if *is_leaving {
            info!(cron = %name, partition = %at.id, "finishing the move of a cron");
            self.finish_hand_over(name).await?;
        } else if *is_to_leave {
            let home = queue.cron_home(name, address.as_ref()).await?;
            self.hand_over(name, queue, at, home).await?;
        }
        Ok(())
    }
}

impl QueueHandle {
    /// Where a cron of this queue belongs: with its address, if it has one, for there alone is known whether that is free.
    /// As long as an item bears it where it was at home before, that is there.
    async fn cron_home(&self, name: &str, address: Option<&Arc<str>>) -> Result<&Arc<Handle>, EngineError> {
        let Some(address) = address else { return self.home(name) };
        match self.former_home_holding(address).await? {
            Some(holder) => Ok(holder),
            None => self.home(address),
        }
    }
}

/// Before it is moved for it.
fn check_change(change: &CronChange, cron: &Cron) -> Result<(), EngineError> {
    let schedule = change.schedule.as_ref().unwrap_or(&cron.schedule);
    let timezone = change.timezone.as_ref().unwrap_or(&cron.timezone);
    Schedule::parse(schedule, timezone, cron.created_at)
        .map_err(|error| Refusal::Cron(CronRefusal::Schedule(error)))?;
    Ok(())
}

fn commit(handle: &Handle, answer: &Answer) -> Commit {
    Commit { partition: handle.id, sequence: answer.sequence }
}

/// It runs nowhere until it is taken: whoever asked is told, and the registry goes on trying.
fn on_its_way(error: impl Display) -> EngineError {
    EngineError::unknown(format!("the cron is on its way to another partition: {error}"))
}
