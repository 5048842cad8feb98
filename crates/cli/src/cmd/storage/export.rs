//! All live items of a queue, one JSON document to a line.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use tempfile::NamedTempFile;
use windlass_api::items::Item;

use super::partitions;
use super::walk::{List, PAGE, Walk};
use crate::exit::{Exit, Failure};
use crate::human::counted;
use crate::output::{Output, written};
use crate::remote::Remote;
use crate::signals::Signals;

/// Print all live items of a queue, so that they can be imported elsewhere
#[derive(Debug, Args)]
#[command(after_help = "\
Each line is an item as the API shows it: what is scheduled first, by time, then what waits or is leased, in the order \
of the queue, partition by partition. With --output the file is there once it is complete, and not before.

It is no copy as of one moment: work can go on meanwhile, and no item comes twice. What stays in its list while the \
export runs is in it, and so is what falls due; what ends or arrives meanwhile may be; what a worker gives back for later \
may be missed. For a complete copy of a queue let no worker have it; for one of all data as of one moment there is \
`windlass backup`. If the place in a list is lost, because the item there has gone, the export goes on after an earlier \
one that is still there, or from the start of the list, and passes over what it has.

An item whose payload the server cannot read is exported without it, told at the end, and makes the exit code 5.

Examples:
  windlass storage export mail | gzip > mail.ndjson.gz
  windlass storage export mail --output mail.ndjson
  windlass storage export mail | windlass storage import mail --url http://other:9463")]
pub(super) struct Export {
    queue: String,
    /// Write to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Default, Serialize)]
struct Exported {
    exported: u64,
    /// Items whose payload the server could not read: it is lost, or the disk fails at the moment.
    without_payload: u64,
    #[serde(skip)]
    first_without_payload: Option<String>,
}

impl Exported {
    fn add(&mut self, items: &[Item]) {
        self.exported += items.len() as u64;
        for item in items {
            if item.json.is_none() && item.utf8.is_none() && item.bytes.is_none() {
                self.without_payload += 1;
                self.first_without_payload.get_or_insert_with(|| item.id.clone());
            }
        }
    }

    fn shown(&self) -> String {
        format!("{} exported", counted(self.exported, "item"))
    }

    /// The warning about items without payload: whoever deletes the queue after the export would lose theirs.
    fn warning(&self) -> Option<String> {
        let first = self.first_without_payload.as_ref()?;
        Some(format!(
            "{} exported without payload, because the server cannot read it now (the first: {first}): keep the queue, and \
             see the server's log",
            counted(self.without_payload, "item")
        ))
    }
}

impl Export {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let mut signals = Signals::hear()?;
        let mut to = match &self.output {
            Some(path) => Target::file(path)?,
            None => Target::Stdout(out),
        };
        let exported = tokio::select! {
            exported = self.copy(remote, &mut to, out) => exported?,
            _ = signals.asked() => return Err(Failure::interrupted("interrupted")),
        };
        let shown = exported.shown();
        match to {
            Target::Stdout(_) if out.json() => {}
            Target::Stdout(_) => out.talk(&shown),
            Target::File { path, file } => {
                keep(file, &path).map_err(|error| cannot_write(&path, &error))?;
                out.reply(&exported, |_| format!("{shown} to {}\n", path.display()))?;
            }
        }
        let Some(warning) = exported.warning() else { return Ok(Exit::Done) };
        out.talk(&warning);
        Ok(Exit::Damaged)
    }

    async fn copy(&self, remote: &Remote, to: &mut Target, out: Output) -> Result<Exported, Failure> {
        let client = remote.patient();
        let partitions = partitions(client, &self.queue).await?;
        let progress = progress(to, out, partitions.iter().map(|(_, items)| items).sum());
        let mut exported = Exported::default();
        for (partition, _) in partitions {
            let mut walk = Walk::new(client, &self.queue, partition);
            // In this order none is missed by falling due.
            for list in [List::Scheduled, List::Queue] {
                walk.begin(list);
                while let Some(items) = walk.next(PAGE).await? {
                    to.write(&items)?;
                    exported.add(&items);
                    progress.inc(items.len() as u64);
                    progress.set_message(counted(exported.exported, "item"));
                }
            }
        }
        progress.finish_and_clear();
        Ok(exported)
    }
}

/// Not where the items themselves run over the screen.
fn progress(to: &Target, out: Output, items: u64) -> ProgressBar {
    let progress = match to {
        Target::Stdout(_) if io::stdout().is_terminal() => ProgressBar::hidden(),
        Target::Stdout(_) | Target::File { .. } => out.progress(Some(items)),
    };
    progress.enable_steady_tick(Duration::from_millis(200));
    progress
}

#[derive(Debug)]
enum Target {
    Stdout(Output),
    /// Under another name until it is complete.
    File {
        path: PathBuf,
        file: BufWriter<NamedTempFile>,
    },
}

impl Target {
    fn file(path: &Path) -> Result<Self, Failure> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let file = NamedTempFile::new_in(directory.unwrap_or(Path::new(".")));
        let file = file.map_err(|error| cannot_write(path, &error))?;
        Ok(Self::File { path: path.to_owned(), file: BufWriter::new(file) })
    }

    fn write(&mut self, items: &[Item]) -> Result<(), Failure> {
        let mut lines = String::new();
        for item in items {
            lines.extend([written(item)?.as_str(), "\n"]);
        }
        match self {
            Self::Stdout(out) => out.export(&lines),
            Self::File { path, file } => {
                file.write_all(lines.as_bytes()).map_err(|error| cannot_write(path, &error))
            }
        }
    }
}

fn keep(file: BufWriter<NamedTempFile>, path: &Path) -> io::Result<()> {
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::local(format!("cannot write {}: {error}", path.display()))
}
