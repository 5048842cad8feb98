//! State that the log's tasks share. Locks are held for moments only, and never while waiting.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

use super::commit::run::Write;
use super::disk::Disk;
use super::segment::pool::Pool;
use super::tables::Tables;
use super::{Durability, LogOptions};
use crate::env::Env;
use crate::lock::lock;
use crate::store::StoreEvents;
use crate::store::bodies::BodyCache;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) env: Arc<dyn Env>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: LogOptions,
    pub(super) log: u64,
    tables: Mutex<Tables>,
    pool: Mutex<Pool>,
    cache: Mutex<BodyCache>,
    pub(super) counters: Counters,
    events: Mutex<StoreEvents>,
    /// Segments were freed, taken or discarded.
    pub(super) keeper_kick: Arc<Notify>,
    /// The log has grown, much in it has died, or the disk is full.
    pub(super) upkeep_kick: Notify,
    /// A segment is ready, or none can be made.
    pub(super) pool_changed: Notify,
    /// The reader's thread may end.
    pub(super) reader_stop: Notify,
    closing: AtomicBool,
    /// A thread of the log has panicked: the committer ends, and whoever asks is told that the store is closed.
    broken: AtomicBool,
    pub(super) broke: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) commits: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) bytes_written: AtomicU64,
    pub(super) snapshots: AtomicU64,
    pub(super) compactions: AtomicU64,
    pub(super) damaged_bodies: AtomicU64,
}

impl Counters {
    pub(super) fn written(&self, commits: usize, bytes: usize) {
        self.commits.fetch_add(commits as u64, Ordering::Relaxed);
        self.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn synced(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }
}

/// The tasks that have something to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kicks {
    keeper: bool,
    upkeep: bool,
}

impl Shared {
    pub(super) fn new(
        env: Arc<dyn Env>,
        disk: Arc<dyn Disk>,
        options: LogOptions,
        log: u64,
        tables: Tables,
        pool: Pool,
    ) -> Arc<Self> {
        Arc::new(Self {
            env,
            disk,
            log,
            tables: Mutex::new(tables),
            pool: Mutex::new(pool),
            cache: Mutex::new(BodyCache::new(options.body_cache_bytes)),
            options,
            counters: Counters::default(),
            events: Mutex::default(),
            keeper_kick: Arc::default(),
            upkeep_kick: Notify::new(),
            pool_changed: Notify::new(),
            reader_stop: Notify::new(),
            closing: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            broke: Notify::new(),
        })
    }

    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.tables)
    }

    pub(super) fn pool(&self) -> MutexGuard<'_, Pool> {
        lock(&self.pool)
    }

    pub(super) fn cache(&self) -> MutexGuard<'_, BodyCache> {
        lock(&self.cache)
    }

    /// Counts a rare event.
    pub(super) fn count(&self, count: impl FnOnce(&mut StoreEvents)) {
        count(&mut lock(&self.events));
    }

    pub(super) fn events(&self) -> StoreEvents {
        *lock(&self.events)
    }

    /// When what is written now must be durable, if ever.
    pub(super) fn next_sync(&self) -> Option<Duration> {
        match self.options.durability {
            Durability::Interval(span) => Some(self.env.boot() + Duration::from(span)),
            Durability::Always | Durability::None => None,
        }
    }

    pub(super) fn kicks(&self, tables: &mut Tables) -> Kicks {
        let upkeep = self.snapshot_is_due(tables) || tables.much_died();
        Kicks { keeper: tables.something_died, upkeep }
    }

    /// Whether writing a snapshot is worth the reading it saves: the log since the last one is as large as that one.
    pub(super) fn snapshot_is_due(&self, tables: &Tables) -> bool {
        let last = tables.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes);
        tables.tail_bytes > last.max(self.options.snapshot_min_bytes)
    }

    pub(super) fn kick(&self, kicks: Kicks) {
        if kicks.keeper {
            self.keeper_kick.notify_one();
        }
        if kicks.upkeep {
            self.upkeep_kick.notify_one();
        }
    }

    pub(super) fn cache_bodies(&self, writes: &[Write]) {
        let mut cache = self.cache();
        for write in writes {
            cache.apply(write.partition, &write.bodies);
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// Ends all threads of the log: what one of them does, others wait for.
    pub(super) fn break_down(&self) {
        self.broken.store(true, Ordering::SeqCst);
        self.broke.notify_one();
        self.reader_stop.notify_one();
        self.close();
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.keeper_kick.notify_one();
        self.upkeep_kick.notify_one();
        self.pool_changed.notify_one();
    }
}

/// Closes the store if a thread panics that works for it: others would wait for that work for ever.
#[derive(Debug)]
pub(super) struct Panics {
    shared: Arc<Shared>,
    name: &'static str,
}

impl Panics {
    pub(super) fn new(shared: &Arc<Shared>, name: &'static str) -> Self {
        Self { shared: Arc::clone(shared), name }
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (thread, directory) = (self.name, self.shared.disk.path(""));
            tracing::error!(
                thread,
                directory,
                "a thread of the store panicked, which is a bug: the store is closed until the server is restarted"
            );
            self.shared.break_down();
        }
    }
}
