//! `windlass cron`: items that appear on a schedule.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use windlass_api::crons::{
    CreateCronRequest, Cron, CronInfoRequest, CronItem, DeleteCronRequest, LastItem, ListCronsReply,
    ListCronsRequest, PauseCronRequest, ResumeCronRequest, TriggerCronRequest, UpdateCronRequest,
};
use windlass_api::payload::Payload;
use windlass_api::{Span, Time};

use crate::exit::{Exit, Failure};
use crate::headers::headers;
use crate::human::{moment, relative};
use crate::output::Output;
use crate::payload::{Form, payload, shown as payload_shown};
use crate::remote::{Remote, failed};
use crate::table::Align::Left;
use crate::table::{Table, facts};
use crate::values::header;

/// Have items appear on a schedule
#[derive(Debug, Args)]
pub(crate) struct CronCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Have an item produced at each time of a schedule
    #[command(after_help = "\
A SCHEDULE is five fields (minute, hour, day of the month, month, day of the week), six with the second first, one of \
@hourly, @daily, @weekly, @monthly and @yearly, or `@every` and a duration. A PAYLOAD is sent as JSON if it is JSON, \
else as text; --as says otherwise.

Examples:
  windlass cron create nightly reports '30 2 * * *' '\"build\"' --timezone Europe/Berlin
  windlass cron create beat checks '@every 30s' ping --overlap skip
  windlass cron create bills billing '0 6 1 * *' '{\"run\": \"monthly\"}' --catch-up one")]
    Create(Create),
    /// List the crons of all queues
    #[command(after_help = "\
Times are in each cron's own time zone.

Example:
  windlass cron list")]
    List,
    /// Show a cron and its next times
    #[command(after_help = "\
Examples:
  windlass cron info nightly
  windlass cron info nightly --json | jq -r .cron.next_times[]")]
    Info(Name),
    /// Change a cron
    #[command(after_help = "\
What is not named stays as it was; a PAYLOAD and what belongs to it replace the item as a whole. A new schedule counts \
from now.

Examples:
  windlass cron update nightly --schedule '0 3 * * *'
  windlass cron update nightly --payload '\"rebuild\"' --kind heavy")]
    Update(Update),
    /// Delete a cron
    #[command(after_help = "\
What it has produced stays.

Example:
  windlass cron delete nightly")]
    Delete(Name),
    /// Let the times of a cron pass
    #[command(after_help = "\
None of them is missed: after `windlass cron resume` it goes on with the next.

Example:
  windlass cron pause nightly")]
    Pause(Name),
    /// Go on with the next time of a cron
    #[command(after_help = "\
Example:
  windlass cron resume nightly")]
    Resume(Name),
    /// Produce the item of a cron now
    #[command(after_help = "\
Also when it is paused; its times stay as they are. The item's id is printed.

Example:
  windlass cron trigger nightly")]
    Trigger(Name),
}

#[derive(Debug, Args)]
struct Name {
    cron: String,
}

#[derive(Debug, Args)]
struct Create {
    cron: String,
    queue: String,
    schedule: String,
    payload: String,
    /// Do nothing if there is a cron of that name and it has all that is given
    #[arg(long)]
    exists_ok: bool,
    #[command(flatten)]
    item: ItemFlags,
    #[command(flatten)]
    times: Times,
}

#[derive(Debug, Args)]
struct Update {
    cron: String,
    /// When it runs from now on
    #[arg(long)]
    schedule: Option<String>,
    /// What is produced each time
    #[arg(long)]
    payload: Option<String>,
    #[command(flatten)]
    item: ItemFlags,
    #[command(flatten)]
    times: Times,
}

#[derive(Debug, Args)]
struct Times {
    /// Whose clocks the schedule goes by, like Europe/Berlin [UTC]
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// What becomes of times that were missed by more than 5 s: skip, one (for all of them) or all [skip]
    #[arg(long, value_name = "WAY")]
    catch_up: Option<String>,
    /// What becomes of a time while the previous item is not final: allow (one more) or skip [allow]
    #[arg(long, value_name = "WAY")]
    overlap: Option<String>,
}

