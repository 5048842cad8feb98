//! `windlass items change`.

use std::future::pending;
use std::io::{self, IsTerminal};

use clap::Args;
use windlass_api::items::{ChangeItemsReply, ChangeItemsRequest};
use windlass_client::ClientError;

use super::action::Action;
use super::dead_letters;
use super::filter::Filter;
use crate::exit::{Exit, Failure};
use crate::failed;
use crate::human::{count, counted};
use crate::output::{Output, now};
use crate::remote::{self, LongCall, Remote};
use crate::signals::Signals;

/// Cancel, rerun, delete, run now, or set the priority of all items that match
#[derive(Debug, Args)]
#[command(after_help = "\
Counts the matching items first. On a terminal, `cancel` and `delete` ask before they change anything; --yes skips count and \
question. Without a terminal, `delete` needs --yes. Items that come to match after the count are changed too: to leave out \
items that are produced meanwhile, give --created-before.

Items are judged one by one, the oldest first. After Ctrl-C, the items changed so far stay changed. Failed items that went to a \
dead queue are not rerun: send them back with `windlass queue redrive`.

Examples:
  windlass items change mail rerun --state failed --error-code smtp_refused
  windlass items change mail cancel --header customer=4711 --dry-run
  windlass items change mail set-priority --priority 0 --kind invoice
  windlass items change mail delete --state completed --changed-before 1d --yes")]
pub(super) struct Change {
    /// The queue
    queue: String,
    /// What to do with the items
    action: Action,
    /// With set-priority: 0 to 255; 0 goes first
    #[arg(long, value_name = "N", required_if_eq("action", "set-priority"))]
    priority: Option<u32>,
    /// Count the matching items, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Skip the count and the question
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    // Last: its heading holds for all flags after it.
    #[command(flatten)]
    filter: Filter,
}

impl Change {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let has_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        self.check(has_terminal)?;
        let (action, dry_run, yes) = (self.action, self.dry_run, self.yes);
        let request = self.request()?;
        if yes {
            return carry_out(request, action, None, remote, out).await;
        }
        let dry = ChangeItemsRequest { dry_run: true, ..request.clone() };
        let counted = changed(remote, dry.clone(), None, &mut None, out).await.complete(&dry)?;
        if dry_run {
            out.reply(&counted, |_| would_be(&counted, action))?;
            told(&counted, out);
            return Ok(Exit::Done);
        }
        if counted.matched == 0 {
            out.reply(&counted, |_| done(&counted, &request, action))?;
            hint(&request, action, remote, out).await;
            return Ok(Exit::Done);
        }
        if !out.json() {
            out.talk(would_be(&counted, action).trim_end());
        }
        if action.is_asked_about() && has_terminal && !agreed(action, counted.matched, out)? {
            out.talk("nothing was changed");
            return Ok(Exit::Refused);
        }
        carry_out(request, action, Some(counted.matched), remote, out).await
    }

    fn check(&self, has_terminal: bool) -> Result<(), Failure> {
        if self.priority.is_some() && self.action != Action::SetPriority {
            return Err(Failure::usage("--priority is for set-priority"));
        }
        if self.action == Action::Delete && !(self.yes || self.dry_run || has_terminal) {
            let message = "deleted items are gone for good, and there is nobody to ask: say --yes";
            return Err(Failure::usage(message));
        }
        Ok(())
    }

    fn request(self) -> Result<ChangeItemsRequest, Failure> {
        Ok(ChangeItemsRequest {
            queue: self.queue,
            filter: Some(self.filter.at(now())?),
            action: self.action.name().to_owned(),
            priority: self.priority,
            ..ChangeItemsRequest::default()
        })
    }
}

/// `matched` is how many items are expected, if that is known.
async fn carry_out(
    request: ChangeItemsRequest,
    action: Action,
    matched: Option<u64>,
    remote: &Remote,
    out: Output,
) -> Result<Exit, Failure> {
    // Only now: from here on Ctrl-C does not end the program by itself.
    let mut signals = Some(Signals::hear()?);
    let Changed { reply, end } = changed(remote, request.clone(), matched, &mut signals, out).await;
    match end {
        End::Complete => {
            out.reply(&reply, |_| done(&reply, &request, action))?;
            if reply.matched == 0 {
                // The change is complete: a signal only spares the hint.
                tokio::select! {
                    () = hint(&request, action, remote, out) => {}
                    () = asked_to_stop(&mut signals) => {}
                }
            }
            Ok(told(&reply, out))
        }
        End::Failed(error) => {
            // Pages before the one that failed stay changed.
            if reply.matched > 0 {
                out.reply(&reply, |_| done(&reply, &request, action))?;
            }
            told(&reply, out);
            Err(failure(&request, action, *error))
        }
        End::Stopped => {
            if out.json() {
                out.document(&reply)?;
            }
            told(&reply, out);
            Err(stopped(&action.done(reply.changed, request.priority)))
        }
    }
}

