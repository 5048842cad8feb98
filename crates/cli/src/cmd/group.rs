//! `windlass group`: items that belong together.

use clap::{Args, Subcommand};
use windlass_api::Time;
use windlass_api::groups::{
    CancelGroupRequest, CreateGroupRequest, DeleteGroupRequest, EndItem, Group, GroupInfoRequest,
    ListGroupsReply, ListGroupsRequest, SetGroupEndRequest, StartGroupRequest,
};
use windlass_api::items::NewItem;
use windlass_api::payload::Payload;

use crate::exit::{Exit, Failure};
use crate::human::{count, moment};
use crate::output::Output;
use crate::payload::payload;
use crate::remote::{Remote, failed};
use crate::table::Align::{Left, Right};
use crate::table::{Table, facts};

/// Make, start, cancel and show groups of items
#[derive(Debug, Args)]
pub(crate) struct GroupCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a group, its first members with it
    #[command(after_help = "\
All of it is done or nothing. More members come with `windlass produce --group`, as long as the group is not finished. A \
payload is sent as JSON if it is JSON, else as text.

Examples:
  windlass group create mail newsletter --end '\"all sent\"'
  windlass group create mail newsletter --item '{\"to\": \"ada\"}' --item '{\"to\": \"bob\"}' --start
  windlass group create thumbnails album-7 --end done --end-queue albums")]
    Create(Create),
    /// Say what is produced at the end of a group
    #[command(after_help = "\
What is not named stays as it was.

Example:
  windlass group set-end mail newsletter --abort '\"not all sent\"'")]
    SetEnd(SetEnd),
    /// Let the members of a group be leased
    #[command(after_help = "\
Example:
  windlass group start mail newsletter")]
    Start(Name),
    /// Cancel the members of a group, and ask the workers of leased ones to stop
    #[command(after_help = "\
Example:
  windlass group cancel mail newsletter")]
    Cancel(Name),
    /// Show a group and count its members
    #[command(after_help = "\
Examples:
  windlass group info mail newsletter
  windlass group info mail newsletter --json | jq .group.members.completed")]
    Info(Name),
    /// List the groups of a queue
    #[command(after_help = "\
Example:
  windlass group list mail")]
    List(List),
    /// Forget a group that is done or aborted
    #[command(after_help = "\
Example:
  windlass group delete mail newsletter")]
    Delete(Name),
}

#[derive(Debug, Args)]
struct Name {
    queue: String,
    group: String,
}

#[derive(Debug, Args)]
struct List {
    queue: String,
}

#[derive(Debug, Args)]
struct Create {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    ends: Ends,
    /// The payload of a member; can be given several times
    #[arg(long = "item", value_name = "PAYLOAD")]
    items: Vec<String>,
    /// Start it at once
    #[arg(long)]
    start: bool,
}

#[derive(Debug, Args)]
struct SetEnd {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    ends: Ends,
}

/// What is produced at the end.
#[derive(Debug, Args)]
struct Ends {
    /// The payload of what is produced when the group is done
    #[arg(long, value_name = "PAYLOAD")]
    end: Option<String>,
    /// What sort of work that is [default]
    #[arg(long, value_name = "KIND", requires = "end")]
    end_kind: Option<String>,
    /// The queue that it is produced into [the group's]
    #[arg(long, value_name = "QUEUE", requires = "end")]
    end_queue: Option<String>,
    /// The payload of what is produced when the group was cancelled and the last member is gone
    #[arg(long, value_name = "PAYLOAD")]
    abort: Option<String>,
    /// What sort of work that is [default]
    #[arg(long, value_name = "KIND", requires = "abort")]
    abort_kind: Option<String>,
    /// The queue that it is produced into [the group's]
    #[arg(long, value_name = "QUEUE", requires = "abort")]
    abort_queue: Option<String>,
}

