//! `windlass produce`: one item from the command line, or many from stdin.

mod item_line;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use windlass_api::items::{NewItem, ProduceError, ProduceReply, ProduceRequest};
use windlass_api::payload::Payload;
use windlass_api::{Span, Time};

use super::item::ExitStatus;
use super::watch::{Watched, watch};
use crate::exit::{Exit, Failure};
use crate::feed::{Feed, Input, Limits, Stream};
use crate::headers::headers;
use crate::output::Output;
use crate::payload::{Form, payload};
use crate::remote::Remote;
use crate::values::header;

/// Put items into a queue: one from the command line, or many from stdin
#[derive(Debug, Args)]
#[command(after_help = "\
A PAYLOAD is sent as JSON if it is JSON, else as text; --as says otherwise. The item's id is printed.

Without a PAYLOAD, or with `-`, each line of stdin is an item as the API takes it, with its payload in `json`, \
`utf8` or `bytes` (base64). The flags then hold for items that do not say otherwise. Several batches are under way \
at a time, so that items may change places between batches: `--in-flight 1` keeps the order of the lines. \
At the first trouble nothing more is sent, and it is told which lines were produced and which were not. With --json \
it prints how many were `produced`, the ranges of lines that were `not_produced` or of which that is `unknown`, and \
`sent_to_line`, after which nothing was sent.

An item that completes without a result, an address or events is forgotten at once, also if that is before --watch \
has begun. Then --exit-status ends with 4: the outcome is unknown. In a queue with `--keep all` every item is kept.

Examples:
  windlass produce mail '{\"to\": \"ada@example.com\"}'
  windlass produce videos '{\"file\": \"cat.mov\"}' --watch
  windlass produce builds '{\"commit\": \"4711\"}' --watch --exit-status
  windlass produce mail hello --kind greeting --delay 10m
  windlass produce photos --payload-file cat.jpg --header name=cat.jpg
  windlass produce mail < items.ndjson
  jq -c '{json: ., kind: .type}' orders.json | windlass produce orders")]
pub(crate) struct Produce {
    queue: String,
    /// The payload; `-` reads items from stdin
    payload: Option<String>,
    /// The payload is in this file
    #[arg(long, value_name = "FILE", conflicts_with = "payload")]
    payload_file: Option<PathBuf>,
    /// What the payload is
    #[arg(long = "as", value_name = "FORM")]
    form: Option<Form>,
    /// What sort of work it is [default]
    #[arg(long)]
    kind: Option<String>,
    /// 0 to 255; 0 goes first [0]
    #[arg(long, value_name = "N")]
    priority: Option<u32>,
    /// Not before this time
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    enqueue_at: Option<Time>,
    /// Not before so much time has passed on the server
    #[arg(long, value_name = "DURATION")]
    delay: Option<Span>,
    /// How often it is tried; 0 for no limit [the queue's setting]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Older than this it expires; 0s for never [the queue's setting]
    #[arg(long, value_name = "DURATION")]
    dead_timeout: Option<Span>,
    /// No other item that is not final has it in the queue
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// The group it is a member of: it is held until that is started
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// A name for this call: sent again under it within 24h, nothing more is produced
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// A note, shown with the item
    #[arg(long, value_name = "TEXT")]
    reference: Option<String>,
    /// Shown with the item; can be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Show the item's events as they come, until it ends, and then its result or its error
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    status: ExitStatus,
    /// From stdin: the most items in one request, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=1000))]
    batch_size: u16,
    /// From stdin: how many requests are under way at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    in_flight: u8,
}

