//! Copies a live log to another disk, as it is at one durable frame.
//!
//! The segments and the snapshot it consists of are held fast while they are copied; commits go on meanwhile, behind
//! the frame at which the copy ends. The `format` file comes last: a copy that was not finished is not a log.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::LogStore;
use super::committer::{Request, ask};
use super::disk::{Disk, File, read_full, write_all};
use super::format::{self, Format};
use super::segment::{self, io_failed};
use super::view::View;
use crate::env;
use crate::store::StoreError;

const COPY_BYTES: usize = 1 << 20;
const PROGRESS_MAX: usize = 16;

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

impl LogStore {
    /// Copies everything durable into an empty directory, while the log is in use. `progress` hears how many bytes
    /// are done, of how many.
    pub async fn backup(
        &self,
        to: Arc<dyn Disk>,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<(), StoreError> {
        let view = ask(&self.requests, |answer| Request::View { answer }).await?;
        let (steps, mut heard) = mpsc::channel(PROGRESS_MAX);
        let (answer, answered) = tokio::sync::oneshot::channel();
        let format = Format { log: self.shared.log, is_new: false };
        let task = env::spawn_thread(&*self.shared.env, "log-backup", async move {
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
