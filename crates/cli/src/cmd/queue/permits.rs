//! `windlass queue permits` and `revoke`: who holds what, and taking it away.

use clap::Args;
use windlass_api::Time;
use windlass_api::items::Held;
use windlass_api::permits::{ListPermitsReply, ListPermitsRequest, RevokeRequest};

use crate::exit::{Exit, Failure};
use crate::failed;
use crate::human::{counted, relative};
use crate::output::Output;
use crate::remote::Remote;
use crate::table::Align::{Left, Right};
use crate::table::Table;
use crate::values::held;

/// List who holds what
#[derive(Debug, Args)]
#[command(after_help = "\
By the ids of the items: the last one of a page is where the next begins.

Examples:
  windlass queue permits mail
  windlass queue permits mail --after 00000000-0000-8080-8000-000000000001
  windlass queue permits mail --json | jq -r '.permits[] | select(.client_id == \"w1\") | \"\\(.id):\\(.permit)\"'")]
pub(super) struct Permits {
    queue: String,
    /// Begin after the item of this id
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// The most to show: 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: u32,
}

/// Take leased items away from their workers
#[derive(Debug, Args)]
#[command(after_help = "\
They go back to their places, and the attempt counts: the last one fails the item.

Example:
  windlass queue revoke mail ID:PERMIT")]
pub(super) struct Revoke {
    queue: String,
    /// The items, as `permits` prints them
    #[arg(value_name = "ID:PERMIT", required = true, value_parser = held)]
    items: Vec<Held>,
}

impl Permits {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let request = ListPermitsRequest { queue: self.queue, pivot: self.after, limit: Some(self.limit) };
        let reply = remote.call(&request).await?;
        if reply.permits.is_empty() {
            out.talk(&format!("nobody holds anything in {}, or nothing after that", request.queue));
        }
        out.reply(&reply, |now| shown(&reply, now))
    }
}

impl Revoke {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let reply = remote.call(&RevokeRequest { queue: self.queue, items: self.items }).await?;
        out.reply(&reply, |_| format!("{} revoked\n", counted(reply.revoked, "item")))?;
        Ok(failed::told(&reply.failed, out))
    }
}

fn shown(reply: &ListPermitsReply, now: Time) -> String {
    if reply.permits.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("ID:PERMIT", Left),
        ("KIND", Left),
        ("ATTEMPT", Right),
        ("LEASED BY", Left),
        ("LEASED", Left),
        ("ENDS", Left),
    ]);
    for permit in &reply.permits {
        table.row([
            format!("{}:{}", permit.id, permit.permit),
            permit.kind.clone(),
            permit.attempts.to_string(),
            permit.client_id.clone(),
            relative(permit.leased_at, now),
            relative(permit.lease_deadline, now),
        ]);
    }
    table.show()
}
