//! The one binary of Windlass: the server, its client, and the tools for both.
//!
//! Each command has a file in `cmd`; what they have in common stands beside it: `remote` (talking to a server), `feed`
//! (lines of input, sent in batches), `output` (the only place that prints), `exit` (how it all ends).

mod args;
mod client_id;
mod cmd;
mod config_flags;
mod exit;
mod failed;
mod feed;
mod headers;
mod human;
mod output;
mod payload;
mod remote;
mod safe;
mod signals;
mod table;
mod values;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use tokio::runtime::Runtime;

use crate::args::{Cli, Command};
use crate::cmd::reference;
use crate::cmd::work::supervise;
use crate::exit::{Exit, Failure};
use crate::output::{Output, last_words};
use crate::remote::Remote;

/// The allocator of glibc keeps much of what a burst of requests took; this one gives it back.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    if reference::is_asked() {
        return ended(Output::new(false), reference::run(Output::new(false)));
    }
    if let Some(line) = supervise::asked() {
        return ended(Output::new(false), supervise::run(&line));
    }
    match Cli::try_parse() {
        Ok(cli) => {
            let out = Output::new(cli.global.json);
            ended(out, run(cli, out))
        }
        Err(error) if error.use_stderr() => misused(error),
        // Help or the version, which were asked for.
        Err(error) => error.exit(),
    }
}

fn misused(error: clap::Error) -> ExitCode {
    last_words(move || drop(error.print()));
    Exit::Usage.into()
}

fn ended(out: Output, ended: Result<Exit, Failure>) -> ExitCode {
    let exit = ended.unwrap_or_else(|failure| {
        out.failure(&failure);
        failure.exit
    });
    exit.into()
}

fn run(cli: Cli, out: Output) -> Result<Exit, Failure> {
    // The server chooses its threads itself.
    if let Command::Serve(serve) = cli.command {
        return Ok(serve.run(out));
    }
    let runtime = Runtime::new().map_err(|error| Failure::local(format!("cannot start threads: {error}")))?;
    let ended = runtime.block_on(dispatch(cli, out));
    // A thread that still reads stdin may never end, and nobody needs it any more.
    runtime.shutdown_background();
    ended
}

async fn dispatch(cli: Cli, out: Output) -> Result<Exit, Failure> {
    let remote = || Remote::new(&cli.global);
    match cli.command {
        Command::Serve(_) => unreachable!("a server runs on threads of its own"),
        Command::Queue(queue) => queue.run(&remote()?, out).await,
        Command::Produce(produce) => produce.run(&remote()?, out).await,
        Command::Lease(lease) => lease.run(&remote()?, out).await,
        Command::Complete(complete) => complete.run(&remote()?, out).await,
        Command::Retry(retry) => retry.run(&remote()?, out).await,
        Command::Extend(extend) => extend.run(&remote()?, out).await,
        Command::Release(release) => release.run(&remote()?, out).await,
        Command::Item(item) => item.run(&remote()?, out).await,
        Command::Items(items) => items.run(&remote()?, out).await,
        Command::Group(group) => group.run(&remote()?, out).await,
        Command::Rules(rules) => rules.run(&remote()?, out).await,
        Command::Top(top) => top.run(&remote()?, out).await,
        Command::Cron(cron) => cron.run(&remote()?, out).await,
        Command::Storage(storage) => storage.run(&remote()?, out).await,
        Command::Work(work) => work.run(&remote()?, out).await,
        Command::Bench(bench) => bench.run(&cli.global, out).await,
        Command::Inspect(inspect) => inspect.run(out).await,
        Command::Server(server) => server.run(&remote()?, out).await,
        Command::Backup(backup) => backup.run(&remote()?, out).await,
        Command::Config(config) => config.run(out),
        Command::Completions(completions) => completions.run(out),
    }
}
