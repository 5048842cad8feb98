//! `windlass items change`.

use std::io::{self, IsTerminal};

use clap::{Args, ValueEnum};
use windlass_api::items::{ChangeItemsReply, ChangeItemsRequest};
use windlass_client::Client;

use super::filter::Filter;
use crate::exit::{Exit, Failure};
use crate::failed;
use crate::human::{count, counted};
use crate::output::{Output, now};
use crate::remote::{self, Remote};

/// Cancel, rerun, delete or run now all items that match
#[derive(Debug, Args)]
#[command(after_help = "\
Counts the matching items first. On a terminal, `cancel` and `delete` ask before they change anything; --yes skips count and \
question. Without a terminal, `delete` needs --yes. Items that come to match after the count are changed too: to leave out \
items that are produced meanwhile, give --created-before.

Items are judged one by one, the oldest first. After an interruption, the items changed so far stay changed. `cancel` is for \
live items: leased ones stay until their workers give them up. `rerun` is for items that have ended, whose payloads are kept. \
`run-now` is for scheduled ones, `set-priority` for all that are not leased and have not ended, and `delete` for all: nothing \
of them is kept.

Examples:
  windlass items change mail rerun --state failed --error-code smtp_refused
  windlass items change mail cancel --header customer=4711 --dry-run
  windlass items change mail set-priority --priority 0 --kind invoice
  windlass items change mail delete --state completed --changed-before 1d --yes")]
pub(super) struct Change {
    queue: String,
    action: Action,
    #[command(flatten)]
    filter: Filter,
    /// With set-priority: 0 to 255; 0 goes first
    #[arg(long, value_name = "N", required_if_eq("action", "set-priority"))]
    priority: Option<u32>,
    /// Count the matching items, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Skip the count and the question
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    Cancel,
    Rerun,
    RunNow,
    Delete,
    SetPriority,
}

impl Action {
    const fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Rerun => "rerun",
            Self::RunNow => "run_now",
            Self::Delete => "delete",
            Self::SetPriority => "set_priority",
        }
    }

    /// What was done to the items.
    const fn done(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Rerun => "rerun",
            Self::RunNow => "due now",
            Self::Delete => "deleted",
            Self::SetPriority => "of another priority",
        }
    }

    /// Whether somebody at a terminal is asked first: `delete` keeps nothing, and `cancel` ends work that waits.
    const fn is_asked_about(self) -> bool {
        match self {
            Self::Cancel | Self::Delete => true,
            Self::Rerun | Self::RunNow | Self::SetPriority => false,
        }
    }
}

impl Change {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let somebody_is_there = io::stdin().is_terminal() && io::stderr().is_terminal();
        self.check(somebody_is_there)?;
        let (action, dry_run, yes) = (self.action, self.dry_run, self.yes);
        let request = self.request()?;
        let mut matched = None;
        if !yes {
            let dry = ChangeItemsRequest { dry_run: true, ..request.clone() };
            let dry = changed(remote.client(), dry, None, out).await.complete()?;
            if dry_run {
                out.reply(&dry, |_| would_be(&dry, action))?;
                failed::told(&dry.failed, out);
                return Ok(Exit::Done);
            }
            if dry.matched == 0 {
                out.reply(&dry, |_| done(&dry, action))?;
                return Ok(Exit::Done);
            }
            if !out.json() {
                out.talk(would_be(&dry, action).trim_end());
            }
            matched = Some(dry.matched);
        }
        if let Some(matched) = matched
            && action.is_asked_about()
            && somebody_is_there
            && !agreed(action, matched, out)?
        {
            out.talk("nothing was changed");
            return Ok(Exit::Refused);
        }
        let Changed { reply, failure } = changed(remote.patient(), request, matched, out).await;
        // Pages before the one that failed stay changed.
        if failure.is_none() || reply.matched > 0 {
            out.reply(&reply, |_| done(&reply, action))?;
        }
        let exit = ended(&reply, out);
        failure.map_or(Ok(exit), Err)
    }

    fn check(&self, somebody_is_there: bool) -> Result<(), Failure> {
        if self.priority.is_some() && self.action != Action::SetPriority {
            return Err(Failure::usage("--priority is for set-priority"));
        }
        if self.action == Action::Delete && !(self.yes || self.dry_run || somebody_is_there) {
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

fn would_be(dry: &ChangeItemsReply, action: Action) -> String {
    let matched = if dry.matched == 1 {
        "1 item matches".to_owned()
    } else {
        format!("{} items match", count(dry.matched))
    };
    if dry.changed == dry.matched {
        return format!("{matched}\n");
    }
    format!("{matched}, and {} of them would be {}\n", count(dry.changed), action.done())
}

fn done(reply: &ChangeItemsReply, action: Action) -> String {
    format!("{} {}\n", counted(reply.changed, "item"), action.done())
}

/// All pages as one reply, up to the page that failed.
struct Changed {
    reply: ChangeItemsReply,
    failure: Option<Failure>,
}

impl Changed {
    fn complete(self) -> Result<ChangeItemsReply, Failure> {
        self.failure.map_or(Ok(self.reply), Err)
    }
}

/// `matched` is how many items are expected, if that is known.
async fn changed(client: &Client, request: ChangeItemsRequest, matched: Option<u64>, out: Output) -> Changed {
    let bar = out.progress(matched);
    let mut pages = client.queue(&request.queue).change(request.clone());
    let mut all = ChangeItemsReply::default();
    let mut failure = None;
    while let Some(page) = pages.next().await {
        match page {
            Ok(page) => add(&mut all, page),
            Err(error) => {
                failure = Some(remote::failed(&request, error));
                break;
            }
        }
        bar.set_position(all.matched);
        bar.set_message(format!("{} matched", count(all.matched)));
    }
    bar.finish_and_clear();
    Changed { reply: all, failure }
}

fn add(all: &mut ChangeItemsReply, page: ChangeItemsReply) {
    all.matched += page.matched;
    all.changed += page.changed;
    all.failed.extend(page.failed);
}

/// Asks whoever is at the terminal.
fn agreed(action: Action, matched: u64, out: Output) -> Result<bool, Failure> {
    out.pass(format!("{} {}? [y/N] ", action.name(), counted(matched, "item")).as_bytes());
    let mut answer = String::new();
    io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Failure::local(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Of each page the first hundred items that failed are known.
fn ended(reply: &ChangeItemsReply, out: Output) -> Exit {
    let exit = failed::told(&reply.failed, out);
    let untold = (reply.matched - reply.changed).saturating_sub(reply.failed.len() as u64);
    if untold > 0 && !out.json() {
        out.talk(&format!("and {} more that failed", counted(untold, "item")));
    }
    exit
}
