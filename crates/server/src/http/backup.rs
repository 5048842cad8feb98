//! Copies of all data, made while the server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::spawn_blocking;
use tracing::info;
use windlass_api::Code;
use windlass_api::service::{BackupReply, BackupRequest};
use windlass_core::limits;
use windlass_engine::Outcome;
use windlass_engine::store::log::backup::BeginError;

use super::context::{Answer, Context};
use super::error::Problem;
use crate::stores::{CopyError, Logs};

/// One at a time, and in a task of its own: a client that goes away must not leave half of one behind. Closing waits
/// for the lock.
pub(super) async fn make(context: Context, request: BackupRequest) -> Result<Answer<BackupReply>, Problem> {
    let now = || jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let name = request.backup.unwrap_or_else(now);
    limits::check_name("backup", &name)?;
    let busy = |_| Problem::new(Code::Overloaded, "another backup is being made: try again when it is done");
    let lock = Arc::clone(&context.app.backing_up).try_lock_owned().map_err(busy)?;
    let cannot = || Problem::not_now("what this server keeps cannot be copied");
    let logs = context.opened.logs.clone().ok_or_else(cannot)?;
    let path = context.opened.backup_dir.join(&name);
    let task = tokio::spawn(async move {
        let made = copy(logs, path).await;
        drop(lock);
        made
    });
    let made = task.await.map_err(|error| failed(&error))?;
    let (path, bytes) = made?;
    info!(backup = name, bytes, "backup made");
    let path = std::path::absolute(&path).unwrap_or(path).display().to_string();
    Ok(Answer::read(BackupReply { backup: name, path, bytes }))
}

/// Under another name until it is whole.
async fn copy(logs: Arc<Logs>, path: PathBuf) -> Result<(PathBuf, u64), Problem> {
    let unfinished = path.with_added_extension("unfinished");
    on_disk({
        let (path, unfinished) = (path.clone(), unfinished.clone());
        move || make_directory(&path, &unfinished)
    })
    .await?;
    let copied = logs.copy(&unfinished).await.map_err(not_copied);
    on_disk(move || match copied {
        Ok(bytes) => {
            std::fs::rename(&unfinished, &path).map(|()| (path, bytes)).map_err(|error| failed(&error))
        }
        Err(problem) => {
            let _not_worse_than_before = std::fs::remove_dir_all(&unfinished);
            Err(problem)
        }
    })
    .await
}

fn not_copied(error: CopyError) -> Problem {
    match error {
        CopyError::NotOpen(name) => {
            Problem::not_now(format!("the store `{name}` is not open, so not all of the data can be copied"))
        }
        CopyError::Begin(stuck @ BeginError::Stuck { .. }) => Problem::not_now(stuck.to_string()),
        CopyError::Begin(BeginError::Store(_)) | CopyError::Store(_) | CopyError::Io(_) => failed(&error),
    }
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    spawn_blocking(work).await.map_err(|error| failed(&error))?
}

fn make_directory(path: &Path, unfinished: &Path) -> Result<(), Problem> {
    if path.exists() {
        return Err(Problem::new(Code::AlreadyExists, "there is a backup of that name: choose another"));
    }
    if unfinished.exists() {
        std::fs::remove_dir_all(unfinished).map_err(|error| failed(&error))?;
    }
    std::fs::create_dir_all(unfinished).map_err(|error| failed(&error))
}

fn failed(error: &dyn std::error::Error) -> Problem {
    Problem::internal(format!("backup: {error}"), Outcome::NotApplied)
}
