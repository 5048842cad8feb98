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
    /// The item's id, and the answer if there is one: JSON if it is JSON, else a text. With --address, the answer alone
    #[arg(value_name = "ID] [PAYLOAD", num_args = 0..=2, required_unless_present = "address")]
    words: Vec<String>,
    /// The queue that the address is of
    #[arg(long, value_name = "QUEUE", requires = "address")]
    queue: Option<String>,
    /// Instead of an id: the item's address in its queue
    #[arg(long, value_name = "ADDRESS", requires = "queue")]
    address: Option<String>,
    /// What the answer is
    #[arg(long = "as", value_name = "FORM")]
    form: Option<Form>,
}

impl Resume {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let (id, payload) = said(self.words, self.address.is_some())?;
        let answer = payload.map(|payload| given(payload, self.form)).transpose()?;
        let Payload { json, utf8, bytes } = answer.unwrap_or_default();
        let request = ResumeItemRequest { json, utf8, bytes, id, queue: self.queue, address: self.address };
        let reply = remote.call(&request).await?;
        let item = request.id.as_deref().or(request.address.as_deref()).unwrap_or_default();
        out.reply(&reply, |_| format!("{item} goes on\n"))?;
        Ok(Exit::Done)
    }
}

/// The id, unless an address names the item, and the answer.
fn said(words: Vec<String>, has_address: bool) -> Result<(Option<String>, Option<String>), Failure> {
    let mut words = words.into_iter();
    let id = if has_address { None } else { words.next() };
    let payload = words.next();
    if words.next().is_some() {
        return Err(Failure::usage("the item is named by its id or by --queue and --address, not by both"));
    }
    Ok((id, payload))
}

fn given(text: String, form: Option<Form>) -> Result<Payload, Failure> {
    payload(text.into_bytes(), form).map_err(|why| Failure::usage(format!("the payload: {why}")))
}
