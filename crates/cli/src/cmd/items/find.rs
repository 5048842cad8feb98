//! `windlass items find`.

use clap::Args;
use indicatif::ProgressBar;
use windlass_api::items::{FindItemsReply, FindItemsRequest};

use super::filter::Filter;
use super::shown::{self, Place};
use crate::exit::{Exit, Failure};
use crate::human::{count, counted};
use crate::output::{Output, now};
use crate::remote::{Remote, failed};

/// The most items of one page.
const PAGE: u32 = 1000;

/// Find items by what they show, also those that have ended
#[derive(Debug, Args)]
#[command(after_help = "\
The newest come first. A TIME is RFC 3339, like 2026-01-31T12:00:00Z, or a duration like 2h, which means two hours ago. \
Without a QUEUE all queues are looked through, for items that are suspended, failed or expired.

Examples:
  windlass items find mail --state failed --changed-after 2h
  windlass items find mail --header customer=4711 --payloads
  windlass items find mail --error-code smtp_refused --all --json | jq -r '.items[].id'
  windlass items find --state suspended")]
pub(super) struct Find {
    /// The queue; all queues if none is named
    queue: Option<String>,
    #[command(flatten)]
    filter: Filter,
    /// The oldest first
    #[arg(long)]
    oldest: bool,
    /// Show payloads and results too
    #[arg(long)]
    payloads: bool,
    /// The most items to show
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Show all that are found
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Go on without partitions that do not serve, and tell which these are
    #[arg(long)]
    partial: bool,
}

impl Find {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let place = if self.queue.is_none() { Place::Queue } else { Place::Nothing };
        let found = self.found(remote, out).await?;
        if !out.json() {
            told(&found, out);
        }
        out.reply(&found, |now| shown::table(&found.items, now, place, out.columns()))?;
        Ok(Exit::Done)
    }

    /// All pages as one reply, with the pivot of the last.
    async fn found(self, remote: &Remote, out: Output) -> Result<FindItemsReply, Failure> {
        let most = if self.all { u32::MAX } else { self.limit };
        let mut request = FindItemsRequest {
            queue: self.queue,
            order: self.oldest.then(|| "oldest".to_owned()),
            payloads: self.payloads,
            partial: self.partial,
            limit: Some(most.min(PAGE)),
            ..self.filter.at(now()).into()
        };
        let mut found = FindItemsReply::default();
        let mut progress = Progress { out, bar: None };
        loop {
            let page = remote.client().call(&request).await.map_err(|error| failed(&request, error))?;
            found.items.extend(page.items);
            found.scanned += page.scanned;
            found.missing.extend(page.missing);
            found.pivot = page.pivot;
            let room = most.saturating_sub(found.items.len().try_into().unwrap_or(u32::MAX));
            if room == 0 || found.pivot.is_none() {
                break;
            }
            progress.show(&found);
            request = FindItemsRequest { pivot: found.pivot.clone(), limit: Some(room.min(PAGE)), ..request };
        }
        progress.close();
        found.missing.sort_unstable();
        found.missing.dedup();
        Ok(found)
    }
}

/// From the second page on.
struct Progress {
    out: Output,
    bar: Option<ProgressBar>,
}

impl Progress {
    fn show(&mut self, found: &FindItemsReply) {
        let items = counted(found.items.len() as u64, "item");
        let bar = self.bar.get_or_insert_with(|| self.out.progress(None));
        bar.set_message(format!("{} looked at, {items} found", count(found.scanned)));
        bar.tick();
    }

    fn close(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn told(found: &FindItemsReply, out: Output) {
    if found.items.is_empty() {
        out.talk("nothing was found");
    }
    if found.pivot.is_some() {
        out.talk("there may be more: name another --limit, or show --all");
    }
    if !found.missing.is_empty() {
        let missing: Vec<_> = found.missing.iter().map(u32::to_string).collect();
        out.talk(&format!("not looked at, because they do not serve: partitions {}", missing.join(", ")));
    }
}
