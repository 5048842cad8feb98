//! Keeps count while a log is read: which items have their row, which bodies their rows speak of, and which of those were
//! found.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Change, Key, Part, QueueName, Row};

use super::account::{Account, PartitionAccount};
use super::known::{Known, Parts};
use crate::store::bodies::BodyKey;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    partitions: BTreeMap<u32, Counted>,
    queues: BTreeMap<QueueName, Vec<PartitionId>>,
    /// Commits found missing by their numbers, those of dropped partitions too.
    commits_missing: u64,
    commits_dropped: u64,
}

#[derive(Debug, Default)]
struct Counted {
    items: BTreeMap<ItemNumber, Known>,
    /// By item and the number of the first event: whether the row and the body were found.
    events: BTreeMap<(ItemNumber, u64), (bool, bool)>,
    /// All other rows, each with the numbers under which the bodies of its templates are.
    others: BTreeMap<Key, Vec<ItemNumber>>,
    /// The last commit, where it is known.
    sequence: Option<u64>,
    commits_missing: u64,
    may_miss_more: bool,
}

impl Ledger {
    /// A partition of the snapshot, and the number of its last commit.
    pub(crate) fn begin(&mut self, partition: u32, sequence: u64) {
        self.partitions.entry(partition).or_default().sequence = Some(sequence);
    }

    /// A commit was found. `first`: the number before a partition's first commit, if that can be known.
    pub(crate) fn commit(&mut self, partition: u32, sequence: u64, first: Option<u64>) {
        let counted = self.partitions.entry(partition).or_default();
        let last = counted.sequence.or(first);
        let missing = last.map_or(0, |last| sequence.saturating_sub(last + 1));
        counted.commits_missing += missing;
        counted.may_miss_more |= missing > 0;
        counted.sequence = Some(sequence);
        self.commits_missing += missing;
    }

    /// A commit cannot be read, but for its number.
    pub(crate) fn lost_commit(&mut self, partition: u32, sequence: u64, first: Option<u64>) {
        self.commit(partition, sequence, first);
        let counted = self.partitions.entry(partition).or_default();
        counted.commits_missing += 1;
        counted.may_miss_more = true;
        self.commits_missing += 1;
    }

    pub(crate) fn drop_partition(&mut self, partition: u32) {
        let dropped = Counted { sequence: Some(0), ..Counted::default() };
        let before = self.partitions.insert(partition, dropped);
        self.commits_dropped += before.map_or(0, |counted| counted.commits_missing);
    }

    /// Missing commits of partitions that were dropped later: nothing of them is wanted.
    pub(crate) fn commits_dropped(&self) -> u64 {
        self.commits_dropped
    }

    pub(crate) fn knows(&self, partition: u32) -> bool {
        self.partitions.contains_key(&partition)
    }

    pub(crate) fn commits_missing(&self) -> u64 {
        self.commits_missing
    }

    /// Rows of the partition may be lost that nothing tells of.
    pub(crate) fn miss_rows(&mut self, partition: u32) {
        self.partitions.entry(partition).or_default().may_miss_more = true;
    }

    pub(crate) fn miss_rows_anywhere(&mut self) {
        self.partitions.values_mut().for_each(|counted| counted.may_miss_more = true);
    }

    /// The key of an item was read where nothing can be trusted.
    pub(crate) fn suspect(&mut self, partition: u32, number: ItemNumber) {
        self.partitions.entry(partition).or_default().items.entry(number).or_default().is_suspected = true;
    }

    pub(crate) fn unsuspect(&mut self, partition: u32, number: ItemNumber) {
        let Some(counted) = self.partitions.get_mut(&partition) else { return };
        if let Some(known) = counted.items.get_mut(&number) {
            known.is_suspected = false;
            if known.is_nothing() {
                counted.items.remove(&number);
            }
        }
    }

    pub(crate) fn apply(&mut self, partition: u32, change: &Change) {
        if let Change::Put(Row::Queue(queue)) = change {
            self.queues.insert(queue.name.clone(), queue.homes().map(|(id, _)| id).collect());
        }
        if let Change::Remove(Key::Queue(name)) = change {
            self.queues.remove(name);
        }
        self.partitions.entry(partition).or_default().apply(change);
    }

    /// Bodies that rows speak of and that were not found.
    pub(crate) fn lacking(&self) -> Vec<(u32, BodyKey)> {
        let all = self.partitions.iter();
        all.flat_map(|(id, counted)| counted.lacking().into_iter().map(|key| (*id, key))).collect()
    }

    pub(crate) fn lacks_bodies(&self, partition: u32) -> bool {
        self.partitions.get(&partition).is_some_and(|counted| !counted.lacking().is_empty())
    }

    /// The account once everything is read.
    pub(crate) fn finish(&self, frames_missing: u64) -> Account {
        let mut partitions: BTreeMap<PartitionId, PartitionAccount> = self
            .partitions
            .iter()
            .map(|(id, counted)| (PartitionId(*id), counted.account()))
            .filter(|(_, account)| account.rows > 0 || account.hurt())
            .collect();
        for (name, homes) in &self.queues {
            for id in homes {
                if let Some(account) = partitions.get_mut(id) {
                    account.queue = Some(name.clone());
                }
            }
        }
        Account { partitions, frames_missing }
    }
}

