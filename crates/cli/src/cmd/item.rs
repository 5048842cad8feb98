//! `windlass item`: one item, by its id or its address.

use clap::{Args, Subcommand};
use windlass_api::explain::ExplainItemRequest;
use windlass_api::items::{
    Attempt, CancelItemRequest, GetItemRequest, Item, ItemReply, Origin, WaitItemRequest,
};
use windlass_api::payload::Payload;
use windlass_api::{Span, Time};

use super::emit::{Emit, Resume, Suspend};
use super::items::shown::error_of;
use super::rerun::Rerun;
use super::update::{Update, run_now};
use super::watch::Watch;
use crate::exit::{Exit, Failure};
use crate::human::{count, counted, moment, relative};
use crate::output::Output;
use crate::payload;
use crate::remote::Remote;
use crate::table::facts;
use crate::values::When;

/// Show, watch, explain, wait for, answer, change, rerun or cancel an item
#[derive(Debug, Args)]
pub(crate) struct ItemCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show an item as it is now
    #[command(after_help = "\
Examples:
  windlass item get 00000000-0000-8080-8000-000000000001
  windlass item get 00000000-0000-8080-8000-000000000001 --json | jq .item.state
  windlass item get --queue reports --address 2026-q1
  windlass item get 00000000-0000-8080-8000-000000000001 --follow")]
    Get {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        follow: Follow,
    },
    /// Wait until an item has ended, and show it
    #[command(after_help = "\
Ends with 0 once the item has ended, in whatever final state, and with 1 if it had not when the time was over. With --exit-status it \
ends with 0 only if the item was completed, and with 1 if the item failed, was cancelled or expired, or had not ended when the \
time was over.

Examples:
  windlass item wait 00000000-0000-8080-8000-000000000001
  windlass item wait --queue reports --address 2026-q1 --timeout 15m --json | jq .item.result
  windlass item wait 00000000-0000-8080-8000-000000000001 --exit-status && echo 'it is done'")]
    Wait {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        follow: Follow,
        #[command(flatten)]
        status: ExitStatus,
        /// How long to wait, at most 15m; 0s answers at once
        #[arg(long, value_name = "DURATION", default_value = "30s")]
        timeout: Span,
    },
    /// Cancel an item, or ask its worker to give it up
    #[command(after_help = "\
An item that is leased stays so until its worker gives it up or its lease ends.

Example:
  windlass item cancel 00000000-0000-8080-8000-000000000001")]
    Cancel(Name),
    /// Tell why an item is not running
    #[command(after_help = "\
Examples:
  windlass item explain 00000000-0000-8080-8000-000000000001
  windlass item explain --queue reports --address 2026-q1
  windlass item explain 00000000-0000-8080-8000-000000000001 --json | jq -r '.reasons[].code'")]
    Explain(Name),
    /// Show an item's events as they come, until it ends
    #[command(after_help = "\
Each event is a line: when, its number, its type, its payload. On a terminal, events of the type `progress` with a payload \
like {\"done\": 3, \"total\": 10} move a bar instead. With --json each frame of the stream is a document on its own line. A \
connection that is lost is made again, and nothing is missed. At the end the result or the error is shown; with --json the last \
document is the item, as `{\"item\": …}`, if the item is kept. Ends with 0 once the item has ended, in whatever final state; with \
--exit-status it ends with 0 only if the item was completed, with 1 if the item failed, was cancelled or expired, and with 4 if \
the item ended while there was no connection and is not kept.

Examples:
  windlass item watch 00000000-0000-8080-8000-000000000001
  windlass item watch --queue reports --address 2026-q1
  windlass item watch 00000000-0000-8080-8000-000000000001 --after 0 --json | jq 'select(.event).data.json'")]
    Watch(Watch),
    /// Change an item that is not leased and has not ended
    #[command(after_help = "\
Only what is named changes: all of it, or nothing. Headers are replaced as a whole.

Examples:
  windlass item update 00000000-0000-8080-8000-000000000001 --priority 0
  windlass item update --queue reports --address 2026-q1 --payload '{\"quarter\": 1}' --max-attempts 5
  windlass item update 00000000-0000-8080-8000-000000000001 --delay 1h --reference ''")]
    Update(Update),
    /// Have a scheduled item run now
    #[command(after_help = "\
Example:
  windlass item run-now 00000000-0000-8080-8000-000000000001")]
    RunNow(Name),
    /// Rerun an item that has ended, as a new item
    #[command(after_help = "\
Its payload must be kept: `windlass queue update --retain-payload` sets which payloads are kept. The id of the new item is printed; \
the old one stays as it ended, and leads to the new one.

Examples:
  windlass item rerun 00000000-0000-8080-8000-000000000001
  windlass item rerun --queue reports --address 2026-q1 --delay 10m")]
    Rerun(Rerun),
    /// Append an event to the stream of an item that is leased
    #[command(after_help = "\
Examples:
  windlass item emit ID:PERMIT 'half of it is done'
  windlass item emit ID:PERMIT '{\"done\": 3, \"total\": 10}' --type progress")]
    Emit(Emit),
    /// Give leased items up until somebody answers, their attempts not counted
    #[command(after_help = "\
Example:
  windlass item suspend invoices ID:PERMIT --reason 'to be approved'")]
    Suspend(Suspend),
    /// Answer an item that is suspended: it waits again at its own place
    #[command(after_help = "\
The answer is the next event of the item's stream, and its next lease has it as `input`.

Examples:
  windlass item resume 00000000-0000-8080-8000-000000000001 '{\"approved\": true}'
  windlass item resume --queue invoices --address 2026-17 '{\"approved\": true}'")]
    Resume(Resume),
}

