//! The `format` file: says that a directory is a log, which one, whose, and in what format.
//!
//! A few lines of text, twice. The last line of each copy is a checksum of its others, so that a wrong digit is not taken
//! for another log, store or version: it costs one copy, and the other counts.

use std::fmt::Write as _;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::LogOptions;
use super::disk::{Disk, read_full, write_all};
use super::segment::{TEMPORARY_SUFFIX, frame, io_failed};
use crate::store::StoreError;

pub(super) const NAME: &str = "format";
const TITLE: &str = "windlass log";
const CHECKSUM: &str = "checksum = ";
const BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) log: u64,
    pub(super) owner: Owner,
    pub(super) state: State,
}

/// How far the log is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The first segment may not be there yet. Without this, a log that lost all its files would look like a new one.
    New,
    /// A salvage writes to it, or was ended before it was complete: such a log is not opened.
    Salvage,
    Ready,
}

impl State {
    const NEW: &str = "new";
    const SALVAGE: &str = "salvage";

    fn named(name: Option<&str>) -> Option<Self> {
        match name {
            Some(Self::NEW) => Some(Self::New),
            Some(Self::SALVAGE) => Some(Self::Salvage),
            Some(_) => None,
            None => Some(Self::Ready),
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Self::New => Some(Self::NEW),
            Self::Salvage => Some(Self::SALVAGE),
            Self::Ready => None,
        }
    }
}

/// The `format` file as read.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) format: Format,
    /// The damage to one of the two copies, if the other one counts.
    pub(super) damage: Option<StoreError>,
}

/// Whose log it is. A copy, or what is salvaged of it, has the same owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The name of the store.
    pub(super) store: Arc<str>,
    /// The server's id, equal in all its stores: the id that its first store's log had when it was made.
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

    /// Refuses what a salvage did not finish.
    pub(super) fn check_finished(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        match self.state {
            State::Salvage => Err(StoreError::Unusable(format!(
                "{}: a salvage into this directory was not finished, so items are missing here. Delete its files, and \
                 salvage again into an empty directory",
                disk.path("")
            ))),
            State::New | State::Ready => Ok(()),
        }
    }
}

/// The `format` file of a directory. `None` if the directory is empty.
pub(super) async fn read(disk: &dyn Disk) -> Result<Option<Found>, StoreError> {
    let failed = |error| io_failed("cannot read", disk.path(NAME), error);
    let names = disk.list().await.map_err(failed)?;
    if !names.iter().any(|name| name == NAME) {
        let others = names.iter().find(|name| !name.ends_with(TEMPORARY_SUFFIX));
        return others.map_or(Ok(None), |other| Err(not_ours(disk, other)));
    }
    let bytes = read_bytes(disk).await.map_err(failed)?;
    parse_copies(disk, &bytes).map(Some)
}

/// Where the second copy begins: with its title, or half-way if that is damaged.
fn second_copy(bytes: &[u8]) -> usize {
    let titles = places_of(TITLE, bytes);
    titles.into_iter().find(|at| *at > 0).unwrap_or(bytes.len() / 2)
}

fn places_of(text: &str, bytes: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(text.len()).enumerate();
    windows.filter(|(_, window)| *window == text.as_bytes()).map(|(at, _)| at).collect()
}

/// The owner that the file names, also if its checksums are wrong: the best that salvage can know.
pub(super) async fn read_damaged_owner(disk: &dyn Disk) -> Option<Owner> {
    let bytes = read_bytes(disk).await.ok()?;
    let (one, other) = bytes.split_at(second_copy(&bytes));
    let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
    let merged = || Some(merge(disk, &one, &other)?.owner);
    merged().or_else(|| likely_owner(&one, &other))
}

/// The text that two damaged copies make together: each line as one of them has it, so that the checksum is right.
fn merge(disk: &dyn Disk, one: &str, other: &str) -> Option<Format> {
    const DIFFERENT_MAX: usize = 8;
    let (one, other): (Vec<&str>, Vec<&str>) = (one.lines().collect(), other.lines().collect());
    let different: Vec<usize> = (0..one.len().min(other.len())).filter(|at| one[*at] != other[*at]).collect();
    if one.len() != other.len() || different.len() > DIFFERENT_MAX {
        return None;
    }
    let chosen = |choice: usize| {
        let mut lines = one.clone();
        let of_other = different.iter().enumerate().filter(|(bit, _)| choice >> bit & 1 == 1);
        of_other.for_each(|(_, at)| lines[*at] = other[*at]);
        lines.join("\n") + "\n"
    };
    (0..1 << different.len()).find_map(|choice| parse(disk, &chosen(choice)).ok())
}

