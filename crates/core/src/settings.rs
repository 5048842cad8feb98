//! What a queue's owner decides about its items. The registry holds the truth; each partition has a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::ItemNumber;
use crate::time::Span;

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Grows with every change, so that a partition knows whether its copy is the latest.
    pub version: u64,
    pub lease_timeout: Span,
    /// 0: no limit.
    pub max_attempts: u32,
    /// How old a new item may grow. Zero: any age.
    pub dead_timeout: Span,
    /// Where items go that fail or expire: a queue of the same namespace, which need not be there yet.
    pub dead_queue: Option<Arc<str>>,
    pub retry: RetryPolicy,
    pub requeue: Requeue,
    pub retention: Span,
    pub retention_max_items: u64,
    pub retention_max_bytes: u64,
    pub retain_payload: RetainPayload,
    pub keep: Keep,
    /// How many items that are not final the queue may hold, over all of its partitions. 0: no limit.
    pub max_items: u64,
    pub reference: Option<Arc<str>>,
    /// Headers that items are found by: see [`crate::headers`].
    pub indexed_headers: Vec<Arc<str>>,
    /// From which item on each of `indexed_headers` counts. Only in the copy of a partition.
    pub indexed_since: BTreeMap<Arc<str>, ItemNumber>,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: 0,
            lease_timeout: Span::from_secs(60),
            max_attempts: 3,
            dead_timeout: Span::ZERO,
            dead_queue: None,
            retry: RetryPolicy::default(),
            requeue: Requeue::Keep,
            retention: Span::from_secs(48 * 3600),
            retention_max_items: 1_000_000,
            retention_max_bytes: 1 << 30,
            retain_payload: RetainPayload::Failed,
            keep: Keep::Shown,
            max_items: 0,
            reference: None,
            indexed_headers: Vec::new(),
            indexed_since: BTreeMap::new(),
            unknown: Vec::new(),
        }
    }
}

/// What an update says of a queue's settings: what it does not name stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettingsChange {
    pub lease_timeout: Option<Span>,
    pub max_attempts: Option<u32>,
    pub dead_timeout: Option<Span>,
    /// `Some(None)` takes it away.
    pub dead_queue: Option<Option<Arc<str>>>,
    pub retry: RetryChange,
    pub requeue: Option<Requeue>,
    pub retention: Option<Span>,
    pub retention_max_items: Option<u64>,
    pub retention_max_bytes: Option<u64>,
    pub retain_payload: Option<RetainPayload>,
    pub keep: Option<Keep>,
    pub max_items: Option<u64>,
    /// `Some(None)` takes it away.
    pub reference: Option<Option<Arc<str>>>,
    pub indexed_headers: Option<Vec<Arc<str>>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RetryChange {
    pub strategy: Option<RetryStrategy>,
    pub initial: Option<Span>,
    pub factor: Option<f64>,
    pub max: Option<Span>,
    pub jitter: Option<f64>,
}

impl Settings {
    /// These settings with the change made; version and fields of a newer version stay.
    pub fn changed(&self, change: SettingsChange) -> Self {
        Self {
            version: self.version,
            lease_timeout: change.lease_timeout.unwrap_or(self.lease_timeout),
            max_attempts: change.max_attempts.unwrap_or(self.max_attempts),
            dead_timeout: change.dead_timeout.unwrap_or(self.dead_timeout),
            dead_queue: change.dead_queue.unwrap_or_else(|| self.dead_queue.clone()),
            retry: self.retry.changed(change.retry),
            requeue: change.requeue.unwrap_or(self.requeue),
            retention: change.retention.unwrap_or(self.retention),
            retention_max_items: change.retention_max_items.unwrap_or(self.retention_max_items),
            retention_max_bytes: change.retention_max_bytes.unwrap_or(self.retention_max_bytes),
            retain_payload: change.retain_payload.unwrap_or(self.retain_payload),
            keep: change.keep.unwrap_or(self.keep),
            max_items: change.max_items.unwrap_or(self.max_items),
            reference: change.reference.unwrap_or_else(|| self.reference.clone()),
            indexed_headers: change.indexed_headers.unwrap_or_else(|| self.indexed_headers.clone()),
            indexed_since: self.indexed_since.clone(),
            unknown: self.unknown.clone(),
        }
    }
}

