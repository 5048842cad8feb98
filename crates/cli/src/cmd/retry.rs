//! `windlass retry`: gives leased items back after a failed attempt.

use clap::Args;
use windlass_api::items::{self, Held, ItemError, RetryRequest};
use windlass_api::{Span, Time};

use crate::exit::{Exit, Failure};
use crate::failed;
use crate::human::counted;
use crate::output::Output;
use crate::remote::Remote;
use crate::values::held;

/// Give leased items back after a failed attempt
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass retry mail ID:PERMIT --error 'mailbox full'
  windlass retry mail ID:PERMIT --delay 10m
  windlass retry mail ID:PERMIT --dead --error 'no such address' --code bad_address")]
pub(crate) struct Retry {
    queue: String,
    /// The items, as `lease` prints them
    #[arg(value_name = "ID:PERMIT", required = true, value_parser = held)]
    items: Vec<Held>,
    /// When to try again [the queue's retry policy]
    #[arg(long, value_name = "TIME", conflicts_with_all = ["dead", "delay"])]
    at: Option<Time>,
    /// Try again once so much time has passed on the server [the queue's retry policy]
    #[arg(long, value_name = "DURATION", conflicts_with = "dead")]
    delay: Option<Span>,
    /// No further attempt, whatever is left
    #[arg(long)]
    dead: bool,
    /// What went wrong: kept with the item
    #[arg(long, value_name = "MESSAGE")]
    error: Option<String>,
    /// What went wrong, as a word for programs
    #[arg(long, value_name = "CODE", requires = "error")]
    code: Option<String>,
}

impl Retry {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let error = self.error.map(|message| ItemError { code: self.code, message });
        let retry = |Held { id, permit }| items::Retry {
            id,
            permit,
            retry_at: self.at,
            delay: self.delay,
            dead: self.dead,
            error: error.clone(),
        };
        let items = self.items.into_iter().map(retry).collect();
        let reply = remote.call(&RetryRequest { queue: self.queue, items }).await?;
        out.reply(&reply, |_| {
            format!(
                "{} will be tried again, {} failed for good\n",
                counted(reply.retried, "item"),
                reply.dead
            )
        })?;
        Ok(failed::told(&reply.failed, out))
    }
}