/// Which item.
#[derive(Debug, Args)]
pub(super) struct Name {
    /// The item's id, unless --queue and --address name the item
    pub(super) id: Option<String>,
    /// The queue that the address is of
    #[arg(long, value_name = "QUEUE")]
    pub(super) queue: Option<String>,
    /// Instead of an id: the item's address in its queue
    #[arg(long, value_name = "ADDRESS")]
    pub(super) address: Option<String>,
}

impl Name {
    /// By hand: clap would name only one of the two ways to name an item.
    pub(super) fn checked(self) -> Result<Self, Failure> {
        let message = match (&self.id, &self.queue, &self.address) {
            (Some(_), None, None) | (None, Some(_), Some(_)) => return Ok(self),
            (None, None, None) => "name the item: give an ID, or --queue with --address",
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
                "the item is named by its ID or by --queue and --address, not by both"
            }
            (None, Some(_), None) => "--queue is for an address: give an ID, or --queue with --address",
            (None, None, Some(_)) => "--address is one of a queue: give an ID, or --queue with --address",
        };
        Err(Failure::usage(message))
    }
}

/// Whether to follow `moved_to`.
#[derive(Debug, Args)]
pub(super) struct Follow {
    /// Follow `moved_to` to the latest item
    #[arg(long)]
    pub(super) follow: bool,
}

/// What the exit code of a command that waits says.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ExitStatus {
    /// End with 0 only if the item was completed, with 4 if its final state is not known, and with 1 otherwise
    #[arg(long)]
    exit_status: bool,
}

impl ExitStatus {
    /// How the program ends when the item has ended in this state, or in one that is not known any more.
    pub(super) fn of(self, state: Option<&str>) -> Exit {
        match state {
            Some("completed") => Exit::Done,
            Some(_) if self.exit_status => Exit::Refused,
            None if self.exit_status => Exit::Unknown,
            Some(_) | None => Exit::Done,
        }
    }

    pub(super) fn is_asked(self) -> bool {
        self.exit_status
    }
}

impl ItemCommand {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let reply: ItemReply = match self.verb {
            Verb::Get { name, follow: Follow { follow } } => {
                let Name { id, queue, address } = name.checked()?;
                remote.call(&GetItemRequest { id, queue, address, follow }).await?
            }
            Verb::Wait { name, follow, status, timeout } => {
                return wait(name, follow, status, timeout, remote, out).await;
            }
            Verb::Update(update) => update.run(remote).await?,
            Verb::RunNow(name) => run_now(name, remote).await?,
            Verb::Rerun(rerun) => return rerun.run(remote, out).await,
            Verb::Watch(watch) => return watch.run(remote, out).await,
            Verb::Emit(emit) => return emit.run(remote, out).await,
            Verb::Suspend(suspend) => return suspend.run(remote, out).await,
            Verb::Resume(resume) => return resume.run(remote, out).await,
            Verb::Explain(name) => return explain(name, remote, out).await,
            Verb::Cancel(name) => {
                let Name { id, queue, address } = name.checked()?;
                remote.call(&CancelItemRequest { id, queue, address }).await?
            }
        };
        out.reply(&reply, |now| shown(&reply.item, now))?;
        Ok(Exit::Done)
    }
}

async fn wait(
    name: Name,
    Follow { follow }: Follow,
    status: ExitStatus,
    timeout: Span,
    remote: &Remote,
    out: Output,
) -> Result<Exit, Failure> {
    let Name { id, queue, address } = name.checked()?;
    let request = WaitItemRequest { id, queue, address, request_timeout: Some(timeout), follow };
    let reply = remote.call(&request).await?;
    out.reply(&reply, |now| shown(&reply.item, now))?;
    // Only what has ended has a time of its end.
    if reply.item.finished_at.is_some() {
        return Ok(status.of(Some(&reply.item.state)));
    }
    out.talk(&format!("{} has not ended within {timeout}", reply.item.id));
    Ok(Exit::Refused)
}

