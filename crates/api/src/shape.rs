//! How often each field of a protobuf request may come, at every level, and what it then takes in memory.
//!
//! Two bytes of protobuf can stand for an item of several hundred, and a field can come any number of times: a request is held
//! to its shape before anything is made of it. `#[request]` gives every message of a request its shape.

use crate::time::{Span, Time};

/// Entries of a list.
pub const LIST_MAX: usize = 1000;
/// Headers of an item.
pub const HEADERS_MAX: usize = 32;

/// Entries that a node of a `BTreeMap` has room for. Every leaf but a single one has at least `NODE_MIN`.
const NODE_MAX: usize = 11;
const NODE_MIN: usize = 5;
const LEAF_BYTES: usize = NODE_MAX * size_of::<(String, String)>() + 2 * size_of::<usize>();
const ROOT_BYTES: usize = LEAF_BYTES + (NODE_MAX + 1) * size_of::<usize>();
/// Room that a decoder of protobuf takes for the letters of a text, however few there are.
const TEXT_BYTES_MIN: usize = 8;

/// Fields that a shape has.
pub const FIELDS_MAX: usize = 16;

/// A message or a text.
#[derive(Debug)]
pub struct Shape {
    /// In memory, without the letters of texts.
    pub bytes: usize,
    /// Fields that are messages, lists or maps. `None`: not a message.
    pub fields: Option<&'static [Field]>,
}

#[derive(Debug)]
pub struct Field {
    pub tag: u32,
    pub name: &'static str,
    pub count: Count,
    pub shape: &'static Shape,
}

/// How often a field may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    One,
    List,
    Headers,
}

impl Count {
    pub const fn most(self) -> usize {
        match self {
            Self::One => 1,
            Self::List => LIST_MAX,
            Self::Headers => HEADERS_MAX,
        }
    }
}

impl Field {
    /// Memory of this field if it comes `times` times. A list grows by doubling, and a single message is a part of the message
    /// around it.
    pub fn bytes(&self, times: usize) -> usize {
        match self.count {
            Count::One => 0,
            Count::List => 2 * times * self.shape.bytes,
            Count::Headers => headers_bytes(times),
        }
    }
}

/// Memory of so many headers without the letters of long texts: the nodes of a `BTreeMap` of `String`s, as many as there can be.
/// Between two leaves stands an entry of the root, and `HEADERS_MAX` headers need no more levels than these two.
pub const fn headers_bytes(headers: usize) -> usize {
    let nodes = match headers {
        0 => 0,
        1..=NODE_MAX => LEAF_BYTES,
        _ => ROOT_BYTES + (headers + 1) / (NODE_MIN + 1) * LEAF_BYTES,
    };
    nodes + 2 * headers * TEXT_BYTES_MIN
}

/// A message whose shape is known.
pub trait Shaped {
    const SHAPE: Shape;
}

impl Shape {
    pub(crate) const fn of_message<T>(fields: &'static [Field]) -> Self {
        assert!(fields.len() <= FIELDS_MAX);
        Self { bytes: size_of::<T>(), fields: Some(fields) }
    }

    const fn of_text<T>() -> Self {
        Self { bytes: size_of::<T>(), fields: None }
    }
}

impl Shaped for String {
    const SHAPE: Shape = Shape::of_text::<Self>();
}

/// A header.
impl Shaped for (String, String) {
    const SHAPE: Shape = Shape::of_text::<Self>();
}

impl Shaped for Time {
    const SHAPE: Shape = Shape::of_message::<Self>(&[]);
}

impl Shaped for Span {
    const SHAPE: Shape = Shape::of_message::<Self>(&[]);
}
