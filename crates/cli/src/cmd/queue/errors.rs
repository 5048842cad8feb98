//! `windlass queue errors`: how many kept items of a queue have which error code.

use clap::Args;
use windlass_api::Time;
use windlass_api::items::{ErrorCount, ItemErrorsRequest};

use crate::exit::Failure;
use crate::human::{count, relative};
use crate::output::Output;
use crate::remote::Remote;
use crate::table::Align::{Left, Right};
use crate::table::Table;

/// Count the error codes of the kept items of a queue
#[derive(Debug, Args)]
#[command(after_help = "\
The most frequent codes come first. Find their items with `windlass items find QUEUE --error-code CODE`.

Examples:
  windlass queue errors mail
  windlass queue errors mail --json | jq -r '.errors[0].code'")]
pub(super) struct Errors {
    queue: String,
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
    table.show_within(width, &[("CODE", 12), ("MESSAGE", 30)], &["LATEST", "ITEM"])
}
