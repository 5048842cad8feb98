//! `windlass queue`: queues, their settings and their contents as a whole.

mod errors;
mod history;
mod permits;
mod rebalance;
mod rules;
mod settings;
mod shown;

use clap::{Args, Subcommand, ValueEnum};
use windlass_api::queues::{
    ClearQueueRequest, DeleteQueueRequest, ListQueuesReply, ListQueuesRequest, QueueInfoRequest, QueueReply,
    QueueStatsRequest, RedriveQueueRequest,
};
use windlass_api::storage::ReloadQueueRequest;
use windlass_client::{ClientError, QueueOrder};

use self::errors::Errors;
use self::history::History;
use self::permits::{Permits, Revoke};
use self::rebalance::Rebalance;
use self::rules::{Block, Pause, Resume, Unblock};
use self::settings::Settings;
use crate::exit::{Exit, Failure};
use crate::human::{count, counted, excerpt};
use crate::output::Output;
use crate::remote::{Remote, failed};

/// Make, change, show, stop and empty queues
#[derive(Debug, Args)]
pub(crate) struct Queue {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(Create),
    List(List),
    Info(Info),
    Update(Update),
    Delete(Delete),
    Stats(Stats),
    History(History),
    Errors(Errors),
    Clear(Clear),
    Redrive(Redrive),
    Rebalance(Rebalance),
    Reload(Reload),
    Permits(Permits),
    Revoke(Revoke),
    Pause(Pause),
    Resume(Resume),
    Block(Block),
    Unblock(Unblock),
}

/// Make a queue
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass queue create mail
  windlass queue create thumbnails --partitions 4 --lease-timeout 10m --max-attempts 5
  windlass queue create webhooks --retry-initial 10s --retry-max 6h
  windlass queue create orders --dead-queue orders-dead --dead-timeout 7d
  windlass queue create mail --max-attempts 5 --exists-ok
  windlass queue create mail --meta '{\"team\": \"post\"}'")]
struct Create {
    /// Its name: 1 to 128 of A-Z a-z 0-9 . _ -
    queue: String,
    /// Into how many partitions it is split [1]
    #[arg(long, value_name = "N")]
    partitions: Option<u32>,
    /// Do nothing if there is a queue of that name and it has every setting given
    #[arg(long)]
    exists_ok: bool,
    #[command(flatten)]
    settings: Settings,
}

/// List queues and what is in them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass queue list
  windlass queue list --order failed
  windlass queue list --json | jq -r '.queues[].queue'")]
struct List {
    /// Order of the list; `name` lists all queues, the others the first 1000
    #[arg(long, value_name = "ORDER", default_value = "name")]
    order: Order,
}

/// The order of a list of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    Name,
    /// Most waiting items first
    Waiting,
    /// Most failed items that are kept first
    Failed,
    /// The oldest waiting item first
    Oldest,
}

/// Queues of a list in another order than by name.
const FIRST_MAX: u32 = 1000;

/// Show a queue and its settings
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  windlass queue info mail")]
struct Info {
    queue: String,
}

/// Change settings of a queue
#[derive(Debug, Args)]
#[command(after_help = "\
Only what is named changes.

Examples:
  windlass queue update mail --max-attempts 10
  windlass queue update mail --reference ''
  windlass queue update mail --meta null")]
struct Update {
    queue: String,
    #[command(flatten)]
    settings: Settings,
}

/// Delete a queue
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass queue delete mail
  windlass queue delete mail --force")]
struct Delete {
    queue: String,
    /// Also if it still holds items
    #[arg(long)]
    force: bool,
}

/// Count what is in a queue
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass queue stats mail
  windlass queue stats mail --json | jq .counts.waiting")]
struct Stats {
    queue: String,
}

/// Cancel what is in a queue
#[derive(Debug, Args)]
#[command(after_help = "\
Without a flag, waiting and scheduled items are cancelled and leased ones are left alone.

Examples:
  windlass queue clear mail
  windlass queue clear mail --scheduled")]
struct Clear {
    queue: String,
    /// Those that wait
    #[arg(long)]
    waiting: bool,
    /// Those that are scheduled for later
    #[arg(long)]
    scheduled: bool,
    /// Those in the hands of workers, who lose them
    #[arg(long)]
    leased: bool,
    /// Those that wait for an answer
    #[arg(long)]
    suspended: bool,
}

/// Send what waits in a dead queue back to where it came from, or elsewhere
#[derive(Debug, Args)]
#[command(after_help = "\
Each item is moved exactly once, and begins anew: a new id, no attempts, and an origin that says where it was. An item \
whose origin had an address gets that back; if it is taken, the item stays and is skipped. Without --to, items that were never \
moved stay.

Examples:
  windlass queue redrive mail-dead
  windlass queue redrive mail-dead --kind invoice --limit 100
  windlass queue redrive mail-dead --to mail-again")]
