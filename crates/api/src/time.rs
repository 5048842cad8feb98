//! Moments and spans: RFC 3339 and `1h30m` in JSON, the well-known messages in protobuf, microseconds in Rust.

mod protobuf;
mod rfc3339;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

const MICROS: i64 = 1_000_000;

/// A moment, in microseconds since 1970. In protobuf it is a `google.protobuf.Timestamp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    micros: i64,
}

/// A length of time, in microseconds. In protobuf it is a `google.protobuf.Duration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    micros: i64,
}

/// A text that is no moment or no span; says what one looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    #[error("not a time: write it like 2026-01-31T12:00:00Z or 2026-01-31T13:00:00.5+01:00")]
    NotATime,
    #[error("a time out of range: the years are 0001 to 9999")]
    OutOfRange,
    #[error("not a duration: write it like 250ms, 30s, 5m, 1h30m or 7d, with the larger units first")]
    NotASpan,
    #[error("too long a duration: at most 36500d")]
    TooLong,
}

impl Time {
    /// 0001-01-01T00:00:00Z, as in protobuf.
    pub const MIN: Self = Self { micros: -62_135_596_800 * MICROS };
    /// The last microsecond of 9999.
    pub const MAX: Self = Self { micros: 253_402_300_800 * MICROS - 1 };

    pub const fn from_micros(micros: i64) -> Self {
        Self { micros }
    }

    pub const fn as_micros(self) -> i64 {
        self.micros
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let micros = |length: Duration| i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Self::from_micros(micros(after)),
            Err(before) => Self::from_micros(-micros(before.duration())),
        }
    }
}

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let time = Self { micros: rfc3339::parse(text).ok_or(TimeError::NotATime)? };
        let fits = (Self::MIN..=Self::MAX).contains(&time);
        if fits { Ok(time) } else { Err(TimeError::OutOfRange) }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        rfc3339::print((*self).clamp(Self::MIN, Self::MAX).micros, f)
    }
}

impl Span {
    pub const ZERO: Self = Self { micros: 0 };
    /// A hundred years: no queue looks further ahead.
    pub const MAX: Self = Self { micros: 36_500 * 86_400 * MICROS };

    pub const fn from_micros(micros: u64) -> Self {
        let micros = micros as i64;
        Self { micros: if micros < 0 || micros > Self::MAX.micros { Self::MAX.micros } else { micros } }
    }

    pub const fn from_millis(millis: u64) -> Self {
        Self::from_micros(millis.saturating_mul(1000))
    }

    pub const fn from_secs(secs: u64) -> Self {
        Self::from_micros(secs.saturating_mul(MICROS as u64))
    }

    pub const fn as_micros(self) -> u64 {
        self.micros.unsigned_abs()
    }
}

impl From<Duration> for Span {
    fn from(length: Duration) -> Self {
        Self::from_micros(u64::try_from(length.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_micros(span.as_micros())
    }
}

/// Largest first, as they must be written.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1000),
    ("us", 1),
];

impl FromStr for Span {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let mut rest = text;
        let mut micros = 0u64;
        let mut units = UNITS.iter();
        while !rest.is_empty() || text.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, tail) = rest.split_at(digits);
            let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (name, tail) = tail.split_at(letters);
            // The units are used up as they are found: each once, and larger ones first.
            let (_, factor) = units.find(|(unit, _)| *unit == name).ok_or(TimeError::NotASpan)?;
            if number.is_empty() {
                return Err(TimeError::NotASpan);
            }
            let number: u64 = number.parse().map_err(|_| TimeError::TooLong)?;
            let part = number.checked_mul(*factor).ok_or(TimeError::TooLong)?;
            micros = micros.checked_add(part).ok_or(TimeError::TooLong)?;
            rest = tail;
        }
        let fits = micros <= Self::MAX.as_micros();
        if fits { Ok(Self::from_micros(micros)) } else { Err(TimeError::TooLong) }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.as_micros();
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, factor) in UNITS {
            let number = rest / factor;
            rest %= factor;
            if number > 0 {
                write!(f, "{number}{unit}")?;
            }
        }
        Ok(())
    }
}

// JSON.

macro_rules! as_text {
    ($type:ty, $expecting:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }
    };
}

as_text!(Time, "a time like 2026-01-31T12:00:00Z");
as_text!(Span, "a duration like 250ms, 30s, 5m, 1h30m or 7d");

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A length of time: numbers with units, d h m s ms us, the larger first. At most 36500d.",
            "pattern": "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?([0-9]+us)?$",
            "minLength": 2,
            "examples": ["250ms", "30s", "5m", "1h30m", "7d"],
        })
    }
}
