//! What may stand behind a flag, beyond words and numbers.

use std::str::FromStr;

use serde_json::value::RawValue;
use windlass_api::items::Held;
use windlass_api::{Span, Time};

/// A moment, or a span from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    At(Time),
    In(Span),
}

impl When {
    pub(crate) fn from(self, now: Time) -> Time {
        match self {
            Self::At(time) => time,
            Self::In(span) => {
                let span = i64::try_from(span.as_micros()).expect("the longest span is a hundred years");
                Time::from_micros(now.as_micros().saturating_add(span))
            }
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let span = text.parse().map(Self::In);
        span.or_else(|_| text.parse().map(Self::At)).map_err(|_| {
            "neither a time like 2026-01-31T12:00:00Z nor a duration from now like 30s, 5m or 1h30m".into()
        })
    }
}

/// A moment, or how long it is ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    At(Time),
    Ago(Span),
}

impl Since {
    pub(crate) fn from(self, now: Time) -> Time {
        match self {
            Self::At(time) => time,
            Self::Ago(span) => {
                let span = i64::try_from(span.as_micros()).expect("the longest span is a hundred years");
                Time::from_micros(now.as_micros().saturating_sub(span))
            }
        }
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let span = text.parse().map(Self::Ago);
        span.or_else(|_| text.parse().map(Self::At)).map_err(|_| {
            "neither a time like 2026-01-31T12:00:00Z nor how long ago it is, like 30s, 5m or 1h30m".into()
        })
    }
}

/// `ID:PERMIT`, as `lease` prints it.
pub(crate) fn held(text: &str) -> Result<Held, String> {
    let parts = text.rsplit_once(':').filter(|(id, _)| !id.is_empty());
    let (id, permit) = parts.ok_or("write it as ID:PERMIT, as `windlass lease` prints it")?;
    let permit =
        permit.parse().map_err(|_| format!("the permit, after the colon, is a number, not {permit:?}"))?;
    Ok(Held { id: id.to_owned(), permit })
}

/// JSON of any sort, as its text.
pub(crate) fn json(text: &str) -> Result<String, String> {
    let read: Result<&RawValue, _> = serde_json::from_str(text);
    read.map(|_| text.to_owned()).map_err(|error| format!("not JSON: {error}"))
}

/// `NAME=VALUE`.
pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
