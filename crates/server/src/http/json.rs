//! Replies as JSON: the same letters that `serde_json` writes, in fewer instructions. Names of fields are written together with their
//! punctuation, and texts are searched for letters to escape eight bytes at a time.

use serde::ser::{self, Error as _, Serialize};
use serde_json::Error;

/// The struct and the field by which a [`serde_json::value::RawValue`] tells that its text is JSON already.
const RAW: &str = "$serde_json::private::RawValue";

/// Appends the value to `out`.
pub(super) fn write(value: &impl Serialize, out: &mut Vec<u8>) -> Result<(), Error> {
    value.serialize(&mut Writer { out, raw: false })
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// The next text is JSON already.
    raw: bool,
}

/// An array or an object that is open.
struct Open<'w, 'a> {
    writer: &'w mut Writer<'a>,
    is_first: bool,
    /// What closes it.
    end: &'static [u8],
}

impl<'a> Writer<'a> {
    fn open<'w>(&'w mut self, begin: &[u8], end: &'static [u8]) -> Open<'w, 'a> {
        self.out.extend_from_slice(begin);
        Open { writer: self, is_first: true, end }
    }

    /// An object with one field, which tells the variant of an enum.
    fn open_variant<'w>(&'w mut self, variant: &str, begin: &[u8], end: &'static [u8]) -> Open<'w, 'a> {
        self.out.push(b'{');
        self.text(variant);
        self.out.push(b':');
        self.open(begin, end)
    }

    fn text(&mut self, text: &str) {
        self.out.push(b'"');
        let mut rest = text.as_bytes();
        while let Some(at) = first_escaped(rest) {
            self.out.extend_from_slice(&rest[..at]);
            self.escape(rest[at]);
            rest = &rest[at + 1..];
        }
        self.out.extend_from_slice(rest);
        self.out.push(b'"');
    }

    fn escape(&mut self, byte: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            _ => {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                self.out.extend_from_slice(b"\\u00");
                self.out.extend_from_slice(&digits);
                return;
            }
        };
        self.out.extend_from_slice(&[b'\\', short]);
    }
}

/// Where the first byte stands that cannot stand in a JSON text as it is.
fn first_escaped(bytes: &[u8]) -> Option<usize> {
    const LANES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (words, _) = bytes.as_chunks::<8>();
    let is_zero_in = |word: u64| word.wrapping_sub(LANES) & !word & HIGH;
    let has_one = |chunk: &[u8; 8]| {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(LANES * 0x20) & !word & HIGH;
        let quote = is_zero_in(word ^ (LANES * u64::from(b'"')));
        let backslash = is_zero_in(word ^ (LANES * u64::from(b'\\')));
        control | quote | backslash != 0
    };
    let is_escaped = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\');
    // A word may be taken for one that has such a byte: the bytes are looked at then.
    let mut begin = 0;
    for chunk in words {
        if has_one(chunk)
            && let Some(at) = chunk.iter().position(is_escaped)
        {
            return Some(begin + at);
        }
        begin += chunk.len();
    }
    bytes[begin..].iter().position(is_escaped).map(|at| begin + at)
}

macro_rules! whole_numbers {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, number: $type) -> Result<(), Error> {
            self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            Ok(())
        })*
    };
}

