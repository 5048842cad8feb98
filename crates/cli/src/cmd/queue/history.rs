//! `windlass queue history`: what went on in a queue.

use clap::Args;
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
At most 60 periods, oldest first, since the start of the server. WAITED 50% (99%): half (99 of 100) of the leased items waited no \
longer.

Examples:
  windlass queue history mail
  windlass queue history mail --span 24h")]
pub(super) struct History {
    queue: String,
    /// How far back, at most 24h
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    span: Span,
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
        out.reply(&reply, |now| history(buckets, now, out.columns()))
    }
}

fn history(buckets: &[HistoryBucket], now: Time, width: Option<usize>) -> String {
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
    table.show_within(width, &[], &["WAITED 50%", "RETRIED"])
}
