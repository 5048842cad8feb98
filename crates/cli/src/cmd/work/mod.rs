//! `windlass work`: a shell command for each item.

mod attend;
mod capture;
mod crew;
mod heart;
mod process;
mod report;
mod tally;

use clap::{Args, ValueEnum};
use windlass_api::Span;
use windlass_api::queues::QueueInfoRequest;

use self::attend::Worker;
use self::crew::{Crew, Until};
use self::process::Command;
pub(crate) use self::process::VARIABLES;
use super::lease::Wanted;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::remote::Remote;

/// Run a shell command for each item of a queue
#[derive(Debug, Args)]
#[command(after_help = "\
The command gets the payload on stdin, and in its environment WINDLASS_URL, WINDLASS_QUEUE, WINDLASS_ITEM_ID, \
WINDLASS_PERMIT, WINDLASS_KIND, WINDLASS_PRIORITY, WINDLASS_ATTEMPTS, WINDLASS_CREATED_AT, WINDLASS_HEADERS (as \
JSON) and, if there is one, WINDLASS_REFERENCE. How it ends decides:

  0              the item is completed
  100            the item fails for good: no further attempt
  anything else  it is tried again later; the exit code and the end of stderr are its error

While the command runs its lease is extended, at a third of the lease timeout. If the lease is lost or somebody \
cancels the item, the command's process group gets SIGTERM, and SIGKILL after --kill-after. While the server \
is away, what a finished command has to tell is kept, and told until the lease ends.

The command has ended when its shell has: a process that it leaves in the background goes on, and what it prints \
from then on is not heard.

On SIGTERM, SIGINT, SIGHUP or SIGQUIT no more items are taken, and running commands have --grace to finish; then \
they are ended in the same way and their items released. A second signal ends them at once, with SIGKILL.

Examples:
  windlass work mail --exec './send-mail'
  windlass work thumbnails --exec 'convert - -resize 200x200 png:- | ./upload' --concurrency 4
  windlass work orders --exec 'jq -e .total' --result json --drain")]
pub(crate) struct Work {
    queue: String,
    /// The command, run by `/bin/sh -c`
    #[arg(long, value_name = "COMMAND")]
    exec: String,
    /// How many run at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    #[command(flatten)]
    wanted: Wanted,
    /// Keep what the command prints, at most 1 MiB, as the item's result
    #[arg(long, value_name = "FORM")]
    result: Option<ResultForm>,
    /// Take one item, and end after it
    #[arg(long, conflicts_with = "drain")]
    once: bool,
    /// End when nothing waits any more
    #[arg(long)]
    drain: bool,
    /// How long running commands may go on after a signal to stop
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    grace: Span,
    /// How long after SIGTERM a command, and all it has started, gets SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    kill_after: Span,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ResultForm {
    Utf8,
    Json,
}

impl Work {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        // Also tells at once if there is no such queue, or no server.
        let queue = remote.call(&QueueInfoRequest { queue: self.queue.clone() }).await?.queue;
        let lease_timeout = self.wanted.lease_timeout.unwrap_or(queue.lease_timeout);
        let until = match (self.once, self.drain) {
            (true, _) => Until::Once,
            (_, true) => Until::Drained,
            (false, false) => Until::Stopped,
        };
        let worker = Worker {
            client: remote.patient().clone(),
            queue: self.queue,
            wanted: Wanted { lease_timeout: Some(lease_timeout), ..self.wanted },
            lease_timeout: lease_timeout.into(),
            command: Command { line: self.exec, url: remote.client().url(), captures: self.result.is_some() },
            result: self.result,
            kill_after: self.kill_after.into(),
            out,
        };
        Crew::new(worker, self.concurrency.into(), until, self.grace.into()).run(out).await
    }
}
