//! `windlass item update` and `run-now`: changes of an item that is not leased and has not ended.

use clap::Args;
use windlass_api::items::{GetItemRequest, Headers, ItemReply, UpdateItemRequest};
use windlass_api::payload::Payload;
use windlass_api::{Code, Span, Time};

use super::item::Name;
use crate::exit::Failure;
use crate::headers::headers;
use crate::payload::{Form, payload};
use crate::remote::{self, Remote};
use crate::values::header;

#[derive(Debug, Args)]
pub(crate) struct Update {
    #[command(flatten)]
    name: Name,
    /// 0 to 255; 0 goes first
    #[arg(long, value_name = "N")]
    priority: Option<u32>,
    /// Not before this time; a past one is at once
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    enqueue_at: Option<Time>,
    /// Not before so much time has passed on the server; 0s is at once
    #[arg(long, value_name = "DURATION")]
    delay: Option<Span>,
    /// How often it is tried; 0 for no limit
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Older than this it expires, which it does at once if it is older; 0s for never
    #[arg(long, value_name = "DURATION")]
    dead_timeout: Option<Span>,
    /// A note, shown with the item; empty removes it
    #[arg(long, value_name = "TEXT")]
    reference: Option<String>,
    /// Shown with the item, instead of all headers it has; can be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Option<Vec<(String, String)>>,
    /// Take all headers away
    #[arg(long, conflicts_with = "headers")]
    no_headers: bool,
    /// The new payload: JSON if it is JSON, else a text
    #[arg(long)]
    payload: Option<String>,
    /// What the payload is
    #[arg(long = "as", value_name = "FORM", requires = "payload")]
    form: Option<Form>,
}

impl Update {
    pub(super) async fn run(self, remote: &Remote) -> Result<ItemReply, Failure> {
        let request = self.request()?;
        let UpdateItemRequest { id, queue, address, .. } = request.clone();
        if request == (UpdateItemRequest { id, queue, address, ..UpdateItemRequest::default() }) {
            return Err(Failure::usage("say what is to change: see `windlass item update --help`"));
        }
        update(&request, remote).await
    }

    fn request(self) -> Result<UpdateItemRequest, Failure> {
        let Name { id, queue, address } = self.name.checked()?;
        let given = self.payload.map(|text| payload(text.into_bytes(), self.form)).transpose();
        let given = given.map_err(|why| Failure::usage(format!("the payload: {why}")))?;
        let Payload { json, utf8, bytes } = given.unwrap_or_default();
        let given = self.headers.or_else(|| self.no_headers.then(Vec::new));
        let headers = given.map(headers).transpose()?;
        Ok(UpdateItemRequest {
            id,
            queue,
            address,
            priority: self.priority,
            enqueue_at: self.enqueue_at,
            delay: self.delay,
            max_attempts: self.max_attempts,
            dead_timeout: self.dead_timeout,
            reference: self.reference,
            headers: headers.map(|headers| Headers { headers }),
            json,
            utf8,
            bytes,
        })
    }
}

pub(super) async fn run_now(name: Name, remote: &Remote) -> Result<ItemReply, Failure> {
    let Name { id, queue, address } = name.checked()?;
    let delay = Some(Span::ZERO);
    let request = UpdateItemRequest { id, queue, address, delay, ..UpdateItemRequest::default() };
    update(&request, remote).await
}

/// Sends the request; if the item has ended, the failure says what to do instead.
async fn update(request: &UpdateItemRequest, remote: &Remote) -> Result<ItemReply, Failure> {
    let error = match remote.client().call(request).await {
        Ok(reply) => return Ok(reply),
        Err(error) => error,
    };
    let is_wrong_state = error.code() == Some(Code::WrongState);
    let failure = remote::failed(request, error);
    let UpdateItemRequest { id, queue, address, .. } = request.clone();
    let item = GetItemRequest { id, queue, address, follow: false };
    if is_wrong_state
        && let Ok(reply) = remote.client().call(&item).await
        && reply.item.finished_at.is_some()
    {
        return Err(failure.with_advice(&format!("rerun it: `windlass item rerun {}`", reply.item.id)));
    }
    Err(failure)
}
