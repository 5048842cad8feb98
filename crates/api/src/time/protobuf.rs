//! Both well-known messages have seconds as field 1 and nanoseconds as field 2.

use bytes::{Buf, BufMut};
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, int32, int64, skip_field};

use super::{MICROS, Span, Time};

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

    /// None also if the nanoseconds are not a part of a second, counted forwards: the schema says so.
    fn micros(self) -> Option<i64> {
        let whole = self.seconds.checked_mul(MICROS)?;
        let part = (0..1_000_000_000).contains(&self.nanos).then_some(self.nanos / 1000)?;
        whole.checked_add(i64::from(part))
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
    DecodeError::new("a time or duration out of range")
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
                let micros = parts.micros().filter(|micros| $range.contains(micros));
                self.micros = micros.ok_or_else(out_of_range)?;
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

as_message!(Time, (Time::MIN.micros..=Time::MAX.micros));
as_message!(Span, (0..=Span::MAX.micros));