fn stopped(done: &str) -> Failure {
    let what = "the page under way not counted; run it again for the rest";
    Failure::interrupted(format!("stopped: {done} so far, {what}"))
}

fn done(reply: &ChangeItemsReply, request: &ChangeItemsRequest, action: Action) -> String {
    format!("{}\n", action.done(reply.changed, request.priority))
}

fn would_be(dry: &ChangeItemsReply, action: Action) -> String {
    let matched = if dry.matched == 1 {
        "1 item matches".to_owned()
    } else {
        format!("{} items match", count(dry.matched))
    };
    if dry.changed >= dry.matched {
        return format!("{matched}\n");
    }
    format!("{matched}, and {} of them {}\n", count(dry.changed), action.can_be())
}

/// All pages as one reply, up to the page that failed or that was not waited for.
struct Changed {
    reply: ChangeItemsReply,
    end: End,
}

enum End {
    Complete,
    Failed(Box<ClientError>),
    /// By a signal.
    Stopped,
}

impl Changed {
    fn complete(self, request: &ChangeItemsRequest) -> Result<ChangeItemsReply, Failure> {
        match self.end {
            End::Complete => Ok(self.reply),
            End::Failed(error) => Err(remote::failed(request, *error)),
            End::Stopped => Err(Failure::interrupted("stopped while counting: nothing was changed")),
        }
    }
}

/// `matched` is how many items are expected, if that is known.
async fn changed(
    remote: &Remote,
    mut request: ChangeItemsRequest,
    matched: Option<u64>,
    signals: &mut Option<Signals>,
    out: Output,
) -> Changed {
    let bar = out.progress(matched);
    let mut pages = LongCall::new(remote, out, bar.clone());
    let mut reply = ChangeItemsReply::default();
    let end = loop {
        let page = tokio::select! {
            page = pages.call(&request) => page,
            () = asked_to_stop(signals) => break End::Stopped,
        };
        match page {
            Ok(page) => {
                request.pivot = page.pivot.clone();
                add(&mut reply, page);
            }
            Err(error) => break End::Failed(Box::new(error)),
        }
        if request.pivot.is_none() {
            break End::Complete;
        }
        bar.set_position(reply.matched);
        bar.set_message(format!("{} matched", count(reply.matched)));
    };
    bar.finish_and_clear();
    Changed { reply, end }
}

async fn asked_to_stop(signals: &mut Option<Signals>) {
    match signals {
        Some(signals) => drop(signals.asked().await),
        None => pending().await,
    }
}

/// A server that is no Windlass may answer with any numbers.
fn add(all: &mut ChangeItemsReply, page: ChangeItemsReply) {
    all.matched = all.matched.saturating_add(page.matched);
    all.changed = all.changed.saturating_add(page.changed);
    all.failed.extend(page.failed);
}

/// Why the change did not go on.
fn failure(request: &ChangeItemsRequest, action: Action, error: ClientError) -> Failure {
    let failure = remote::failed(request, error);
    if failure.exit != Exit::Unknown {
        return failure;
    }
    failure.with_advice(action.again())
}

/// Asks on the terminal.
fn agreed(action: Action, matched: u64, out: Output) -> Result<bool, Failure> {
    loop {
        out.pass(format!("{} {}? [y/N] ", action.name(), counted(matched, "item")).as_bytes());
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        if read.map_err(|error| Failure::local(format!("cannot read the answer: {error}")))? == 0 {
            // The end of the input, with the cursor behind the question.
            out.pass(b"\n");
            return Ok(false);
        }
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "" | "n" | "no" => return Ok(false),
            _ => out.talk("say yes or no"),
        }
    }
}

/// The server lists at most 100 failed items per page; the rest is counted.
fn told(reply: &ChangeItemsReply, out: Output) -> Exit {
    let exit = failed::told(&reply.failed, out);
    let untold = reply.matched.saturating_sub(reply.changed).saturating_sub(reply.failed.len() as u64);
    if untold > 0 && !out.json() {
        out.talk(&format!("and {} more that failed", counted(untold, "item")));
    }
    exit
}

/// Where items that match have gone, if none was there to rerun.
async fn hint(request: &ChangeItemsRequest, action: Action, remote: &Remote, out: Output) {
    if action != Action::Rerun || out.json() {
        return;
    }
    let filter = request.filter.clone().unwrap_or_default();
    if let Some(dead_queue) = dead_letters::of(&request.queue, filter, remote).await {
        let redrive = format!("send them back with `windlass queue redrive {dead_queue}`");
        out.talk(&format!("items that match went to the dead queue {dead_queue}: {redrive}"));
    }
}
