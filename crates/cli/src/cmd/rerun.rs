//! `windlass item rerun`.

use clap::Args;
use windlass_api::items::{GetItemRequest, RerunItemRequest};
use windlass_api::{Code, Span};
use windlass_client::ClientError;

use super::item::Name;
use super::items::dead_letters;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::remote::{self, Remote};

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
        let Name { id, queue, address } = self.name.checked()?;
        let request = RerunItemRequest { id, queue, address, delay: self.delay };
        let reply = match remote.client().call(&request).await {
            Ok(reply) => reply,
            Err(error) => return Err(refused(&request, error, remote).await),
        };
        out.reply(&reply, |_| format!("{}\n", reply.item.id.clone().unwrap_or_default()))?;
        Ok(Exit::Done)
    }
}

/// With what to do instead, where a dead letter goes on for the item.
async fn refused(request: &RerunItemRequest, error: ClientError, remote: &Remote) -> Failure {
    let is_wrong_state = error.code() == Some(Code::WrongState);
    let failure = remote::failed(request, error);
    if !is_wrong_state {
        return failure;
    }
    let RerunItemRequest { id, queue, address, delay: _ } = request.clone();
    let item = GetItemRequest { id, queue, address, follow: false };
    let Ok(reply) = remote.client().call(&item).await else { return failure };
    let Some(moved_to) = &reply.item.moved_to else { return failure };
    match dead_letters::where_it_went(&reply.item.queue, moved_to, remote).await {
        Some(dead_queue) => failure.with_advice(&format!(
            "that is in its dead queue: redrive it with `windlass queue redrive {dead_queue}`, or rerun it there"
        )),
        None => failure,
    }
}
