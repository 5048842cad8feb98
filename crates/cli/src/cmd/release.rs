//! `windlass release`: gives leased items back as if they had not been taken.

use clap::Args;
use windlass_api::items::{Held, ReleaseRequest};

use crate::exit::{Exit, Failure};
use crate::failed;
use crate::human::counted;
use crate::output::Output;
use crate::remote::Remote;
use crate::values::held;

/// Give leased items back, their attempts not counted
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  windlass release mail ID:PERMIT")]
pub(crate) struct Release {
    queue: String,
    /// The items, as `lease` prints them
    #[arg(value_name = "ID:PERMIT", required = true, value_parser = held)]
    items: Vec<Held>,
}

impl Release {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let reply = remote.call(&ReleaseRequest { queue: self.queue, items: self.items }).await?;
        out.reply(&reply, |_| format!("{} released\n", counted(reply.released, "item")))?;
        Ok(failed::told(&reply.failed, out))
    }
}