impl Produce {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        if self.status.is_asked() && !self.watch {
            return Err(Failure::usage("--exit-status is about the end of the item: say --watch too"));
        }
        match self.payload()? {
            Some(payload) => self.one(payload, remote, out).await,
            None => self.many(remote, out).await,
        }
    }

    /// None if there are items to come from stdin.
    fn payload(&self) -> Result<Option<Payload>, Failure> {
        let content = match (&self.payload, &self.payload_file) {
            (_, Some(file)) => read(file)?,
            (Some(text), None) if text == "-" => return Ok(None),
            (Some(text), None) => text.clone().into_bytes(),
            (None, None) if io::stdin().is_terminal() => return Err(nothing_given()),
            (None, None) => return Ok(None),
        };
        payload(content, self.form).map(Some).map_err(|why| Failure::usage(format!("the payload: {why}")))
    }

    /// What the flags say, without a payload.
    fn item(&self) -> Result<NewItem, Failure> {
        Ok(NewItem {
            kind: self.kind.clone(),
            priority: self.priority,
            enqueue_at: self.enqueue_at,
            delay: self.delay,
            max_attempts: self.max_attempts,
            dead_timeout: self.dead_timeout,
            address: self.address.clone(),
            group: self.group.clone(),
            reference: self.reference.clone(),
            headers: headers(self.headers.clone())?,
            ..NewItem::default()
        })
    }

    async fn one(self, payload: Payload, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let Payload { json, utf8, bytes } = payload;
        let items = vec![NewItem { json, utf8, bytes, ..self.item()? }];
        let Self { queue, idempotency_key, watch, status, .. } = self;
        let request = ProduceRequest { queue, idempotency_key, items, ..ProduceRequest::default() };
        let reply = remote.call(&request).await?;
        let refused = reply.items.iter().find_map(|item| item.error.as_ref());
        let id = reply.items.iter().find_map(|item| item.id.clone()).unwrap_or_default();
        out.reply(&reply, |_| if refused.is_some() { String::new() } else { format!("{id}\n") })?;
        match refused {
            Some(error) if !out.json() => {
                let id = error.id.as_ref().map(|id| format!(", {id}")).unwrap_or_default();
                Err(Failure::local(format!("{} ({}{id})", error.message, error.code)))
            }
            Some(_) => Ok(Exit::Refused),
            None if watch => {
                let from_the_first = remote.watching().events(&id).after(0);
                let item = Watched { id, queue: request.queue };
                self::watch(item, from_the_first, status, remote, out).await
            }
            None => Ok(Exit::Done),
        }
    }

    async fn many(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        if self.form.is_some() {
            let message = "--as is for a PAYLOAD: lines from stdin say themselves what theirs is";
            return Err(Failure::usage(message));
        }
        if self.watch {
            let message = "--watch is for a PAYLOAD: watch items from stdin with `windlass item watch`";
            return Err(Failure::usage(message));
        }
        if self.address.is_some() {
            let message = "--address is for a PAYLOAD: two items cannot have one address";
            return Err(Failure::usage(message));
        }
        if self.idempotency_key.is_some() {
            let message =
                "--idempotency-key is for a PAYLOAD: items from stdin are sent in batches that vary";
            return Err(Failure::usage(message));
        }
        let stream = Stream {
            client: remote.patient().clone(),
            feed: NewItems { defaults: self.item()?, queue: self.queue },
            limits: Limits::of_items(self.batch_size.into()),
            in_flight: self.in_flight.into(),
        };
        stream.run(Input::stdin(), out).await
    }
}

#[derive(Clone, Debug)]
struct NewItems {
    queue: String,
    defaults: NewItem,
}

impl Feed for NewItems {
    type Item = NewItem;
    type Request = ProduceRequest;

    const DONE: &'static str = "produced";
    const GOES_ON: bool = false;

    fn parse(&self, line: &[u8]) -> Result<Option<NewItem>, String> {
        item_line::parse(line, &self.defaults).map(Some)
    }

    fn request(&self, items: Vec<NewItem>) -> ProduceRequest {
        ProduceRequest { queue: self.queue.clone(), items, ..ProduceRequest::default() }
    }

    fn refusals(reply: ProduceReply) -> Vec<Option<ProduceError>> {
        reply.items.into_iter().map(|item| item.error).collect()
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| Failure::local(format!("cannot read {}: {error}", file.display())))
}

fn nothing_given() -> Failure {
    Failure::usage("give a PAYLOAD, or items on stdin: see `windlass produce --help`")
}
