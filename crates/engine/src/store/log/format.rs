//! The `format` file: says that a directory is a log, which one, whose, and in what format.
//!
//! A few lines of text, twice. The last line of each copy is a checksum of its others, so that a wrong digit is not taken
//! for another log, store or version: it costs one copy, and the other counts.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use super::LogOptions;
use super::disk::{Disk, read_full, write_all};
use super::frame;
use super::segment::{TEMPORARY_SUFFIX, io_failed};
use crate::store::StoreError;

pub(super) const NAME: &str = "format";
const TITLE: &str = "windlass log";
const CHECKSUM: &str = "checksum = ";
const BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) log: u64,
    pub(super) owner: Owner,
    /// Its first segment may not be there yet. Without this, a log that lost all its files would look like a new one.
    pub(super) is_new: bool,
}

/// Whose log it is. A copy, or what is salvaged of it, has the same owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The name of the store.
    pub(super) store: Arc<str>,
    /// The same in all stores of one server: the id that its first store's log had when it was made.
    pub(super) server: u64,
    /// In the first store: the names of the others that were ever opened beside it.
    pub(super) others: Vec<Arc<str>>,
}

impl Format {
    /// Refuses the directory of another store, or of another server's.
    pub(super) fn check(&self, disk: &dyn Disk, options: &LogOptions) -> Result<(), StoreError> {
        let (directory, owner) = (disk.path(""), &self.owner);
        let take_over = if options.server == Some(owner.server) {
            String::new()
        } else {
            format!(
                ". If the first store that this one was used with is lost for good, start once with `--take-over-store \
                 {}`: the directory then belongs to this server, and its partitions can be adopted",
                options.store
            )
        };
        if owner.store != options.store {
            return Err(StoreError::Unusable(format!(
                "{directory}: this is the directory of the store `{}`, and was given as that of the store `{}`. Give \
                 each store the directory that it had before{take_over}",
                owner.store, options.store
            )));
        }
        if options.server.is_some_and(|server| server != owner.server) {
            return Err(StoreError::Unusable(format!(
                "{directory}: the store `{}` in this directory belongs to the data of another server. Give the store \
                 the directory that it had before, or an empty one{take_over}",
                owner.store
            )));
        }
        Ok(())
    }
}

/// What the directory says. `None` if it is empty.
pub(super) async fn read(disk: &dyn Disk) -> Result<Option<Format>, StoreError> {
    let failed = |error| io_failed("cannot read", disk.path(NAME), error);
    let names = disk.list().await.map_err(failed)?;
    if !names.iter().any(|name| name == NAME) {
        let others = names.iter().find(|name| !name.ends_with(TEMPORARY_SUFFIX));
        return others.map_or(Ok(None), |other| Err(not_ours(disk, other)));
    }
    let bytes = read_bytes(disk).await.map_err(failed)?;
    parse_copies(disk, &bytes).map(Some)
}

/// The owner that the file names, also if its checksums are wrong: the best that salvage can know.
pub(super) async fn read_damaged_owner(disk: &dyn Disk) -> Option<Owner> {
    owner_in(&String::from_utf8_lossy(&read_bytes(disk).await.ok()?))
}

async fn read_bytes(disk: &dyn Disk) -> io::Result<Vec<u8>> {
    let file = disk.open(NAME).await?;
    let mut bytes = vec![0; BYTES_MAX];
    let length = read_full(&*file, 0, &mut bytes).await?;
    bytes.truncate(length);
    Ok(bytes)
}

