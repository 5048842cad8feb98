//! `windlass extend`: keeps leased items for longer.

use clap::Args;
use windlass_api::items::{ExtendReply, ExtendRequest, Held};
use windlass_api::{Span, Time};

use crate::exit::{Exit, Failure};
use crate::failed;
use crate::human::relative;
use crate::output::Output;
use crate::remote::Remote;
use crate::table::Align::Left;
use crate::table::Table;
use crate::values::held;

/// Keep leased items for longer: the heartbeat
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass extend mail ID:PERMIT
  windlass extend mail ID:PERMIT --lease-timeout 1h")]
pub(crate) struct Extend {
    queue: String,
    /// The items, as `lease` prints them
    #[arg(value_name = "ID:PERMIT", required = true, value_parser = held)]
    items: Vec<Held>,
    /// Counted from now [the one each lease has]
    #[arg(long, value_name = "DURATION")]
    lease_timeout: Option<Span>,
}

impl Extend {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let Self { queue, items, lease_timeout } = self;
        let reply = remote.call(&ExtendRequest { queue, lease_timeout, items }).await?;
        out.reply(&reply, |now| shown(&reply, now))?;
        Ok(failed::told(&reply.failed, out))
    }
}

fn shown(reply: &ExtendReply, now: Time) -> String {
    if reply.items.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[("ID", Left), ("ENDS", Left), ("NOTE", Left)]);
    for item in &reply.items {
        let note = if item.cancel_requested { "to be cancelled: give it up" } else { "" };
        table.row([item.id.clone(), relative(item.lease_deadline, now), note.into()]);
    }
    table.show()
}
