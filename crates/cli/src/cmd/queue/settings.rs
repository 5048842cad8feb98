//! The settings of a queue as flags.

use clap::{Args, ValueEnum};
use windlass_api::Span;
use windlass_api::queues::{CreateQueueRequest, HeaderNames, RetryPolicyChange, UpdateQueueRequest};

use crate::values::json;

#[derive(Debug, Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct Settings {
    /// How long a lease lasts that asks for nothing else [1m]
    #[arg(long, value_name = "DURATION")]
    lease_timeout: Option<Span>,
    /// How often an item is tried; 0 for no limit [3]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Items older than this expire, unless they say otherwise themselves; 0s for never [0s]
    #[arg(long, value_name = "DURATION")]
    dead_timeout: Option<Span>,
    /// The queue that failed and expired items go to; empty for none
    #[arg(long, value_name = "QUEUE")]
    dead_queue: Option<String>,
    /// How the delay after a failed attempt grows [exponential]
    #[arg(long)]
    retry_strategy: Option<Strategy>,
    /// The first delay, and with `fixed` every one [1s]
    #[arg(long, value_name = "DURATION")]
    retry_initial: Option<Span>,
    /// What each delay is multiplied by for the next [2]
    #[arg(long, value_name = "NUMBER")]
    retry_factor: Option<f64>,
    /// No delay is longer [1h]
    #[arg(long, value_name = "DURATION")]
    retry_max: Option<Span>,
    /// Each delay is multiplied by a number within 1 ± this [0.1]
    #[arg(long, value_name = "NUMBER")]
    retry_jitter: Option<f64>,
    /// Where an item goes whose attempt failed: its own place, or behind all that wait [keep]
    #[arg(long)]
    requeue: Option<Requeue>,
    /// How long ended items are kept [2d]
    #[arg(long, value_name = "DURATION")]
    retention: Option<Span>,
    /// How many ended items are kept [1000000]
    #[arg(long, value_name = "N")]
    retention_max_items: Option<u64>,
    /// How many bytes of payloads, results, errors and events of ended items are kept [1073741824]
    #[arg(long, value_name = "BYTES")]
    retention_max_bytes: Option<u64>,
    /// Which ended items keep their payload [failed]
    #[arg(long, value_name = "WHICH")]
    retain_payload: Option<RetainPayload>,
    /// Which ended items are kept: those with something to show, or all [shown]
    #[arg(long, value_name = "WHICH")]
    keep: Option<Keep>,
    /// A header to index for `items find`, `reference` for the reference; can be given several times, at most 8; empty for none
    #[arg(long = "indexed-header", value_name = "NAME")]
    indexed_headers: Option<Vec<String>>,
    /// The most items that have not ended; 0 for no limit [0]
    #[arg(long, value_name = "N")]
    max_items: Option<u64>,
    /// A note, shown with the queue; empty removes it
    #[arg(long, value_name = "TEXT")]
    reference: Option<String>,
    /// A JSON object of at most 64 KiB, shown with the queue; null removes it
    #[arg(long, value_name = "JSON", value_parser = json)]
    meta: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Strategy {
    Exponential,
    Fixed,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RetainPayload {
    /// Failed, expired and cancelled items
    Failed,
    All,
    None,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Keep {
    /// Items with a result, an error, events, an address, or a `moved_to`
    Shown,
    All,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Requeue {
    Keep,
    Tail,
}

impl Settings {
    pub(super) fn create(
        self,
        queue: String,
        partitions: Option<u32>,
        exists_ok: bool,
    ) -> CreateQueueRequest {
        CreateQueueRequest { partitions, exists_ok, ..self.update(queue).into() }
    }

    pub(super) fn update(self, queue: String) -> UpdateQueueRequest {
        UpdateQueueRequest {
            queue,
            retry: self.retry(),
            requeue: self.requeue(),
            lease_timeout: self.lease_timeout,
            max_attempts: self.max_attempts,
            dead_timeout: self.dead_timeout,
            dead_queue: self.dead_queue,
            retention: self.retention,
            retention_max_items: self.retention_max_items,
            retention_max_bytes: self.retention_max_bytes,
            max_items: self.max_items,
            reference: self.reference,
            meta: self.meta,
            retain_payload: self.retain_payload.map(RetainPayload::name),
            keep: self.keep.map(Keep::name),
            indexed_headers: self.indexed_headers.map(header_names),
        }
    }

    fn retry(&self) -> Option<RetryPolicyChange> {
        let strategy = self.retry_strategy.map(|strategy| match strategy {
            Strategy::Exponential => "exponential".to_owned(),
            Strategy::Fixed => "fixed".to_owned(),
        });
        let change = RetryPolicyChange {
            strategy,
            initial: self.retry_initial,
            factor: self.retry_factor,
            max: self.retry_max,
            jitter: self.retry_jitter,
        };
        (change != RetryPolicyChange::default()).then_some(change)
    }

    fn requeue(&self) -> Option<String> {
        self.requeue.map(|requeue| match requeue {
            Requeue::Keep => "keep".to_owned(),
            Requeue::Tail => "tail".to_owned(),
        })
    }
}

impl RetainPayload {
    fn name(self) -> String {
        match self {
            Self::Failed => "failed".to_owned(),
            Self::All => "all".to_owned(),
            Self::None => "none".to_owned(),
        }
    }
}

impl Keep {
    fn name(self) -> String {
        match self {
            Self::Shown => "shown".to_owned(),
            Self::All => "all".to_owned(),
        }
    }
}

/// An empty name alone is no name at all.
fn header_names(names: Vec<String>) -> HeaderNames {
    HeaderNames { names: if names == [""] { Vec::new() } else { names } }
}
