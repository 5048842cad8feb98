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

/// Cancel, rerun, delete or hurry all items that are found
#[derive(Debug, Args)]
#[command(after_help = "\
First it is told how many items match, and before items are cancelled or deleted somebody at a terminal is asked; --yes does \
without both. Where nobody can be asked, `delete` needs --yes. Items are judged one by one, the oldest first, and what was \
changed stays changed if it is interrupted. `cancel` is for live items: leased ones stay until their workers give them up. \
`rerun` is for items that have ended, whose payloads are kept. `run-now` is for scheduled ones, `set-priority` for all that are \
not leased and have not ended, and `delete` for all: nothing of them is kept.

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
    /// Tell how many items match, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Neither count first nor ask
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
            Self::Rerun => "produced anew",
            Self::RunNow => "due now",
            Self::Delete => "deleted",
            Self::SetPriority => "of another priority",
        }
    }

    /// Whether nothing brings the items back.
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
        let request = self.request();
        let mut matched = None;
        if !yes {
            let dry = ChangeItemsRequest { dry_run: true, ..request.clone() };
            let dry = changed(remote.client(), dry, None, out).await?;
            if dry_run {
                out.reply(&dry, |_| would_be(&dry, action))?;
                failed::told(&dry.failed, out);
                return Ok(Exit::Done);
            }
            if !out.json() {
                out.talk(would_be(&dry, action).trim_end());
            }
            matched = Some(dry.matched);
        }
        let is_to_be_asked = matched.is_some_and(|matched| matched > 0) && action.is_asked_about();
        if is_to_be_asked && somebody_is_there && !agreed(action, out)? {
            out.talk("nothing was changed");
            return Ok(Exit::Refused);
        }
        let reply = changed(remote.patient(), request, matched, out).await?;
        out.reply(&reply, |_| format!("{} {}\n", counted(reply.changed, "item"), action.done()))?;
        Ok(ended(&reply, out))
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

    fn request(self) -> ChangeItemsRequest {
        ChangeItemsRequest {
            queue: self.queue,
            filter: Some(self.filter.at(now())),
            action: self.action.name().to_owned(),
            priority: self.priority,
            ..ChangeItemsRequest::default()
        }
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

/// All pages as one reply. `matched` is how many items are expected, if that is known.
async fn changed(
    client: &Client,
    request: ChangeItemsRequest,
    matched: Option<u64>,
    out: Output,
) -> Result<ChangeItemsReply, Failure> {
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
    let Some(failure) = failure else { return Ok(all) };
    // Nothing of the page that failed may be known, but what was changed before it stays changed.
    if !request.dry_run && all.changed > 0 && !out.json() {
        out.talk(&format!("{} changed before this:", counted(all.changed, "item")));
    }
    Err(failure)
}

fn add(all: &mut ChangeItemsReply, page: ChangeItemsReply) {
    all.matched += page.matched;
    all.changed += page.changed;
    all.failed.extend(page.failed);
}

/// Asks whoever is at the terminal.
fn agreed(action: Action, out: Output) -> Result<bool, Failure> {
    out.pass(format!("{} them? [y/N] ", action.name()).as_bytes());
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
