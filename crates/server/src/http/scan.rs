//! Holds a protobuf request to its shape before anything is made of it: a few bytes can ask for a hundred times as much
//! memory, at any level.

use std::fmt;

use prost::encoding::{WireType, decode_key, decode_varint};
use windlass_api::shape::{Count, FIELDS_MAX, Field, LIST_MAX, Shaped};

use super::check;
use super::error::Problem;

/// What the request will take in memory beside the letters of its texts.
pub(super) fn weigh<T: Shaped>(bytes: &[u8]) -> Result<usize, Problem> {
    message(T::SHAPE.fields.unwrap_or_default(), bytes, &Place::Request)
}

fn message(fields: &[Field], bytes: &[u8], place: &Place<'_>) -> Result<usize, Problem> {
    let mut rest = bytes;
    let mut counts = [0; FIELDS_MAX];
    let mut weight = 0;
    while !rest.is_empty() {
        let (tag, wire_type) = decode_key(&mut rest).map_err(not_the_message)?;
        let value = value(wire_type, &mut rest)?;
        let known = fields.iter().zip(&mut counts).find(|(field, _)| field.tag == tag);
        let Some((field, count)) = known else { continue };
        if *count == field.count.most() {
            return Err(too_many(place, field));
        }
        if let (WireType::LengthDelimited, Some(fields)) = (wire_type, field.shape.fields) {
            weight += message(fields, value, &Place::Within { outer: place, field, index: *count })?;
        }
        *count += 1;
    }
    Ok(weight + fields.iter().zip(counts).map(|(field, count)| field.bytes(count)).sum::<usize>())
}

/// Passes over one field. The bytes are those of a text or a message, and none of a number.
fn value<'a>(wire_type: WireType, rest: &mut &'a [u8]) -> Result<&'a [u8], Problem> {
    let length = match wire_type {
        WireType::Varint => decode_varint(rest).map(|_| 0),
        WireType::ThirtyTwoBit => Ok(4),
        WireType::SixtyFourBit => Ok(8),
        WireType::LengthDelimited => decode_varint(rest),
        // The decoder would pass over a group and take what follows, so a group is not passed over here.
        WireType::StartGroup | WireType::EndGroup => {
            return Err(not_the_message("it has a group, as no message of this API"));
        }
    };
    let length = usize::try_from(length.map_err(not_the_message)?).unwrap_or(usize::MAX);
    let (value, after) =
        rest.split_at_checked(length).ok_or_else(|| not_the_message("it ends within a field"))?;
    *rest = after;
    Ok(value)
}

pub(super) fn not_the_message(why: impl fmt::Display) -> Problem {
    Problem::invalid(format!("the body is not the message it should be: {why}"))
}

fn too_many(place: &Place<'_>, field: &Field) -> Problem {
    let name = field.name;
    match field.count {
        Count::One => Problem::invalid(format!("`{place}{name}` is there more than once")),
        Count::List => Problem::invalid(format!("`{place}{name}` has too many entries: at most {LIST_MAX}")),
        Count::Headers => check::too_many_headers(place),
    }
}

/// The message that is looked into, as it stands before a field's name: `items[3].`.
enum Place<'a> {
    Request,
    Within { outer: &'a Place<'a>, field: &'a Field, index: usize },
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => Ok(()),
            Self::Within { outer, field: Field { name, count: Count::One, .. }, .. } => {
                write!(f, "{outer}{name}.")
            }
            Self::Within { outer, field: Field { name, .. }, index } => write!(f, "{outer}{name}[{index}]."),
        }
    }
}
