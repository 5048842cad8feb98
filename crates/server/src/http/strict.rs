//! Reads JSON more strictly than serde would: a list is never taken for an object, and lists and maps have an end. What they
//! take in memory is added up.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use windlass_api::shape::{HEADERS_MAX, LIST_MAX, headers_bytes};

/// A deserializer that hands its strictness on to everything within. Payloads are not looked into.
pub(super) struct Strict<'w, D> {
    pub(super) json: D,
    /// What lists and maps take in memory.
    pub(super) weight: &'w Cell<usize>,
}

macro_rules! hand_on {
    ($($method:ident)+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.json.$method(Inner { visitor, entries: Entries::Headers, weight: self.weight })
        })+
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<'_, D> {
    type Error = D::Error;

    hand_on! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_unit deserialize_seq deserialize_map
        deserialize_identifier deserialize_ignored_any
    }

    /// Where serde would also take a list, for the fields in their order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.json.deserialize_map(Inner { visitor, entries: Entries::Fields, weight: self.weight })
    }

    /// serde_json hands a `RawValue` out under this name, as a map of one entry.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let inner = Inner { visitor, entries: Entries::RawValue, weight: self.weight };
        self.json.deserialize_newtype_struct(name, inner)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.json
            .deserialize_unit_struct(name, Inner { visitor, entries: Entries::Headers, weight: self.weight })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.json.deserialize_tuple(len, Inner { visitor, entries: Entries::Headers, weight: self.weight })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.json.deserialize_tuple_struct(
            name,
            len,
            Inner { visitor, entries: Entries::Headers, weight: self.weight },
        )
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.json.deserialize_enum(
            name,
            variants,
            Inner { visitor, entries: Entries::Headers, weight: self.weight },
        )
    }
}

/// A visitor of what is within.
struct Inner<'w, V> {
    visitor: V,
    entries: Entries,
    weight: &'w Cell<usize>,
}

/// What the entries of a map are, if a map comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entries {
    /// Fields of an object, which are a part of its struct.
    Fields,
    /// Headers, each of which takes a place in a `BTreeMap`.
    Headers,
    /// The one entry of a `RawValue`: the text of a payload, which takes its letters and no more.
    RawValue,
}

macro_rules! visit {
    ($($method:ident($type:ty))+) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.visitor.$method(value)
        })+
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Inner<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entries {
            // Clients do not know the names of our structs.
            Entries::Fields => f.write_str("an object"),
            Entries::Headers | Entries::RawValue => self.visitor.expecting(f),
        }
    }

    visit! {
        visit_bool(bool) visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128) visit_f64(f64)
        visit_str(&str) visit_borrowed_str(&'de str) visit_string(String) visit_bytes(&[u8])
        visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Strict { json: deserializer, weight: self.weight })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Strict { json: deserializer, weight: self.weight })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_seq(List { access, seen: 0, weight: self.weight })
    }

    /// The fields of an object are known, and serde takes each of them once.
    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Map { access, entries: self.entries, seen: 0, weight: self.weight })
    }
}

/// Stops at the first entry too many: the rest is never held in memory.
struct List<'w, A> {
    access: A,
    seen: usize,
    weight: &'w Cell<usize>,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for List<'_, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        let element = self.access.next_element_seed(Within { seed, weight: self.weight })?;
        if element.is_some() {
            self.seen += 1;
            // A list grows by doubling.
            add(self.weight, 2 * size_of::<T::Value>());
        }
        if self.seen > LIST_MAX {
            return Err(A::Error::custom(format_args!("too many entries: at most {LIST_MAX}")));
        }
        Ok(element)
    }
}

/// An object whose fields are known, a payload, or a map, which only headers are.
struct Map<'w, A> {
    access: A,
    entries: Entries,
    seen: usize,
    weight: &'w Cell<usize>,
}

impl<'de, A: MapAccess<'de>> Map<'_, A> {
    /// The key of one entry too many is not read as one, so that the error is told of the map and not of the entry.
    fn end(&mut self) -> Result<(), A::Error> {
        match self.access.next_key::<IgnoredAny>()? {
            None => Ok(()),
            Some(_) => Err(A::Error::custom(format_args!("too many entries: at most {HEADERS_MAX}"))),
        }
    }

    fn count(&mut self) {
        add(self.weight, headers_bytes(self.seen + 1) - headers_bytes(self.seen));
        self.seen += 1;
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Map<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        if self.seen == HEADERS_MAX {
            return self.end().map(|()| None);
        }
        let key = self.access.next_key_seed(seed)?;
        if key.is_some() && self.entries == Entries::Headers {
            self.count();
        }
        Ok(key)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.access.next_value_seed(Within { seed, weight: self.weight })
    }
}

fn add(weight: &Cell<usize>, bytes: usize) {
    weight.set(weight.get() + bytes);
}

struct Within<'w, S> {
    seed: S,
    weight: &'w Cell<usize>,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Within<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.seed.deserialize(Strict { json: deserializer, weight: self.weight })
    }
}
