//! Lines of JSON from a file or a pipe to the server, in batches: items to produce, or to bring in.

mod fates;
mod lines;
mod stream;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::FileType;
use windlass_api::Call;
use windlass_api::items::ProduceError;

pub(crate) use self::lines::{Limits, json, one_payload};
pub(crate) use self::stream::Stream;
use crate::exit::Failure;

/// What a line becomes, and how it is sent.
pub(crate) trait Feed: Clone + Send + Sync + 'static {
    type Item: Send + 'static;
    type Request: Call;

    /// What was done to an item that came through.
    const DONE: &'static str;
    /// Whether the rest is sent although the server refused an item by itself.
    const GOES_ON: bool;

    /// Reads a line: `None` if the line is passed over.
    fn parse(&self, line: &[u8]) -> Result<Option<Self::Item>, String>;

    /// Counts the lines that were passed over so far, by sort.
    fn passed_over(&self) -> Vec<PassedOver> {
        Vec::new()
    }

    fn request(&self, items: Vec<Self::Item>) -> Self::Request;

    /// Of each item in the order given: why it was refused, if it was.
    fn refusals(reply: <Self::Request as Call>::Reply) -> Vec<Option<ProduceError>>;
}

/// Lines that hold no item to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassedOver {
    /// In the singular, such as `event`.
    pub(crate) what: &'static str,
    pub(crate) lines: u64,
}

/// Where lines come from.
pub(crate) struct Input {
    reader: Box<dyn Read + Send>,
    /// Known if it is a file.
    bytes: Option<u64>,
}

impl Input {
    pub(crate) fn stdin() -> Self {
        Self { bytes: length(io::stdin()), reader: Box::new(io::stdin()) }
    }

    pub(crate) fn file(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path);
        let file =
            file.map_err(|error| Failure::local(format!("cannot read {}: {error}", path.display())))?;
        Ok(Self { bytes: length(&file), reader: Box::new(file) })
    }
}

fn length(file: impl AsFd) -> Option<u64> {
    let stat = rustix::fs::fstat(file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then(|| u64::try_from(stat.st_size).unwrap_or_default())
}
