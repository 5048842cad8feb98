//! `windlass lease`: takes items, to be ended by hand.

use std::time::{Duration, Instant};

use clap::Args;
use windlass_api::items::{Kinds, LeaseReply, LeaseRequest, LeasedItem};
use windlass_api::payload::Payload;
use windlass_api::{Span, Time};

use crate::client_id;
use crate::exit::{Exit, Failure};
use crate::human::{length, relative};
use crate::output::Output;
use crate::payload;
use crate::remote::Remote;
use crate::table::Align::{Left, Right};
use crate::table::Table;

/// Take items to work on, waiting for the first
#[derive(Debug, Args)]
#[command(after_help = "\
Prints ID:PERMIT of each item: that is what complete, retry, extend, release, `item emit` and `item suspend` want. \
An item that was suspended and answered comes with the answer, as INPUT. Prints nothing if there was nothing in time.

Examples:
  windlass lease mail
  windlass lease mail --batch-size 10 --wait 0s
  windlass lease mail --kinds invoice,reminder --lease-timeout 10m
  windlass complete mail $(windlass lease mail --ids)")]
pub(crate) struct Lease {
    queue: String,
    /// The most items to take: 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch_size: u32,
    /// How long to wait for the first item; 0s answers at once
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    wait: Span,
    /// Print nothing but ID:PERMIT, one in a line
    #[arg(long, conflicts_with = "json")]
    ids: bool,
    #[command(flatten)]
    wanted: Wanted,
}

/// Which items, and for how long.
#[derive(Clone, Debug, Args)]
pub(crate) struct Wanted {
    /// How long the items are yours [the queue's setting]
    #[arg(long, value_name = "DURATION")]
    pub(crate) lease_timeout: Option<Span>,
    /// Only these kinds, separated by commas
    #[arg(long, value_name = "KIND,…", value_delimiter = ',')]
    pub(crate) kinds: Option<Vec<String>>,
    /// Only priorities up to this one: 0 to 255
    #[arg(long, value_name = "N")]
    pub(crate) max_priority: Option<u32>,
    /// Who is asking, shown to operators [host and process]
    #[arg(long, value_name = "NAME")]
    pub(crate) client_id: Option<String>,
}

impl Wanted {
    pub(crate) fn request(&self, queue: &str, batch_size: u32, wait: Span) -> LeaseRequest {
        LeaseRequest {
            queue: queue.to_owned(),
            client_id: self.client_id.clone().unwrap_or_else(client_id::default),
            batch_size,
            request_timeout: Some(wait),
            lease_timeout: self.lease_timeout,
            kinds: self.kinds.clone().map(|kinds| Kinds { kinds }),
            max_priority: self.max_priority,
        }
    }
}

impl Lease {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let began = Instant::now();
        let reply = remote.call(&self.wanted.request(&self.queue, self.batch_size, self.wait)).await?;
        if reply.items.is_empty() {
            out.talk(&self.nothing(began.elapsed()));
        }
        let ids = self.ids;
        out.reply(&reply, |now| if ids { bare(&reply) } else { shown(&reply, now) })?;
        Ok(Exit::Done)
    }
}

impl Lease {
    /// A server that shuts down answers before the time is over.
    fn nothing(&self, waited: Duration) -> String {
        let (queue, wait) = (&self.queue, self.wait);
        if waited < Duration::from(wait) {
            return format!(
                "nothing to lease in {queue}: the server ended the wait after {}",
                length(waited)
            );
        }
        format!("nothing to lease in {queue} within {wait}")
    }
}

fn bare(reply: &LeaseReply) -> String {
    reply.items.iter().map(|item| format!("{}:{}\n", item.id, item.permit)).collect()
}

fn shown(reply: &LeaseReply, now: Time) -> String {
    if reply.items.is_empty() {
        return String::new();
    }
    let mut columns =
        vec![("ID:PERMIT", Left), ("KIND", Left), ("PRIORITY", Right), ("ATTEMPT", Right), ("ENDS", Left)];
    // Few items were ever suspended.
    let some_answered = reply.items.iter().any(|item| item.input.is_some());
    columns.extend(some_answered.then_some(("INPUT", Left)));
    columns.push(("PAYLOAD", Left));
    let mut table = Table::new(&columns);
    for item in &reply.items {
        let mut row = vec![
            format!("{}:{}", item.id, item.permit),
            item.kind.clone(),
            item.priority.to_string(),
            item.attempts.to_string(),
            relative(item.lease_deadline, now),
        ];
        row.extend(some_answered.then(|| answer(item)));
        row.push(payload::shown(item.json.as_deref(), item.utf8.as_deref(), item.bytes.as_deref()));
        table.row(row);
    }
    table.show()
}

fn answer(item: &LeasedItem) -> String {
    let Some(Payload { json, utf8, bytes }) = &item.input else { return "-".into() };
    payload::shown(json.as_deref(), utf8.as_deref(), bytes.as_deref())
}