#[derive(Debug, Args)]
struct ItemFlags {
    /// What the payload is
    #[arg(long = "as", value_name = "FORM")]
    form: Option<Form>,
    /// What sort of work it is [default]
    #[arg(long)]
    kind: Option<String>,
    /// 0 to 255; 0 goes first [0]
    #[arg(long, value_name = "N")]
    priority: Option<u32>,
    /// How often it is tried; 0 for no limit [the queue's setting]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Older than this it expires; 0s for never [the queue's setting]
    #[arg(long, value_name = "DURATION")]
    dead_timeout: Option<Span>,
    /// Not before so much time has passed since the run
    #[arg(long, value_name = "DURATION")]
    delay: Option<Span>,
    /// While an item that is not final has it, a time produces nothing
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// A note, shown with the item
    #[arg(long, value_name = "TEXT")]
    reference: Option<String>,
    /// Shown with the item; can be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
}

impl CronCommand {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        match self.verb {
            Verb::Create(create) => create.run(remote, out).await?,
            Verb::List => list(remote, out).await?,
            Verb::Info(Name { cron }) => {
                let reply = remote.call(&CronInfoRequest { cron }).await?;
                out.reply(&reply, |now| shown(&reply.cron, now))?;
            }
            Verb::Update(update) => update.run(remote, out).await?,
            Verb::Delete(Name { cron }) => {
                let reply = remote.call(&DeleteCronRequest { cron: cron.clone() }).await?;
                out.reply(&reply, |_| format!("cron {cron} is deleted\n"))?;
            }
            Verb::Pause(Name { cron }) => {
                let reply = remote.call(&PauseCronRequest { cron }).await?;
                out.reply(&reply, |now| shown(&reply.cron, now))?;
            }
            Verb::Resume(Name { cron }) => {
                let reply = remote.call(&ResumeCronRequest { cron: cron.clone() }).await?;
                out.reply(&reply, |_| format!("cron {cron} is resumed\n"))?;
            }
            Verb::Trigger(Name { cron }) => {
                let reply = remote.call(&TriggerCronRequest { cron }).await?;
                let id = reply.item.id.clone().unwrap_or_default();
                out.reply(&reply, |_| format!("{id}\n"))?;
            }
        }
        Ok(Exit::Done)
    }
}

impl Create {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let Times { timezone, catch_up, overlap } = self.times;
        let request = CreateCronRequest {
            cron: self.cron,
            queue: self.queue,
            schedule: self.schedule,
            timezone,
            item: self.item.item(self.payload)?,
            catch_up,
            overlap,
            exists_ok: self.exists_ok,
        };
        let reply = remote.call(&request).await?;
        out.reply(&reply, |now| shown(&reply.cron, now))
    }
}

impl Update {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let Times { timezone, catch_up, overlap } = self.times;
        let item = match self.payload {
            Some(text) => Some(self.item.item(text)?),
            None if self.item.is_empty() => None,
            None => {
                let message = "the item is replaced as a whole: give its --payload too";
                return Err(Failure::usage(message));
            }
        };
        let (cron, schedule) = (self.cron, self.schedule);
        let request = UpdateCronRequest { cron, queue: None, schedule, timezone, item, catch_up, overlap };
        let reply = remote.call(&request).await?;
        out.reply(&reply, |now| shown(&reply.cron, now))
    }
}

impl ItemFlags {
    fn is_empty(&self) -> bool {
        let Self { form, kind, priority, max_attempts, dead_timeout, delay, address, reference, headers } =
            self;
        form.is_none()
            && kind.is_none()
            && priority.is_none()
            && max_attempts.is_none()
            && dead_timeout.is_none()
            && delay.is_none()
            && address.is_none()
            && reference.is_none()
            && headers.is_empty()
    }

    fn item(self, text: String) -> Result<CronItem, Failure> {
        let Payload { json, utf8, bytes } = payload(text.into_bytes(), self.form)
            .map_err(|why| Failure::usage(format!("the payload: {why}")))?;
        Ok(CronItem {
            json,
            utf8,
            bytes,
            kind: self.kind,
            priority: self.priority,
            address: self.address,
            max_attempts: self.max_attempts,
            reference: self.reference,
            headers: headers(self.headers)?,
            dead_timeout: self.dead_timeout,
            delay: self.delay,
        })
    }
}

