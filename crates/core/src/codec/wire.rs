//! Tagged fields: a varint of `field number × 2 + type`, then a varint, or a length and that many bytes.

use std::sync::Arc;

use super::DecodeError;

const NUMBER: u64 = 0;
const BYTES: u64 = 1;

/// Field numbers of a record lie below this; what a record does not know is carried along.
const FIELDS_MAX: usize = 56;

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_number(out: &mut Vec<u8>, field: u8, value: u64) {
    put_varint(out, u64::from(field) << 1 | NUMBER);
    put_varint(out, value);
}

/// A missing number reads as zero, so zero is not written.
pub(super) fn put_unless_zero(out: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        put_number(out, field, value);
    }
}

/// Written as the distance from `base`, which is short for moments and numbers close to each other.
pub(super) fn put_near(out: &mut Vec<u8>, field: u8, value: u64, base: u64) {
    put_number(out, field, distance(value, base));
}

/// As [`put_near`], and a missing one reads as `base`.
pub(super) fn put_unless_same(out: &mut Vec<u8>, field: u8, value: u64, base: u64) {
    if value != base {
        put_near(out, field, value, base);
    }
}

pub(super) fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    put_varint(out, u64::from(field) << 1 | BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Little-endian u64s of 8 bytes each, for hashes: a varint would be longer.
pub(super) fn put_fixed(out: &mut Vec<u8>, field: u8, numbers: impl Iterator<Item = u64>) {
    let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    put_bytes(out, field, &bytes);
}

/// Round numbers have their zeros at the end; turned around they make a short varint.
pub(super) fn put_float(out: &mut Vec<u8>, field: u8, value: f64) {
    put_unless_zero(out, field, value.to_bits().swap_bytes());
}

// Wraps around: any two numbers have a distance, and adding it leads back.
pub(super) fn distance(value: u64, base: u64) -> u64 {
    let difference = value.wrapping_sub(base) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

pub(super) fn at_distance(distance: u64, base: u64) -> u64 {
    let difference = (distance >> 1) ^ (distance & 1).wrapping_neg();
    base.wrapping_add(difference)
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of one row, read but not yet understood.
pub(super) struct Record<'a> {
    known: [Option<Value<'a>>; FIELDS_MAX],
    /// Encoded fields of a newer version.
    pub(super) unknown: Vec<u8>,
}

impl<'a> Record<'a> {
    /// Fields up to `known_max` are the reader's, later ones a newer version's. A field given twice: the last counts.
    pub(super) fn read(bytes: &'a [u8], known_max: u8) -> Result<Self, DecodeError> {
        let mut record = Self { known: [None; FIELDS_MAX], unknown: Vec::new() };
        let mut input = Input { rest: bytes };
        while !input.rest.is_empty() {
            let before = input.rest;
            let (field, value) = input.field()?;
            if field <= u64::from(known_max) {
                record.known[field as usize] = Some(value);
            } else {
                let taken = before.len() - input.rest.len();
                record.unknown.extend_from_slice(&before[..taken]);
            }
        }
        Ok(record)
    }

    pub(super) fn number(&self, field: u8) -> Result<Option<u64>, DecodeError> {
        match self.known[usize::from(field)] {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(Value::Bytes(_)) => Err(DecodeError::new(field, "holds bytes where a number belongs")),
        }
    }

    pub(super) fn number_or_zero(&self, field: u8) -> Result<u64, DecodeError> {
        Ok(self.number(field)?.unwrap_or(0))
    }

    /// A number that every row of its kind has.
    pub(super) fn required_number(&self, field: u8) -> Result<u64, DecodeError> {
        self.number(field)?.ok_or(DecodeError::new(field, "is missing"))
    }

    /// A number within the range of a smaller type; missing reads as zero.
    pub(super) fn small<T: TryFrom<u64>>(&self, field: u8) -> Result<T, DecodeError> {
        self.number_or_zero(field)?
            .try_into()
            .map_err(|_| DecodeError::new(field, "holds too large a number"))
    }

    pub(super) fn flag(&self, field: u8) -> Result<bool, DecodeError> {
        Ok(self.number_or_zero(field)? != 0)
    }

    pub(super) fn near(&self, field: u8, base: u64) -> Result<Option<u64>, DecodeError> {
        Ok(self.number(field)?.map(|distance| at_distance(distance, base)))
    }

    pub(super) fn near_or_same(&self, field: u8, base: u64) -> Result<u64, DecodeError> {
        Ok(self.near(field, base)?.unwrap_or(base))
    }

    pub(super) fn float(&self, field: u8) -> Result<f64, DecodeError> {
        Ok(f64::from_bits(self.number_or_zero(field)?.swap_bytes()))
    }

    pub(super) fn bytes(&self, field: u8) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.known[usize::from(field)] {
            None => Ok(None),
            Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Value::Number(_)) => Err(DecodeError::new(field, "holds a number where bytes belong")),
        }
    }

    /// The numbers of [`put_fixed`].
    pub(super) fn fixed(&self, field: u8) -> Result<Option<Vec<u64>>, DecodeError> {
        let Some(bytes) = self.bytes(field)? else { return Ok(None) };
        let (numbers, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(DecodeError::new(field, "ends within a number"));
        }
        Ok(Some(numbers.iter().map(|number| u64::from_le_bytes(*number)).collect()))
    }

    pub(super) fn text(&self, field: u8) -> Result<Option<Arc<str>>, DecodeError> {
        let Some(bytes) = self.bytes(field)? else { return Ok(None) };
        let text = str::from_utf8(bytes).map_err(|_| DecodeError::new(field, "is not UTF-8"))?;
        Ok(Some(text.into()))
    }
}

pub(super) struct Input<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn field(&mut self) -> Result<(u64, Value<'a>), DecodeError> {
        let tag = self.varint()?;
        let field = tag >> 1;
        if field == 0 {
            return Err(DecodeError::new(0, "is no field's number"));
        }
        let number = self.varint()?;
        if tag & 1 == NUMBER {
            Ok((field, Value::Number(number)))
        } else {
            Ok((field, Value::Bytes(self.take(number)?)))
        }
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = usize::try_from(len)
            .ok()
            .and_then(|len| self.rest.split_at_checked(len))
            .ok_or(DecodeError::row("ends within a field"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(DecodeError::row("ends within a number"))?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::row("holds a number of more than 64 bits"))
    }
}
