//! [`Orders`]: what the registry decides and a partition has a copy of. Settings, intake and rules reach a partition one way:
//! they are kept here, and the partition's writer takes over what differs before each round of messages, or, after an acquire,
//! before anybody is served. Whoever gives an order and wants to know that it is taken over has [`Handle::heed`].
//!
//! [`Handle::heed`]: super::handle::Handle::heed

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use windlass_core::id::PartitionId;
use windlass_core::partition::Partition;
use windlass_core::row::{Intake, Queue};
use windlass_core::rule::RuleSet;
use windlass_core::settings::Settings;

use crate::lock::lock;

#[derive(Debug)]
pub(crate) struct Orders {
    settings: Copied<Settings>,
    intake: Copied<Intake>,
    rules: Copied<Arc<RuleSet>>,
    /// Whether the partition is asked about keys that are at home elsewhere.
    is_former: AtomicBool,
}

/// The orders that a partition has not taken over yet.
#[derive(Default)]
pub(crate) struct NewOrders {
    pub(crate) settings: Option<Settings>,
    pub(crate) intake: Option<Intake>,
    pub(crate) rules: Option<Arc<RuleSet>>,
}

impl Orders {
    /// What the registry says of one partition of a queue.
    pub(crate) fn of(queue: &Queue, partition: PartitionId, rules: Arc<RuleSet>) -> Self {
        Self {
            settings: Copied::new(queue.settings.clone()),
            intake: Copied::new(queue.intake(partition)),
            rules: Copied::new(rules),
            is_former: AtomicBool::new(queue.former.contains_key(&partition)),
        }
    }

    /// What the registry says by now of the queue, and of what the partition is to take in.
    pub(super) fn set_queue(&self, queue: &Queue, partition: PartitionId, intake: Intake) {
        self.settings.set(queue.settings.clone());
        self.is_former.store(queue.former.contains_key(&partition), Ordering::SeqCst);
        self.intake.set(intake);
    }

    pub(super) fn set_rules(&self, rules: Arc<RuleSet>) {
        self.rules.set(rules);
    }

    pub(crate) fn is_former(&self) -> bool {
        self.is_former.load(Ordering::SeqCst)
    }

    pub(crate) fn route_version(&self) -> u64 {
        self.intake.version()
    }

    pub(crate) fn rules_version(&self) -> u64 {
        self.rules.version()
    }

    pub(crate) fn rules(&self) -> Arc<RuleSet> {
        self.rules.get()
    }

    /// What differs from the partition's copies.
    pub(super) fn new_to(&self, partition: &Partition) -> NewOrders {
        NewOrders {
            settings: self.settings.unless(partition.settings().version),
            intake: self.intake.unless(partition.intake().version),
            rules: self.rules.unless(partition.rules_version()),
        }
    }
}

trait Versioned: Clone {
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

/// A value that its reader need not lock to see that its version has not changed.
#[derive(Debug)]
struct Copied<T> {
    version: AtomicU64,
    value: Mutex<T>,
}

impl<T: Versioned> Copied<T> {
    fn new(value: T) -> Self {
        Self { version: AtomicU64::new(value.version()), value: Mutex::new(value) }
    }

    fn get(&self) -> T {
        lock(&self.value).clone()
    }

    fn set(&self, value: T) {
        let version = value.version();
        *lock(&self.value) = value;
        self.version.store(version, Ordering::SeqCst);
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// The value, unless this is its version. A version that is older than the partition's counts too: the registry may
    /// have been restored from a backup.
    fn unless(&self, version: u64) -> Option<T> {
        (self.version() != version).then(|| self.get())
    }
}
