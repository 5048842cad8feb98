//! `windlass item emit`, `suspend` and `resume`: what is said between those who work on an item and those who watch.

use clap::Args;
use windlass_api::events::{EmitRequest, NewEvent, ResumeItemRequest, SuspendRequest};
use windlass_api::items::Held;
use windlass_api::payload::Payload;

use crate::exit::{Exit, Failure};
use crate::failed;
use crate::human::counted;
use crate::output::Output;
use crate::payload::{Form, payload};
use crate::remote::Remote;
use crate::values::held;

#[derive(Debug, Args)]
pub(crate) struct Emit {
    /// The item, as `lease` prints it
    #[arg(value_name = "ID:PERMIT", value_parser = held)]
    item: Held,
    /// What the event says: JSON if it is JSON, else a text
    payload: String,
    /// What sort of event it is [message]
    #[arg(long = "type", value_name = "TYPE")]
    r#type: Option<String>,
    /// What the payload is
    #[arg(long = "as", value_name = "FORM")]
    form: Option<Form>,
    /// Only if this is the number of the last event, so that sending again is safe
    #[arg(long, value_name = "N")]
    after: Option<u64>,
}

impl Emit {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let Payload { json, utf8, bytes } = given(self.payload, self.form)?;
        let events = vec![NewEvent { json, utf8, bytes, r#type: self.r#type }];
        let Held { id, permit } = self.item;
        let reply = remote.call(&EmitRequest { id, permit, after: self.after, events }).await?;
        out.reply(&reply, |_| format!("event {}\n", reply.last_seq))?;
        if reply.cancel_requested && !out.json() {
            out.talk("it is to be cancelled: give it up");
        }
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Suspend {
    queue: String,
    /// The items, as `lease` prints them
    #[arg(value_name = "ID:PERMIT", required = true, value_parser = held)]
    items: Vec<Held>,
    /// What they wait for
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Suspend {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let Self { queue, items, reason } = self;
        let suspend =
            |Held { id, permit }| windlass_api::events::Suspend { id, permit, reason: reason.clone() };
        let items = items.into_iter().map(suspend).collect();
        let reply = remote.call(&SuspendRequest { queue, items }).await?;
        out.reply(&reply, |_| format!("{} suspended\n", counted(reply.suspended, "item")))?;
        Ok(failed::told(&reply.failed, out))
    }
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The item's id
    id: String,
    /// The answer, if there is one: JSON if it is JSON, else a text
    payload: Option<String>,
    /// What the answer is
    #[arg(long = "as", value_name = "FORM", requires = "payload")]
    form: Option<Form>,
}

impl Resume {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let answer = self.payload.map(|payload| given(payload, self.form)).transpose()?;
        let Payload { json, utf8, bytes } = answer.unwrap_or_default();
        let request = ResumeItemRequest { json, utf8, bytes, id: self.id };
        let reply = remote.call(&request).await?;
        out.reply(&reply, |_| format!("{} goes on\n", request.id))?;
        Ok(Exit::Done)
    }
}

fn given(text: String, form: Option<Form>) -> Result<Payload, Failure> {
    payload(text.into_bytes(), form).map_err(|why| Failure::usage(format!("the payload: {why}")))
}
