//! What the store keeps of an item beside its state: payload, reference and headers, as one record. It is a protobuf
//! message of its own, so that fields can be added and old records stay readable; see
//! `docs/reference/log-format.md`.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use windlass_api::payload::Payload;
use windlass_core::headers::REFERENCE;
use windlass_core::json;

#[derive(Clone, PartialEq, prost::Message)]
pub struct Record {
    #[prost(string, optional, tag = "1")]
    pub json: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub utf8: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub bytes: Option<Bytes>,
    #[prost(string, optional, tag = "4")]
    pub reference: Option<String>,
    #[prost(btree_map = "string, string", tag = "5")]
    pub headers: BTreeMap<String, String>,
}

/// What the store keeps of an event.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EventRecord {
    #[prost(string, optional, tag = "1")]
    pub json: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub utf8: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub bytes: Option<Bytes>,
    #[prost(string, tag = "4")]
    pub r#type: String,
}

impl EventRecord {
    pub fn of(name: &str, payload: Payload) -> Self {
        Self { json: payload.json, utf8: payload.utf8, bytes: payload.bytes, r#type: name.to_owned() }
    }

    pub fn to_stored(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// As that of an item.
    pub fn from_stored(stored: Bytes) -> Self {
        Self::decode(stored.clone()).unwrap_or_else(|_| {
            let payload = Payload { bytes: Some(stored), ..Payload::default() };
            Self::of("message", payload)
        })
    }
}

impl Record {
    pub fn of(payload: Payload) -> Self {
        Self { json: payload.json, utf8: payload.utf8, bytes: payload.bytes, ..Self::default() }
    }

    /// In memory of its own: a part of the request's buffer would keep all of it alive.
    pub fn to_stored(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// Something that was not written through this edge is shown as the bytes it is.
    pub fn from_stored(stored: Bytes) -> Self {
        Self::decode(stored.clone()).unwrap_or_else(|_| Self { bytes: Some(stored), ..Self::default() })
    }

    /// Whether two stored records say the same: JSON as values, and an empty reference as none.
    pub fn is_same_stored(one: &Bytes, other: &Bytes) -> bool {
        let (one, other) = (Self::from_stored(one.clone()), Self::from_stored(other.clone()));
        let is_same_json = match (&one.json, &other.json) {
            (Some(one), Some(other)) => json::is_same(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let apart_from_json = |record: Self| {
            let reference = record.reference.filter(|reference| !reference.is_empty());
            Self { json: None, reference, ..record }
        };
        is_same_json && apart_from_json(one) == apart_from_json(other)
    }

    /// Reference and headers alone, to be shown also when the payload is gone. Most items have neither.
    pub fn facts(&self) -> Option<Self> {
        let facts =
            Self { reference: self.reference.clone(), headers: self.headers.clone(), ..Self::default() };
        (facts != Self::default()).then_some(facts)
    }

    /// Header names and values in stored facts, the reference as `reference`.
    pub fn headers_of(facts: &Bytes) -> Vec<(String, String)> {
        let record = Self::from_stored(facts.clone());
        let headers = record.headers.into_iter().filter(|(name, _)| name != REFERENCE);
        headers.chain(record.reference.map(|reference| (REFERENCE.to_owned(), reference))).collect()
    }

    pub fn into_payload(self) -> Payload {
        Payload { json: self.json, utf8: self.utf8, bytes: self.bytes }
    }
}
