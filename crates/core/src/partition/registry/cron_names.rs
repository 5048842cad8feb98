//! The names of crons, in the partition with number 0: each belongs to one cron of its namespace.

use std::sync::Arc;

use crate::cron::{CronHome, CronName, CronRefusal};
use crate::footprint::Footprint;
use crate::limits::{CRONS_MAX, Invalid, QUEUE_CRONS_MAX, check_name};
use crate::partition::{Output, Partition};
use crate::refusal::{Limit, Refusal};
use crate::row::{Key, QueueName, Row};
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};

/// Registry only: takes the name of a cron away, unless it belongs to another queue by now.
#[derive(Clone, Debug)]
pub struct UnnameCron(pub CronHome);

/// Registry only: gives a name to a cron of a queue.
#[derive(Clone, Debug)]
pub struct NameCron {
    pub home: CronHome,
    /// The queue that the name belongs to now, as far as the caller knows: refused if it belongs to another by now.
    pub instead_of: Option<QueueName>,
}

impl Verb for NameCron {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        check_name("cron", &self.home.name)
    }

    fn decide(self, partition: &mut Partition, _now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.name_cron(self, out)
    }
}

impl Verb for UnnameCron {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Frees;

    fn decide(self, partition: &mut Partition, _now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.unname_cron(&self.0, out);
        Ok(())
    }
}

impl Partition {
    fn name_cron(&mut self, name: NameCron, out: &mut Output) -> Result<(), Refusal> {
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

    fn unname_cron(&mut self, home: &CronHome, out: &mut Output) {
        let name = home.cron_name();
        if self.cron_names.get(&name).is_some_and(|named| named.queue == home.queue) {
            self.erase_cron_name(name, out);
        }
    }

    /// With their queue.
    pub(in crate::partition) fn erase_cron_names(&mut self, queue: &QueueName, out: &mut Output) {
        let names: Vec<Arc<str>> = self.cron_names.of_queue(queue).into_iter().flatten().cloned().collect();
        for name in names {
            let namespace = Arc::clone(&queue.namespace);
            self.erase_cron_name(CronName { namespace, name }, out);
        }
    }

    fn erase_cron_name(&mut self, name: CronName, out: &mut Output) {
        self.erase_row(Key::CronHome(name), out);
    }

    /// Registry only: the queue that a name belongs to, as far as is known here.
    pub fn cron_home(&self, name: &CronName) -> Option<&CronHome> {
        self.cron_names.get(name)
    }

    /// Registry only: the names of a namespace in their order, from the first one after `pivot` on.
    pub fn cron_homes<'a>(
        &'a self,
        namespace: &'a Arc<str>,
        pivot: Option<&Arc<str>>,
    ) -> impl Iterator<Item = &'a CronHome> {
        self.cron_names.after(namespace, pivot)
    }
}
