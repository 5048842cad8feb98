//! Moments and spans: RFC 3339 and `1h30m` in JSON, the well-known messages in protobuf, microseconds in Rust.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use bytes::{Buf, BufMut};
use jiff::Timestamp;
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, int32, int64, skip_field};
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
    #[error("not a duration: write it like 250ms, 30s, 5m, 1h30m or 7d, with the larger units first")]
    NotASpan,
    #[error("too long a duration: at most 36500d")]
    TooLong,
}

impl Time {
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
        let timestamp: Timestamp = text.parse().map_err(|_| TimeError::NotATime)?;
        Ok(Self { micros: timestamp.as_microsecond() })
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let within = self.micros.clamp(Timestamp::MIN.as_microsecond(), Timestamp::MAX.as_microsecond());
        let timestamp = Timestamp::from_microsecond(within).expect("it was brought into range a line above");
        write!(f, "{timestamp:.6}")
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
    ($type:ty, $expecting:literal, $schema:tt) => {
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

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

as_text!(Time, "a time like 2026-01-31T12:00:00Z", {"type": "string", "format": "date-time"});
as_text!(Span, "a duration like 250ms, 30s, 5m, 1h30m or 7d", {
    "type": "string",
    "pattern": "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?([0-9]+us)?$",
    "examples": ["30s"]
});

// Protobuf: both well-known messages have seconds as field 1 and nanoseconds as field 2.

#[derive(Clone, Copy)]
struct Parts {
    seconds: i64,
    nanos: i32,
}

impl Parts {
    fn of(micros: i64) -> Self {
        let nanos = i32::try_from(micros.rem_euclid(MICROS) * 1000).expect("a rest below one second");
        Self { seconds: micros.div_euclid(MICROS), nanos }
    }

    fn micros(self) -> Result<i64, DecodeError> {
        let whole = self.seconds.checked_mul(MICROS);
        let micros = whole.and_then(|whole| whole.checked_add(i64::from(self.nanos / 1000)));
        micros.ok_or_else(out_of_range)
    }

    fn encode(self, buf: &mut impl BufMut) {
        if self.seconds != 0 {
            int64::encode(1, &self.seconds, buf);
        }
        if self.nanos != 0 {
            int32::encode(2, &self.nanos, buf);
        }
    }

    fn encoded_len(self) -> usize {
        let seconds = if self.seconds == 0 { 0 } else { int64::encoded_len(1, &self.seconds) };
        let nanos = if self.nanos == 0 { 0 } else { int32::encoded_len(2, &self.nanos) };
        seconds + nanos
    }

    fn merge(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            1 => int64::merge(wire_type, &mut self.seconds, buf, context),
            2 => int32::merge(wire_type, &mut self.nanos, buf, context),
            _ => skip_field(wire_type, tag, buf, context),
        }
    }
}

#[expect(
    deprecated,
    reason = "prost has no other way yet to refuse a value that is well encoded and makes no sense"
)]
fn out_of_range() -> DecodeError {
    DecodeError::new("seconds out of range")
}

macro_rules! as_message {
    ($type:ty, $range:expr) => {
        impl prost::Message for $type {
            fn encode_raw(&self, buf: &mut impl BufMut) {
                Parts::of(self.micros).encode(buf);
            }

            fn merge_field(
                &mut self,
                tag: u32,
                wire_type: WireType,
                buf: &mut impl Buf,
                context: DecodeContext,
            ) -> Result<(), DecodeError> {
                let mut parts = Parts::of(self.micros);
                parts.merge(tag, wire_type, buf, context)?;
                let micros = parts.micros()?;
                if !$range.contains(&micros) {
                    return Err(out_of_range());
                }
                self.micros = micros;
                Ok(())
            }

            fn encoded_len(&self) -> usize {
                Parts::of(self.micros).encoded_len()
            }

            fn clear(&mut self) {
                self.micros = 0;
            }
        }
    };
}

as_message!(Time, (Timestamp::MIN.as_microsecond()..=Timestamp::MAX.as_microsecond()));
as_message!(Span, (0..=Span::MAX.micros));
