//! The two forms in which requests and replies travel.

use bytes::Bytes;
use http::HeaderValue;
use windlass_api::call::Wire;
use windlass_api::{JSON, PROTOBUF};

use crate::payload::PayloadError;

/// In what form requests travel, and replies come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// For when people shall be able to read what travels.
    Json,
    /// The default: smaller and quicker on both sides, and payloads of bytes travel as they are.
    #[default]
    Protobuf,
}

impl Encoding {
    /// The form that a `Content-Type` names, whatever parameters it has.
    pub(crate) fn of(content_type: Option<&HeaderValue>) -> Option<Self> {
        let text = content_type?.to_str().ok()?;
        let media = text.split(';').next()?.trim();
        [Self::Json, Self::Protobuf].into_iter().find(|encoding| encoding.media().eq_ignore_ascii_case(media))
    }

    pub(crate) const fn media(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => PROTOBUF,
        }
    }

    /// Fails for JSON only, if a payload that claims to be JSON text is none.
    pub(crate) fn encode(self, request: &impl Wire) -> Result<Bytes, PayloadError> {
        match self {
            Self::Json => serde_json::to_vec(request).map(Bytes::from).map_err(PayloadError::NotWritten),
            Self::Protobuf => Ok(request.encode_to_vec().into()),
        }
    }

    pub(crate) fn decode<R: Wire>(self, body: Bytes) -> Result<R, String> {
        match self {
            Self::Json => serde_json::from_slice(&body).map_err(|error| error.to_string()),
            Self::Protobuf => R::decode(body).map_err(|error| error.to_string()),
        }
    }
}
