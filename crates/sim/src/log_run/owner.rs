//! The owner of a partition, one thing after the other, and what it must find.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::id::ItemNumber;
use windlass_core::row::{Change, Part};
use windlass_core::time::Timestamp;
use windlass_engine::store::log::LogStore;
use windlass_engine::store::{Acquired, Batch, Body, CommitError, Store, StoreError, Term};

use super::changes::{Content, NUMBERS, all_body_keys, draw_batch, draw_body_key};
use super::model::{Bounds, REGISTRY, wrong};
use super::{Bench, id};
use crate::fault::Rates;
use crate::history::Violation;
use crate::rng::Rng;

const TRIES_ON_A_BAD_DISK: usize = 20;
/// Longer than the keeper rests between two attempts to make a segment.
const TRIES_MAX: usize = 150;

pub(super) struct Owner {
    bench: Bench,
    store: Arc<LogStore>,
    partition: u32,
    /// Unset once the owner may have been fenced.
    epoch: Option<u64>,
    rng: Rng,
}

/// What came of reading a partition.
enum Read<T> {
    Done(T),
    /// The disk failed, or the log went back meanwhile.
    Failed,
    /// Told to be damaged.
    Damaged(StoreError),
}

impl Bench {
    pub(super) fn owner(&self, store: &Arc<LogStore>, partition: u32, epoch: u64, rng: Rng) -> Owner {
        let (bench, store) = (self.clone(), Arc::clone(store));
        Owner { bench, store, partition, epoch: Some(epoch), rng }
    }

    /// In a process without trouble nothing is taken back, however the log syncs.
    fn bounds(&self) -> Bounds {
        if self.is_troubled() { Bounds::Durable } else { Bounds::Answered }
    }

    /// Takes the partition over, and compares all that is in it. `bounds` after a start, when nothing was committed yet.
    pub(super) async fn acquire(
        &self,
        store: &Arc<LogStore>,
        partition: u32,
        bounds: Option<Bounds>,
    ) -> Result<u64, Violation> {
        for attempt in 0..TRIES_MAX {
            if attempt == TRIES_ON_A_BAD_DISK {
                self.hardware.set_rates(Rates::CALM);
            }
            match self.try_acquire(store, partition, bounds).await? {
                Read::Done(epoch) => return Ok(epoch),
                Read::Failed => {}
                Read::Damaged(error) => return Err(wrong("damage", error.to_string())),
            }
            self.handle.sleep_micros(200_000).await;
        }
        Err(wrong("recovery", format!("partition {partition} cannot be acquired although nothing is wrong")))
    }

    /// The same where a bit has flipped: told, or as it was.
    pub(super) async fn look_at(
        &self,
        store: &Arc<LogStore>,
        partition: u32,
        bounds: Option<Bounds>,
    ) -> Result<(), Violation> {
        match self.try_acquire(store, partition, bounds).await? {
            Read::Done(_) | Read::Damaged(_) => Ok(()),
            Read::Failed => Err(wrong("recovery", format!("partition {partition} cannot be read"))),
        }
    }

    async fn try_acquire(
        &self,
        store: &Arc<LogStore>,
        partition: u32,
        bounds: Option<Bounds>,
    ) -> Result<Read<u64>, Violation> {
        let rollbacks = store.stats().events.rollbacks;
        let acquired = match store.acquire(id(partition)).await {
            Ok(acquired) => acquired,
            Err(error) => return Ok(failed(error)),
        };
        let (epoch, sequence) = (acquired.epoch, acquired.sequence);
        self.note(format_args!("partition {partition} acquired as {epoch} at {sequence}"));
        let bounds = bounds.unwrap_or_else(|| self.bounds());
        self.model().acquired(partition, epoch, sequence, bounds, rollbacks)?;
        let found = match self.content_of(store, partition, acquired).await {
            Ok(found) => found,
            Err(error) => return Ok(failed(error)),
        };
        if store.stats().events.rollbacks != rollbacks {
            return Ok(Read::Failed);
        }
        let mut model = self.model();
        compare(partition, sequence, model.past(partition).content(), &found)?;
        Ok(Read::Done(epoch))
    }

