//! `windlass item rerun`.

use clap::Args;
use windlass_api::Span;
use windlass_api::items::RerunItemRequest;

use super::item::Name;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::remote::Remote;

#[derive(Debug, Args)]
pub(crate) struct Rerun {
    #[command(flatten)]
    name: Name,
    /// Not before so much time has passed on the server
    #[arg(long, value_name = "DURATION")]
    delay: Option<Span>,
}

impl Rerun {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let Name { id, queue, address } = self.name;
        let reply = remote.call(&RerunItemRequest { id, queue, address, delay: self.delay }).await?;
        out.reply(&reply, |_| format!("{}\n", reply.item.id.clone().unwrap_or_default()))?;
        Ok(Exit::Done)
    }
}
