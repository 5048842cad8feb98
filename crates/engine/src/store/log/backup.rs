//! Copies live logs to other disks, each as it is at one durable frame, and several as they are at one moment.
//!
//! [`begin`] has the committer of each log hold still, one after the other, and lets all of them go on once the last
//! one does. At that moment no commit is under way in any of the logs, so the views taken are what a kill of the
//! process would have left: what moves from one log to another is in at least one of the copies, and the engine
//! finishes such a move as it does after a kill.
//!
//! A [`Backup`] then pins the segments and the snapshot of its log while they are copied; commits go on meanwhile,
//! behind the frame at which the copy ends. The `format` file comes last: a copy that was not finished is not a log.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::LogStore;
use super::commit::Request;
use super::disk::{Disk, File, Unreadable, read_pieces, write_all};
use super::format::{self, Format};
use super::inspect;
use super::read::view::View;
use super::segment::{self, io_failed};
use crate::env::{self, Env};
use crate::store::StoreError;

const COPY_BYTES: usize = 1 << 20;
const PROGRESS_MAX: usize = 16;
/// How long a log may take to sync what was written, while nothing is held up yet.
const SYNC_LIMIT: Duration = Duration::from_secs(60);
/// How long commits may be held up until all logs hold still.
const HOLD_LIMIT: Duration = Duration::from_secs(5);

/// Why no backup could be begun.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BeginError {
    /// Nothing is held up any more.
    #[error(
        "{directory}: the disk did not finish what was written within {} seconds. Try again when it is less busy, or \
         find out why it is stuck",
        .limit.as_secs()
    )]
    Stuck { directory: String, limit: Duration },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A log as it was at one durable frame: held fast until it is copied or dropped.
#[derive(Debug)]
pub struct Backup {
    env: Arc<dyn Env>,
    format: Format,
    view: View,
    /// Ends the copy, so that damage to its last frames is not taken for a torn tail.
    closing: Vec<u8>,
}

/// A log whose committer waits until this is dropped.
struct Held {
    backup: Backup,
    _release: oneshot::Sender<()>,
}

/// The result of a copy.
#[derive(Debug, Default)]
pub struct Copied {
    pub bytes: u64,
    /// Damage in the copy, each with file and offset where that can be told.
    pub damage: Vec<StoreError>,
}

/// A file to copy: its first bytes, then `end`, and zeros after that.
#[derive(Debug)]
struct Source {
    name: String,
    /// Where it is copied from.
    path: String,
    file: Arc<dyn File>,
    /// Up to here its content counts.
    length: u64,
    /// Takes the place of what follows.
    end: Vec<u8>,
    size: u64,
}

/// Begins a backup of each of the logs, all at one moment. Commits wait for that moment, for [`HOLD_LIMIT`] at most.
pub async fn begin(logs: &[&LogStore]) -> Result<Vec<Backup>, BeginError> {
    // Syncing what was written may take long: done once before, so that it is done quickly while commits wait.
    for log in logs {
        log.within(SYNC_LIMIT, log.desk.ask(|answer| Request::Sync { answer })).await?;
    }
    let mut held = Vec::with_capacity(logs.len());
    for log in logs {
        held.push(log.within(HOLD_LIMIT, log.hold()).await?);
    }
    Ok(held.into_iter().map(|held| held.backup).collect())
}

impl LogStore {
    async fn hold(&self) -> Result<Held, StoreError> {
        let format = self.format.lock().await.clone();
        let (release, released) = oneshot::channel();
        let hold = |answer| Request::Hold { answer, released };
        let (view, closing) = self.desk.ask(hold).await?;
        let backup = Backup { env: Arc::clone(&self.shared.env), format, view, closing };
        Ok(Held { backup, _release: release })
    }

    async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, BeginError> {
        let env = &self.shared.env;
        tokio::select! {
            biased;
            done = work => Ok(done?),
            () = env.sleep_until(env.boot() + limit) => {
                Err(BeginError::Stuck { directory: self.shared.disk.path(""), limit })
            }
        }
    }
}

