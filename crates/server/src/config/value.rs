//! From what was written to what is meant, one function per type. `None`: it cannot be that.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use windlass_api::Span;

use super::raw::Raw;
use crate::gate::Origin;

fn text(raw: &Raw) -> Option<&str> {
    match raw {
        Raw::Text(text) => Some(text),
        Raw::Bool(_) | Raw::Integer(_) | Raw::List(_) => None,
    }
}

/// The entries of a list: `None` if it is neither that nor a text, in which commas part them.
pub(super) fn entries(raw: &Raw) -> Option<Vec<String>> {
    match raw {
        Raw::List(entries) => Some(entries.clone()),
        Raw::Text(text) if text.trim().is_empty() => Some(Vec::new()),
        Raw::Text(text) => Some(text.split(',').map(|entry| entry.trim().to_owned()).collect()),
        Raw::Bool(_) | Raw::Integer(_) => None,
    }
}

pub(super) fn directory(raw: &Raw) -> Option<PathBuf> {
    text(raw).filter(|path| !path.is_empty() && !path.contains('\0')).map(PathBuf::from)
}

pub(super) fn address(raw: &Raw) -> Option<SocketAddr> {
    text(raw)?.parse().ok()
}

/// `Some(None)` if nothing is said. A slash at the end means nothing.
pub(super) fn web_origin(raw: &Raw) -> Option<Option<Origin>> {
    match text(raw)?.trim() {
        "" => Some(None),
        text => origin(text).filter(Origin::is_web).map(Some),
    }
}

pub(super) fn origin(text: &str) -> Option<Origin> {
    text.strip_suffix('/').unwrap_or(text).parse().ok()
}

pub(super) fn boolean(raw: &Raw) -> Option<bool> {
    match raw {
        Raw::Bool(value) => Some(*value),
        Raw::Text(text) => text.parse().ok(),
        Raw::Integer(_) | Raw::List(_) => None,
    }
}

pub(super) fn choice<T: Copy>(raw: &Raw, choices: &[(&str, T)]) -> Option<T> {
    let text = text(raw)?;
    choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice)
}

pub(super) fn filter(raw: &Raw) -> Option<String> {
    let directives = text(raw).filter(|directives| !directives.trim().is_empty())?;
    EnvFilter::builder().parse(directives).ok().map(|_valid| directives.to_owned())
}

pub(super) fn duration(raw: &Raw, range: RangeInclusive<Duration>) -> Option<Duration> {
    let span: Span = text(raw)?.parse().ok()?;
    Some(Duration::from(span)).filter(|duration| range.contains(duration))
}

pub(super) fn count(raw: &Raw, range: RangeInclusive<usize>) -> Option<usize> {
    let count = match raw {
        Raw::Integer(number) => usize::try_from(*number).ok()?,
        Raw::Text(text) => text.parse().ok()?,
        Raw::Bool(_) | Raw::List(_) => return None,
    };
    Some(count).filter(|count| range.contains(count))
}

pub(super) const AUTO: &str = "auto";

/// `Some(None)` if the server is to choose.
pub(super) fn count_or_auto(raw: &Raw, range: RangeInclusive<usize>) -> Option<Option<usize>> {
    if text(raw) == Some(AUTO) { Some(None) } else { count(raw, range).map(Some) }
}

/// Those of 1024 first, and larger ones first: the first that divides a size is the one to show it in.
const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1000),
    ("B", 1),
];

pub(super) fn bytes(raw: &Raw, range: RangeInclusive<usize>) -> Option<usize> {
    let bytes = match raw {
        Raw::Integer(number) => u64::try_from(*number).ok()?,
        Raw::Text(text) => parse_bytes(text)?,
        Raw::Bool(_) | Raw::List(_) => return None,
    };
    usize::try_from(bytes).ok().filter(|bytes| range.contains(bytes))
}

/// No limit.
pub(super) const OFF: &str = "off";

/// `Some(None)` if there is to be no limit.
pub(super) fn bytes_or_off(raw: &Raw, range: RangeInclusive<usize>) -> Option<Option<usize>> {
    if text(raw) == Some(OFF) { Some(None) } else { bytes(raw, range).map(Some) }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    match unit.trim_start() {
        "" => Some(number),
        unit => number.checked_mul(UNITS.iter().find(|(name, _)| *name == unit)?.1),
    }
}

/// As a person would write it, if that is exact.
pub(super) fn show_bytes(bytes: usize) -> Raw {
    let bytes = bytes as u64;
    let fitting = UNITS.iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    let (unit, factor) = fitting.copied().unwrap_or(("B", 1));
    format!("{}{unit}", bytes / factor).into()
}

pub(super) fn show_duration(duration: Duration) -> Raw {
    Span::from(duration).to_string().into()
}

pub(super) fn show_list(entries: &[impl ToString]) -> Raw {
    entries.iter().map(ToString::to_string).collect::<Vec<_>>().into()
}

pub(super) fn show_count(count: usize) -> Raw {
    i64::try_from(count).expect("counts have small upper bounds").into()
}