impl<'w, 'a> ser::Serializer for &'w mut Writer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Open<'w, 'a>;
    type SerializeTuple = Open<'w, 'a>;
    type SerializeTupleStruct = Open<'w, 'a>;
    type SerializeTupleVariant = Open<'w, 'a>;
    type SerializeMap = Open<'w, 'a>;
    type SerializeStruct = Open<'w, 'a>;
    type SerializeStructVariant = Open<'w, 'a>;

    whole_numbers!(
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
    );

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_f32(self, number: f32) -> Result<(), Error> {
        serde_json::to_writer(&mut *self.out, &number)
    }

    fn serialize_f64(self, number: f64) -> Result<(), Error> {
        serde_json::to_writer(&mut *self.out, &number)
    }

    fn serialize_char(self, letter: char) -> Result<(), Error> {
        self.text(letter.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, text: &str) -> Result<(), Error> {
        if self.raw {
            self.out.extend_from_slice(text.as_bytes());
        } else {
            self.text(text);
        }
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Error> {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let open = self.open_variant(variant, b"", b"}");
        value.serialize(&mut *open.writer)?;
        open.close()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'w, 'a>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'w, 'a>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'w, 'a>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'w, 'a>, Error> {
        Ok(self.open_variant(variant, b"[", b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'w, 'a>, Error> {
        Ok(self.open(b"{", b"}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Open<'w, 'a>, Error> {
        self.raw = name == RAW;
        Ok(if self.raw { self.open(b"", b"") } else { self.open(b"{", b"}") })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'w, 'a>, Error> {
        Ok(self.open_variant(variant, b"{", b"}}"))
    }
}

impl Open<'_, '_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !std::mem::replace(&mut self.is_first, false) {
            self.writer.out.push(b',');
        }
        value.serialize(&mut *self.writer)
    }

    /// `key` is a name of the code, in which nothing is escaped.
    fn field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        if self.writer.raw {
            value.serialize(&mut *self.writer)?;
            self.writer.raw = false;
            return Ok(());
        }
        let out = &mut self.writer.out;
        out.reserve(key.len() + 4);
        if !std::mem::replace(&mut self.is_first, false) {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\":");
        value.serialize(&mut *self.writer)
    }

    fn close(self) -> Result<(), Error> {
        self.writer.out.extend_from_slice(self.end);
        Ok(())
    }
}

impl ser::SerializeMap for Open<'_, '_> {
    type Ok = ();
    type Error = Error;

    /// Numbers become texts, as `serde_json` has them.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        if !std::mem::replace(&mut self.is_first, false) {
            self.writer.out.push(b',');
        }
        let begin = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        match self.writer.out.get(begin) {
            Some(b'"') => Ok(()),
            Some(b'-' | b'0'..=b'9' | b't' | b'f') => {
                self.writer.out.insert(begin, b'"');
                self.writer.out.push(b'"');
                Ok(())
            }
            Some(_) | None => Err(Error::custom("a key must be a text or a number")),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.writer.out.push(b':');
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

macro_rules! lists {
    ($($trait:ident: $method:ident),* $(,)?) => {
        $(impl ser::$trait for Open<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.element(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        })*
    };
}

lists!(
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
);

macro_rules! objects {
    ($($trait:ident),* $(,)?) => {
        $(impl ser::$trait for Open<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.field(key, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        })*
    };
}

objects!(SerializeStruct, SerializeStructVariant);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Serialize;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    fn written(value: &impl Serialize) -> String {
        let mut out = Vec::new();
        super::write(value, &mut out).expect("written");
        String::from_utf8(out).expect("a text")
    }

    fn same(value: &impl Serialize) {
        assert_eq!(written(value), serde_json::to_string(value).expect("written"));
    }

    #[derive(Serialize)]
    enum Kind {
        Plain,
        Wrapped(u8),
        Pair(u8, bool),
        Named { text: &'static str, none: Option<u8> },
    }

    #[derive(Serialize)]
    struct Unit;

    #[derive(Serialize)]
    struct Pair(f32, char);

    #[test]
    fn all_that_can_be_written_is_written_as_by_serde_json() {
        same(&[
            Kind::Plain,
            Kind::Wrapped(1),
            Kind::Pair(2, true),
            Kind::Named { text: "\u{1}", none: None },
        ]);
        same(&(Unit, Pair(0.1, '"'), i128::MIN, u128::MAX, -1_i8, f64::NAN, 1e300, Some(()), [0_u8; 0]));
        same(&BTreeMap::from([(-5, "a"), (7, "b")]));
        same(&BTreeMap::from([(true, 1), (false, 2)]));
        same(&BTreeMap::from([('"', BTreeMap::<String, u8>::new())]));
        same(&serde_json::from_str::<&RawValue>(r#"{"a" : [1.50, "\u00e4"]}"#).expect("JSON"));
        same(&json!({"a": {"b": [], "c": {}}, "": null}));
    }

    #[test]
    fn every_letter_is_escaped_as_by_serde_json() {
        for begin in 0..9 {
            for letter in (0..0x180).filter_map(char::from_u32) {
                same(&format!("{:begin$}{letter}", ""));
                same(&format!("{:begin$}{letter}after{letter}", ""));
            }
        }
    }

    #[test]
    fn a_key_that_is_no_text_is_refused() {
        let map = BTreeMap::from([(vec![1], 1)]);
        assert!(super::write(&map, &mut Vec::new()).is_err() && serde_json::to_string(&map).is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[ -~\"\\\\\n\t]{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_is_written_as_by_serde_json(value in any_json()) {
            prop_assert_eq!(written(&value), serde_json::to_string(&value).expect("written"));
        }
    }
}