impl Backup {
    /// Copies the log into an empty directory, and checks every frame, row and body of the copy. `progress` hears how
    /// many bytes are copied, of how many. Damage is no error: a copy of what is left is worth having.
    pub async fn copy(
        self,
        to: Arc<dyn Disk>,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Copied, StoreError> {
        let (steps, mut heard) = mpsc::channel(PROGRESS_MAX);
        let (answer, answered) = oneshot::channel();
        let Self { env, format, view, closing } = self;
        let files = files_of(&view, &closing);
        let task = env::spawn_thread(&*env, "log-backup", async move {
            let _caller_gone = answer.send(copy_all(&files, &*to, &format, steps).await);
            drop(view);
        });
        while let Some((done, total)) = heard.recv().await {
            progress(done, total);
        }
        task.await;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

async fn copy_all(
    files: &[Source],
    to: &dyn Disk,
    format: &Format,
    steps: mpsc::Sender<(u64, u64)>,
) -> Result<Copied, StoreError> {
    to.lock().await.map_err(|error| io_failed("cannot lock", to.path(""), error))?;
    let copied = copy_into_empty(files, to, format, steps).await;
    to.unlock();
    copied
}

async fn copy_into_empty(
    files: &[Source],
    to: &dyn Disk,
    format: &Format,
    steps: mpsc::Sender<(u64, u64)>,
) -> Result<Copied, StoreError> {
    format::check_empty(to).await?;
    let total = files.iter().map(|file| file.size).sum();
    let mut copying = Copying { to, total, steps, copied: Copied::default() };
    for file in files {
        copying.copy(file).await?;
    }
    let mut copied = copying.copied;
    to.sync().await.map_err(|error| io_failed("cannot sync", to.path(""), error))?;
    copied.damage.extend(inspect::examine(to, format).await?);
    format::write(to, format).await?;
    Ok(copied)
}

fn files_of(view: &View, closing: &[u8]) -> Vec<Source> {
    let current = view.chain.last().map(|link| link.segment);
    let segments = view.pins.iter().map(|(number, pin)| {
        let size = u64::from(pin.segment.bytes);
        // Frames written to the current segment from now on are not part of the copy.
        let (length, end) = if Some(*number) == current {
            (u64::from(view.end), closing.to_vec())
        } else {
            (size, Vec::new())
        };
        let (path, file) = (pin.segment.path.clone(), Arc::clone(&pin.segment.file));
        Source { name: segment::name_of(*number), path, file, length, end, size }
    });
    let snapshot = view.snapshot.iter().map(|snapshot| Source {
        name: snapshot.name.clone(),
        path: snapshot.path.clone(),
        file: Arc::clone(&snapshot.file),
        length: snapshot.bytes,
        end: Vec::new(),
        size: snapshot.bytes,
    });
    segments.chain(snapshot).collect()
}

/// A copy under way.
struct Copying<'a> {
    to: &'a dyn Disk,
    total: u64,
    steps: mpsc::Sender<(u64, u64)>,
    copied: Copied,
}

impl Copying<'_> {
    async fn copy(&mut self, source: &Source) -> Result<(), StoreError> {
        let path = self.to.path(&source.name);
        let failed = |error| io_failed("cannot write", path.clone(), error);
        let target = self.to.create(&source.name).await.map_err(failed)?;
        let mut offset = 0;
        while offset < source.size {
            let mut buffer = vec![0; COPY_BYTES.min((source.size - offset) as usize)];
            let counts = source.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
            self.read(source, offset, &mut buffer[..counts]).await;
            write_all(&*target, offset, &buffer).await.map_err(failed)?;
            offset += buffer.len() as u64;
            self.copied.bytes += buffer.len() as u64;
            let _nobody_listens = self.steps.send((self.copied.bytes, self.total)).await;
        }
        write_all(&*target, source.length, &source.end).await.map_err(failed)?;
        target.sync().await.map_err(failed)
    }

    /// Pieces that cannot be read become zeros, so that they cost only what is in them.
    async fn read(&mut self, source: &Source, offset: u64, buffer: &mut [u8]) {
        for Unreadable { from, error, .. } in read_pieces(&*source.file, offset, buffer).await {
            let (file, what) =
                (self.to.path(&source.name), format!("{}: cannot be read: {error}", source.path));
            self.copied.damage.push(StoreError::Damaged { file, offset: from, what });
        }
    }
}