    async fn content_of(
        &self,
        store: &Arc<LogStore>,
        partition: u32,
        acquired: Acquired,
    ) -> Result<Content, StoreError> {
        let mut rows = acquired.rows;
        let mut content = Content::default();
        while let Some(changes) = rows.next().await? {
            changes.iter().for_each(|change| content.apply(change));
        }
        let mut keys = all_body_keys();
        keys.extend(
            self.model().past(partition).content().bodies.keys().filter(|(number, _)| number.0 > NUMBERS),
        );
        let bodies = read_all(store, partition, &keys).await?;
        let found = keys.into_iter().zip(bodies).filter_map(|(key, body)| Some((key, body?)));
        content.bodies.extend(found);
        Ok(content)
    }
}

/// Every body, or why one of them cannot be had.
pub(super) async fn read_all(
    store: &LogStore,
    partition: u32,
    keys: &[(ItemNumber, Part)],
) -> Result<Vec<Option<Bytes>>, StoreError> {
    let bodies = store.read(id(partition), keys.to_vec()).await;
    let found = |body: Body| match body {
        Body::Found(body) => Ok(Some(body)),
        Body::Absent => Ok(None),
        Body::Damaged(error) | Body::Unreadable(error) => Err(error),
    };
    bodies.into_iter().map(found).collect()
}

fn failed<T>(error: StoreError) -> Read<T> {
    if error.is_damage() { Read::Damaged(error) } else { Read::Failed }
}

fn compare(partition: u32, sequence: u64, expected: &Content, found: &Content) -> Result<(), Violation> {
    if expected == found {
        return Ok(());
    }
    let rows = expected.rows.iter().find(|(key, row)| found.rows.get(*key) != Some(*row));
    let more = found.rows.keys().find(|key| !expected.rows.contains_key(key));
    let bodies = expected.bodies.iter().find(|(key, body)| found.bodies.get(*key) != Some(*body));
    let body = bodies.map(|(key, body)| (key, show(Some(body)), show(found.bodies.get(key))));
    let extra = found.bodies.keys().find(|key| !expected.bodies.contains_key(key));
    let text = format!(
        "partition {partition} at commit {sequence}: row {rows:?}, row too many {more:?}, body {body:?}, body too many {extra:?}"
    );
    Err(wrong("content", text))
}

fn show(body: Option<&Bytes>) -> String {
    body.map_or("none".to_owned(), |body| String::from_utf8_lossy(&body[..body.len().min(12)]).into_owned())
}

impl Owner {
    pub(super) async fn work(mut self, steps: u32) -> Result<(), Violation> {
        for _ in 0..steps {
            let think = self.rng.skewed(1, 3_000);
            self.bench.handle.sleep_micros(think).await;
            let Some(epoch) = self.epoch else {
                self.epoch = Some(self.acquire().await?);
                continue;
            };
            match self.rng.below(40) {
                0..=29 => self.commit(epoch).await?,
                30..=33 => self.read(epoch).await?,
                34 => self.take_over(epoch).await?,
                35 | 36 => self.sync(epoch).await?,
                37 | 38 => self.ask_whether_owner(epoch).await?,
                _ if self.partition == REGISTRY || !self.rng.percent(20) => {}
                _ => return self.drop_partition().await,
            }
        }
        Ok(())
    }

    /// One after the other, without a pause, as long as nobody takes the partition over.
    pub(super) async fn commit_some(mut self, commits: usize) -> Result<(), Violation> {
        for _ in 0..commits {
            if let Some(epoch) = self.epoch {
                self.commit(epoch).await?;
            }
        }
        Ok(())
    }

    async fn acquire(&self) -> Result<u64, Violation> {
        self.bench.acquire(&self.store, self.partition, None).await
    }

    async fn commit(&mut self, epoch: u64) -> Result<(), Violation> {
        let serial = self.bench.model().tick();
        let changes = draw_batch(&mut self.rng, serial);
        let (partition, bench) = (self.partition, self.bench.clone());
        let sent_at = bench.model().send(partition, &changes);
        let sequence = bench.model().past(partition).sequence();
        let committed = self.send(epoch, sequence, changes).await;
        bench.note(format_args!("partition {partition} commit {sequence} as {epoch}: {committed:?}"));
        match committed {
            Ok(()) => bench.model().answered(partition, sent_at, self.store.stats().events.rollbacks),
            Err(CommitError::NotApplied(error)) => {
                bench.model().refused(partition);
                self.epoch = None;
                self.may_refuse(&error)?;
            }
            Err(CommitError::Unknown(_)) => self.epoch = None,
        }
        Ok(())
    }