impl Counted {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Put(row) => self.put(row),
            Change::Remove(key) => self.remove(key),
            Change::PutBody { number, part: Part::Events(first_seq), .. } => {
                self.events.entry((*number, *first_seq)).or_default().1 = true;
            }
            Change::PutBody { number, part, .. } => {
                self.items.entry(*number).or_default().has.insert(*part, true);
            }
            Change::RemoveBody { number, part } => self.remove_body(*number, *part),
        }
    }

    fn put(&mut self, row: &Row) {
        match row {
            Row::Item(item) => {
                let known = self.items.entry(item.number).or_default();
                (known.has_row, known.wants) = (true, Parts::wanted_by(item));
            }
            Row::Events(batch) => self.events.entry((batch.item, batch.first_seq)).or_default().0 = true,
            Row::Group(group) => {
                let templates = group.templates().map(|template| template.body).collect();
                self.others.insert(row.key(), templates);
            }
            Row::Cron(cron) => drop(self.others.insert(row.key(), vec![cron.template.body])),
            Row::Numbers(_)
            | Row::Settings(_)
            | Row::Cleared(_)
            | Row::Taken(_)
            | Row::Once(_)
            | Row::Intake(_)
            | Row::Queue(_)
            | Row::Partitions(_)
            | Row::Rules(_)
            | Row::Rule(_)
            | Row::CronHome(_)
            | Row::Dropped(_) => drop(self.others.insert(row.key(), Vec::new())),
        }
    }

    fn remove(&mut self, key: &Key) {
        match key {
            Key::Item(number) => {
                self.items.remove(number);
            }
            Key::Events(number, None) => {
                let all: Vec<_> =
                    self.events.range((*number, 0)..=(*number, u64::MAX)).map(|(key, _)| *key).collect();
                for key in &all {
                    self.events.remove(key);
                }
            }
            Key::Events(number, Some(first_seq)) => {
                self.events.remove(&(*number, *first_seq));
            }
            Key::Numbers
            | Key::Settings
            | Key::Cleared
            | Key::Partitions
            | Key::Queue(_)
            | Key::Taken(_)
            | Key::Once(_)
            | Key::Group(_)
            | Key::Intake
            | Key::Rules(_)
            | Key::Rule(_)
            | Key::Cron(_)
            | Key::CronHome(_)
            | Key::Dropped(_) => drop(self.others.remove(key)),
        }
    }

    fn remove_body(&mut self, number: ItemNumber, part: Part) {
        if let Part::Events(first_seq) = part {
            let batch = self.events.entry((number, first_seq)).or_default();
            batch.1 = false;
            if !batch.0 {
                self.events.remove(&(number, first_seq));
            }
        } else if let Some(known) = self.items.get_mut(&number) {
            known.has.remove(part);
            if known.is_nothing() {
                self.items.remove(&number);
            }
        }
    }

    fn templates(&self) -> impl Iterator<Item = ItemNumber> {
        self.others.values().flatten().copied()
    }

    fn lacking(&self) -> Vec<BodyKey> {
        let of_items = self
            .items
            .iter()
            .flat_map(|(number, known)| known.lacking().map(|part| BodyKey::new(*number, part)));
        let of_events = self.events.iter().filter(|(_, (row, body))| *row && !*body);
        let of_events = of_events.map(|((number, first), _)| BodyKey::new(*number, Part::Events(*first)));
        let of_templates = self.templates().filter(|number| !self.has_payload(*number));
        let of_templates = of_templates.map(|number| BodyKey::new(number, Part::Payload));
        of_items.chain(of_events).chain(of_templates).collect()
    }

    fn has_payload(&self, number: ItemNumber) -> bool {
        self.items.get(&number).is_some_and(|known| known.has.contains(Part::Payload))
    }

    fn account(&self) -> PartitionAccount {
        let templates: BTreeSet<ItemNumber> = self.templates().collect();
        let is_item = |(number, _): &(&ItemNumber, &Known)| !templates.contains(number);
        let items = self.items.iter().filter(is_item).map(|(_, known)| *known);
        let mut account = PartitionAccount {
            may_miss_more: self.may_miss_more,
            commits_missing: self.commits_missing,
            templates_lost: templates.iter().filter(|number| !self.has_payload(**number)).count() as u64,
            events_lost: self.events.values().filter(|(row, body)| *row && !*body).count() as u64,
            ..PartitionAccount::default()
        };
        for known in items {
            account.items += u64::from(known.has_row);
            account.items_lost += u64::from(!known.has_row);
            account.payloads_lost += u64::from(known.lacks(Part::Payload));
            account.results_lost += u64::from(known.lacks(Part::Result));
            account.facts_lost += u64::from(known.lacks(Part::Facts));
            account.answers_lost += u64::from(known.lacks(Part::Input));
            account.attempts_lost +=
                known.lacking().filter(|part| matches!(part, Part::Attempt(_))).count() as u64;
        }
        let event_rows = self.events.values().filter(|(row, _)| *row).count() as u64;
        account.rows = account.items + event_rows + self.others.len() as u64;
        account
    }
}
