//! Several stores as one. Each partition is in one of them, by the name that the registry holds: the first store has
//! the registry itself, the others only partitions of queues.
//!
//! A store is a domain of failure of its own. One that cannot be opened, or that is not configured any more, makes
//! its partitions faulty and no others; it is tried again whenever one of them is acquired.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tracing::{info, warn};
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{Part, StoreNames};

use super::{
    Acquired, Batch, Body, CommitError, DEFAULT_STORE, Found, Room, Rows, Store, StoreError, StoreState,
    StoreStats, Term,
};
use crate::env::BoxFuture;
use crate::lock::lock;

/// How a store is opened, as often as it takes.
pub type Opening =
    Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Store>, StoreError>> + Send + Sync + 'static>;

/// A store beside the first one.
pub struct Member {
    name: Arc<str>,
    /// See [`Store::kind`]: known before the store is open.
    kind: &'static str,
    opening: Opening,
    opened: OnceLock<Arc<dyn Store>>,
    /// Tries to open it so far, and why the last one failed.
    tries: AtomicU64,
    failed: AsyncMutex<Option<StoreError>>,
}

impl Member {
    pub fn new(name: impl Into<Arc<str>>, kind: &'static str, opening: Opening) -> Self {
        Self {
            name: name.into(),
            kind,
            opening,
            opened: OnceLock::new(),
            tries: AtomicU64::new(0),
            failed: AsyncMutex::new(None),
        }
    }

    /// One that is open already.
    pub fn opened(name: impl Into<Arc<str>>, store: Arc<dyn Store>) -> Self {
        let again = Arc::clone(&store);
        let opening: Opening = Box::new(move || {
            let store = Arc::clone(&again);
            Box::pin(async move { Ok(store) })
        });
        let member = Self::new(name, store.kind(), opening);
        member.opened.get_or_init(|| store);
        member
    }

    fn get(&self) -> Option<&Arc<dyn Store>> {
        self.opened.get()
    }

    /// Opens it unless it is. Who comes while somebody tries takes what comes of that.
    async fn open(&self) -> Result<&Arc<dyn Store>, StoreError> {
        if let Some(store) = self.opened.get() {
            return Ok(store);
        }
        let seen = self.tries.load(Ordering::SeqCst);
        let mut failed = self.failed.lock().await;
        if let Some(store) = self.opened.get() {
            return Ok(store);
        }
        if let Some(error) = failed.as_ref().filter(|_| self.tries.load(Ordering::SeqCst) > seen) {
            return Err(error.clone());
        }
        let opened = (self.opening)().await;
        self.tries.fetch_add(1, Ordering::SeqCst);
        match opened {
            Ok(store) => {
                info!(store = %self.name, "store opened");
                Ok(self.opened.get_or_init(|| store))
            }
            Err(cause) => {
                let error =
                    StoreError::Unusable(format!("the store `{}` cannot be opened: {cause}", self.name));
                Err(failed.insert(error).clone())
            }
        }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("opened", &self.opened).finish()
    }
}

/// Where a partition is.
#[derive(Clone, Debug)]
enum Home {
    Member(usize),
    /// In a store that nobody knows.
    Missing(Arc<str>),
}

#[derive(Debug)]
pub struct Spread {
    /// The first one has the registry.
    members: Vec<Member>,
    homes: Mutex<BTreeMap<PartitionId, Home>>,
    /// Stores that were opened after the others.
    openings: watch::Sender<usize>,
}

impl Spread {
    /// With a store that holds the registry, and others that are tried now and later.
    pub async fn open(first: Arc<dyn Store>, others: Vec<Member>) -> Self {
        let mut members = vec![Member::opened(DEFAULT_STORE, first)];
        members.extend(others);
        for member in &members {
            if let Err(error) = member.open().await {
                warn!(store = %member.name, %error, "store not opened: its partitions are faulty");
            }
        }
        Self { members, homes: Mutex::default(), openings: watch::Sender::new(0) }
    }

    fn home(&self, partition: PartitionId) -> Result<&Member, StoreError> {
        match lock(&self.homes).get(&partition) {
            Some(Home::Member(index)) => Ok(&self.members[*index]),
            Some(Home::Missing(name)) => Err(missing(name)),
            // The registry, and what nobody ever said anything about.
            None => Ok(&self.members[0]),
        }
    }

    /// The store of a partition, if it is open.
    fn open_home(&self, partition: PartitionId) -> Result<&Arc<dyn Store>, StoreError> {
        let member = self.home(partition)?;
        member.get().ok_or_else(|| StoreError::Unusable(format!("the store `{}` is not open", member.name)))
    }

    fn opened(&self) -> impl Iterator<Item = (usize, &Arc<dyn Store>)> {
        self.members.iter().enumerate().filter_map(|(index, member)| Some((index, member.get()?)))
    }

    async fn find_all(&self) -> Result<Vec<PartitionId>, StoreError> {
        let mut found = BTreeSet::new();
        for (_, store) in self.opened() {
            found.extend(store.partitions().await?);
        }
        Ok(found.into_iter().collect())
    }

    /// The store of a partition, opened if it is not. A store that opens late is announced.
    async fn opened_home(&self, partition: PartitionId) -> Result<&Arc<dyn Store>, StoreError> {
        let member = self.home(partition)?;
        let was_open = member.get().is_some();
        let store = member.open().await?;
        if !was_open {
            self.openings.send_modify(|openings| *openings += 1);
        }
        Ok(store)
    }
}

