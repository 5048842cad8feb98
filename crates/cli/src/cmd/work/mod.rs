//! `windlass work`: a shell command for each item.

mod capture;
mod exec;
mod facts;
mod process;
pub(crate) mod supervise;
mod tally;
mod watch;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::sync::watch::Sender;
use windlass_api::Span;
use windlass_api::payload::Payload;
use windlass_api::queues::QueueInfoRequest;
use windlass_client::worker::{Builder, Until, Work as LeasedWork, Worker};

use self::exec::Exec;
pub(crate) use self::facts::VARIABLES;
use self::process::Command;
use self::watch::Watch;
use super::lease::Wanted;
use crate::client_id;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::remote::Remote;
use crate::signals::{Asked, Signals};

/// A command that is to end is seen to by its handler. If it is still there so long after SIGKILL was due, it is let go.
const KILL_MARGIN: Duration = Duration::from_secs(5);

/// Run a shell command for each item of a queue
#[derive(Debug, Args)]
#[command(after_help = "\
The command gets the payload on stdin, and in its environment WINDLASS_URL, WINDLASS_QUEUE, WINDLASS_ITEM_ID, \
WINDLASS_PERMIT, WINDLASS_KIND, WINDLASS_PRIORITY, WINDLASS_ATTEMPTS, WINDLASS_CREATED_AT, WINDLASS_HEADERS (as \
JSON) and, where there is one, WINDLASS_REFERENCE, WINDLASS_ADDRESS, WINDLASS_GROUP and WINDLASS_INPUT. How it ends \
decides:

  0              the item is completed
  100            the item fails for good: no further attempt
  anything else  it is tried again later; the exit code and the end of stderr are its error

The command can tell those who watch how it goes, with `windlass item emit`, and ask them something, with `windlass \
item suspend`: both want $WINDLASS_ITEM_ID:$WINDLASS_PERMIT. Once it has asked it has nothing left to do but to end, and \
how it ends is of no account: the item waits for `windlass item resume`, and the command runs anew with the answer in \
WINDLASS_INPUT: JSON or a text as it is, bytes as base64. With no answer there is no WINDLASS_INPUT. An answer that it \
cannot have, of more than 120 KiB or with a zero byte in its text, fails the item for good (bad_input). What `windlass` \
prints counts as printed by the command: with --result, send it to stderr.

While the command runs its lease is extended, at a third of the lease timeout. If the lease is lost or somebody \
cancels the item, the command's process group gets SIGTERM, and SIGKILL after --kill-after; if the lease is lost, after \
a second at most. While the server is away, what a finished command has to tell is kept, and told until the lease ends; \
a running one is ended in time for the lease, before somebody else gets the item.

The command has ended when its shell has: a process that it leaves in the background goes on, and what it prints \
from then on is not heard.

On SIGTERM, SIGINT, SIGHUP or SIGQUIT no more items are taken, and running commands have --grace to finish; then \
they are ended in the same way and their items released. A second signal ends them at once, with SIGKILL. So does the \
end of the worker itself, however it comes: a process of its own (`windlass supervise`) watches over each command.

Examples:
  windlass work mail --exec './send-mail'
  windlass work thumbnails --exec 'convert - -resize 200x200 png:- | ./upload' --concurrency 4
  windlass work orders --exec 'jq -e .total' --result json --drain
  windlass work invoices --exec '
    item=$WINDLASS_ITEM_ID:$WINDLASS_PERMIT
    [ -n \"$WINDLASS_INPUT\" ] || {
      windlass item emit $item \"{\\\"done\\\": 1, \\\"total\\\": 2}\" --type progress
      exec windlass item suspend invoices $item --reason \"to be approved\"
    }
    ./book \"$WINDLASS_INPUT\"'")]
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

/// How a worker ended.
struct Ended {
    stopped_by: Option<Asked>,
    failure: Option<Failure>,
}

impl Work {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        // Also tells at once if there is no such queue, or no server.
        let queue = remote.call(&QueueInfoRequest { queue: self.queue.clone() }).await?.queue;
        let (kill_now, watch, until) = (Sender::new(false), Watch::new(out), self.until());
        let exec = Exec {
            command: Command {
                line: self.exec.clone(),
                url: remote.client().url(),
                captures: self.result.is_some(),
            },
            result: self.result,
            kill_after: self.kill_after.into(),
            kill_now: kill_now.subscribe(),
            out,
        };
        let worker = Worker::builder(remote.patient().clone(), &self.queue)
            .lease_timeout(self.wanted.lease_timeout.unwrap_or(queue.lease_timeout).into())
            .observe({
                let watch = watch.clone();
                move |event| watch.see(event)
            });
        let ended = run(self.set_up(worker, exec)?, &kill_now).await?;
        let tally = watch.tally();
        out.reply(&tally, |_| tally.shown())?;
        match ended.failure {
            Some(failure) => Err(failure),
            None if ended.stopped_by == Some(Asked::Interrupt) => Ok(Exit::Interrupted),
            None if until == Until::Stopped || tally.all_completed() => Ok(Exit::Done),
            None => Ok(Exit::Refused),
        }
    }

    fn until(&self) -> Until {
        match (self.once, self.drain) {
            (true, _) => Until::Once,
            (_, true) => Until::Drained,
            (false, false) => Until::Stopped,
        }
    }

    fn set_up(self, worker: Builder, exec: Exec) -> Result<Worker, Failure> {
        let mut worker = worker
            .concurrency(self.concurrency.into())
            .until(self.until())
            .client_id(self.wanted.client_id.unwrap_or_else(client_id::default))
            .grace(self.grace.into())
            .abort_after(Duration::from(self.kill_after).saturating_add(KILL_MARGIN));
        if let Some(max_priority) = self.wanted.max_priority {
            let max_priority = u8::try_from(max_priority);
            let max_priority = max_priority.map_err(|_| Failure::usage("--max-priority must be 0 to 255"))?;
            worker = worker.max_priority(max_priority);
        }
        let exec = Arc::new(exec);
        let handler = move |work: LeasedWork<Payload>| {
            let exec = Arc::clone(&exec);
            async move { exec.handle(work).await }
        };
        let worker = match self.wanted.kinds {
            Some(kinds) => {
                kinds.into_iter().fold(worker, |worker, kind| worker.handle_raw(kind, handler.clone()))
            }
            None => worker.handle_others(handler),
        };
        worker.build().map_err(|error| Failure::usage(error.to_string()))
    }
}

/// Stopped by a signal, and hurried by another.
async fn run(worker: Worker, kill_now: &Sender<bool>) -> Result<Ended, Failure> {
    let mut signals = Signals::hear()?;
    let stopper = worker.stopper();
    let mut running = pin!(worker.run());
    let mut stopped_by = None;
    loop {
        tokio::select! {
            ended = &mut running => return Ok(Ended { stopped_by, failure: ended.err().map(Failure::from) }),
            asked = signals.asked() => match stopped_by {
                None => {
                    stopped_by = Some(asked);
                    stopper.stop();
                }
                Some(_) => {
                    kill_now.send_replace(true);
                    stopper.stop_now();
                }
            },
        }
    }
}
