//! The crons of the partition, derived from their rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cron::Cron;
use crate::partition::Partition;
use crate::time::Timestamp;

#[derive(Debug, Default, PartialEq)]
pub(in crate::partition) struct Crons {
    by_name: BTreeMap<Arc<str>, Box<Cron>>,
    /// Those that wait for a time, by that.
    due: BTreeSet<(Timestamp, Arc<str>)>,
}

impl Crons {
    pub(in crate::partition) fn get(&self, name: &str) -> Option<&Cron> {
        self.by_name.get(name).map(|cron| &**cron)
    }

    pub(in crate::partition) fn iter(&self) -> impl Iterator<Item = &Cron> {
        self.by_name.values().map(|cron| &**cron)
    }

    pub(in crate::partition) fn due(&self) -> impl Iterator<Item = (Timestamp, &Arc<str>)> {
        self.due.iter().map(|(at, name)| (*at, name))
    }

    pub(in crate::partition) fn insert(&mut self, cron: Box<Cron>) -> Option<Box<Cron>> {
        let before = self.remove(&cron.name);
        self.due.extend(cron.due_at().map(|at| (at, Arc::clone(&cron.name))));
        self.by_name.insert(Arc::clone(&cron.name), cron);
        before
    }

    pub(in crate::partition) fn remove(&mut self, name: &Arc<str>) -> Option<Box<Cron>> {
        let before = self.by_name.remove(name)?;
        if let Some(at) = before.due_at() {
            self.due.remove(&(at, Arc::clone(name)));
        }
        Some(before)
    }
}

impl Partition {
    pub(in crate::partition) fn put_cron(&mut self, cron: Box<Cron>) {
        // Kept in mind, so that there is room for it when the time comes.
        let kind = self.kinds.index(&cron.template.kind);
        self.kinds.join(kind);
        let (name, leaves) = (Arc::clone(&cron.name), cron.leaves.clone());
        if let Some(before) = self.crons.insert(cron) {
            self.has_gone(&before);
        }
        if let Some(leaves) = &leaves {
            self.outbox.insert_cron(&name, leaves);
        }
    }

    pub(in crate::partition) fn remove_cron(&mut self, name: &Arc<str>) {
        if let Some(before) = self.crons.remove(name) {
            self.has_gone(&before);
        }
    }

    fn has_gone(&mut self, cron: &Cron) {
        self.part_kind(cron);
        if let Some(leaves) = &cron.leaves {
            self.outbox.remove_cron(leaves);
        }
    }

    fn part_kind(&mut self, cron: &Cron) {
        let kind = self.kinds.find(&cron.template.kind).expect("it was joined when the row came");
        self.kinds.part(kind);
    }
}
