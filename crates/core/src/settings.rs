//! What a queue's owner decides about its items. The registry holds the truth; each partition has a copy.

use std::sync::Arc;

use crate::time::Span;

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Grows with every change, so that a partition knows whether its copy is the latest.
    pub version: u64,
    pub lease_timeout: Span,
    /// 0: no limit.
    pub max_attempts: u32,
    pub retry: RetryPolicy,
    pub requeue: Requeue,
    pub retention: Span,
    pub retention_max_items: u64,
    pub retention_max_bytes: u64,
    pub reference: Option<Arc<str>>,
    /// Encoded fields of a newer version, carried along untouched.
    pub unknown: Vec<u8>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: 0,
            lease_timeout: Span::from_secs(60),
            max_attempts: 3,
            retry: RetryPolicy::default(),
            requeue: Requeue::Keep,
            retention: Span::from_secs(48 * 3600),
            retention_max_items: 1_000_000,
            retention_max_bytes: 1 << 30,
            reference: None,
            unknown: Vec::new(),
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