impl Settings {
    /// The name in the API of the first setting that is given and that these settings do not have.
    pub fn first_difference(&self, given: &SettingsChange) -> Option<&'static str> {
        differs("lease_timeout", &given.lease_timeout, &self.lease_timeout)
            .or(differs("max_attempts", &given.max_attempts, &self.max_attempts))
            .or(differs("dead_timeout", &given.dead_timeout, &self.dead_timeout))
            .or(differs("dead_queue", &given.dead_queue, &self.dead_queue))
            .or(self.retry.first_difference(&given.retry))
            .or(differs("requeue", &given.requeue, &self.requeue))
            .or(differs("retention", &given.retention, &self.retention))
            .or(differs("retention_max_items", &given.retention_max_items, &self.retention_max_items))
            .or(differs("retention_max_bytes", &given.retention_max_bytes, &self.retention_max_bytes))
            .or(differs("retain_payload", &given.retain_payload, &self.retain_payload))
            .or(differs("keep", &given.keep, &self.keep))
            .or(differs("max_items", &given.max_items, &self.max_items))
            .or(differs("reference", &given.reference, &self.reference))
            .or(differs(
                "indexed_headers",
                &given.indexed_headers.as_deref().map(as_set),
                &as_set(&self.indexed_headers),
            ))
    }
}

/// Names in whatever order they are given.
fn as_set(names: &[Arc<str>]) -> BTreeSet<&Arc<str>> {
    names.iter().collect()
}

/// The field, if something is given for it that it does not have.
pub(crate) fn differs<T: PartialEq>(field: &'static str, given: &Option<T>, has: &T) -> Option<&'static str> {
    given.as_ref().filter(|given| *given != has).map(|_| field)
}

impl RetryPolicy {
    fn first_difference(&self, given: &RetryChange) -> Option<&'static str> {
        differs("retry.strategy", &given.strategy, &self.strategy)
            .or(differs("retry.initial", &given.initial, &self.initial))
            .or(differs("retry.factor", &given.factor, &self.factor))
            .or(differs("retry.max", &given.max, &self.max))
            .or(differs("retry.jitter", &given.jitter, &self.jitter))
    }

    fn changed(self, change: RetryChange) -> Self {
        Self {
            strategy: change.strategy.unwrap_or(self.strategy),
            initial: change.initial.unwrap_or(self.initial),
            factor: change.factor.unwrap_or(self.factor),
            max: change.max.unwrap_or(self.max),
            jitter: change.jitter.unwrap_or(self.jitter),
        }
    }
}

/// Where an item goes whose lease ended by its deadline or by retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Back to its own place.
    Keep,
    /// Behind everything that waits now.
    Tail,
}

/// Which final items that are kept keep their payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetainPayload {
    /// Failed, expired and cancelled ones.
    Failed,
    All,
    None,
}

/// Which final items are kept for the retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Those with a result, an error, events, an address, or another item that they were moved to.
    Shown,
    All,
}

/// How long a failed attempt waits for the next: see [`crate::retry::delay`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    pub strategy: RetryStrategy,
    pub initial: Span,
    pub factor: f64,
    pub max: Span,
    /// The delay is multiplied by a number within 1 ± this.
    pub jitter: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryStrategy {
    Exponential,
    Fixed,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            strategy: RetryStrategy::Exponential,
            initial: Span::from_secs(1),
            factor: 2.0,
            max: Span::from_secs(3600),
            jitter: 0.1,
        }
    }
}
