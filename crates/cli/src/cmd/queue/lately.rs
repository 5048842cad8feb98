//! `windlass queue history` and `errors`: what went on in a queue, and what its items failed of.

use clap::Args;
use windlass_api::items::{ErrorCount, ItemErrorsRequest};
use windlass_api::queues::{HistoryBucket, QueueNames, QueuesHistoryRequest};
use windlass_api::{Span, Time};

use crate::exit::Failure;
use crate::human::{count, length, relative};
use crate::output::Output;
use crate::remote::Remote;
use crate::table::Align::{Left, Right};
use crate::table::Table;

/// Show what went on in a queue lately
#[derive(Debug, Args)]
#[command(after_help = "\
In at most 60 stretches of time, the oldest first, since the start of the server. WAITED is how long half, and 99 of 100, of the \
items that were leased had waited at most.

Examples:
  windlass queue history mail
  windlass queue history mail --span 24h")]
pub(super) struct History {
    queue: String,
    /// How far back, at most 24h
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    span: Span,
}

/// Count what the kept items of a queue failed of
#[derive(Debug, Args)]
#[command(after_help = "\
The most frequent codes come first. Find their items with `windlass items find QUEUE --error-code CODE`.

Examples:
  windlass queue errors mail
  windlass queue errors mail --json | jq -r '.errors[0].code'")]
pub(super) struct Errors {
    queue: String,
}

impl History {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let Self { queue, span } = self;
        let queues = Some(QueueNames { names: vec![queue.clone()] });
        let reply = remote.call(&QueuesHistoryRequest { queues, span: Some(span) }).await?;
        let buckets = reply.queues.first().map(|history| history.buckets.as_slice()).unwrap_or_default();
        if buckets.is_empty() && !out.json() {
            out.talk(&format!(
                "nothing is known of {queue}: the server was just started, or others are busier"
            ));
        }
        out.reply(&reply, |now| history(buckets, now))
    }
}

impl Errors {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let request = ItemErrorsRequest { queue: self.queue };
        let reply = remote.call(&request).await?;
        if reply.errors.is_empty() && !out.json() {
            out.talk(&format!("no kept item of {} has an error", request.queue));
        }
        out.reply(&reply, |now| errors(&reply.errors, now, out.columns()))
    }
}

fn history(buckets: &[HistoryBucket], now: Time) -> String {
    if buckets.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("FROM", Left),
        ("PRODUCED", Right),
        ("COMPLETED", Right),
        ("FAILED", Right),
        ("RETRIED", Right),
        ("WAITED 50%", Right),
        ("WAITED 99%", Right),
    ]);
    for bucket in buckets {
        let waited = |span: Option<Span>| span.map_or_else(|| "-".into(), |span| length(span.into()));
        table.row([
            relative(bucket.at, now),
            count(bucket.produced),
            count(bucket.completed),
            count(bucket.failed),
            count(bucket.retried),
            waited(bucket.waited_p50),
            waited(bucket.waited_p99),
        ]);
    }
    table.show()
}

fn errors(errors: &[ErrorCount], now: Time, width: Option<usize>) -> String {
    if errors.is_empty() {
        return String::new();
    }
    let columns = [("CODE", Left), ("ITEMS", Right), ("LATEST", Left), ("ITEM", Left), ("MESSAGE", Left)];
    let mut table = Table::new(&columns);
    for error in errors {
        table.row([
            // Errors without a code.
            if error.code.is_empty() { "-".into() } else { error.code.clone() },
            count(error.count),
            relative(error.latest_at, now),
            error.id.clone(),
            error.message.clone(),
        ]);
    }
    table.show_within(width)
}
