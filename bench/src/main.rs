//! Windlass beside other queues: the same work through each, on one disk, in turns.
//!
//! Reading order: [`peers`] (what a contender must do, and how each does it), [`scenario`] (the work), [`runner`] (who
//! is measured when), [`report`] (what is shown).

mod args;
mod fleet;
mod output;
mod payload;
mod peers;
mod progress;
mod report;
mod runner;
mod scenario;
mod server;
mod stats;
mod syncs;
mod wire;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Args;
use crate::runner::Runner;

/// Threads that all clients share, whoever is measured.
const THREADS: usize = 2;

fn main() -> ExitCode {
    match Args::parse().absolute().and_then(|args| run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _nobody_reads = writeln!(std::io::stderr().lock(), "\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    ensure!(
        args.windlass.is_file(),
        "there is no {}: run bench/compare, which builds it, or name one with --windlass",
        args.windlass.display()
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    runtime.block_on(measure(args))
}

/// Ends early if asked to: what was started ends with the futures that own it.
async fn measure(args: &Args) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut runner = Runner::new(args);
    tokio::select! {
        sheets = runner.run() => { let _sheets = sheets?; Ok(()) }
        _ = tokio::signal::ctrl_c() => bail!("interrupted; servers and their directories are gone"),
        _ = terminated.recv() => bail!("terminated; servers and their directories are gone"),
    }
}
