//! What the registry decides and a partition has a copy of: kept for the next acquire of the partition, and for the
//! writer, which takes over what differs with its next batch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use windlass_core::row::Intake;
use windlass_core::rule::RuleSet;
use windlass_core::settings::Settings;

use crate::lock::lock;

pub(crate) trait Versioned: Clone {
    fn version(&self) -> u64;
}

impl Versioned for Settings {
    fn version(&self) -> u64 {
        self.version
    }
}

impl Versioned for Arc<RuleSet> {
    fn version(&self) -> u64 {
        self.version
    }
}

impl Versioned for Intake {
    fn version(&self) -> u64 {
        self.version
    }
}

#[derive(Debug)]
pub(crate) struct Copied<T> {
    /// So that the writer need not take the lock to see that nothing is new.
    version: AtomicU64,
    value: Mutex<T>,
}

impl<T: Versioned> Copied<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { version: AtomicU64::new(value.version()), value: Mutex::new(value) }
    }

    pub(crate) fn get(&self) -> T {
        lock(&self.value).clone()
    }

    pub(crate) fn set(&self, value: T) {
        let version = value.version();
        *lock(&self.value) = value;
        self.version.store(version, Ordering::SeqCst);
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// The value, unless this is its version. A version that is older than the partition's counts too: the registry may
    /// have been restored from a backup.
    pub(crate) fn unless(&self, version: u64) -> Option<T> {
        (self.version() != version).then(|| self.get())
    }
}
