//! Windlass beside other queues: the same work through each, on one disk, in turns.
//!
//! Reading order: [`peers`] (what a contender must do, and how each does it), [`scenario`] (the work), [`runner`] (who
//! is measured when), [`report`] (what is shown).

mod args;
mod busy;
mod fleet;
mod leftovers;
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
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Args, Work};
use crate::report::document::document;
use crate::report::sheet::Sheet;
use crate::report::svg;
use crate::runner::Runner;
use crate::server::programs;

/// Threads that all clients share: the same for every contender.
const THREADS: usize = 2;
/// The type of a tmpfs in statfs(2).
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

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
    must_have_a_plot(args)?;
    must_be_writable(args)?;
    must_be_on_a_disk(args)?;
    leftovers::remove(&args.data_dir);
    if args.install {
        install(args)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let sheets = runtime.block_on(measure(args))?;
    write_files(args, &sheets)
}

/// Refuses --svg without full cycles before anything is measured: the plot shows nothing else.
fn must_have_a_plot(args: &Args) -> Result<()> {
    let has_cycles = args.work().contains(&Work::Cycles);
    ensure!(
        args.svg.is_none() || has_cycles,
        "--svg draws full cycles: add cycles to --work, or leave out --svg"
    );
    Ok(())
}

/// Opens the files of --json and --svg, so that a path that cannot be written fails before hours of measuring.
fn must_be_writable(args: &Args) -> Result<()> {
    for file in [&args.json, &args.svg].into_iter().flatten() {
        std::fs::File::options().create(true).append(true).open(file).with_context(|| cannot_write(file))?;
    }
    Ok(())
}

/// Refuses a tmpfs: a sync costs nothing there.
fn must_be_on_a_disk(args: &Args) -> Result<()> {
    let directory = &args.data_dir;
    std::fs::create_dir_all(directory).with_context(|| {
        format!("cannot make {}: choose another place with --data-dir", directory.display())
    })?;
    let in_memory = rustix::fs::statfs(directory)?.f_type == TMPFS;
    ensure!(!in_memory, "{} is in memory (tmpfs): choose a disk with --data-dir", directory.display());
    Ok(())
}

/// Packages of contenders that are missing, and `strace`, which sees whether they sync.
fn install(args: &Args) -> Result<()> {
    let missing = args.contenders().into_iter().filter(|contender| !contender.is_installed());
    let mut packages: Vec<&str> = missing.filter_map(|contender| Some(contender.package()?.0)).collect();
    if programs::find("strace").is_none() {
        packages.push("strace");
    }
    if packages.is_empty() { Ok(()) } else { programs::install(&packages) }
}

/// Ends early if asked to: what was started ends with the futures that own it.
async fn measure(args: &Args) -> Result<Vec<Sheet>> {
    let mut terminated = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut runner = Runner::new(args);
    tokio::select! {
        sheets = runner.run() => sheets,
        _ = tokio::signal::ctrl_c() => bail!("interrupted; servers and their directories are gone"),
        _ = terminated.recv() => bail!("terminated; servers and their directories are gone"),
    }
}

fn write_files(args: &Args, sheets: &[Sheet]) -> Result<()> {
    if let Some(file) = &args.json {
        let document = serde_json::to_string_pretty(&document(args, sheets))?;
        std::fs::write(file, document + "\n").with_context(|| cannot_write(file))?;
    }
    if let Some(file) = &args.svg {
        let plot =
            svg::plot(sheets).context("there is nothing to draw: no contender has done a full cycle")?;
        std::fs::write(file, plot).with_context(|| cannot_write(file))?;
    }
    Ok(())
}

fn cannot_write(file: &Path) -> String {
    format!("cannot write {}: name another file", file.display())
}
