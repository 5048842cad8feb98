//! `windlass items find`.

use clap::Args;
use windlass_api::items::{FindItemsReply, FindItemsRequest};

use super::filter::Filter;
use super::shown::{self, Place};
use crate::exit::{Exit, Failure};
use crate::human::{count, counted};
use crate::output::{Output, now};
use crate::remote::{LongCall, Remote, failed};

/// The most items of one page.
const PAGE: u32 = 1000;

/// Find items by state, kind, header, error or time, also those that have ended
#[derive(Debug, Args)]
#[command(after_help = "\
The newest come first. A TIME is RFC 3339, like 2026-01-31T12:00:00Z. \
Without a QUEUE all queues are searched, for items that are suspended, failed or expired: at most the newest 1000 are shown, \
and --all needs a QUEUE. On a terminal that is too narrow, columns are left out; piped, the table has all of them.

Examples:
  windlass items find mail --state failed --changed-after 2h
  windlass items find mail --header customer=4711 --payloads
  windlass items find mail --error-code smtp_refused --all --json | jq -r '.items[].id'
  windlass items find --state suspended")]
pub(super) struct Find {
    /// The queue; all queues if none is named
    queue: Option<String>,
    /// The oldest first
    #[arg(long)]
    oldest: bool,
    /// Show payloads and results too
    #[arg(long)]
    payloads: bool,
    /// The most items to show
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Show all items that match
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Go on without partitions that do not serve, and name them
    #[arg(long)]
    partial: bool,
    // Last: its heading holds for all flags after it.
    #[command(flatten)]
    filter: Filter,
}

impl Find {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        self.check()?;
        let place = if self.queue.is_none() { Place::Queue } else { Place::Nothing };
        let (newest, most) = (self.limit.min(PAGE), self.most());
        let found = self.found(remote, out).await?;
        out.reply(&found, |now| shown::table(&found.items, now, place, out.columns()))?;
        if !out.json() {
            told(&found, most, out);
        }
        if !out.json() && place == Place::Queue && found.items.len() >= newest as usize {
            out.talk(&format!("only the newest {} are shown: name a queue for all", count(newest.into())));
        }
        Ok(Exit::Done)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.queue.is_some() {
            return Ok(());
        }
        if self.all {
            let message = "--all needs a QUEUE: without one, at most the newest 1000 items are shown";
            return Err(Failure::usage(message));
        }
        if !self.filter.is_for_all_queues() {
            return Err(Failure::usage("name a QUEUE, or --state with suspended, failed or expired"));
        }
        Ok(())
    }

    /// The most items to show.
    fn most(&self) -> u32 {
        if self.all { u32::MAX } else { self.limit }
    }

    /// All pages as one reply, with the pivot of the last.
    async fn found(self, remote: &Remote, out: Output) -> Result<FindItemsReply, Failure> {
        let most = self.most();
        let mut request = FindItemsRequest {
            queue: self.queue,
            order: self.oldest.then(|| "oldest".to_owned()),
            payloads: self.payloads,
            partial: self.partial,
            limit: Some(most.min(PAGE)),
            ..self.filter.at(now())?.into()
        };
        let mut found = FindItemsReply::default();
        let bar = out.progress(None);
        let mut pages = LongCall::new(remote, out, bar.clone());
        loop {
            let page = pages.call(&request).await.map_err(|error| failed(&request, error))?;
            let only_missing = page.scanned == 0 && page.items.is_empty() && !page.missing.is_empty();
            found.items.extend(page.items);
            found.scanned = found.scanned.saturating_add(page.scanned);
            found.missing.extend(page.missing);
            found.pivot = page.pivot;
            let room = most.saturating_sub(found.items.len().try_into().unwrap_or(u32::MAX));
            // With `partial`, a page has a pivot for as long as a partition is missing.
            if room == 0 || found.pivot.is_none() || only_missing {
                break;
            }
            let items = counted(found.items.len() as u64, "item");
            bar.set_message(format!("{} looked at, {items} found", count(found.scanned)));
            bar.tick();
            request = FindItemsRequest { pivot: found.pivot.clone(), limit: Some(room.min(PAGE)), ..request };
        }
        bar.finish_and_clear();
        found.missing.sort_unstable();
        found.missing.dedup();
        Ok(found)
    }
}

fn told(found: &FindItemsReply, most: u32, out: Output) {
    if found.items.is_empty() {
        out.talk("nothing was found");
    }
    // With room left, only the partitions in `missing` may have more.
    if found.pivot.is_some() && found.items.len() >= most as usize {
        out.talk("there may be more: name another --limit, or show --all");
    }
    if !found.missing.is_empty() {
        let missing: Vec<_> = found.missing.iter().map(u32::to_string).collect();
        out.talk(&format!("not looked at, because they do not serve: partitions {}", missing.join(", ")));
    }
}