async fn list(remote: &Remote, out: Output) -> Result<(), Failure> {
    let listed = remote.client().crons().await;
    let of_list = |error| failed(&ListCronsRequest::default(), error);
    let all = ListCronsReply { crons: listed.map_err(of_list)? };
    out.reply(&all, |now| table(&all.crons, now, out.columns()))
}

fn table(crons: &[Cron], now: Time, width: Option<usize>) -> String {
    if crons.is_empty() {
        return String::new();
    }
    let columns = ["CRON", "QUEUE", "SCHEDULE", "TIMEZONE", "NEXT", "LAST", "LAST ITEM"];
    let mut table = Table::new(&columns.map(|name| (name, Left)));
    for cron in crons {
        let at = |time| Zone::of(cron).moment(time, now);
        let next = if cron.paused { "paused".into() } else { at(cron.next_at) };
        let (name, queue) = (cron.cron.clone(), cron.queue.clone());
        let (schedule, timezone) = (cron.schedule.clone(), cron.timezone.clone());
        table.row([name, queue, schedule, timezone, next, at(cron.last_at), last_item(cron)]);
    }
    let cut = [("CRON", 12), ("QUEUE", 8), ("SCHEDULE", 11)];
    table.show_within(width, &cut, &["LAST ITEM", "LAST", "TIMEZONE", "QUEUE"])
}

/// A cron's time zone.
struct Zone(TimeZone);

impl Zone {
    /// UTC for a zone that is not known here: the server may know newer ones.
    fn of(cron: &Cron) -> Self {
        Self(TimeZoneDatabase::bundled().get(&cron.timezone).unwrap_or(TimeZone::UTC))
    }

    /// `2026-01-31 02:30:00 CET (in 5m)`.
    fn moment(&self, time: Option<Time>, now: Time) -> String {
        let Some(time) = time else { return "-".into() };
        match Timestamp::from_microsecond(time.as_micros()) {
            Ok(at) => {
                let local = at.to_zoned(self.0.clone()).strftime("%Y-%m-%d %H:%M:%S %Z");
                format!("{local} ({})", relative(time, now))
            }
            // Outside the years that jiff supports.
            Err(_) => moment(time, now),
        }
    }
}

/// Lists do not tell its state.
fn last_item(cron: &Cron) -> String {
    cron.last_item.as_ref().map_or_else(|| "-".into(), |last| last.id.clone())
}

fn last_item_with_state(cron: &Cron) -> String {
    match &cron.last_item {
        None => "-".into(),
        Some(LastItem { id, state: Some(state) }) => format!("{id}, {state}"),
        Some(LastItem { id, state: None }) => format!("{id}, not kept any more"),
    }
}

fn shown(cron: &Cron, now: Time) -> String {
    let (item, zone) = (&cron.item, Zone::of(cron));
    let at = |time| zone.moment(time, now);
    let payload = payload_shown(item.json.as_deref(), item.utf8.as_deref(), item.bytes.as_deref());
    let mut known = vec![
        ("cron", cron.cron.clone()),
        ("queue", cron.queue.clone()),
        ("schedule", cron.schedule.clone()),
        ("timezone", cron.timezone.clone()),
        ("payload", payload),
        ("kind", item.kind.clone().unwrap_or_default()),
    ];
    known.extend(item.address.clone().map(|address| ("address", address)));
    known.extend(item.delay.map(|delay| ("delay", delay.to_string())));
    known.extend([
        ("catch-up", cron.catch_up.clone()),
        ("overlap", cron.overlap.clone()),
        ("paused", if cron.paused { "yes".into() } else { "no".into() }),
        ("created", at(Some(cron.created_at))),
        ("last", at(cron.last_at)),
        ("last item", last_item_with_state(cron)),
    ]);
    if cron.next_times.is_empty() {
        known.push(("next", at(cron.next_at)));
    }
    known.extend(cron.next_times.iter().enumerate().map(|(index, time)| {
        let name = if index == 0 { "next" } else { "" };
        (name, at(Some(*time)))
    }));
    facts(&known)
}