impl GroupCommand {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        match self.verb {
            Verb::Create(create) => create.run(remote, out).await?,
            Verb::SetEnd(set) => set.run(remote, out).await?,
            Verb::Start(Name { queue, group }) => {
                let reply = remote.call(&StartGroupRequest { queue, group }).await?;
                out.reply(&reply, |now| shown(&reply.group, now))?;
            }
            Verb::Cancel(Name { queue, group }) => {
                let reply = remote.call(&CancelGroupRequest { queue, group }).await?;
                out.reply(&reply, |now| shown(&reply.group, now))?;
            }
            Verb::Info(Name { queue, group }) => {
                let reply = remote.call(&GroupInfoRequest { queue, group }).await?;
                out.reply(&reply, |now| shown(&reply.group, now))?;
            }
            Verb::List(List { queue }) => list(queue, remote, out).await?,
            Verb::Delete(Name { queue, group }) => {
                let reply = remote.call(&DeleteGroupRequest { queue, group }).await?;
                out.reply(&reply, |_| format!("group {} is deleted\n", reply.group.group))?;
            }
        }
        Ok(Exit::Done)
    }
}

impl Create {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let Name { queue, group } = self.name;
        let (end, abort) = self.ends.items()?;
        let member = |text: String| {
            let Payload { json, utf8, bytes } = parsed("--item", text)?;
            Ok(NewItem { json, utf8, bytes, ..NewItem::default() })
        };
        let items = self.items.into_iter().map(member).collect::<Result<_, Failure>>()?;
        let request = CreateGroupRequest { queue, group, end, abort, items, start: self.start };
        let reply = remote.call(&request).await?;
        out.reply(&reply, |now| shown(&reply.group, now))
    }
}

impl SetEnd {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let Name { queue, group } = self.name;
        let (end, abort) = self.ends.items()?;
        let reply = remote.call(&SetGroupEndRequest { queue, group, end, abort }).await?;
        out.reply(&reply, |now| shown(&reply.group, now))
    }
}

impl Ends {
    fn items(self) -> Result<(Option<EndItem>, Option<EndItem>), Failure> {
        let end = end_item("--end", self.end, self.end_kind, self.end_queue)?;
        let abort = end_item("--abort", self.abort, self.abort_kind, self.abort_queue)?;
        Ok((end, abort))
    }
}

fn end_item(
    flag: &str,
    text: Option<String>,
    kind: Option<String>,
    queue: Option<String>,
) -> Result<Option<EndItem>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let Payload { json, utf8, bytes } = parsed(flag, text)?;
    Ok(Some(EndItem { json, utf8, bytes, kind, queue, ..EndItem::default() }))
}

fn parsed(flag: &str, text: String) -> Result<Payload, Failure> {
    payload(text.into_bytes(), None).map_err(|why| Failure::usage(format!("the payload of {flag}: {why}")))
}

async fn list(queue: String, remote: &Remote, out: Output) -> Result<(), Failure> {
    let listed = remote.client().queue(&queue).groups().await;
    let of_list = |error| failed(&ListGroupsRequest { queue: queue.clone(), ..Default::default() }, error);
    let all = ListGroupsReply { groups: listed.map_err(of_list)? };
    out.reply(&all, |_| table(&all.groups))
}

fn table(groups: &[Group]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("GROUP", Left),
        ("STATE", Left),
        ("LIVE", Right),
        ("COMPLETED", Right),
        ("OTHERWISE", Right),
    ]);
    for group in groups {
        let members = group.members;
        let live = members.held + members.scheduled + members.waiting + members.leased + members.suspended;
        table.row([
            group.group.clone(),
            group.state.clone(),
            count(live),
            count(members.completed),
            count(members.failed + members.cancelled + members.expired),
        ]);
    }
    table.show()
}

fn shown(group: &Group, now: Time) -> String {
    let mut known = vec![
        ("group", group.group.clone()),
        ("queue", group.queue.clone()),
        ("state", group.state.clone()),
        ("created", moment(group.created_at, now)),
    ];
    known.extend(group.finished_at.map(|at| ("finished", moment(at, now))));
    let members = group.members;
    let counts = [
        ("held", members.held),
        ("scheduled", members.scheduled),
        ("waiting", members.waiting),
        ("leased", members.leased),
        ("suspended", members.suspended),
        ("completed", members.completed),
        ("failed", members.failed),
        ("cancelled", members.cancelled),
        ("expired", members.expired),
    ];
    known.extend(counts.into_iter().filter(|(_, n)| *n > 0).map(|(state, n)| (state, count(n))));
    facts(&known)
}
