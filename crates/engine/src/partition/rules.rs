//! The queue's rules as a partition is to have them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use windlass_core::rule::RuleSet;

use crate::lock::lock;

/// Said when the registry has changed, and taken over by the writer before its next batch, or when the partition is acquired.
#[derive(Debug, Default)]
pub(crate) struct RulesCopy {
    version: AtomicU64,
    rules: Mutex<Arc<RuleSet>>,
}

impl RulesCopy {
    pub(crate) fn set(&self, rules: Arc<RuleSet>) {
        let version = rules.version;
        *lock(&self.rules) = rules;
        self.version.store(version, Ordering::SeqCst);
    }

    pub(crate) fn get(&self) -> Arc<RuleSet> {
        Arc::clone(&lock(&self.rules))
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// The rules, if they are newer than this version.
    pub(crate) fn after(&self, version: u64) -> Option<Arc<RuleSet>> {
        (self.version() > version).then(|| self.get())
    }
}
