//! `windlass complete`: ends leased items as done.

use clap::Args;
use windlass_api::items::{CompleteRequest, Completion, Held};

use crate::exit::{Exit, Failure};
use crate::failed;
use crate::human::counted;
use crate::output::Output;
use crate::payload::{Form, payload};
use crate::remote::Remote;
use crate::values::held;

/// End leased items as done
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass complete mail 00000000-0000-8080-8000-000000000001:7
  windlass complete mail ID:PERMIT ID:PERMIT --result '{\"sent\": true}'")]
pub(crate) struct Complete {
    queue: String,
    /// The items, as `lease` prints them
    #[arg(value_name = "ID:PERMIT", required = true, value_parser = held)]
    items: Vec<Held>,
    /// Kept with each item for the queue's retention: JSON if it is JSON, else a text
    #[arg(long, value_name = "PAYLOAD")]
    result: Option<String>,
    /// What the result is
    #[arg(long = "as", value_name = "FORM", requires = "result")]
    form: Option<Form>,
}

impl Complete {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let result = self.result.map(|result| payload(result.into_bytes(), self.form)).transpose();
        let result = result.map_err(|why| Failure::usage(format!("--result: {why}")))?;
        let completion = |held: Held| Completion { id: held.id, permit: held.permit, result: result.clone() };
        let items = self.items.into_iter().map(completion).collect();
        let request = CompleteRequest { queue: self.queue, request_timeout: None, items };
        let reply = remote.call(&request).await?;
        out.reply(&reply, |_| format!("{} completed\n", counted(reply.completed, "item")))?;
        Ok(failed::told(&reply.failed, out))
    }
}
