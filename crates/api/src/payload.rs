//! Payloads: any JSON value, a text, or bytes. What was sent comes back in the field it was sent in.

use bytes::Bytes;
use serde::Serialize;
use windlass_api_derive::request;

/// Exactly one of the three is set.
#[request]
#[schemars(transform = crate::rules_of_fields::exactly_one_payload)]
pub struct Payload {
    /// Any JSON value, also null, with at most 128 levels of brackets, 1000 digits in a number, and no
    /// lone surrogate.
    #[field(1, json)]
    pub json: Option<String>,
    /// A text.
    #[field(2)]
    pub utf8: Option<String>,
    /// Bytes: in JSON, base64 with padding.
    #[field(3)]
    pub bytes: Option<Bytes>,
}

impl Payload {
    pub fn from_json(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self { json: Some(serde_json::to_string(value)?), ..Self::default() })
    }

    pub fn from_utf8(text: impl Into<String>) -> Self {
        Self { utf8: Some(text.into()), ..Self::default() }
    }

    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: Some(bytes.into()), ..Self::default() }
    }

    /// The payload as its bytes, whichever field it came in.
    pub fn as_bytes(&self) -> &[u8] {
        let text = self.json.as_deref().or(self.utf8.as_deref());
        text.map(str::as_bytes).or(self.bytes.as_deref()).unwrap_or_default()
    }
}

/// A JSON value kept as its text: it is passed on, never looked into.
pub(crate) mod json_text {
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::{Error, Serialize, Serializer};
    use serde_json::value::RawValue;

    pub(crate) fn serialize<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
        let text = text.as_deref().unwrap_or("null");
        let raw: &RawValue = serde_json::from_str(text).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }

    /// `null` is a value too.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<String>, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Some(String::from(Box::<str>::from(raw))))
    }
}

pub(crate) mod base64_text {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(crate) fn serialize<S: Serializer>(bytes: &Option<Bytes>, serializer: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let decoded =
            STANDARD.decode(text).map_err(|error| D::Error::custom(format!("not base64: {error}")))?;
        Ok(Some(decoded.into()))
    }
}
