//! The names of crons: each belongs to one cron of its namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use crate::cron::{CronHome, CronName, CronRefusal};
use crate::footprint::Footprint;
use crate::limits::{CRONS_MAX, Invalid, QUEUE_CRONS_MAX, check_name};
use crate::refusal::{Limit, Refusal};
use crate::registry::{Changes, Registry};
use crate::row::{Key, QueueName, Row};
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};

/// Takes the name of a cron away, unless the name belongs to another queue by now.
#[derive(Clone, Debug)]
pub struct UnnameCron(pub CronHome);

/// Gives a name to a cron of a queue.
#[derive(Clone, Debug)]
pub struct NameCron {
    pub home: CronHome,
    /// The queue that the name belongs to now, as far as the caller knows: refused if it belongs to another by now.
    pub instead_of: Option<QueueName>,
}

impl Verb<Registry> for NameCron {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        check_name("cron", &self.home.name)
    }

    fn decide(self, registry: &mut Registry, _now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.name_cron(self, out)
    }
}

impl Verb<Registry> for UnnameCron {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, registry: &mut Registry, _now: Timestamp, out: &mut Changes) -> Decided<Self, Registry> {
        registry.unname_cron(&self.0, out);
        Ok(())
    }
}

impl Registry {
    fn name_cron(&mut self, name: NameCron, out: &mut Changes) -> Result<(), Refusal> {
        let NameCron { home, instead_of } = name;
        if !self.queues.contains_key(&home.queue) {
            return Err(Refusal::no_such_queue(&home.queue));
        }
        let before = self.cron_names.get(&home.cron_name());
        if before.map(|before| &before.queue) != instead_of.as_ref() {
            return Err(CronRefusal::Exists.into());
        }
        if before.is_none() && self.cron_names.len() >= CRONS_MAX {
            return Err(Refusal::AtLimit { limit: Limit::Crons, max: CRONS_MAX });
        }
        let of_queue = self.cron_names.of_queue(&home.queue);
        let is_new = !of_queue.is_some_and(|names| names.contains(&home.name));
        if is_new && of_queue.is_some_and(|names| names.len() >= QUEUE_CRONS_MAX) {
            return Err(Refusal::AtLimit { limit: Limit::CronsPerQueue, max: QUEUE_CRONS_MAX });
        }
        self.record(Row::CronHome(Box::new(home)), out);
        Ok(())
    }

    fn unname_cron(&mut self, home: &CronHome, out: &mut Changes) {
        let name = home.cron_name();
        if self.cron_names.get(&name).is_some_and(|named| named.queue == home.queue) {
            self.erase_cron_name(name, out);
        }
    }

    /// The names of a queue's crons go with the queue.
    pub(super) fn erase_cron_names(&mut self, queue: &QueueName, out: &mut Changes) {
        let names: Vec<Arc<str>> = self.cron_names.of_queue(queue).into_iter().flatten().cloned().collect();
        for name in names {
            let namespace = Arc::clone(&queue.namespace);
            self.erase_cron_name(CronName { namespace, name }, out);
        }
    }

    fn erase_cron_name(&mut self, name: CronName, out: &mut Changes) {
        self.erase_row(Key::CronHome(name), out);
    }

    /// The queue that a name belongs to, as far as is known here.
    pub fn cron_home(&self, name: &CronName) -> Option<&CronHome> {
        self.cron_names.get(name)
    }

    /// The names of a namespace in their order, from the first one after `pivot` on.
    pub fn cron_homes<'a>(
        &'a self,
        namespace: &'a Arc<str>,
        pivot: Option<&Arc<str>>,
    ) -> impl Iterator<Item = &'a CronHome> {
        self.cron_names.after(namespace, pivot)
    }
}

/// The names of crons, and the queue that each belongs to.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CronNames {
    by_name: BTreeMap<CronName, CronHome>,
    by_queue: BTreeMap<QueueName, BTreeSet<Arc<str>>>,
}

impl CronNames {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn get(&self, name: &CronName) -> Option<&CronHome> {
        self.by_name.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &CronHome> {
        self.by_name.values()
    }

    /// The names of a namespace after a name, or all of them.
    pub(super) fn after<'a>(
        &'a self,
        namespace: &'a Arc<str>,
        pivot: Option<&Arc<str>>,
    ) -> impl Iterator<Item = &'a CronHome> {
        let named = |name| CronName { namespace: Arc::clone(namespace), name };
        let from = match pivot {
            Some(pivot) => Excluded(named(Arc::clone(pivot))),
            None => Included(named("".into())),
        };
        let homes = self.by_name.range((from, Unbounded)).map(|(_, home)| home);
        homes.take_while(move |home| home.queue.namespace == *namespace)
    }

    pub(super) fn of_queue(&self, queue: &QueueName) -> Option<&BTreeSet<Arc<str>>> {
        self.by_queue.get(queue)
    }

    pub(super) fn insert(&mut self, home: CronHome) {
        self.remove(&home.cron_name());
        self.by_queue.entry(home.queue.clone()).or_default().insert(Arc::clone(&home.name));
        self.by_name.insert(home.cron_name(), home);
    }

    pub(super) fn remove(&mut self, name: &CronName) {
        let Some(before) = self.by_name.remove(name) else { return };
        let names = self.by_queue.get_mut(&before.queue).expect("every name is with its queue");
        names.remove(&name.name);
        if names.is_empty() {
            self.by_queue.remove(&before.queue);
        }
    }
}