async fn explain(name: Name, remote: &Remote, out: Output) -> Result<Exit, Failure> {
    let Name { id, queue, address } = name.checked()?;
    let reply = remote.call(&ExplainItemRequest { id, queue, address }).await?;
    out.reply(&reply, |_| {
        let mut known = vec![("state", reply.state.clone().unwrap_or_else(|| "not known".into()))];
        known.extend(reply.reasons.iter().map(|reason| (reason.code.as_str(), reason.message.clone())));
        if reply.reasons.is_empty() {
            known.push(("next", "a lease that waits is about to take it".into()));
        }
        facts(&known)
    })?;
    Ok(Exit::Done)
}

fn shown(item: &Item, now: Time) -> String {
    let attempts = match item.max_attempts {
        Some(0) => format!("{}, no limit", item.attempts),
        Some(max) => format!("{} of {max}", item.attempts),
        None => item.attempts.to_string(),
    };
    let mut known = vec![
        ("id", item.id.clone()),
        ("queue", item.queue.clone()),
        ("state", item.state.clone()),
        ("kind", item.kind.clone()),
        ("priority", item.priority.to_string()),
        ("attempts", attempts),
        ("created", moment(item.created_at, now)),
        ("changed", moment(item.changed_at, now)),
    ];
    known.extend(of_its_state(item, now));
    known.extend(if_there(item));
    known.extend(item.scheduled_at.map(|at| ("scheduled for", moment(at, now))));
    known.extend(item.origin.as_ref().map(|origin| of_its_origin(origin, now)).unwrap_or_default());
    let attempts = item.attempt_log.iter().flat_map(|log| &log.attempts);
    known.extend(attempts.map(|attempt| ("attempt", of_attempt(attempt, now))));
    known
        .push(("payload", payload::shown(item.json.as_deref(), item.utf8.as_deref(), item.bytes.as_deref())));
    facts(&known)
}

fn of_its_state(item: &Item, now: Time) -> Vec<(&'static str, String)> {
    let at = |name, time: Option<Time>| time.map(|time| (name, moment(time, now)));
    let (is_leased, cancel) = (item.permit.is_some(), item.cancel_requested == Some(true));
    let facts = [
        at("due", item.enqueue_at),
        item.permit.map(|permit| ("permit", permit.to_string())),
        item.client_id.clone().map(|client_id| (if is_leased { "leased by" } else { "client" }, client_id)),
        if is_leased { at("leased", item.leased_at) } else { at("started", item.started_at) },
        at("lease ends", item.lease_deadline),
        cancel.then(|| ("cancel", "requested".into())),
        item.reason.clone().map(|reason| ("reason", reason)),
        at("expires", expires_at(item)),
        at("finished", item.finished_at),
    ];
    facts.into_iter().flatten().collect()
}

/// One that has ended never does.
fn expires_at(item: &Item) -> Option<Time> {
    let timeout = item.dead_timeout.filter(|_| item.finished_at.is_none())?;
    Some(When::In(timeout).from(item.created_at))
}

fn if_there(item: &Item) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    facts.extend(item.address.clone().map(|address| ("address", address)));
    facts.extend(item.group.clone().map(|group| ("group", group)));
    facts.extend(item.reference.clone().map(|reference| ("reference", reference)));
    facts.extend(item.headers.iter().map(|(name, value)| ("header", format!("{name}={value}"))));
    facts.extend((item.event_count > 0).then(|| ("events", count(item.event_count))));
    facts.extend(item.cron.clone().map(|cron| ("cron", cron)));
    facts.extend(item.error.as_ref().map(|error| ("error", error_of(error))));
    facts.extend(item.result.as_ref().map(|result| ("result", payload_of(result))));
    facts.extend(item.moved_to.as_ref().map(|to| ("went on as", format!("{}, {}", to.queue, to.id))));
    facts
}

fn of_its_origin(origin: &Origin, now: Time) -> Vec<(&'static str, String)> {
    let id = origin.id.as_ref().map(|id| format!(", {id}")).unwrap_or_default();
    let attempts = origin.attempts.map(|attempts| format!(" after {}", counted(attempts.into(), "attempt")));
    let why = format!("{}{}", origin.reason, attempts.unwrap_or_default());
    let mut facts = vec![
        ("came from", format!("{}{id}", origin.queue)),
        ("moved", moment(origin.moved_at, now)),
        ("moved for", why),
    ];
    facts.extend(origin.error.as_ref().map(|error| ("error there", error_of(error))));
    facts
}

/// `1, expired 5m ago, worker-1`.
fn of_attempt(attempt: &Attempt, now: Time) -> String {
    let Attempt { attempt, client_id, leased_at: _, ended_at, outcome, error } = attempt;
    let error = error.as_ref().map(|error| format!(", {}", error_of(error))).unwrap_or_default();
    format!("{attempt}, {outcome} {}, {client_id}{error}", relative(*ended_at, now))
}

pub(super) fn payload_of(payload: &Payload) -> String {
    payload::shown(payload.json.as_deref(), payload.utf8.as_deref(), payload.bytes.as_deref())
}