/// The text of both copies if they agree, and else of one of them. Names of other stores count only if both have them.
fn likely_owner(one: &str, other: &str) -> Option<Owner> {
    let (first, second) = (owner_in(one), owner_in(other));
    let (Some(first), Some(second)) = (&first, &second) else { return first.or(second) };
    let others = first.others.iter().filter(|name| second.others.contains(name)).cloned().collect();
    Some(Owner { others, ..first.clone() })
}

async fn read_bytes(disk: &dyn Disk) -> io::Result<Vec<u8>> {
    let file = disk.open(NAME).await?;
    let mut bytes = vec![0; BYTES_MAX];
    let length = read_full(&*file, 0, &mut bytes).await?;
    bytes.truncate(length);
    Ok(bytes)
}

/// The text of the first sound copy. Damage may have changed where the copies begin and end: each place where one could is
/// tried.
fn parse_copies(disk: &dyn Disk, bytes: &[u8]) -> Result<Found, StoreError> {
    let sound = sound_copies(disk, bytes);
    let Some((first, format)) = sound.first() else { return Err(why_no_copy(disk, bytes)) };
    let is_whole = sound.len() == 2
        && first.start == 0
        && sound[1].0 == (first.end..bytes.len())
        && sound[1].1 == *format;
    let damage = (!is_whole).then(|| {
        let offset = if first.start == 0 { first.end as u64 } else { 0 };
        let what = "one of two copies in this file is damaged: the other counts, and the next start writes both anew";
        StoreError::Damaged { file: disk.path(NAME), offset, what: what.to_owned() }
    });
    Ok(Found { format: format.clone(), damage })
}

fn sound_copies(disk: &dyn Disk, bytes: &[u8]) -> Vec<(Range<usize>, Format)> {
    let checksum_bytes = checksum_line("").len();
    let ends: Vec<usize> = places_of(CHECKSUM, bytes).into_iter().map(|at| at + checksum_bytes).collect();
    let mut sound = Vec::new();
    for start in places_of(TITLE, bytes) {
        let copies = ends.iter().filter(|end| start < **end && **end <= bytes.len()).map(|end| start..*end);
        let parsed = |copy: Range<usize>| {
            let text = String::from_utf8_lossy(&bytes[copy.clone()]);
            parse(disk, &text).ok().map(|format| (copy, format))
        };
        sound.extend(copies.into_iter().find_map(parsed));
    }
    sound
}

/// Another format is told rather than damage: such a file is read by another version.
fn why_no_copy(disk: &dyn Disk, bytes: &[u8]) -> StoreError {
    let (one, other) = bytes.split_at(second_copy(bytes));
    let parsed = [bytes, one, other].map(|text| parse(disk, &String::from_utf8_lossy(text)).err());
    let [whole, one, other] = parsed;
    let errors = [one, other, whole];
    let unusable = |error: &&StoreError| matches!(error, StoreError::Unusable(_));
    let told = errors.iter().flatten().find(unusable).or(errors.iter().flatten().next());
    told.cloned().expect("no copy is sound")
}

/// Refuses a directory in which there is anything.
pub(super) async fn check_empty(disk: &dyn Disk) -> Result<(), StoreError> {
    let directory = disk.path("");
    let Some(found) = read(disk).await? else { return Ok(()) };
    found.format.check_finished(disk)?;
    Err(StoreError::Unusable(format!("{directory}: there is a log already. Give an empty directory")))
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
    let state = State::named(field(text, "state"));
    Ok(Format { log, owner, state: state.ok_or_else(|| damaged("its state is not known"))? })
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
    let Format { log, owner: Owner { store, server, others }, state } = format;
    let mut text = format!("{TITLE}\nformat = {}\nlog = {log:016x}\n", frame::FORMAT);
    let mut line = |name: &str, value: &str| {
        writeln!(text, "{name} = {value}").expect("a string takes all that memory does");
    };
    line("store", store);
    line("server", &format!("{server:016x}"));
    others.iter().for_each(|other| line("other", other));
    if let Some(state) = state.name() {
        line("state", state);
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
