//! Makes a new log of everything that can still be read of a damaged one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::reading::{self, Read};
use super::{Account, Locked, Progress, guess};
use crate::env::Env;
use crate::store::log::commit::Request;
use crate::store::log::disk::Disk;
use crate::store::log::format::{Format, Found, Owner};
use crate::store::log::opening::Purpose;
use crate::store::log::recovery::survey::{self, Survey};
use crate::store::log::{Durability, LogOptions, LogStore, format, opening};
use crate::store::{Store, StoreError};

/// The result of a salvage.
#[derive(Debug)]
pub struct Salvaged {
    pub rows: u64,
    pub removals: u64,
    pub bodies: u64,
    /// Where something is or may be lost, each with file and offset where that can be told.
    pub lost: Vec<StoreError>,
    /// Damage that costs nothing.
    pub harmless: Vec<StoreError>,
    /// The content of the new log, and what is missing, in items.
    pub account: Account,
}

/// Reads the log at `from`, which no server has open, and writes what it finds to the empty directory `to`.
pub async fn salvage(
    env: Arc<dyn Env>,
    from: Arc<dyn Disk>,
    to: Arc<dyn Disk>,
    options: LogOptions,
) -> Result<Salvaged, StoreError> {
    salvage_with(env, from, to, options, &mut |_, _| {}).await
}

/// Like [`salvage`], and tells how many bytes of segments are read, of how many.
pub async fn salvage_with(
    env: Arc<dyn Env>,
    from: Arc<dyn Disk>,
    to: Arc<dyn Disk>,
    options: LogOptions,
    progress: Progress<'_>,
) -> Result<Salvaged, StoreError> {
    let locked = Locked::take(&*from).await?;
    format::check_empty(&*to).await?;
    let (format, damage) = match locked.found().await {
        Ok(Found { format, damage }) => (Ok(format), damage),
        Err(error) => (Err(error), None),
    };
    let log = guess::log_of(&*from, &format).await?;
    let (survey, failed) = survey::survey_readable(&*from, log).await?;
    let owner = match &format {
        Ok(format) => Some(format.owner.clone()),
        Err(_) => format::read_damaged_owner(&*from).await,
    };
    let store = open_as(owner, env, to, roomy(options, &survey)).await?;
    let read = reading::read(&*from, log, &survey, failed, Some(&store), progress).await;
    let finished = match read {
        Ok(read) => finish(&store, &read.epochs).await.map(|()| read),
        Err(error) => Err(error),
    };
    store.close().await;
    let mut salvaged = Salvaged::of(finished?);
    salvaged.judge_format(&*from, format, log).await;
    salvaged.harmless.extend(damage);
    Ok(salvaged)
}

/// Makes everything that was written durable, and then says that it is complete.
async fn finish(store: &LogStore, epochs: &BTreeMap<u32, u64>) -> Result<(), StoreError> {
    store.desk.ask(|answer| Request::Sync { answer }).await?;
    // A write that failed earlier has ended the terms of all partitions, and what they had written is gone.
    let is_of_term = |(partition, epoch): (&u32, &u64)| {
        store.shared.tables().partitions.get(partition).is_some_and(|table| table.epoch == *epoch)
    };
    if !epochs.iter().all(is_of_term) {
        let directory = store.shared.disk.path("");
        return Err(StoreError::Unusable(format!(
            "{directory}: a write failed, and what was written is incomplete"
        )));
    }
    store.finish_salvage().await
}

/// Every body of the old log fits the new one, whatever segments that had.
fn roomy(options: LogOptions, survey: &Survey) -> LogOptions {
    let largest = survey.starts.iter().map(|(segment, _)| segment.bytes).max().unwrap_or(0);
    let largest = largest.next_multiple_of(8).min(opening::SEGMENT_BYTES_MAX);
    LogOptions { segment_bytes: options.segment_bytes.max(largest), ..options }
}

/// The new log is the same store of the same server, so that it can stand in for the old one.
async fn open_as(
    owner: Option<Owner>,
    env: Arc<dyn Env>,
    to: Arc<dyn Disk>,
    options: LogOptions,
) -> Result<LogStore, StoreError> {
    // Synced once at the end: until then nobody may serve it.
    let options = LogOptions { durability: Durability::None, ..options };
    let open = |options| opening::open(env, to, options, Purpose::Salvage);
    let Some(Owner { store, server, others }) = owner else { return open(options).await };
    let opened = open(LogOptions { store, server: Some(server), ..options }).await?;
    for other in others {
        opened.remember_store(&other).await?;
    }
    Ok(opened)
}

impl Salvaged {
    fn of(read: Read) -> Self {
        let Read { verdict, rows, removals, bodies, .. } = read;
        Self {
            rows,
            removals,
            bodies,
            lost: verdict.lost,
            harmless: verdict.harmless,
            account: verdict.account,
        }
    }

    /// A `format` file that cannot be read, or names another log, costs nothing once the log's id is found. But a log that
    /// does not open although nothing is wrong with its files has lost a file of which nothing else tells.
    async fn judge_format(&mut self, disk: &dyn Disk, format: Result<Format, StoreError>, log: u64) {
        match format {
            Err(error) => self.harmless.push(error),
            Ok(format) if format.log != log => self.harmless.push(format::of_another_log(disk)),
            Ok(format) if self.lost.is_empty() && self.harmless.is_empty() => {
                self.lost.extend(opening::recover(disk, &format).await.err());
            }
            Ok(_) => {}
        }
    }
}
