//! The `format` file: says that a directory is a log, which one, and in what format.

use std::fmt::Write as _;
use std::io;

use super::disk::{Disk, read_full, write_all};
use super::frame;
use super::segment::{TEMPORARY_SUFFIX, io_failed};
use crate::store::StoreError;

const NAME: &str = "format";
pub(super) const LOCK_NAME: &str = "LOCK";
const TITLE: &str = "windlass log";
const BYTES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) log: u64,
    /// Its first segment may not be there yet. Without this, a log that lost all its files would look like a new one.
    pub(super) is_new: bool,
}

/// What the directory says. `None` if it is empty.
pub(super) async fn read(disk: &dyn Disk) -> Result<Option<Format>, StoreError> {
    let failed = |error| io_failed("cannot read", disk.path(NAME), error);
    let names = disk.list().await.map_err(failed)?;
    if !names.iter().any(|name| name == NAME) {
        let others = names.iter().find(|name| *name != LOCK_NAME && !name.ends_with(TEMPORARY_SUFFIX));
        return others.map_or(Ok(None), |other| Err(not_ours(disk, other)));
    }
    let file = disk.open(NAME).await.map_err(failed)?;
    let mut bytes = vec![0; BYTES_MAX];
    let length = read_full(&*file, 0, &mut bytes).await.map_err(failed)?;
    bytes.truncate(length);
    parse(disk, &String::from_utf8_lossy(&bytes)).map(Some)
}

/// Refuses a directory in which there is anything.
pub(super) async fn check_empty(disk: &dyn Disk) -> Result<(), StoreError> {
    let directory = disk.path("");
    let taken =
        || StoreError::Unusable(format!("{directory}: there is a log already. Give an empty directory"));
    if read(disk).await?.is_some() { Err(taken()) } else { Ok(()) }
}

fn not_ours(disk: &dyn Disk, other: &str) -> StoreError {
    let directory = disk.path("");
    StoreError::Unusable(format!(
        "{directory}: it holds `{other}` but no `{NAME}` file, so it is not a Windlass log. Give an empty directory, \
         or the one that the log is in"
    ))
}

fn parse(disk: &dyn Disk, text: &str) -> Result<Format, StoreError> {
    let unreadable =
        |what: &str| StoreError::Unusable(format!("{}: {what}. Restore a backup", disk.path(NAME)));
    let mut lines = text.lines();
    if lines.next() != Some(TITLE) {
        return Err(unreadable("it is not the format file of a Windlass log"));
    }
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
    let format = field("format").and_then(|format| format.parse::<u32>().ok());
    match format {
        None => return Err(unreadable("it does not tell the format")),
        Some(format) if format > frame::FORMAT.into() => return Err(newer(disk, format)),
        Some(_) => {}
    }
    let log = field("log").and_then(|log| u64::from_str_radix(log, 16).ok());
    let log = log.ok_or_else(|| unreadable("it does not tell the log's id"))?;
    Ok(Format { log, is_new: field("state") == Some("new") })
}

/// The file reads well, but no other file is of the log that it names.
pub(super) fn of_another_log(disk: &dyn Disk) -> StoreError {
    let what = "the id of the log: the segments are of another".to_owned();
    StoreError::Damaged { file: disk.path(NAME), offset: 0, what }
}

fn newer(disk: &dyn Disk, format: u32) -> StoreError {
    StoreError::Unusable(format!(
        "{}: the log has format {format}, and this version of Windlass reads up to {}. Start the version that wrote \
         it, or a later one",
        disk.path(NAME),
        frame::FORMAT,
    ))
}

pub(super) async fn write(disk: &dyn Disk, format: Format) -> Result<(), StoreError> {
    let mut text = format!("{TITLE}\nformat = {}\nlog = {:016x}\n", frame::FORMAT, format.log);
    if format.is_new {
        writeln!(text, "state = new").expect("a string takes all that memory does");
    }
    let written = replace(disk, text.as_bytes()).await;
    written.map_err(|error| io_failed("cannot write", disk.path(NAME), error))
}

async fn replace(disk: &dyn Disk, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{NAME}{TEMPORARY_SUFFIX}");
    let file = disk.create(&temporary).await?;
    write_all(&*file, 0, bytes).await?;
    file.sync().await?;
    disk.rename(&temporary, NAME).await?;
    disk.sync().await
}
