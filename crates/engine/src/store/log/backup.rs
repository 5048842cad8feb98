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
use super::committer::{Request, ask};
use super::disk::{Disk, File, read_full, write_all};
use super::format::{self, Format};
use super::segment::{self, io_failed};
use super::view::View;
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
}

/// A log whose committer waits until this is dropped.
struct Held {
    backup: Backup,
    _release: oneshot::Sender<()>,
}

/// A file to copy: its first bytes, and zeros after them.
#[derive(Debug)]
struct Copy {
    name: String,
    /// Where it is copied from.
    path: String,
    file: Arc<dyn File>,
    /// Up to here its content counts.
    length: u64,
    size: u64,
}

/// Begins a backup of each of the logs, all at one moment. Commits wait for that moment, for [`HOLD_LIMIT`] at most.
pub async fn begin(logs: &[&LogStore]) -> Result<Vec<Backup>, BeginError> {
    // Syncing what was written may take long: done once before, so that it is done quickly while commits wait.
    for log in logs {
        log.within(SYNC_LIMIT, ask(&log.requests, |answer| Request::Sync { answer })).await?;
    }
    let mut held = Vec::with_capacity(logs.len());
    for log in logs {
        held.push(log.within(HOLD_LIMIT, log.hold()).await?);
    }
    Ok(held.into_iter().map(|held| held.backup).collect())
}

impl LogStore {
    async fn hold(&self) -> Result<Held, StoreError> {
        let (release, released) = oneshot::channel();
        let view = ask(&self.requests, |answer| Request::Hold { answer, released }).await?;
        let format = Format { log: self.shared.log, is_new: false };
        let backup = Backup { env: Arc::clone(&self.shared.env), format, view };
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
    /// Copies the log into an empty directory. `progress` hears how many bytes are done, of how many.
    pub async fn copy(
        self,
        to: Arc<dyn Disk>,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<(), StoreError> {
        let (steps, mut heard) = mpsc::channel(PROGRESS_MAX);
        let (answer, answered) = oneshot::channel();
        let Self { env, format, view } = self;
        let task = env::spawn_thread(&*env, "log-backup", async move {
            let _caller_gone = answer.send(copy_all(&view, &*to, format, &steps).await);
        });
        while let Some((done, total)) = heard.recv().await {
            progress(done, total);
        }
        task.await;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}
async fn copy_all(
    view: &View,
    to: &dyn Disk,
    format: Format,
    steps: &mpsc::Sender<(u64, u64)>,
) -> Result<(), StoreError> {
    to.lock().await.map_err(|error| io_failed("cannot lock", to.path(""), error))?;
    let copied = copy_into_empty(view, to, format, steps).await;
    to.unlock();
    copied
}

async fn copy_into_empty(
    view: &View,
    to: &dyn Disk,
    format: Format,
    steps: &mpsc::Sender<(u64, u64)>,
) -> Result<(), StoreError> {
    format::check_empty(to).await?;
    let copies = copies_of(view);
    let total = copies.iter().map(|copy| copy.size).sum();
    let mut done = 0;
    for copy in &copies {
        copy_file(copy, to, &mut done, total, steps).await?;
    }
    to.sync().await.map_err(|error| io_failed("cannot sync", to.path(""), error))?;
    format::write(to, format).await
}

fn copies_of(view: &View) -> Vec<Copy> {
    let current = view.chain.last().map(|link| link.segment);
    let segments = view.pins.iter().map(|(number, pin)| {
        let size = u64::from(pin.segment.bytes);
        // What is written to the current segment from now on is not part of the copy.
        let length = if Some(*number) == current { u64::from(view.end) } else { size };
        let (path, file) = (pin.segment.path.clone(), Arc::clone(&pin.segment.file));
        Copy { name: segment::name_of(*number), path, file, length, size }
    });
    let snapshot = view.snapshot.iter().map(|snapshot| Copy {
        name: snapshot.name.clone(),
        path: snapshot.path.clone(),
        file: Arc::clone(&snapshot.file),
        length: snapshot.bytes,
        size: snapshot.bytes,
    });
    segments.chain(snapshot).collect()
}

async fn copy_file(
    copy: &Copy,
    to: &dyn Disk,
    done: &mut u64,
    total: u64,
    steps: &mpsc::Sender<(u64, u64)>,
) -> Result<(), StoreError> {
    let failed = |error| io_failed("cannot copy", to.path(&copy.name), error);
    let target = to.create(&copy.name).await.map_err(failed)?;
    let mut offset = 0;
    while offset < copy.size {
        let mut buffer = vec![0; COPY_BYTES.min((copy.size - offset) as usize)];
        let counts = copy.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let read = read_full(&*copy.file, offset, &mut buffer[..counts]).await.map_err(failed)?;
        if read < counts {
            let (file, offset) = (copy.path.clone(), offset + read as u64);
            return Err(StoreError::Damaged { file, offset, what: "the file ends too early".to_owned() });
        }
        write_all(&*target, offset, &buffer).await.map_err(failed)?;
        offset += buffer.len() as u64;
        *done += buffer.len() as u64;
        let _nobody_listens = steps.send((*done, total)).await;
    }
    target.sync().await.map_err(failed)
}
