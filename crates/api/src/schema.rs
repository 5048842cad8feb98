//! Messages as the protobuf schema in `proto/` has them. `#[request]` and `#[reply]` describe each message, and a test writes
//! the schema from that.

use bytes::Bytes;

use crate::time::{Span, Time};

/// A type that a field of a message can have.
pub trait Described {
    const TYPE: Type;
}

#[derive(Debug)]
pub enum Type {
    Scalar(&'static str),
    /// A message that comes with protobuf.
    WellKnown(&'static str),
    Message(&'static Message),
}

#[derive(Debug)]
pub struct Message {
    pub name: &'static str,
    /// The module that defines the message, and the line: the place of the message in the schema.
    pub module: &'static str,
    pub line: u32,
    pub doc: &'static str,
    /// In the order of their numbers.
    pub fields: &'static [Field],
}

#[derive(Debug)]
pub struct Field {
    pub number: u32,
    pub name: &'static str,
    pub doc: &'static str,
    pub label: Label,
    pub of: Type,
    /// The text is a value in JSON.
    pub is_json: bool,
}

/// How many values a field has.
#[derive(Debug)]
pub enum Label {
    One,
    Optional,
    Repeated,
    /// By keys of this type.
    Map(Type),
}

impl Type {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Scalar(name) | Self::WellKnown(name) => name,
            Self::Message(message) => message.name,
        }
    }
}

macro_rules! described {
    ($($type:ty = $variant:ident $name:literal,)+) => {
        $(impl Described for $type {
            const TYPE: Type = Type::$variant($name);
        })+
    };
}

described! {
    String = Scalar "string",
    Bytes = Scalar "bytes",
    bool = Scalar "bool",
    u32 = Scalar "uint32",
    u64 = Scalar "uint64",
    f64 = Scalar "double",
    Time = WellKnown "google.protobuf.Timestamp",
    Span = WellKnown "google.protobuf.Duration",
}