/// What the first sound copy says. A file that is not two copies is read as one.
fn parse_copies(disk: &dyn Disk, bytes: &[u8]) -> Result<Format, StoreError> {
    let (one, other) = bytes.split_at(bytes.len() / 2);
    let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
    match (parse(disk, &one), parse(disk, &other)) {
        (Ok(format), Ok(_)) => Ok(format),
        (Ok(format), Err(_)) | (Err(_), Ok(format)) => {
            tracing::warn!(
                file = disk.path(NAME),
                "one of two copies in this file is damaged: the other counts"
            );
            Ok(format)
        }
        (Err(error), Err(_)) if other.starts_with(TITLE) => Err(error),
        (Err(_), Err(_)) => parse(disk, &String::from_utf8_lossy(bytes)),
    }
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
    let damaged = |what: &str| StoreError::Damaged {
        file: disk.path(NAME),
        offset: 0,
        what: format!("{what}; the `{NAME}` file of a backup of this directory can take its place"),
    };
    let checksum = text.rfind(CHECKSUM).map(|at| text.split_at(at));
    let is_sound = checksum.map(|(before, line)| line == checksum_line(before));
    if is_sound == Some(false) {
        return Err(damaged("its checksum is wrong"));
    }
    if text.lines().next() != Some(TITLE) {
        return Err(damaged("it is not the format file of a Windlass log"));
    }
    let format = field(text, "format").and_then(|format| format.parse::<u32>().ok());
    match format {
        Some(format) if format != u32::from(frame::FORMAT) => return Err(other_format(disk, format)),
        Some(_) if is_sound.is_none() => return Err(damaged("its checksum is missing")),
        Some(_) => {}
        None => return Err(damaged("it does not tell the format")),
    }
    let log =
        field(text, "log").and_then(parse_id).ok_or_else(|| damaged("it does not tell the log's id"))?;
    let owner = owner_in(text).ok_or_else(|| damaged("it does not tell whose log it is"))?;
    Ok(Format { log, owner, is_new: field(text, "state") == Some("new") })
}

/// The file reads well, but no other file is of the log that it names.
pub(super) fn of_another_log(disk: &dyn Disk) -> StoreError {
    let what = "the id of the log: the segments are of another".to_owned();
    StoreError::Damaged { file: disk.path(NAME), offset: 0, what }
}

fn fields<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(" = "))
}

fn field<'a>(text: &'a str, name: &'a str) -> Option<&'a str> {
    fields(text, name).next()
}

fn parse_id(id: &str) -> Option<u64> {
    u64::from_str_radix(id, 16).ok()
}

fn owner_in(text: &str) -> Option<Owner> {
    let store = field(text, "store")?.into();
    let server = field(text, "server").and_then(parse_id)?;
    Some(Owner { store, server, others: fields(text, "other").map(Into::into).collect() })
}

fn other_format(disk: &dyn Disk, format: u32) -> StoreError {
    StoreError::Unusable(format!(
        "{}: the log has format {format}, and this version of Windlass reads format {}. Start the version that wrote \
         it, and move the items with `windlass storage export` and `import`",
        disk.path(NAME),
        frame::FORMAT,
    ))
}

pub(super) async fn write(disk: &dyn Disk, format: &Format) -> Result<(), StoreError> {
    let written = replace(disk, text_of(format).repeat(2).as_bytes()).await;
    written.map_err(|error| io_failed("cannot write", disk.path(NAME), error))
}

fn text_of(format: &Format) -> String {
    let Format { log, owner: Owner { store, server, others }, is_new } = format;
    let mut text = format!("{TITLE}\nformat = {}\nlog = {log:016x}\n", frame::FORMAT);
    let mut line = |name: &str, value: &str| {
        writeln!(text, "{name} = {value}").expect("a string takes all that memory does");
    };
    line("store", store);
    line("server", &format!("{server:016x}"));
    others.iter().for_each(|other| line("other", other));
    if *is_new {
        line("state", "new");
    }
    let checksum = checksum_line(&text);
    text + &checksum
}

fn checksum_line(before: &str) -> String {
    format!("{CHECKSUM}{:08x}\n", crc32c::crc32c(before.as_bytes()))
}

async fn replace(disk: &dyn Disk, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{NAME}{TEMPORARY_SUFFIX}");
    if disk.list().await?.contains(&temporary) {
        disk.remove(&temporary).await?;
    }
    let file = disk.create(&temporary).await?;
    write_all(&*file, 0, bytes).await?;
    file.sync().await?;
    disk.rename(&temporary, NAME).await?;
    disk.sync().await
}
