//! [`Watch`]: sees syncs by `strace`, or by the flushes of the disk where that cannot be had.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::flushes::Disk;
use super::trace::{self, DurableFiles};
use crate::server::launch::Launch;
use crate::server::place::Place;
use crate::server::{Server, programs};

const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Watch {
    by: By,
}

#[derive(Debug)]
enum By {
    Strace {
        strace: Server,
        file: PathBuf,
        files: DurableFiles,
    },
    /// Flushes of others on the same disk count too.
    Flushes(Disk),
}

/// A moment in seconds since 1970, and the disk's flushes up to it if flushes are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    at: f64,
    flushes: u64,
}

/// Syncs that a watch saw.
#[derive(Debug)]
pub(crate) enum Seen {
    /// When each sync was seen, in seconds since 1970.
    Times(Vec<f64>),
    Flushes,
}

impl Watch {
    pub(crate) async fn start(pids: &[u32], place: &Place) -> Result<Self> {
        let by = match strace(pids, place).await? {
            Some(by) => by,
            None => By::Flushes(Disk::of(place.directory())?),
        };
        Ok(Self { by })
    }

    pub(crate) fn mark(&self) -> Mark {
        let at =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let flushes = match &self.by {
            By::Strace { .. } => 0,
            By::Flushes(disk) => disk.flushes(),
        };
        Mark { at, flushes }
    }

    pub(crate) fn finish(self) -> Result<Seen> {
        match self.by {
            By::Flushes(_) => Ok(Seen::Flushes),
            By::Strace { strace, file, files } => {
                // Dropping `strace` sends it SIGINT: it detaches, and writes the rest of its file.
                drop(strace);
                let trace = std::fs::read_to_string(&file).context("strace wrote nothing")?;
                Ok(Seen::Times(trace::sync_times(&trace, &files)))
            }
        }
    }
}

impl Seen {
    pub(crate) fn any_between(&self, (from, to): (Mark, Mark)) -> bool {
        match self {
            Self::Times(times) => times.iter().any(|time| (from.at..=to.at).contains(time)),
            Self::Flushes => to.flushes > from.flushes,
        }
    }
}

/// Traces some processes with all their threads; nothing if there is no `strace` or it may not.
async fn strace(pids: &[u32], place: &Place) -> Result<Option<By>> {
    let Some(program) = programs::find("strace") else { return Ok(None) };
    let file = place.directory().with_extension("trace");
    let strace = Launch::new(&program)
        .args(["-f", "-ttt", "-s", "1", "-e", "signal=none", "-e", trace::CALLS, "-o"])
        .args([&file])
        .args(pids.iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]))
        .ended_by(Signal::INT)
        .start(place)?;
    let attached = strace.wait_until(async || pids.iter().all(|pid| is_traced(*pid)));
    match tokio::time::timeout(ATTACH_TIMEOUT, attached).await {
        Ok(Ok(())) => Ok(Some(By::Strace { strace, file, files: DurableFiles::of(pids) })),
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

/// Whether all threads of a process are traced; one that has ended needs no tracing.
fn is_traced(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    let statuses =
        threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    statuses.into_iter().all(|status| !status.contains("\nTracerPid:\t0\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_counts_for_the_span_it_was_seen_in() {
        let mark = |at| Mark { at, flushes: 0 };
        let seen = Seen::Times(vec![10.5, 12.0]);
        assert!(seen.any_between((mark(10.0), mark(11.0))));
        assert!(!seen.any_between((mark(11.0), mark(11.9))));
    }

    #[test]
    fn a_flush_counts_where_nothing_else_can_be_seen() {
        let mark = |flushes| Mark { at: 0.0, flushes };
        assert!(Seen::Flushes.any_between((mark(7), mark(8))));
        assert!(!Seen::Flushes.any_between((mark(7), mark(7))));
    }
}
