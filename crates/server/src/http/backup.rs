//! Copies of all data, made while the server runs.

use std::path::Path;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use tracing::{error, info};
use windlass_api::Code;
use windlass_api::service::{BackupDamage, BackupReply, BackupRequest};
use windlass_core::limits;
use windlass_engine::Outcome;
use windlass_engine::store::StoreError;
use windlass_engine::store::log::backup::{BeginError, Copied};

use super::context::{Answer, Context};
use super::error::Problem;
use crate::backup_dir::{Unavailable, Unfinished};
use crate::stores::{CopyError, Logs};

/// What a reply tells of damage at most; the log tells all of it.
const DAMAGE_MAX: usize = 100;

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
    let directory = context.opened.backup_dir.clone();
    let task = tokio::spawn(async move {
        let made = copy(logs, &directory, name).await;
        drop(lock);
        made
    });
    Ok(Answer::read(task.await.map_err(|error| failed(&error))??))
}

async fn copy(logs: Arc<Logs>, directory: &Path, name: String) -> Result<BackupReply, Problem> {
    let unfinished = on_disk({
        let (directory, name) = (directory.to_owned(), name.clone());
        move || Unfinished::begin(&directory, &name).map_err(unavailable)
    })
    .await?;
    let copied = logs.copy(unfinished.path()).await;
    on_disk(move || match copied {
        Ok(copied) => finish(unfinished, name, &copied),
        Err(error) => {
            let _removed_with_the_next_backup = unfinished.give_up();
            Err(not_copied(error))
        }
    })
    .await
}

/// A copy with damage is kept: it may hold what the data itself will not for long.
fn finish(unfinished: Unfinished, backup: String, copied: &Copied) -> Result<BackupReply, Problem> {
    for damage in &copied.damage {
        error!(backup, %damage, "the backup holds damaged data, as the server's data does");
    }
    let damage = copied.damage.iter().take(DAMAGE_MAX);
    let damage = damage.map(|damage| shown(damage, unfinished.path())).collect();
    let path = unfinished.finish().map_err(|error| failed(&error))?;
    let path = std::path::absolute(&path).unwrap_or(path).display().to_string();
    let bytes = copied.bytes;
    info!(backup, bytes, "backup made");
    Ok(BackupReply { backup, path, bytes, damage })
}

/// Files by their names within the backup.
fn shown(damage: &StoreError, unfinished: &Path) -> BackupDamage {
    let within = |path: &str| {
        let name = Path::new(path).strip_prefix(unfinished).unwrap_or(Path::new(path));
        Some(name.display().to_string()).filter(|name| !name.is_empty())
    };
    match damage {
        StoreError::Damaged { file, offset, what } => {
            BackupDamage { file: within(file), offset: Some(*offset), what: what.clone() }
        }
        StoreError::Incomplete { directory, what } => {
            BackupDamage { file: within(directory), offset: None, what: what.clone() }
        }
        StoreError::Fenced
        | StoreError::Full
        | StoreError::TooLarge { .. }
        | StoreError::Closed
        | StoreError::Io { .. }
        | StoreError::Unusable(_) => BackupDamage { file: None, offset: None, what: damage.to_string() },
    }
}

fn unavailable(error: Unavailable) -> Problem {
    let problem = match error {
        Unavailable::NameTaken => {
            Problem::new(Code::AlreadyExists, "there is a backup of that name: choose another")
        }
        Unavailable::InUse => Problem::new(
            Code::Overloaded,
            "another server makes a backup in the same `backup_dir`: try again when it is done",
        ),
        Unavailable::InTheWay(_) => Problem::new(
            Code::AlreadyExists,
            "something in `backup_dir` is in the way of a backup of that name: choose another, or have the operator \
             look into the server's log",
        ),
        Unavailable::Io { .. } => {
            Problem::not_now("backups cannot be made in the server's `backup_dir`: its log tells why")
        }
    };
    Problem { cause: Some(error.to_string()), ..problem }
}

fn not_copied(error: CopyError) -> Problem {
    match &error {
        CopyError::NotOpen(name) => {
            Problem::not_now(format!("the store `{name}` is not open, so not all of the data can be copied"))
        }
        CopyError::Begin(BeginError::Stuck { .. }) => {
            let message =
                "a disk did not finish what was written in time, so no backup was begun: try again later";
            Problem { cause: Some(error.to_string()), ..Problem::not_now(message) }
        }
        CopyError::Begin(BeginError::Store(_)) | CopyError::Store(_) | CopyError::Io(_) => failed(&error),
    }
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    spawn_blocking(work).await.map_err(|error| failed(&error))?
}

fn failed(error: &dyn std::error::Error) -> Problem {
    Problem::internal(format!("backup: {error}"), Outcome::NotApplied)
}