struct Redrive {
    /// The queue whose waiting items are sent: mostly a dead queue
    queue: String,
    /// Send all of them to this queue
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// Only this kind
    #[arg(long)]
    kind: Option<String>,
    /// The most items to send [all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

/// Have the partitions of a queue acquired anew
#[derive(Debug, Args)]
#[command(after_help = "\
A faulty partition is tried again at once, and not only when its pause is over. Ends when all partitions serve again; \
what is asked of the queue meanwhile waits.

Example:
  windlass queue reload mail")]
struct Reload {
    queue: String,
}

impl Queue {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        match self.verb {
            Verb::Create(create) => create.run(remote, out).await?,
            Verb::List(list) => list.run(remote, out).await?,
            Verb::Info(info) => info.run(remote, out).await?,
            Verb::Update(update) => update.run(remote, out).await?,
            Verb::Delete(delete) => delete.run(remote, out).await?,
            Verb::Stats(stats) => stats.run(remote, out).await?,
            Verb::History(history) => history.run(remote, out).await?,
            Verb::Errors(errors) => errors.run(remote, out).await?,
            Verb::Clear(clear) => clear.run(remote, out).await?,
            Verb::Redrive(redrive) => redrive.run(remote, out).await?,
            Verb::Rebalance(rebalance) => rebalance.run(remote, out).await?,
            Verb::Reload(reload) => reload.run(remote, out).await?,
            Verb::Permits(permits) => permits.run(remote, out).await?,
            Verb::Revoke(revoke) => return revoke.run(remote, out).await,
            Verb::Pause(pause) => pause.run(remote, out).await?,
            Verb::Resume(resume) => resume.run(remote, out).await?,
            Verb::Block(block) => block.run(remote, out).await?,
            Verb::Unblock(unblock) => unblock.run(remote, out).await?,
        }
        Ok(Exit::Done)
    }
}

impl Create {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let request = self.settings.create(self.queue, self.partitions, self.exists_ok);
        let reply = remote.call(&request).await?;
        one(&reply, out)
    }
}

/// Shows a queue and its warnings.
fn one(reply: &QueueReply, out: Output) -> Result<(), Failure> {
    if !out.json() {
        reply
            .queue
            .warnings
            .iter()
            .for_each(|warning| out.talk(&format!("warning: {}", excerpt(warning, usize::MAX))));
    }
    out.reply(reply, |now| shown::queue(&reply.queue, now))
}

fn of_list(error: ClientError) -> Failure {
    failed(&ListQueuesRequest::default(), error)
}

impl List {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let client = remote.client();
        let queues = match self.order {
            Order::Name => client.queues_with_counts().await,
            Order::Waiting => client.queues_first(QueueOrder::Waiting, FIRST_MAX).await,
            Order::Failed => client.queues_first(QueueOrder::Failed, FIRST_MAX).await,
            Order::Oldest => client.queues_first(QueueOrder::Oldest, FIRST_MAX).await,
        };
        let all = ListQueuesReply { queues: queues.map_err(of_list)? };
        if all.queues.is_empty() {
            out.talk("there are no queues yet: make one with `windlass queue create NAME`");
        }
        let oldest = self.order == Order::Oldest;
        out.reply(&all, |_| shown::queues(&all.queues, oldest, out.columns()))
    }
}

impl Info {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let reply = remote.call(&QueueInfoRequest { queue: self.queue }).await?;
        one(&reply, out)
    }
}

impl Update {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let reply = remote.call(&self.settings.update(self.queue)).await?;
        one(&reply, out)
    }
}

impl Delete {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let request = DeleteQueueRequest { queue: self.queue, force: self.force };
        let reply = remote.call(&request).await?;
        out.reply(&reply, |_| format!("queue {} is deleted\n", request.queue))
    }
}

impl Stats {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let reply = remote.call(&QueueStatsRequest { queue: self.queue }).await?;
        out.reply(&reply, |_| shown::stats(&reply))
    }
}

impl Clear {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let set = |flag: bool| flag.then_some(true);
        let request = ClearQueueRequest {
            queue: self.queue,
            waiting: set(self.waiting),
            scheduled: set(self.scheduled),
            leased: set(self.leased),
            suspended: set(self.suspended),
        };
        let reply = remote.call(&request).await?;
        out.reply(&reply, |_| format!("{} cancelled\n", counted(reply.cleared, "item")))
    }
}

impl Redrive {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let Self { queue, to, kind, limit } = self;
        let request = RedriveQueueRequest { queue, to, kind, limit };
        let reply = remote.call(&request).await?;
        out.reply(&reply, |_| format!("{} moved{}\n", counted(reply.moved, "item"), skipped(reply.skipped)))
    }
}

fn skipped(skipped: u64) -> String {
    if skipped == 0 {
        return String::new();
    }
    format!(", {} skipped: the addresses that they had are taken", count(skipped))
}

impl Reload {
    async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let request = ReloadQueueRequest { queue: self.queue };
        let reply = remote.call(&request).await?;
        out.reply(&reply, |_| format!("queue {} is reloaded\n", request.queue))
    }
}