    /// Without trouble there is no reason to refuse a commit.
    fn may_refuse(&self, error: &StoreError) -> Result<(), Violation> {
        if self.bench.is_troubled() {
            return Ok(());
        }
        Err(wrong("service", format!("a commit was refused although nothing is wrong: {error}")))
    }

    async fn send(&self, epoch: u64, sequence: u64, changes: Vec<Change>) -> Result<(), CommitError> {
        let now = Timestamp(sequence);
        self.store
            .commit(Batch { partition: id(self.partition), epoch, sequence, now, changes, may_block: true })
            .await
    }

    async fn read(&mut self, epoch: u64) -> Result<(), Violation> {
        let keys: Vec<(ItemNumber, Part)> = (0..8).map(|_| draw_body_key(&mut self.rng)).collect();
        let rollbacks = self.store.stats().events.rollbacks;
        if self.store.epoch(id(self.partition)) != epoch {
            self.epoch = None;
            return Ok(());
        }
        let bodies = match read_all(&self.store, self.partition, &keys).await {
            Ok(bodies) => bodies,
            Err(error) if error.is_damage() => return Err(wrong("damage", error.to_string())),
            Err(_) => return Ok(()),
        };
        if self.store.stats().events.rollbacks != rollbacks {
            return Ok(());
        }
        let mut model = self.bench.model();
        let content = model.past(self.partition).content();
        for (key, body) in keys.iter().zip(&bodies) {
            let expected = content.bodies.get(key);
            if expected != body.as_ref() {
                let (expected, found) = (show(expected), show(body.as_ref()));
                let text = format!("partition {}: {key:?} is {found}, not {expected}", self.partition);
                return Err(wrong("body", text));
            }
        }
        Ok(())
    }

    /// The owner before may do nothing more.
    async fn take_over(&mut self, before: u64) -> Result<(), Violation> {
        let epoch = self.acquire().await?;
        self.epoch = Some(epoch);
        let sequence = self.bench.model().past(self.partition).sequence() + 1;
        match self.send(before, sequence, Vec::new()).await {
            Err(CommitError::NotApplied(_)) => Ok(()),
            committed @ (Ok(()) | Err(CommitError::Unknown(_))) => {
                let text = format!("{before} committed to partition {}: {committed:?}", self.partition);
                Err(wrong("fence", text))
            }
        }
    }

    async fn sync(&self, epoch: u64) -> Result<(), Violation> {
        let asked_at = self.bench.model().tick();
        if self.store.sync(Term { partition: id(self.partition), epoch }).await.is_ok() {
            self.bench.note(format_args!("synced"));
            let mut model = self.bench.model();
            model.synced(asked_at, self.store.stats().events.rollbacks);
            model.synced_within_term(self.partition, asked_at);
        }
        Ok(())
    }

    /// An owner that was not fenced knows the partition as it is.
    async fn ask_whether_owner(&mut self, epoch: u64) -> Result<(), Violation> {
        let rollbacks = self.store.stats().events.rollbacks;
        let is_owner = self.store.epoch(id(self.partition)) == epoch;
        let known = self.bench.model().past(self.partition).sequence();
        let epoch = self.acquire().await?;
        self.epoch = Some(epoch);
        let found = self.bench.model().past(self.partition).sequence();
        if is_owner && found != known && self.store.stats().events.rollbacks == rollbacks {
            let text = format!("partition {}: its owner knew {known} commits of {found}", self.partition);
            return Err(wrong("fence", text));
        }
        Ok(())
    }

    /// Its number is never used again.
    async fn drop_partition(&mut self) -> Result<(), Violation> {
        self.bench.model().dropped(self.partition, false);
        let dropped = self.store.drop_partition(id(self.partition)).await;
        self.bench.note(format_args!("partition {} dropped: {dropped:?}", self.partition));
        if dropped.is_ok() {
            self.bench.model().dropped(self.partition, true);
        }
        Ok(())
    }
}