fn missing(name: &str) -> StoreError {
    StoreError::Unusable(format!(
        "the partition is in the store `{name}`, which is not configured: name it again under [[stores]]"
    ))
}

impl Store for Spread {
    fn acquire(&self, partition: PartitionId) -> BoxFuture<'_, Result<Acquired, StoreError>> {
        Box::pin(async move { self.opened_home(partition).await?.acquire(partition).await })
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<(), CommitError>> {
        match self.open_home(batch.partition) {
            Ok(store) => store.commit(batch),
            Err(error) => Box::pin(std::future::ready(Err(CommitError::NotApplied(error)))),
        }
    }

    fn sync(&self, term: Term) -> BoxFuture<'_, Result<(), StoreError>> {
        match self.open_home(term.partition) {
            Ok(store) => store.sync(term),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn epoch(&self, partition: PartitionId) -> u64 {
        self.open_home(partition).map_or(0, |store| store.epoch(partition))
    }

    fn read(&self, partition: PartitionId, bodies: Vec<(ItemNumber, Part)>) -> BoxFuture<'_, Vec<Body>> {
        match self.open_home(partition) {
            Ok(store) => store.read(partition, bodies),
            Err(error) => {
                let unreadable = vec![Body::Unreadable(error); bodies.len()];
                Box::pin(std::future::ready(unreadable))
            }
        }
    }

    fn read_events(
        &self,
        partition: PartitionId,
        number: ItemNumber,
        from: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Bytes)>, StoreError>> {
        match self.open_home(partition) {
            Ok(store) => store.read_events(partition, number, from, bytes_max),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn peek(&self, partition: PartitionId) -> BoxFuture<'_, Result<Box<dyn Rows>, StoreError>> {
        match self.open_home(partition) {
            Ok(store) => store.peek(partition),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    /// In the one store that the registry names: another store may hold something else under the same number.
    fn drop_partition(&self, partition: PartitionId) -> BoxFuture<'_, Result<(), StoreError>> {
        match self.open_home(partition) {
            Ok(store) => store.drop_partition(partition),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn partitions(&self) -> BoxFuture<'_, Result<Vec<PartitionId>, StoreError>> {
        Box::pin(self.find_all())
    }

    fn batch_bytes_max(&self) -> usize {
        let sizes = self.opened().map(|(_, store)| store.batch_bytes_max());
        sizes.min().expect("the first store is always open")
    }

    fn room(&self, partition: PartitionId) -> Room {
        self.open_home(partition).map_or(Room::Enough, |store| store.room(partition))
    }

    fn stats(&self) -> StoreStats {
        self.opened().map(|(_, store)| store.stats()).sum()
    }

    fn kind(&self) -> &'static str {
        self.members[0].kind
    }

    fn stores(&self) -> Vec<StoreState> {
        let state = |member: &Member| StoreState {
            name: Arc::clone(&member.name),
            kind: member.kind,
            is_open: member.get().is_some(),
            room: member.get().map(|store| store.room(PartitionId::REGISTRY)).unwrap_or_default(),
            stats: member.get().map(|store| store.stats()).unwrap_or_default(),
        };
        self.members.iter().map(state).collect()
    }

    fn open_stores(&self) -> Vec<Arc<str>> {
        self.opened().map(|(index, _)| Arc::clone(&self.members[index].name)).collect()
    }

    fn find_member(&self, name: &str) -> Found<'_> {
        let member = self.members.iter().find(|member| *member.name == *name);
        member.and_then(Member::get).map_or(Found::NotOpen, |store| Found::Member(&**store))
    }

    fn openings(&self) -> Option<watch::Receiver<usize>> {
        Some(self.openings.subscribe())
    }

    fn name_of(&self, partition: PartitionId) -> Arc<str> {
        match lock(&self.homes).get(&partition) {
            Some(Home::Member(index)) => Arc::clone(&self.members[*index].name),
            Some(Home::Missing(name)) => Arc::clone(name),
            None => Arc::clone(&self.members[0].name),
        }
    }

    fn assign(&self, partition: PartitionId, store: Option<&Arc<str>>) {
        let home = match store {
            None => Home::Member(0),
            Some(name) => match self.members.iter().position(|member| member.name == *name) {
                Some(index) => Home::Member(index),
                None => Home::Missing(Arc::clone(name)),
            },
        };
        lock(&self.homes).insert(partition, home);
    }

    fn unassign(&self, partition: PartitionId) {
        lock(&self.homes).remove(&partition);
    }

    /// Each to the open store with the fewest partitions, the earlier one of equals.
    fn choose(&self, partitions: usize, among: &BTreeSet<Arc<str>>) -> StoreNames {
        let chosen = self.opened().filter(|(index, _)| among.contains(&self.members[*index].name));
        let mut held: BTreeMap<usize, usize> = chosen.map(|(index, _)| (index, 0)).collect();
        for home in lock(&self.homes).values() {
            if let Home::Member(index) = home {
                held.entry(*index).and_modify(|count| *count += 1);
            }
        }
        let mut next = || {
            let (index, count) = held
                .iter_mut()
                .min_by_key(|(_, count)| **count)
                .expect("the first store is always open and named");
            *count += 1;
            Arc::clone(&self.members[*index].name)
        };
        StoreNames((0..partitions).map(|_| next()).collect())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for (_, store) in self.opened() {
                store.close().await;
            }
        })
    }
}
