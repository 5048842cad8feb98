//! `windlass queue pause`, `resume`, `block` and `unblock`.

use clap::Args;
use windlass_api::rules::{
    BlockQueueRequest, PauseQueueRequest, ResumeQueueRequest, Rule, RuleReply, UnblockQueueRequest,
};

use crate::cmd::rules::shown;
use crate::exit::Failure;
use crate::output::{Output, now};
use crate::remote::Remote;
use crate::values::When;

/// Stop a queue, or one kind of its items
#[derive(Debug, Args)]
#[command(after_help = "\
It holds for the very next lease. What is being worked on goes on, and items can still be produced. Said again, \
the rule takes the new reason and time.

Examples:
  windlass queue pause mail
  windlass queue pause mail --kind newsletter --reason 'the provider is down' --until 30m")]
pub(super) struct Pause {
    #[command(flatten)]
    rule: NewRule,
}

/// Lift the pause of a queue, or that of a kind
#[derive(Debug, Args)]
#[command(after_help = "\
Work goes on only if no block stands either, on the queue or on the kind.

Examples:
  windlass queue resume mail
  windlass queue resume mail --kind newsletter")]
pub(super) struct Resume {
    #[command(flatten)]
    rule: OldRule,
}

/// Stop a queue or a kind as its administrator: a resume does not lift it
#[derive(Debug, Args)]
#[command(after_help = "\
As a pause, and independent of it.

Examples:
  windlass queue block mail --reason 'not before the audit'
  windlass queue block mail --kind newsletter --until 2026-01-31T12:00:00Z")]
pub(super) struct Block {
    #[command(flatten)]
    rule: NewRule,
}

/// Lift the block of a queue, or that of a kind
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass queue unblock mail
  windlass queue unblock mail --kind newsletter")]
pub(super) struct Unblock {
    #[command(flatten)]
    rule: OldRule,
}

#[derive(Debug, Args)]
struct NewRule {
    queue: String,
    /// One kind of its items [all]
    #[arg(long)]
    kind: Option<String>,
    /// Why, for whoever asks: at most 512 bytes
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// When it lifts itself: a time, or a duration from now [never]
    #[arg(long, value_name = "WHEN")]
    until: Option<When>,
}

#[derive(Debug, Args)]
struct OldRule {
    queue: String,
    /// The one on this kind [on the whole queue]
    #[arg(long)]
    kind: Option<String>,
}

impl Pause {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let NewRule { queue, kind, reason, until } = self.rule;
        let until = until.map(|until| until.from(now()));
        told(&remote.call(&PauseQueueRequest { queue, kind, reason, until }).await?, out)
    }
}

impl Block {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let NewRule { queue, kind, reason, until } = self.rule;
        let until = until.map(|until| until.from(now()));
        told(&remote.call(&BlockQueueRequest { queue, kind, reason, until }).await?, out)
    }
}

fn told(reply: &RuleReply, out: Output) -> Result<(), Failure> {
    out.reply(reply, |now| shown(std::slice::from_ref::<Rule>(&reply.rule), now))
}

impl Resume {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let OldRule { queue, kind } = self.rule;
        let request = ResumeQueueRequest { queue, kind, ..Default::default() };
        let reply = remote.call(&request).await?;
        out.reply(&reply, |_| format!("{} is not paused\n", of(&request.queue, request.kind.as_deref())))
    }
}

impl Unblock {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<(), Failure> {
        let OldRule { queue, kind } = self.rule;
        let request = UnblockQueueRequest { queue, kind, ..Default::default() };
        let reply = remote.call(&request).await?;
        out.reply(&reply, |_| format!("{} is not blocked\n", of(&request.queue, request.kind.as_deref())))
    }
}

fn of(queue: &str, kind: Option<&str>) -> String {
    kind.map_or_else(|| format!("queue {queue}"), |kind| format!("kind {kind} of queue {queue}"))
}
